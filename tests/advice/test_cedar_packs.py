"""Packs with Cedar policies: a bad one is refused at its line, and the version of the library is pinned."""

import pytest

from runtime.packs.services import packs
from runtime.registry.models import Ruleset
from runtime.registry.queries import ruleset_versions
from tests.support import records_desk
from tests.support.records_desk import EXAMPLE

pytestmark = pytest.mark.django_db
POLICY = "rulesets[0].policies[1].cedar"


def line_of(words: str, *, after: str = "") -> int:
    """The number of the first line of the example with these words, after others."""
    lines = EXAMPLE.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if after in line)
    return next(at for at, line in enumerate(lines[start:], start + 1) if words in line)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('!= "psychiatry"', '!= "psychiatry', "it cannot be read as one Cedar policy without slots"),
        ("resource.ward !=", "resource.wrd !=", "it does not fit cedar_request: "),
        ("resource.ward !=", f"{'(' * 200} !=", "it nests deeper than 20"),
    ],
)
def test_a_bad_policy_is_refused_at_its_line(old: str, new: str, words: str) -> None:
    refused = records_desk.load_pack(EXAMPLE.read_text().replace(old, new, 1))
    assert isinstance(refused, packs.PackRefused)
    (problem,) = refused.problems
    line = line_of("cedar: |", after="id: C_BILLING")
    assert problem.startswith(f"records.yaml:{line} {POLICY}: {words}")
    assert not Ruleset.objects.exists()


def test_another_version_of_the_library_is_refused_at_its_line() -> None:
    refused = records_desk.load_pack(EXAMPLE.read_text().replace("4.12.2", "4.12.1", 1))
    assert isinstance(refused, packs.PackRefused)
    (problem,) = refused.problems
    place = f"records.yaml:{line_of('cedarpy:')} rulesets[0].cedar_request.cedarpy: "
    assert problem.startswith(f"{place}cedarpy 4.12.2 is installed")


def test_a_pack_that_names_no_version_gets_the_installed_one() -> None:
    text = EXAMPLE.read_text().replace("      cedarpy: 4.12.2\n", "", 1)
    assert isinstance(records_desk.load_pack(text), packs.Loaded)
    row = Ruleset.objects.get()
    assert ruleset_versions.contract_of(row).digest == records_desk.ruleset().digest

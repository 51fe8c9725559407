"""Kinds under races: one version comes into force, and no proposal is judged under two."""

import pytest

from audit import canonical
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Verdict
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.registry.models import PolicyKind, Target
from runtime.registry.queries import kind_versions
from runtime.registry.services import document_writing, kinds
from tests.support import factories, gate_cases, racing

pytestmark = pytest.mark.usefixtures("real_db")
KIND = "ADJUST_POSITION"
VERSIONS = ("1.3.0", "1.4.0")


@pytest.fixture
def desk() -> factories.Desk:
    """The plain kind 1.2.0 in force, and two drafts by somebody else."""
    desk = factories.desk()
    Target.objects.create(
        tenant=factories.TENANT, name="broker", base_url="http://127.0.0.1:1", configured_at=clock.now()
    )
    for version in VERSIONS:
        text = document_writing.as_yaml(gate_cases.kind(version=version, title=f"Version {version}"))
        row = kinds.draft(tenant=factories.TENANT, text=text, actor="user:1")
        assert isinstance(row, PolicyKind), row
    return desk


def activate(version: str, *, seen: str, actor: str) -> PolicyKind | Problem:
    return kinds.activate(
        tenant=factories.TENANT, kind=KIND, version=version, seen_active=seen, reason="Race.", actor=actor
    )


def test_of_two_activations_at_once_one_is_in_force_and_one_is_refused(desk: factories.Desk) -> None:
    answers = racing.race(
        2, lambda number: activate(VERSIONS[number], seen="1.2.0", actor=f"user:{number + 2}")
    )
    (done,) = [answer for answer in answers if isinstance(answer, PolicyKind)]
    (refused,) = [answer for answer in answers if isinstance(answer, Problem)]
    assert (refused.status, refused.code) == (409, "KIND_MOVED")
    assert PolicyKind.objects.get(kind=KIND, active=True).version == done.version


def test_one_activation_pressed_by_many_happens_once(desk: factories.Desk) -> None:
    answers = racing.race(6, lambda number: activate("1.3.0", seen="1.2.0", actor=f"user:{number + 2}"))
    assert sum(isinstance(answer, PolicyKind) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, Problem)} == {"KIND_ACTIVE"}


def test_a_proposal_that_races_an_activation_is_judged_under_one_version(desk: factories.Desk) -> None:
    opened = [desk.open() for _ in range(6)]

    def one(number: int) -> object:
        if number == 0:
            return activate("1.3.0", seen="1.2.0", actor="user:2")
        return racing.propose(desk, opened[number - 1])

    answers = racing.race(7, one)
    assert isinstance(answers[0], PolicyKind), answers[0]
    assert [answer.get("verdict") for answer in answers[1:] if isinstance(answer, dict)] == ["ACCEPT"] * 6
    active = desk.again().active_manifest
    assert active is not None
    manifest = ManifestDocument.from_bytes(bytes(active.body))
    in_force = {row.version: kind_versions.contract_of(row) for row in PolicyKind.objects.filter(kind=KIND)}
    judged = list(Verdict.objects.select_related("proposal", "bundle"))
    assert len(judged) == 6
    for row in judged:
        rules = PolicyBundle(manifest=manifest, kind=in_force[row.proposal.policy_version])
        assert row.bundle_id == rules.digest == canonical.digest(bytes(row.bundle.body))

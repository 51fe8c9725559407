"""Advice in evidence packs: the bytes behind its entries are there, and a pack without them is found out."""

from pathlib import Path
from uuid import UUID

import pytest

from audit.models import LedgerEntry
from audit.packs import verify
from audit.packs.verify import Brought
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.maintenance.services import erasure, sealing
from tests.support import advised_desk, api_client, exported_packs, underwriting, worlds
from tests.support.advised_desk import Advised

pytestmark = pytest.mark.django_db


def build() -> Advised:
    made = advised_desk.build()
    sealing.seal_now(with_heads=True)
    return made


_shared = worlds.shared(build)


@pytest.fixture
def world(_shared: Advised, db: None) -> Advised:
    return _shared


def test_a_stranger_finds_the_advice_and_all_of_it_whole(world: Advised, tmp_path: Path) -> None:
    pack = exported_packs.make(world.followed)
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"], answer["absent"]) == (0, [], {})
    output, package = (
        RuleOutput.objects.get(flow=world.followed),
        DecisionPackageRow.objects.get(flow=world.followed),
    )
    held = [content for name, content in pack.members.items() if name.startswith("objects/")]
    for cell in (output.input, output.body, output.ruleset.body, package.input, package.body):
        assert bytes(cell) in held


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("rules:evaluated", "input_digest"),
        ("rules:evaluated", "output_digest"),
        ("rules:evaluated", "ruleset_digest"),
        ("decision:recommended", "input_digest"),
        ("decision:recommended", "package_digest"),
    ],
)
def test_advice_that_is_left_out_is_missed(world: Advised, kind: str, field: str) -> None:
    entry = LedgerEntry.objects.get(stream=str(world.followed), kind=kind)
    members = dict(exported_packs.make(world.followed).members)
    del members[f"objects/{entry.payload[field]}"]
    pack = verify.Pack(members, None, Brought())
    assert [(item.code, item.seq) for item in verify.check_objects(pack)] == [("OBJECT_MISSING", entry.seq)]


def test_erased_advice_is_not_in_the_pack_and_nothing_is_missed(world: Advised, tmp_path: Path) -> None:
    agent = api_client.session(underwriting.AGENT)
    dfid = agent.open_flow()
    output = underwriting.driver_rules(agent, dfid)
    agent.post(f"/flows/{dfid}/decide", {"objectives": [], "rule_output_id": output["rule_output_id"]}).ok()
    agent.post(f"/flows/{dfid}/close", {"reason": "done"}).ok()
    done = erasure.erase(tenant="default", dfids=[UUID(dfid)], reason="She asked for it.", actor="user:1")
    assert isinstance(done, erasure.Erased)
    assert not done.kept
    sealing.seal_now(with_heads=True)
    pack = exported_packs.make(UUID(dfid))
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])
    entries = LedgerEntry.objects.filter(stream=dfid)
    said = [entry.payload for entry in entries.filter(kind__in=("rules:evaluated", "decision:recommended"))]
    words = {
        each[name]
        for each in said
        for name in ("input_digest", "output_digest", "package_digest")
        if name in each
    }
    assert words <= pack.absent().keys()
    assert said[0]["ruleset_digest"] in pack.objects()

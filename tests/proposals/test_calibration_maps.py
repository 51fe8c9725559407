"""Calibration maps: drafted from recorded ends, activated by another admin, compared by the gate, retired."""

from io import StringIO
from typing import Any
from uuid import UUID

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit import actors, canonical
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.contracts.states import CalibrationState
from runtime.contracts.verdict import VerdictDocument
from runtime.flows.models import Flow, Verdict
from runtime.proposals.queries import gate_facts, verdict_replay
from runtime.proposals.services import calibration_drafts
from runtime.registry.models import Agent, PolicyKind
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.queries import calibration_maps as maps
from runtime.registry.services import calibration_maps, kinds, manifests
from tests.support import api_client, calibrated_agent, factories, worlds
from tests.support.calibrated_agent import PAIRS, propose

world = worlds.shared(calibrated_agent.build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]
TENANT = factories.TENANT
# Other admins than the author, whose name is SYSTEM.
BEA = "user:902"


def agent() -> Agent:
    return Agent.objects.get(agent_id="trader")


def drafted() -> CalibrationMap:
    """The one map that the world's proposals give."""
    found = calibration_drafts.draft(
        tenant=TENANT, agent_id="trader", policy_kind="ADJUST_POSITION", actor=actors.SYSTEM
    )
    assert isinstance(found, calibration_drafts.Drafted), found
    (row,) = found.maps
    return row


def activated(row: CalibrationMap | None = None, *, seen: str = "") -> CalibrationMap:
    row = row or drafted()
    done = calibration_maps.activate(
        tenant=TENANT,
        agent_id="trader",
        version=str(row.version),
        seen_active=seen,
        reason="It states too much",
        actor=BEA,
    )
    assert isinstance(done, CalibrationMap), done
    return done


def with_manifest(**fields: Any) -> None:
    """Another manifest of the agent is active, which differs in these fields only."""
    held = agent().active_manifest
    assert held is not None
    major = int(held.version.split(".")[0]) + 1
    written = {**canonical.decode(bytes(held.body)), "version": f"{major}.0.0", **fields}
    draft = manifests.draft(
        tenant=TENANT, agent_id="trader", text=canonical.encode(written).decode(), actor=actors.SYSTEM
    )
    assert not isinstance(draft, Problem), draft
    done = manifests.activate(
        tenant=TENANT,
        agent_id="trader",
        version=draft.version,
        seen_active=held.version,
        reason="Another model",
        actor=BEA,
    )
    assert not isinstance(done, Problem), done


def verdict_of(dfid: UUID) -> VerdictDocument:
    row = Verdict.objects.get(proposal__flow=dfid)
    return VerdictDocument.from_bytes(bytes(row.body))


def refused(found: object) -> str:
    assert isinstance(found, Problem), found
    assert found.status in (404, 409), found
    return found.code.value


def test_a_map_is_drafted_from_what_became_of_the_proposals() -> None:
    row = drafted()
    assert (row.version, row.policy_kind, row.impact, row.pairs) == (
        1,
        "ADJUST_POSITION",
        "LOW_IMPACT",
        PAIRS,
    )
    found = maps.contract_of(row)
    assert [(knot.stated, knot.good) for knot in found.map] == [
        (750_000, 0),
        (800_000, 400_000),
        (900_000, 1_000_000),
    ]
    assert (found.good, found.kind_digest) == (22, PolicyKind.objects.get(kind=found.policy_kind).digest)
    assert found.first_ms <= found.last_ms
    assert maps.state_of(row) is CalibrationState.DRAFT


def test_the_same_is_not_drafted_twice() -> None:
    activated()
    again = calibration_drafts.draft(
        tenant=TENANT, agent_id="trader", policy_kind="ADJUST_POSITION", actor=actors.SYSTEM
    )
    assert isinstance(again, calibration_drafts.Drafted)
    assert again.maps == ()
    assert [impact.value for impact in again.unchanged] == ["LOW_IMPACT"]
    assert {impact.value: count for impact, count in again.too_few.items()} == {
        "HIGH_IMPACT": 0,
        "CRITICAL": 0,
    }
    said = calibration_drafts.sentence(again)
    assert said.startswith("nothing new for LOW_IMPACT; not enough for HIGH_IMPACT: 0 of 30 proposals")


def test_below_thirty_there_is_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.proposals.queries.calibration_pairs.MOST", 30)
    found = calibration_drafts.draft(
        tenant=TENANT, agent_id="trader", policy_kind="ADJUST_POSITION", actor=actors.SYSTEM
    )
    assert isinstance(found, calibration_drafts.Drafted)
    assert found.maps == ()


@pytest.mark.parametrize(
    ("agent_id", "kind", "code"),
    [
        ("nobody", "ADJUST_POSITION", "NOT_FOUND"),
        ("trader", "NO_SUCH", "CALIBRATION_NOT_POSSIBLE"),
        ("trader", "A\x00", "CALIBRATION_NOT_POSSIBLE"),
    ],
)
def test_without_an_agent_or_kind_nothing_is_drafted(agent_id: str, kind: str, code: str) -> None:
    found = calibration_drafts.draft(tenant=TENANT, agent_id=agent_id, policy_kind=kind, actor="system")
    assert refused(found) == code
    assert not CalibrationMap.objects.exists()


def test_the_gate_compares_what_the_map_says_and_replay_gives_the_same() -> None:
    trader = api_client.session()
    before = gate_facts.get_rules(agent=agent(), kind_name="ADJUST_POSITION").digest
    activated()
    # The manifest does not ask for it yet.
    assert gate_facts.get_rules(agent=agent(), kind_name="ADJUST_POSITION").digest == before
    assert verdict_of(propose(trader, confidence=0.85)).decision == "ACCEPT"
    with_manifest(confidence="calibrated")
    asked = propose(trader, confidence=0.85)
    verdict = verdict_of(asked)
    assert verdict.decision == "ESCALATE"
    assert verdict.calibrated is not None
    assert (verdict.calibrated.stated, verdict.calibrated.mapped) == (850_000, 400_000)
    fine = verdict_of(propose(trader, confidence=0.9))
    assert fine.decision == "ACCEPT"
    assert fine.calibrated is not None
    assert fine.calibrated.used == 900_000
    assert isinstance(verdict_replay.replay(dfid=asked), verdict_replay.Equal)
    row = Verdict.objects.select_related("proposal__flow").get(proposal__flow=asked)
    known = gate_facts.list_bundle_digests([(row.proposal.flow, "ADJUST_POSITION")])
    assert list(known.values()) == [row.bundle_id]


def test_only_a_manifest_that_asks_for_maps_has_them_looked_up() -> None:
    activated()
    flow = Flow(agent=agent())
    asked = [(flow, "ADJUST_POSITION")]
    with CaptureQueriesContext(connection) as plain:
        gate_facts.list_bundle_digests(asked)
    with_manifest(confidence="calibrated")
    flow.agent = agent()
    with CaptureQueriesContext(connection) as calibrated:
        gate_facts.list_bundle_digests(asked)
    assert not any("calibrationmap" in query["sql"] for query in plain)
    assert sum("calibrationmap" in query["sql"] for query in calibrated) == 1


def test_a_map_that_is_not_what_was_activated_lets_nothing_through() -> None:
    row = activated()
    trader = api_client.session()
    with_manifest(confidence="calibrated")
    changed = maps.contract_of(row).model_copy(update={"good": 30})
    CalibrationMap.objects.filter(pk=row.pk).update(body=changed.to_bytes(), digest=changed.digest)
    rules, wrong = gate_facts.compare_rules(agent=agent(), kind_name="ADJUST_POSITION")
    assert rules.manifest is None
    assert [item.row for item in wrong] == ["calibrationmap.body"]
    assert verdict_of(propose(trader, confidence=0.95)).decision == "REJECT"


def test_its_author_cannot_activate_it_and_another_admin_can() -> None:
    ada, bea = (factories.user(name, "admin") for name in ("ada", "bea"))
    found = calibration_drafts.draft(
        tenant=TENANT, agent_id="trader", policy_kind="ADJUST_POSITION", actor=f"user:{ada.pk}"
    )
    assert isinstance(found, calibration_drafts.Drafted)

    def by(who: Any) -> object:
        return calibration_maps.activate(
            tenant=TENANT,
            agent_id="trader",
            version="1",
            seen_active="",
            reason="Fits",
            actor=f"user:{who.pk}",
        )

    own = by(ada)
    assert isinstance(own, Problem)
    assert own.code == "SEPARATION_OF_DUTY"
    assert isinstance(by(bea), CalibrationMap)
    entry = LedgerEntry.objects.get(kind=Kind.CALIBRATION_ACTIVATED)
    assert (entry.stream, entry.actor) == ("agent:trader", f"user:{bea.pk}")


def test_a_map_takes_the_place_of_the_one_before() -> None:
    first = activated()
    trader = api_client.session()
    for _ in range(3):
        calibrated_agent.run(propose(trader, confidence=0.9))
    second = drafted()
    assert (
        refused(
            calibration_maps.activate(
                tenant=TENANT, agent_id="trader", version="2", seen_active="", reason="Newer", actor=BEA
            )
        )
        == "CALIBRATION_MOVED"
    )
    activated(second, seen="1")
    first.refresh_from_db()
    assert maps.state_of(first) is CalibrationState.SUPERSEDED
    assert [row.version for row in maps.list_active_of_agent(agent())] == [2]
    again = calibration_maps.activate(
        tenant=TENANT, agent_id="trader", version="1", seen_active="2", reason="Back", actor=BEA
    )
    assert refused(again) == "CALIBRATION_NOT_A_DRAFT"


def test_a_draft_can_be_discarded_once() -> None:
    row = drafted()
    done = [
        calibration_maps.discard(
            tenant=TENANT, agent_id="trader", version="1", reason="Too few orders", actor=BEA
        )
        for _ in range(2)
    ]
    assert isinstance(done[0], CalibrationMap)
    assert refused(done[1]) == "CALIBRATION_NOT_A_DRAFT"
    row.refresh_from_db()
    assert maps.state_of(row) is CalibrationState.DISCARDED


@pytest.mark.parametrize("version", ["9", "one", "-1", "", "9999999999"])
def test_an_unknown_map_is_not_found(version: str) -> None:
    drafted()
    for agent_id in ("trader", "nobody"):
        for act in (
            calibration_maps.discard,
            lambda **named: calibration_maps.activate(seen_active="", **named),
        ):
            found = act(tenant=TENANT, agent_id=agent_id, version=version, reason="None", actor=BEA)
            assert agent_id == "nobody" or refused(found) == "NOT_FOUND"


def next_kind(version: str) -> None:
    """Another version of the kind is active."""
    held = PolicyKind.objects.get(kind="ADJUST_POSITION", active=True)
    known = PolicyKind.objects.filter(kind="ADJUST_POSITION", version=version).first()
    if known is None:
        written = {**canonical.decode(bytes(held.body)), "version": version, "title": "Adjust it"}
        made = kinds.draft(
            tenant=TENANT, kind="ADJUST_POSITION", text=yaml.safe_dump(written), actor="system"
        )
        assert not isinstance(made, Problem), made
    done = kinds.activate(
        tenant=TENANT,
        kind="ADJUST_POSITION",
        version=version,
        seen_active=held.version,
        reason="Another title",
        actor=BEA,
    )
    assert not isinstance(done, Problem), done


def test_another_version_of_the_kind_retires_the_map_for_good() -> None:
    row = activated()
    waiting_pairs = row.pairs
    next_kind("2.0.0")
    row.refresh_from_db()
    assert maps.state_of(row) is CalibrationState.RETIRED
    next_kind("1.2.0")
    with_manifest(confidence="calibrated")
    assert gate_facts.get_rules(agent=agent(), kind_name="ADJUST_POSITION").calibrations == ()
    entry = LedgerEntry.objects.get(kind=Kind.CALIBRATION_RETIRED)
    assert entry.payload["because"] == calibration_maps.KIND_CHANGED
    # Back at the version of before, its proposals count again, for a map of its own.
    assert drafted().pairs == waiting_pairs


def test_a_draft_of_another_version_of_the_kind_cannot_be_activated() -> None:
    drafted()
    next_kind("2.0.0")
    found = calibration_maps.activate(
        tenant=TENANT, agent_id="trader", version="1", seen_active="", reason="Fits", actor=BEA
    )
    assert refused(found) == "CALIBRATION_OUTDATED"


def test_another_model_profile_retires_the_map_and_another_limit_does_not() -> None:
    row = activated()
    with_manifest(escalations_per_hour=50)
    row.refresh_from_db()
    assert maps.state_of(row) is CalibrationState.ACTIVE
    with_manifest(model_profile="frontier-2")
    row.refresh_from_db()
    assert maps.state_of(row) is CalibrationState.RETIRED
    found = calibration_drafts.draft(
        tenant=TENANT, agent_id="trader", policy_kind="ADJUST_POSITION", actor=actors.SYSTEM
    )
    assert isinstance(found, calibration_drafts.Drafted)
    assert found.too_few["LOW_IMPACT"] == 0  # type: ignore[index]


def test_a_draft_of_another_model_cannot_be_activated() -> None:
    drafted()
    with_manifest(model_profile="frontier-2")
    found = calibration_maps.activate(
        tenant=TENANT, agent_id="trader", version="1", seen_active="", reason="Fits", actor=BEA
    )
    assert refused(found) == "CALIBRATION_OUTDATED"


def test_a_draft_that_was_changed_cannot_be_activated() -> None:
    row = drafted()
    changed = maps.contract_of(row).model_copy(update={"good": 30})
    CalibrationMap.objects.filter(pk=row.pk).update(body=changed.to_bytes())
    found = calibration_maps.activate(
        tenant=TENANT, agent_id="trader", version="1", seen_active="", reason="Fits", actor=BEA
    )
    assert refused(found) == "TAMPERED"


def test_the_command_drafts_for_those_who_ask_for_it() -> None:
    said = StringIO()
    call_command("draft_calibration", stdout=said)
    assert said.getvalue() == ""
    with_manifest(confidence="calibrated")
    call_command("draft_calibration", stdout=said)
    assert "trader ADJUST_POSITION: map 1 drafted for LOW_IMPACT from 31 proposals" in said.getvalue()
    call_command("draft_calibration", "trader", "--kind", "ADJUST_POSITION", stdout=said)
    assert "nothing new for LOW_IMPACT" in said.getvalue()
    for wrong in (["nobody"], ["trader", "--kind", "NO_SUCH"]):
        with pytest.raises(CommandError):
            call_command("draft_calibration", *wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": 29},
        {"impact": "SOME"},
        {"active": True},
        {"retired_by": "user:1"},
    ],
)
def test_the_database_refuses_what_is_no_map(change: dict[str, Any]) -> None:
    row = drafted()
    with pytest.raises(IntegrityError), transaction.atomic():
        CalibrationMap.objects.filter(pk=row.pk).update(**change)


def test_at_most_one_map_of_a_place_is_active() -> None:
    row = activated()
    with pytest.raises(IntegrityError), transaction.atomic():
        CalibrationMap.objects.create(
            agent=row.agent,
            version=7,
            policy_kind=row.policy_kind,
            impact=row.impact,
            pairs=30,
            body=b"{}",
            digest="",
            active=True,
            created_at=row.created_at,
            created_by="system",
            activated_at=row.created_at,
            activated_by="system",
        )


def test_verify_ledger_finds_nothing_in_maps_of_every_state() -> None:
    activated()
    next_kind("2.0.0")
    next_kind("1.2.0")
    calibration_maps.discard(
        tenant=TENANT, agent_id="trader", version=str(drafted().version), reason="Old", actor=BEA
    )
    activated()
    assert [item for item in findings.verify_all().findings if not item.stream.startswith("user:")] == []

"""Opening: the evidence is frozen in the verdict's transaction, and its hash is what a decision will name."""

from datetime import timedelta
from typing import Any

import pytest

from audit import canonical
from escalations.models import Escalation, Evidence
from escalations.services import drift_scan, evidence, opening
from runtime.flows.models import Verdict
from runtime.flows.services import flows
from runtime.state.models import Fact
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db


def test_the_hash_is_that_of_the_stored_bytes(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    row = Evidence.objects.get()
    assert (row.revision, row.why) == (1, "opened")
    assert row.hash == escalation.evidence_hash == canonical.digest(bytes(row.body))
    assert canonical.encode(canonical.decode(bytes(row.body))) == bytes(row.body)


def test_the_bundle_holds_what_the_page_shows(desk: factories.Desk) -> None:
    shown = factories.evidence_of(desk.escalate(explain="trust me"))
    verdict = Verdict.objects.get()
    price = Fact.objects.get(path="price.AAPL")
    assert "".join(piece.text for piece in shown.effect) == "BUY 5 AAPL for 1,500.00"
    assert shown.reason == "RISK_LIMIT_EXCEEDED"
    assert shown.proposal.params == factories.OVER_LIMIT
    assert shown.policy_bundle_hash == verdict.bundle_id
    assert shown.input_digest == verdict.input_digest
    assert shown.explain == "trust me"
    assert shown.manifest_limits == {"max_notional_cents": 100_000}
    (fact,) = [item for item in shown.facts if item.path == "price.AAPL"]
    assert fact.depended_on is True
    assert (fact.value, fact.digest, fact.writer) == (18_950, price.digest, "feed:prices")
    assert "deadline_at" not in canonical.decode(shown.to_bytes())


@pytest.mark.parametrize(
    ("changes", "typed"),
    [
        ({}, "150000"),
        ({"params": {**gate_cases.PARAMS, "action": "SELL"}}, "947.50"),
    ],
)
def test_what_is_typed_again_is_the_amount_or_the_last_value_of_the_sentence(
    desk: factories.Desk, changes: dict[str, Any], typed: str
) -> None:
    assert factories.evidence_of(desk.escalate(**changes)).type_again == typed


def test_without_any_value_the_kind_is_typed_again() -> None:
    desk = factories.desk(kind=gate_cases.kind(effect="Sell it all", limits=[]))
    escalation = desk.escalate(params={**gate_cases.PARAMS, "action": "SELL"})
    assert factories.evidence_of(escalation).type_again == "ADJUST_POSITION"


@pytest.mark.parametrize(("sla_s", "expected_s"), [(600, 600), (None, 900)])
def test_the_deadline_is_the_kinds_or_the_installations(sla_s: int | None, expected_s: int) -> None:
    row = factories.desk(kind=gate_cases.kind(sla_s=sla_s)).escalate()
    assert row.deadline_at == row.opened_at + timedelta(seconds=expected_s)


def test_the_row_is_what_the_queue_sorts_and_shows(desk: factories.Desk) -> None:
    row = desk.escalate(params=factories.HIGH_IMPACT)
    assert (row.family, row.state, row.impact, row.impact_rank) == ("DECISION", "OPEN", "HIGH_IMPACT", 1)
    assert (row.proposed_value, row.limit) == ("300000", "100000")
    assert (row.agent_id, row.policy_kind) == ("trader", "ADJUST_POSITION")


def test_what_the_agent_gave_cannot_pose_as_the_sentence() -> None:
    schema = {**gate_cases.KIND["params_schema"]}
    schema["properties"] = {**schema["properties"], "symbol": {"type": "string"}}
    desk = factories.desk(
        kind=gate_cases.kind(params_schema=schema, depends_on=[], constraints=[], predicts=[], steps=[])
    )
    escalation = desk.escalate(params={**factories.OVER_LIMIT, "symbol": "AAPL\u202e for 0.01\x0b"})
    assert "\u202e" not in escalation.effect
    values = [piece.text for piece in factories.evidence_of(escalation).effect if piece.value]
    assert values[2] == "AAPL\u27e8U+202E\u27e9 for 0.01\u27e8U+000B\u27e9"


def test_an_escalation_is_withdrawn_with_its_flow(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    flows.cancel(agent=desk.again(), dfid=escalation.flow_id, reason="")
    row = Escalation.objects.get()
    assert (row.state, row.resolution, row.version) == ("WITHDRAWN", "WITHDRAWN", 2)
    assert ("escalation:withdrawn", "agent:trader") in decision_rows.recorded(escalation)
    assert opening.close_escalations(flow=row.flow, at=row.opened_at) == []


@pytest.mark.parametrize("now", [99_999, 18_950])
def test_a_fact_that_is_written_while_evidence_is_built_is_shown_as_it_was_judged(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch, now: int
) -> None:
    """On PostgreSQL a feed may write between the two reads of one transaction."""
    judged = Fact.objects.get(path="price.AAPL")
    from_row = evidence.from_row

    def write_first(row: Verdict) -> Any:
        factories.write("price.AAPL", now)
        return from_row(row)

    monkeypatch.setattr(evidence, "from_row", write_first)
    (fact,) = [item for item in factories.evidence_of(desk.escalate()).facts if item.path == "price.AAPL"]
    assert (fact.value, fact.version, fact.digest) == (18_950, judged.version, judged.digest)
    assert drift_scan.revise_open() == (now != 18_950)

"""One call leaves the same entries, rows and words as the three calls in its place, for whatever is sent."""

import uuid
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit import canonical
from audit.models import DecisionRecord, LedgerEntry
from runtime.contracts.envelope import ProposalCall
from runtime.contracts.problem import Problem
from runtime.core.idempotency import IdempotentRequest
from runtime.flows.models import Feedback, Flow, Intent, Proposal
from runtime.proposals.services import one_call
from tests.support import factories, gate_cases

# What differs between any two actions: ids, moments, and what is made of them.
OWN = (
    # Salted, and under the name of the call.
    *("feedback_commitments", "answer_commitments"),
    *("_id", "dfid", "_at", "_ref", "valid_until", "record_id", "trace_id"),
    *("digest", "commitment", "hash", "signature"),
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "params": st.sampled_from([gate_cases.PARAMS, factories.OVER_LIMIT, {}, {"symbol": "NONE"}]),
        "confidence": st.sampled_from([0.1, 0.9, None]),
        "policy_kind": st.sampled_from(["ADJUST_POSITION", "NO_SUCH_KIND"]),
        "explain": st.sampled_from(["", "Because."]),
        "human_review_required": st.booleans(),
        "execution_constraints": st.sampled_from(
            [gate_cases.CONSTRAINTS, {"validity_window_sec": 30, "surprise": 1}]
        ),
    },
)


def three_calls(desk: factories.Desk, changes: dict[str, Any]) -> dict[str, Any]:
    return desk.propose(desk.open("a price moved"), **changes)


def one(desk: factories.Desk, changes: dict[str, Any]) -> dict[str, Any]:
    body = factories.envelope_body(**changes, context="current", trigger="a price moved")
    encoded = canonical.encode(body)
    answer = one_call.submit(
        session=desk.session,
        asked=ProposalCall.model_validate_json(encoded),
        call=IdempotentRequest(key=uuid.uuid4().hex, path="/api/v1/proposals", body=encoded),
    )
    assert not isinstance(answer, Problem), answer
    return factories.read(answer)


def without_own(value: Any) -> Any:
    """The value without what belongs to one action alone."""
    match value:
        case dict():
            kept = {name: member for name, member in value.items() if not name.endswith(OWN)}
            return {name: without_own(member) for name, member in kept.items()}
        case list():
            return [without_own(item) for item in value]
    return value


def left_behind(answer: dict[str, Any]) -> dict[str, Any]:
    """All that an action has left, without ids and moments."""
    dfid = UUID(answer["dfid"])
    flow = Flow.objects.get(dfid=dfid)
    entries = LedgerEntry.objects.filter(stream=str(dfid)).order_by("seq")
    told = Feedback.objects.filter(flow=flow).order_by("seq")
    return {
        "answer": without_own(answer),
        "entries": [(entry.kind, entry.actor, without_own(entry.payload)) for entry in entries],
        "members": [sorted(entry.payload) for entry in entries],
        "flow": (flow.state, flow.reason, flow.attempts_used, flow.head_seq, bytes(flow.trigger)),
        "feedback": [(event.event_type, without_own(canonical.decode(bytes(event.body)))) for event in told],
        "records": [
            (row.status, row.terminal) for row in DecisionRecord.objects.filter(dfid=dfid).order_by("seq")
        ],
        "intents": Intent.objects.filter(flow=flow).count(),
        "proposals": list(Proposal.objects.filter(flow=flow).values_list("policy_version", "retry_key")),
        "snapshots": flow.snapshots.count(),
    }


@pytest.mark.once
@pytest.mark.django_db
def test_leaves_what_the_three_calls_leave() -> None:
    desk = factories.desk(kind=gate_cases.kind(context_current="allowed"))

    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(changes=CHANGES)
    def compare(changes: dict[str, Any]) -> None:
        found = []
        for road in (three_calls, one):
            # Each begins in the same world: tokens, tries and rates are those of before.
            with transaction.atomic():
                found.append(left_behind(road(desk, changes)))
                transaction.set_rollback(True)
        assert found[0] == found[1]

    compare()

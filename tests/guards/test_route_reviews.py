"""A router that acts on a step after the proposal decides nothing: the flow is marked for review instead."""

from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction

from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.api_schemas import StepTakenAnswer
from runtime.contracts.guard import ReviewOrigin, ReviewResult
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.guards.models import Review
from runtime.guards.queries import review_list
from runtime.guards.services import reviews
from tests.support import factories, interrupted_flow
from tests.support.workflow_story import RESEARCH
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
VALIDATES = {
    "id": "checked",
    "router": "validate",
    "on": "TOOL_CALL",
    "require": "output.found",
    "on_fail": "GENERATE",
}
# The agent looks again after it has proposed.
MANY = {**RESEARCH["instructions"], "GENERATE": {"core": "COGNITIVE", "max_visits": 9}}


def proposed() -> tuple[factories.Desk, UUID]:
    """An agent whose flow has proposed after two steps, and the flow."""
    edges = [*RESEARCH["edges"], ["PROPOSE", "TOOL_CALL"]]
    interrupted_flow.register(routers=[interrupted_flow.CALLS, VALIDATES], edges=edges, instructions=MANY)
    made = interrupted_flow.desk()
    flow = made.open()
    for instruction in ("GENERATE", "VERIFY"):
        assert not isinstance(interrupted_flow.step(made, flow.dfid, instruction), Problem)
    assert made.propose(flow)["verdict"] == "ACCEPT"
    return made, flow.dfid


def report(made: factories.Desk, dfid: UUID, instruction: str, **output: object) -> None:
    answer = interrupted_flow.step(made, dfid, instruction, output=output)
    assert isinstance(answer, StepTakenAnswer), answer
    assert answer.next is None
    assert answer.escalation_id is None


def entries(dfid: UUID) -> list[dict[str, object]]:
    rows = LedgerEntry.objects.filter(stream=str(dfid), kind="review:routed").order_by("seq")
    return [row.payload for row in rows]


def test_each_router_marks_the_flow_once_and_nothing_stops() -> None:
    made, dfid = proposed()
    state = Flow.objects.get(pk=dfid).state
    report(made, dfid, "TOOL_CALL", found=False)
    report(made, dfid, "GENERATE", confidence=0.1)
    report(made, dfid, "VERIFY")
    report(made, dfid, "TOOL_CALL", found=False)
    assert Flow.objects.get(pk=dfid).state == state
    first, second = entries(dfid)
    assert (first["workflow"], first["version"], first["instruction"]) == ("research", "1.0.0", "TOOL_CALL")
    assert (first["router"], first["next"], first["reason"]) == (
        "checked",
        "GENERATE",
        "checked does not hold.",
    )
    assert (second["router"], second["next"]) == ("unsure", "INTERRUPT")
    rows = Review.objects.filter(flow=dfid).order_by("router")
    assert [(row.origin, row.asked_by) for row in rows] == [
        (ReviewOrigin.ROUTER, "checked"),
        (ReviewOrigin.ROUTER, "unsure"),
    ]
    assert review_list.flows_in_review(dfids=[dfid]) == {dfid}
    assert review_list.list_alike_ids(review=rows[0]) == []
    assert findings.verify_all().findings == []


def test_a_step_that_no_router_minds_marks_nothing() -> None:
    made, dfid = proposed()
    report(made, dfid, "TOOL_CALL", found=True)
    report(made, dfid, "GENERATE", confidence=0.9)
    assert not Review.objects.exists()


def test_before_the_proposal_the_router_decides_and_marks_nothing() -> None:
    interrupted_flow.register()
    row = interrupted_flow.interrupted(interrupted_flow.desk())
    assert row.flow.state == "ESCALATED"
    assert not Review.objects.exists()


def test_people_see_what_the_router_would_have_demanded_and_close_it() -> None:
    made, dfid = proposed()
    report(made, dfid, "TOOL_CALL", found=False)
    review = Review.objects.get()
    client = sign_in(Role.OPERATOR)
    assert "Needs review" in text_of(client, f"/flows/{dfid}/")
    assert "checked does not hold." in text_of(client, "/reviews/")
    page = text_of(client, f"/reviews/{review.pk}/")
    for words in (
        "marked by the router checked",
        "research@1.0.0",
        "TOOL_CALL",
        "GENERATE",
        "Does it matter",
    ):
        assert words in page
    said = {"result": "CONFIRMED", "note": "The tool had found nothing."}
    assert client.post(f"/reviews/{review.pk}/close/", said).status_code == 302
    assert "CONFIRMED, The tool had found nothing." in text_of(client, f"/flows/{dfid}/")
    assert not any("review" in found.detail for found in findings.verify_all().findings)


def test_a_call_for_a_person_is_said_in_words() -> None:
    made, dfid = proposed()
    report(made, dfid, "TOOL_CALL", found=True)
    report(made, dfid, "GENERATE", confidence=0.1)
    page = text_of(sign_in(Role.AUDITOR), f"/reviews/{Review.objects.get().pk}/")
    assert "a person decides how it continues" in page
    assert "INTERRUPT" not in page


@pytest.mark.parametrize("column", ["router", "request_reason", "findings", "agent_suspended"])
def test_a_row_that_was_changed_is_found(column: str) -> None:
    made, dfid = proposed()
    report(made, dfid, "TOOL_CALL", found=False)
    value = {"findings": b"[1]", "agent_suspended": True}.get(column, "another")
    Review.objects.update(**{column: value})
    assert any(f"review.{column}" in str(found) for found in findings.verify_all().findings)


@pytest.mark.parametrize("column", ["request_reason", "router"])
def test_a_row_that_says_something_else_is_not_shown(column: str) -> None:
    made, dfid = proposed()
    report(made, dfid, "TOOL_CALL", found=False)
    Review.objects.update(**{column: "all is well"})
    page = sign_in(Role.OPERATOR).get(f"/reviews/{Review.objects.get().pk}/")
    assert page.status_code == 409
    assert "What the router would have demanded" not in page.content.decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"router": ""},
        {"request_reason": ""},
        {"requested_by": "user:1"},
        {"origin": ReviewOrigin.GUARD},
        {"origin": ReviewOrigin.MEMORY},
    ],
)
def test_the_database_refuses_half_a_review_of_a_router(fields: dict[str, Any]) -> None:
    made, dfid = proposed()
    whole: dict[str, Any] = {
        "flow_id": dfid,
        "agent": made.agent,
        "origin": ReviewOrigin.ROUTER,
        "router": "checked",
        "request_reason": "checked does not hold.",
        "confidence_bps": 10_000,
        "findings": b"[]",
        "flagged_at": clock.now(),
    }
    with transaction.atomic():
        Review.objects.create(**whole)
        transaction.set_rollback(True)
    with pytest.raises(IntegrityError), transaction.atomic():
        Review.objects.create(**{**whole, **fields})


def test_what_a_person_found_of_it_is_recorded_once() -> None:
    made, dfid = proposed()
    report(made, dfid, "TOOL_CALL", found=False)
    review = Review.objects.get()
    wanted: dict[str, Any] = {"tenant": "default", "review_id": review.pk, "note": "No.", "actor": "user:1"}
    assert isinstance(reviews.close(result=ReviewResult.FALSE_ALARM, **wanted), Review)
    assert isinstance(reviews.close(result=ReviewResult.CONFIRMED, **wanted), Problem)

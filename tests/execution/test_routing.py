"""Routes after the call: what a kind says shall follow from a result, with real targets on loopback."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contexts.services import agent_events
from runtime.contracts.states import FlowState, IntentState, OutcomeStatus
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent, Outcome
from runtime.packs.services import packs
from runtime.registry.models import PolicyKind
from runtime.resources.models import Resource
from tests.support import misbehaving_targets, trading_desk
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
SPARE = "- {id: spare, target: broker, request: {path: /spare}}"


class Desk:
    """A target with an answer for each path, and a kind with the routes of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, int | Callable[[BaseHTTPRequestHandler], object]] = {}
        self.plain = trading_desk.PACK
        self.patch = monkeypatch
        self.base_url = ""
        self.seen: list[misbehaving_targets.Seen] = []
        self.desk: trading_desk.Desk | None = None

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        answer = self.answers.get(request.path, 200)
        if isinstance(answer, int):
            answer = misbehaving_targets.answer(answer)
        answer(request)

    def accept(self, *routes: str, steps: tuple[str, ...] = ()) -> UUID:
        listed = "".join(f"\n      {step}" for step in steps)
        routed = f"    routes: [{', '.join(routes)}]\n" if routes else ""
        text = self.plain.replace("path: /orders}}", f"path: /orders}}}}{listed}")
        self.patch.setattr(trading_desk, "PACK", text.replace("targets: {", f"{routed}targets: {{"))
        self.desk = trading_desk.open_desk(base_url=self.base_url)
        return self.desk.accept()

    def paths(self) -> list[str]:
        return [one.path for one in self.seen]


@pytest.fixture
def desk(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    made = Desk(monkeypatch)
    with misbehaving_targets.stand_in(made) as running:
        made.base_url, made.seen = running.base_url, running.seen
        yield made
    assert isinstance(verify_database(), Whole)


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    Intent.objects.filter(pk=intent_id).update(next_at=clock.now() - timedelta(seconds=1))
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def outcome(intent_id: UUID) -> tuple[str, str]:
    row = Outcome.objects.get(pk=intent_id)
    return row.status, row.error_category


def entry(kind: str) -> dict[str, Any]:
    payload: dict[str, Any] = LedgerEntry.objects.get(kind=kind).payload
    return payload


def test_a_refusal_for_good_is_tried_again_and_the_fourth_failure_asks_a_person(desk: Desk) -> None:
    desk.answers["/orders"] = 409
    intent_id = desk.accept("{when: 'outcome.status_code == 409', action: RETRY_LATER}")
    for failures in (1, 2, 3):
        assert attempt(intent_id).status is AttemptStatus.RETRY_LATER
        assert trading_desk.intent(intent_id).failures == failures
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.WITH_PERSON, called=True, detail="REPEATED_FAILURE"
    )
    assert len({seen.headers["Idempotency-Key"] for seen in desk.seen}) == 1


def test_another_step_runs_in_place_of_the_one_that_failed(desk: Desk) -> None:
    desk.answers["/orders"] = 503
    intent_id = desk.accept(
        "{when: 'outcome.error_category == \"TARGET_BUSY\"', action: FALL_BACK, step: spare}", steps=(SPARE,)
    )
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.FELL_BACK, called=True, detail="spare"
    )
    assert trading_desk.intent(intent_id).failures == 0
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert desk.paths() == ["/orders", "/spare"]
    assert len({seen.headers["Idempotency-Key"] for seen in desk.seen}) == 2
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    assert canonical.decode(bytes(Outcome.objects.get().receipt or b"")) == {"spare": {"ok": True}}
    taken = entry("route:taken")
    assert (taken["route"], taken["action"], taken["step"], taken["to_step"]) == (
        1,
        "FALL_BACK",
        "order",
        "spare",
    )


def test_a_step_to_fall_back_to_never_runs_by_itself(desk: Desk) -> None:
    intent_id = desk.accept(
        "{when: 'outcome.status_code == 404', action: FALL_BACK, step: spare}", steps=(SPARE,)
    )
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert desk.paths() == ["/orders"]
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


def test_falling_back_comes_to_an_end(desk: Desk) -> None:
    desk.answers = {"/orders": 422, "/spare": 422}
    intent_id = desk.accept("{when: 'true', action: FALL_BACK, step: spare}", steps=(SPARE,))
    assert attempt(intent_id).status is AttemptStatus.FELL_BACK
    assert attempt(intent_id).status is AttemptStatus.FAILED
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert desk.paths() == ["/orders", "/spare"]


def test_a_result_in_doubt_is_never_routed_into_a_second_call(desk: Desk) -> None:
    desk.answers["/orders"] = misbehaving_targets.drop
    intent_id = desk.accept(
        "{when: 'true', action: FALL_BACK, step: spare}",
        "{when: 'true', action: RETRY_LATER}",
        "{when: 'true', action: CLOSE}",
        steps=(SPARE,),
    )
    assert attempt(intent_id).detail == "IN_DOUBT"
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert desk.paths() == ["/orders"]
    assert not LedgerEntry.objects.filter(kind="route:taken").exists()


def test_a_route_asks_a_person_at_the_first_failure(desk: Desk) -> None:
    desk.answers["/orders"] = 503
    intent_id = desk.accept("{when: 'outcome.failures == 0', action: ESCALATE}")
    assert attempt(intent_id).detail == "ROUTED"
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    assert Escalation.objects.get().reason == "ROUTED"
    assert trading_desk.flow_of(intent_id).reason == "ROUTED"


def test_the_agent_is_advised_and_the_flow_ends_as_it_would(desk: Desk) -> None:
    desk.answers["/orders"] = 422
    intent_id = desk.accept("{when: 'true', action: RE_ENGAGE, advice: Ask for less}")
    assert desk.desk is not None
    agent_events.begin(agent=desk.desk.agent)
    assert attempt(intent_id).status is AttemptStatus.FAILED
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    advice, ended, aborted = trading_desk.told(intent_id)
    told = {"intent_id": str(intent_id), "step": "order", "advice": "Ask for less"}
    assert advice == ("RE_ENGAGEMENT_ADVICE", told)
    assert (ended[0], aborted[0]) == ("EXECUTION_OUTCOME", "FLOW_ABORTED")
    page = agent_events.read(agent=desk.desk.agent, after=0)
    heard = next(event for event in page.events if event.event_type == "RE_ENGAGEMENT_ADVICE")
    assert heard.data == {"scope": "agent", "dfid": str(trading_desk.flow_of(intent_id).dfid), **told}


def test_the_agent_is_asked_what_shall_happen_now(desk: Desk) -> None:
    desk.answers["/orders"] = 422
    intent_id = desk.accept("{when: 'true', action: RE_ENGAGE, advice: Ask for less, clarify: true}")
    assert attempt(intent_id).status is AttemptStatus.FAILED
    advice, asked, ended, aborted = trading_desk.told(intent_id)
    assert [name for name, _ in (advice, asked, ended, aborted)] == [
        "RE_ENGAGEMENT_ADVICE",
        "CLARIFICATION_REQUEST",
        "EXECUTION_OUTCOME",
        "FLOW_ABORTED",
    ]
    said = asked[1]
    assert said["decision_id"] == str(trading_desk.intent(intent_id).proposal_id)
    assert said["failure_reason"] == {
        "step": "order",
        "category": "TARGET_REFUSED",
        "status_code": 422,
        "advice": "Ask for less",
    }
    assert said["current_state"] == {"flow": "EXECUTING", "effect": "NOT_HAPPENED", "steps_done": []}
    assert said["options"] == [
        {"action": "PROPOSE", "policy_kind": "BUY", "policy_version": "1.0.0"},
        {"action": "LEAVE"},
    ]
    assert said["remaining_budget"]["escalation_tokens"] == 3
    assert said["schema"]["required"] == ["symbol", "quantity"]


def test_clarification_may_be_asked_after_a_success_too(desk: Desk) -> None:
    desk.answers["/orders"] = misbehaving_targets.answer(200, b'{"status":"PART"}')
    intent_id = desk.accept(
        "{when: 'receipt.status == \"PART\"', action: RE_ENGAGE, advice: Order more, clarify: true}"
    )
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    said = dict(trading_desk.told(intent_id))["CLARIFICATION_REQUEST"]
    assert said["failure_reason"]["category"] is None
    assert said["current_state"]["effect"] == "HAPPENED"


def test_advice_may_follow_a_success_too(desk: Desk) -> None:
    desk.answers["/orders"] = misbehaving_targets.answer(200, b'{"status":"PART"}')
    intent_id = desk.accept(
        "{when: 'receipt.status == \"PART\"', action: RE_ENGAGE, advice: Order the rest later}"
    )
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert trading_desk.told(intent_id)[0][1]["advice"] == "Order the rest later"


def test_a_route_closes_the_flow_and_the_outcome_says_that_the_step_failed(desk: Desk) -> None:
    desk.answers["/orders"] = 410
    claims = '    claims: [{resource: "cash:USD", amount: "5"}]\n    predicts:'
    resources = 'resources: [{name: "cash:USD", capacity: 10, unit: cents}]\nfacts:'
    desk.plain = desk.plain.replace("    predicts:", claims).replace("facts:", resources, 1)
    intent_id = desk.accept("{when: 'outcome.status_code == 410', action: CLOSE}")
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.FAILED, called=True, detail="TARGET_REFUSED"
    )
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.CLOSED)
    assert trading_desk.flow_of(intent_id).reason == "CLOSED_BY_ROUTE"
    assert outcome(intent_id) == (OutcomeStatus.FAILED, "TARGET_REFUSED")
    assert trading_desk.told(intent_id)[-1] == ("FLOW_CLOSED", {"reason": "CLOSED_BY_ROUTE"})
    cash = Resource.objects.get()
    assert (cash.reserved, cash.committed) == (0, 0)


def test_what_was_done_before_a_flow_is_closed_by_a_route_stands(desk: Desk) -> None:
    desk.answers["/later"] = 410
    later = "- {id: later, target: broker, request: {path: /later}}"
    desk.plain = desk.plain.replace("path: /orders}}", "path: /orders}, compensate: {path: /undo}}")
    intent_id = desk.accept("{when: 'outcome.step == \"later\"', action: CLOSE}", steps=())
    del intent_id
    text = trading_desk.PACK.replace(
        "compensate: {path: /undo}}", f"compensate: {{path: /undo}}}}\n      {later}"
    )
    desk.patch.setattr(
        trading_desk, "PACK", text.replace("version: 1.0.0\n    title", "version: 1.0.1\n    title")
    )
    second = trading_desk.open_desk(base_url=desk.base_url).accept()
    assert attempt(second).status is AttemptStatus.ADVANCED
    assert attempt(second).status is AttemptStatus.FAILED
    assert trading_desk.states(second) == (IntentState.FAILED, FlowState.CLOSED)
    assert desk.paths() == ["/orders", "/later"]


def test_a_condition_that_errors_is_recorded_and_is_no_match(desk: Desk) -> None:
    desk.answers["/orders"] = 422
    intent_id = desk.accept(
        "{when: 'receipt.status == \"PART\"', action: CLOSE}",
        "{when: 'params.quantity == 2', action: ESCALATE}",
    )
    assert attempt(intent_id).detail == "ROUTED"
    failed = entry("route:failed")
    assert (failed["route"], failed["why"]) == (1, "the expression reads a field that is not there")
    assert entry("route:taken")["route"] == 2


def test_the_routes_in_force_at_the_accept_are_the_ones_used(desk: Desk) -> None:
    desk.answers["/orders"] = 422
    intent_id = desk.accept("{when: 'true', action: ESCALATE}")
    text = trading_desk.pack(base_url=desk.base_url).replace(
        "version: 1.0.0\n    title", "version: 1.1.0\n    title"
    )
    text = text.replace("action: ESCALATE", "action: CLOSE")
    loaded = packs.load(text=text, source="next.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded
    assert PolicyKind.objects.get(active=True).version == "1.1.0"
    assert attempt(intent_id).detail == "ROUTED"


def test_a_kind_without_routes_is_not_looked_at(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = desk.accept()
    assert b"followed" not in bytes(trading_desk.intent(intent_id).requests)
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED


def test_the_page_of_a_kind_shows_its_routes(desk: Desk) -> None:
    desk.accept("{when: 'true', action: RE_ENGAGE, advice: Ask for less}")
    page = text_of(sign_in(Role.AUDITOR), "/kinds/BUY/")
    for words in ("Routes after a result", "RE_ENGAGE", "Ask for less"):
        assert words in page

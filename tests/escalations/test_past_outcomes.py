"""An agent's history: what became of what people let run, by the entries and not by the rows."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.events import Kind
from escalations import past_outcomes
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.past_outcomes import Ending, Recorded
from escalations.services import deadlines, taking_back
from escalations.services.deciding import DecisionResult
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.flows.models import Intent, Outcome
from tests.support import factories, gate_cases, markup, misbehaving_targets
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PREDICTED = [{"fact": "order.${params.symbol}", "value": "'placed'"}]
STEP = {
    **gate_cases.KIND["steps"][0],
    "writes": [{"fact": "order.${params.symbol}", "value": "receipt.state"}],
}


class Broker:
    """A target that answers as it was last told."""

    def __init__(self) -> None:
        self.status, self.state = 200, "placed"

    def answer(self, request: object) -> None:
        body = b'{"state":"%s"}' % self.state.encode()
        misbehaving_targets.answer(self.status, body)(request)  # type: ignore[arg-type]


@pytest.fixture
def broker(settings: Settings) -> Iterator[Broker]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    made = Broker()
    with misbehaving_targets.stand_in(made.answer) as running:
        factories.configure_target(base_url=running.base_url)
        yield made


@pytest.fixture
def desk(broker: Broker) -> factories.Desk:
    return factories.desk(
        kind=gate_cases.kind(predicts=PREDICTED, steps=[STEP]),
        manifest=gate_cases.manifest(escalations_per_hour=99),
    )


def let_run(desk: factories.Desk, action: Action = Action.OVERRIDE) -> Intent:
    """An escalation that olivia lets run; its intent, not called yet."""
    escalation = desk.escalate()
    params = gate_cases.PARAMS if action is Action.MODIFY else None
    assert factories.decide(escalation, factories.user(f"o{escalation.pk}"), action, params=params)
    return Intent.objects.get(flow_id=escalation.flow_id)


def run(intent: Intent) -> None:
    Intent.objects.filter(pk=intent.pk).update(next_at=clock.now())
    attempting.attempt(intent.pk, owner="worker")


def history_of(escalation: Escalation) -> past_outcomes.History:
    return past_outcomes.get_history(
        tenant=escalation.tenant, agent_id=escalation.agent_id, besides=escalation.pk
    )


def test_counts_outcomes_and_not_decisions(desk: factories.Desk, broker: Broker) -> None:
    run(let_run(desk))
    broker.state = "odd"
    run(let_run(desk, Action.MODIFY))
    broker.status = 422
    run(let_run(desk))
    late = let_run(desk)
    Intent.objects.filter(pk=late.pk).update(valid_until=clock.now() - timedelta(seconds=1))
    run(late)
    let_run(desk)
    factories.decide(desk.escalate(), factories.user("anna"), Action.ABORT)
    asked = desk.escalate()
    found = history_of(asked)
    assert found.endings == {
        Ending.EXECUTED: 2,
        Ending.FAILED: 1,
        Ending.NEVER_RAN: 1,
        Ending.NOT_ENDED: 1,
    }
    assert (found.stopped, found.deviating) == ({"ABORT": 1}, 1)
    assert [(case.resolution, case.ending) for case in found.cases[:2]] == [
        ("ABORT", None),
        ("OVERRIDE", Ending.NOT_ENDED),
    ]
    page = markup.words(text_of(sign_in(Role.OPERATOR), f"/escalations/{asked.pk}/"))
    for words in (
        "2 Executed",
        "1 Failed",
        "1 Never ran",
        "1 Not ended yet",
        "1 fact deviated",
        "1 \u00d7 aborted",
    ):
        assert words in page
    assert "1 of the executed did not come out as predicted" in page
    assert "% overridden" not in page


def test_a_decision_that_was_taken_back_is_not_how_it_ended(desk: factories.Desk, settings: Settings) -> None:
    settings.DIR_UNDO_MAX_S = 60
    intent = let_run(desk)
    row = Escalation.objects.get(flow_id=intent.flow_id)
    me = factories.person(User.objects.get(username=f"o{row.pk}"))
    taken = taking_back.take_back(tenant=factories.TENANT, escalation_id=row.pk, person=me)
    assert isinstance(taken, taking_back.TakenBack)
    Escalation.objects.filter(pk=row.pk).update(deadline_at=clock.now() - timedelta(seconds=1))
    assert deadlines.sweep() == 1
    found = history_of(desk.escalate())
    assert (found.endings, found.stopped) == ({}, {"EXPIRED": 1})


def test_the_decided_page_shows_predicted_and_actual_beside_what_was_signed(
    desk: factories.Desk, broker: Broker
) -> None:
    # A prediction whose fact may move within its limits until the decision.
    value = "context.facts.position[params.symbol] + params.quantity"
    moving = {"fact": "position.${params.symbol}", "value": value, "unless": "current < seen + 9"}
    step = {**STEP, "writes": [{"fact": "position.${params.symbol}", "value": "int(receipt.state)"}]}
    factories.write("position.AAPL", 94)
    factories.policy_kind(gate_cases.kind(version="9.0.0", predicts=[moving], steps=[step]))
    escalation = desk.escalate()
    request = factories.decision_request(escalation)
    factories.write("position.AAPL", 96)
    assert isinstance(factories.send(escalation, factories.user(), request), DecisionResult)
    client, path = sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/"
    words = markup.words(text_of(client, path))
    assert "from 96 → to 101 signed evidence: 99" in words
    assert "Not yet known" in words
    broker.state = "120"
    run(Intent.objects.get(flow_id=escalation.flow_id))
    words = markup.words(text_of(client, path))
    assert "from 96 → to 101 signed evidence: 99 from 96 → to 120 receipt, v3" in words
    assert "Deviates" in words


def test_a_rewritten_outcome_changes_nothing(desk: factories.Desk, broker: Broker) -> None:
    broker.status = 422
    run(let_run(desk))
    Outcome.objects.update(status="SUCCEEDED")
    Escalation.objects.update(resolution="ABORT")
    assert history_of(desk.escalate()).endings == {Ending.FAILED: 1}


def test_reads_no_more_than_the_newest(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_outcomes, "CLOSED", 2)
    for _ in range(3):
        let_run(desk)
    assert history_of(desk.escalate()).endings == {Ending.NOT_ENDED: 2}


CALLED = (Kind.ATTEMPT_STARTED, {"intent_id": "i"})


def outcome(status: str) -> tuple[Kind, dict[str, str]]:
    return Kind.OUTCOME_RECORDED, {"intent_id": "i", "status": status}


@pytest.mark.parametrize(
    ("entries", "ending"),
    [
        ([], Ending.NOT_ENDED),
        ([CALLED], Ending.NOT_ENDED),
        ([CALLED, outcome("SUCCEEDED")], Ending.EXECUTED),
        ([CALLED, outcome("FAILED")], Ending.FAILED),
        ([CALLED, outcome("COMPENSATED")], Ending.REVERSED),
        ([CALLED, outcome("CANCELLED")], Ending.UNCONFIRMED),
        ([outcome("CANCELLED")], Ending.NEVER_RAN),
        ([CALLED, (Kind.INTENT_SUPERSEDED, {"intent_id": "i"})], Ending.UNCONFIRMED),
        ([(Kind.INTENT_CANCELLED, {"intent_id": "i"})], Ending.NEVER_RAN),
    ],
)
def test_what_became_of_an_intent(entries: list[tuple[Kind, dict[str, str]]], ending: Ending) -> None:
    for order in (entries, entries[::-1]):
        found = Recorded()
        for kind, payload in order:
            found.take(kind, payload)
        assert found.ending("i") is ending
        assert found.ending("") is Ending.NEVER_RAN


def test_only_what_runs_something_lets_run() -> None:
    assert {action for action in Action if past_outcomes.lets_run(action)} == {
        Action.OVERRIDE,
        Action.MODIFY,
        Action.RESUME,
        Action.MARK_DONE,
    }
    assert not past_outcomes.lets_run("EXPIRED")

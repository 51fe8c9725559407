"""Red lines and required evidence of a kind, asked by the gate, and again when the call is due."""

from datetime import timedelta
from typing import Any

import pytest

from runtime.contexts.services import steps
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.states import StepType
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.proposals.queries import required_evidence
from runtime.registry.models.ontologies import Ontology
from tests.support import factories, gate_cases, ontology_story

pytestmark = pytest.mark.django_db


def desk(**kind: Any) -> factories.Desk:
    return factories.desk(kind=gate_cases.kind(**kind))


def report(made: factories.Desk, flow: factories.Opened, step_type: StepType, *labels: str) -> None:
    asked = api_schemas.StepRequest(step_type=step_type, digest="0" * 64, source_labels=labels)
    assert not isinstance(steps.report(agent=made.again(), dfid=flow.dfid, asked=asked), Problem)


def codes(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(reason["check"], reason["code"]) for reason in answer["reasons"]]


def go_on(monkeypatch: pytest.MonkeyPatch, *, seconds: int) -> None:
    later = clock.now() + timedelta(seconds=seconds)
    monkeypatch.setattr(clock, "now", lambda: later)


MISSING = [("evidence", "INVALID_EVIDENCE")]


def test_what_the_agent_must_have_done_first() -> None:
    made = desk(required_evidence=[{"step": "self_check"}, {"label": "crm"}])
    flow = made.open()
    assert codes(made.propose(flow)) == MISSING * 2
    report(made, flow, StepType.SELF_CHECK, "crm")
    assert made.propose(flow)["verdict"] == "ACCEPT"


def test_a_fact_that_must_be_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    made = desk(required_evidence=[{"fact": "price.${params.symbol}", "max_age_s": 60}])
    flow = made.open()
    go_on(monkeypatch, seconds=61)
    assert codes(made.propose(flow)) == MISSING
    factories.write("price.AAPL", gate_cases.WORLD["price.AAPL"])
    assert made.propose(flow)["verdict"] == "ACCEPT"


def test_a_fact_is_as_fresh_as_the_ontology_says_where_the_kind_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ontology_story.write(path="price.*")
    made = desk(required_evidence=[{"fact": "price.${params.symbol}"}])
    flow = made.open()
    assert made.propose(flow)["verdict"] == "ACCEPT"
    go_on(monkeypatch, seconds=61)
    flow = made.open()
    assert codes(made.propose(flow)) == MISSING
    factories.write("price.AAPL", gate_cases.WORLD["price.AAPL"])
    assert made.propose(flow)["verdict"] == "ACCEPT"
    go_on(monkeypatch, seconds=10)
    # A changed ontology lets no old fact pass.
    Ontology.objects.update(body=b"{}")
    assert codes(made.propose(made.open())) == MISSING


def test_a_fact_that_nobody_wrote() -> None:
    made = desk(required_evidence=[{"fact": "rating.${params.symbol}"}])
    assert codes(made.propose(made.open())) == MISSING


def test_the_newest_step_of_a_type_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = desk(required_evidence=[{"step": "self_check", "max_age_s": 60}])
    flow = made.open()
    report(made, flow, StepType.SELF_CHECK)
    go_on(monkeypatch, seconds=120)
    assert codes(made.propose(flow)) == MISSING
    report(made, flow, StepType.SELF_CHECK)
    assert made.propose(flow)["verdict"] == "ACCEPT"


def test_a_kind_without_needs_reads_nothing(django_assert_num_queries: Any) -> None:
    made = desk(required_evidence=["a-note"])
    flow = Flow.objects.get(dfid=made.open().dfid)
    with django_assert_num_queries(0):
        found = required_evidence.get_evidence(
            flow=flow, kind=gate_cases.kind(required_evidence=["a-note"]), params=gate_cases.PARAMS
        )
    assert found is None


def test_a_red_line_is_crossed_by_nobody() -> None:
    line = {"id": "L_SIZE", "forbid": "params.notional_cents > 100000", "message": "Not that much."}
    made = desk(red_lines=[line])
    refused = made.propose(made.open(), params=factories.OVER_LIMIT)
    assert refused["verdict"] == "REJECT"
    assert ("red_lines", "RED_LINE_CROSSED") in codes(refused)
    assert made.propose(made.open())["verdict"] == "ACCEPT"


def test_a_red_line_drawn_while_people_decide_stops_them() -> None:
    made = desk()
    escalation = made.escalate()
    line = {"id": "L_NEVER", "forbid": "params.notional_cents > 100000"}
    factories.policy_kind(gate_cases.kind(version="1.9.0", red_lines=[line]))
    olivia = factories.user()
    found = [getattr(factories.decide(escalation, olivia), "code", None) for _ in range(2)]
    assert found == ["EVIDENCE_CHANGED", "NOT_LIFTABLE"]


@pytest.mark.parametrize("mode", ["person", "destructive"])
def test_a_mode_of_approval_asks_a_person_within_every_limit(mode: str) -> None:
    made = desk(approval_mode=mode, impact="'LOW_IMPACT'")
    escalation = made.escalate(params=gate_cases.PARAMS)
    assert escalation.impact == ("HIGH_IMPACT" if mode == "destructive" else "LOW_IMPACT")


def test_two_persons_take_two() -> None:
    escalation = desk(approval_mode="two_persons").escalate(params=gate_cases.PARAMS)
    for name, done in (("olivia", False), ("paul", True)):
        escalation.refresh_from_db()
        assert not isinstance(factories.decide(escalation, factories.user(name)), Problem)
        escalation.refresh_from_db()
        assert (escalation.state == "RESOLVED") is done

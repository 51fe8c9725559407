"""A replay shows nothing of what the first of two people decided, whatever was changed."""

import pytest

from escalations.contracts import Action
from escalations.models import Decision, Escalation
from runtime.contracts.problem import Problem
from runtime.proposals.queries import flow_replay, replay_rows
from runtime.proposals.queries.replay_results import Change, ReplayDifference, ReplayEqual
from tests.support import factories, gate_cases
from tests.support.own_words import stands

pytestmark = pytest.mark.django_db
WORDS = "Known to the first alone."
CHOSEN = {**factories.OVER_LIMIT, "notional_cents": 123_457}


@pytest.fixture
def critical() -> Escalation:
    """A critical escalation on which the first of two people has decided."""
    escalation = factories.desk(kind=gate_cases.kind(impact="'CRITICAL'")).escalate()
    answer = factories.decide(
        escalation, factories.user("first"), Action.MODIFY, params=CHOSEN, justification=WORDS
    )
    assert not isinstance(answer, Problem), answer
    return escalation


def difference(escalation: Escalation) -> ReplayDifference:
    found = flow_replay.replay(tenant=factories.TENANT, dfid=escalation.flow_id)
    assert isinstance(found, ReplayDifference), found
    return found


def test_a_flow_with_one_of_two_decisions_is_equal(critical: Escalation) -> None:
    found = flow_replay.replay(tenant=factories.TENANT, dfid=critical.flow_id)
    assert isinstance(found, ReplayEqual), found
    assert found.checked["statements"] == 1


@pytest.mark.parametrize(("column", "value"), [("action", "OVERRIDE"), ("justification", "Another reason.")])
def test_a_changed_column_is_named_without_its_values(critical: Escalation, column: str, value: str) -> None:
    assert Decision.objects.filter(escalation=critical).update(**{column: value}) == 1
    found = difference(critical)
    assert (found.change, found.path) == (Change.TAMPERED, f"/decision/{column}")
    assert (found.recorded, found.found) == (replay_rows.HIDDEN, replay_rows.HIDDEN)


def test_a_changed_statement_is_named_without_its_words(critical: Escalation) -> None:
    statement = bytes(Decision.objects.get(escalation=critical).statement)
    Decision.objects.filter(escalation=critical).update(statement=statement.replace(b"MODIFY", b"ABORT"))
    found = difference(critical)
    assert (found.row, found.found) == ("decision.statement", "other bytes than recorded")
    assert WORDS not in str(found)


def test_another_change_shows_nothing_of_it_either(critical: Escalation) -> None:
    row = critical.flow.proposals.get()
    changed = bytes(row.body).replace(b'"BUY"', b'"SELL"')
    critical.flow.proposals.update(body=changed)
    found = difference(critical)
    assert (found.path, found.recorded, found.found) == ("/proposal/params/action", "BUY", "SELL")
    assert not stands("123457", str(found))

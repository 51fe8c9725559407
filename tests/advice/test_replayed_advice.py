"""The replay of a flow that took advice: each output and package is made again from its stored input."""

from uuid import UUID

import pytest
from django.db.models import Model

from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.advice.queries import packages, rule_outputs
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import Change, ReplayDifference, ReplayEqual
from tests.support import advised_story

pytestmark = pytest.mark.django_db


@pytest.fixture
def dfid() -> UUID:
    return advised_story.write()


def replay(dfid: UUID) -> ReplayEqual | ReplayDifference:
    found = flow_replay.replay(tenant="default", dfid=dfid)
    assert isinstance(found, ReplayEqual | ReplayDifference)
    return found


def test_what_was_advised_comes_out_again(dfid: UUID) -> None:
    found = replay(dfid)
    assert isinstance(found, ReplayEqual)
    assert (found.checked["rule_outputs"], found.checked["decision_packages"]) == (1, 1)


@pytest.mark.parametrize(("model", "queries"), [(RuleOutput, rule_outputs), (DecisionPackageRow, packages)])
def test_advice_that_would_be_given_otherwise_today_is_a_changed_policy(
    dfid: UUID, monkeypatch: pytest.MonkeyPatch, model: type[Model], queries: object
) -> None:
    monkeypatch.setattr(queries, "make_again", lambda row: b"{}")
    found = replay(dfid)
    assert isinstance(found, ReplayDifference)
    assert (found.change, found.row) == (Change.POLICY, f"{model.__name__.lower()}.body")
    assert UUID(found.row_id) == model._default_manager.get().pk


@pytest.mark.parametrize("model", [RuleOutput, DecisionPackageRow])
@pytest.mark.parametrize("column", ["input", "body"])
def test_bytes_that_were_changed_are_tampered_with(dfid: UUID, model: type[Model], column: str) -> None:
    model._default_manager.update(**{column: b"{}"})
    found = replay(dfid)
    assert isinstance(found, ReplayDifference)
    assert (found.change, found.row) == (Change.TAMPERED, f"{model.__name__.lower()}.{column}")

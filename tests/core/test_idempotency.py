"""Answers kept for repeated calls: found by agent, path and key, and only for the same body."""

from uuid import uuid4

import pytest

from runtime.contracts.problem import Problem
from runtime.core import idempotency
from runtime.core.idempotency import IdempotentRequest
from runtime.core.models import Answer
from runtime.flows.services import flows
from tests.support import factories

pytestmark = pytest.mark.django_db
CALL = IdempotentRequest(key="once", path="/flows", body=b'{"trigger":1}')


@pytest.fixture
def agent_pk() -> int:
    agent = factories.desk().agent
    opened = flows.open_flow(agent=agent, trigger=1, repeatable=CALL)
    assert not isinstance(opened, Problem)
    pk: int = agent.pk
    return pk


def test_a_first_call_finds_nothing() -> None:
    assert idempotency.find_response(agent_pk=factories.desk().agent.pk, call=CALL, makes="flow") is None


def test_a_repeat_gets_the_same_bytes(agent_pk: int) -> None:
    stored = bytes(Answer.objects.get(agent=agent_pk).body)
    assert idempotency.find_response(agent_pk=agent_pk, call=CALL, makes="flow") == stored


@pytest.mark.parametrize("elsewhere", ["key", "path", "agent"])
def test_another_key_path_or_agent_is_another_call(agent_pk: int, elsewhere: str) -> None:
    pk = factories.desk(agent_id="other").agent.pk if elsewhere == "agent" else agent_pk
    call = IdempotentRequest(
        key="twice" if elsewhere == "key" else CALL.key,
        path="/usage" if elsewhere == "path" else CALL.path,
        body=CALL.body,
    )
    assert idempotency.find_response(agent_pk=pk, call=call, makes="flow") is None


def test_the_same_key_with_another_body_is_refused_in_words(agent_pk: int) -> None:
    other, dfid = IdempotentRequest(key=CALL.key, path=CALL.path, body=b"{}"), uuid4()
    problem = idempotency.find_response(agent_pk=agent_pk, call=other, makes="report", dfid=dfid)
    assert isinstance(problem, Problem)
    assert (problem.status, problem.code, problem.dfid) == (422, "IDEMPOTENCY_KEY_REUSED", str(dfid))
    assert problem.detail.endswith("Use a new key for a new report.")

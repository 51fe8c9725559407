"""Two people who ask a target about one call at the same moment: it is asked once."""

import pytest
from pytest_django.fixtures import Settings

from runtime.contracts.problem import Problem
from runtime.execution.services import status_queries
from tests.execution.test_status_queries import FOUND
from tests.support import asked_targets, racing, trading_desk


def test_of_two_people_at_once_one_asks(
    real_db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", asked_targets.PACK)
    with asked_targets.opened(FOUND) as target:
        call = asked_targets.put_in_doubt(trading_desk.open_desk(base_url=target.standing.base_url))

        def one(number: int) -> str:
            answer = status_queries.ask(
                tenant="default", intent_id=call.intent_id, number=call.number, actor=f"user:{number}"
            )
            return answer.code if isinstance(answer, Problem) else answer.value

        assert sorted(racing.race(2, one)) == ["ASKED_JUST_NOW", "FOUND"]
        assert len(target.questions) == 1

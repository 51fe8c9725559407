"""Where something is unknown, missing or dead, the answer is no."""

from datetime import timedelta

import pytest

from escalations.models import Escalation
from runtime.core import clock
from runtime.flows.models import Intent
from runtime.maintenance.services import sweeper
from runtime.registry.models import PolicyKind
from runtime.state.models import Fact
from tests.support.api_client import Caller
from tests.support.end_to_end import ONE, Console, hello

pytestmark = pytest.mark.django_db


def codes(verdict: dict[str, object]) -> set[str]:
    reasons = verdict["reasons"]
    assert isinstance(reasons, list)
    return {reason["code"] for reason in reasons}


def test_an_unknown_kind_is_rejected(desk: Console) -> None:
    verdict = desk.propose(policy_kind="SELL_EVERYTHING")
    assert verdict["verdict"] == "REJECT"
    assert "CAPABILITY_NOT_FOUND" in codes(verdict)


def test_a_kind_that_is_no_longer_in_force_is_rejected(desk: Console) -> None:
    PolicyKind.objects.filter(kind=ONE).update(active=False)
    assert codes(desk.propose()) == {"CAPABILITY_NOT_FOUND"}


def test_a_missing_fact_is_a_no(desk: Console) -> None:
    Fact.objects.filter(path="market.state").delete()
    assert desk.propose()["verdict"] == "REJECT"
    assert not Intent.objects.exists()


def test_silence_about_an_escalation_is_a_no(desk: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = desk.propose(quantity=60)
    deadline = Escalation.objects.get().deadline_at
    assert deadline is not None
    monkeypatch.setattr(clock, "now", lambda: deadline + timedelta(milliseconds=1))
    sweeper.sweep()
    desk.work()
    assert desk.flow(verdict["dfid"])["state"] == "ABORTED"
    assert desk.broker.calls == 0


@pytest.mark.parametrize("token", ["", "agk_0123456789abcdef." + "A" * 43, "nonsense"])
def test_who_is_not_known_gets_nothing(desk: Console, token: str) -> None:
    assert Caller(token).post("/handshake", hello()).status == 401
    assert Caller(token).post("/flows", {"trigger": "x"}).status == 401

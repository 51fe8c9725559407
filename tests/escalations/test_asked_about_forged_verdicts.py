"""A person is asked about an intent in doubt though its verdict was rewritten, and is shown no forgery."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from escalations.contracts import State
from escalations.models import Escalation
from runtime.contracts.states import IntentState
from runtime.flows.models import Verdict
from tests.support import booking_targets, factories, trading_desk
from tests.support.booking_targets import Bank, attempt

pytestmark = pytest.mark.django_db
Forge = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def bank(settings: Settings) -> Iterator[Bank]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with booking_targets.opened(knows_keys=True) as bank:
        yield bank


@pytest.fixture
def doubtful(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """An intent whose only call was booked and answered with 502, and that waits to be sent again."""
    monkeypatch.setattr(trading_desk, "PACK", booking_targets.pack(on_unknown="resend", honours_keys=True))
    desk = trading_desk.open_desk(base_url=bank.base_url)
    bank.faults = ["502"]
    intent_id = desk.accept(window_s=3600)
    assert attempt(intent_id).status == "RETRY_LATER"
    return intent_id


def rewrite(column: str, forge: Forge | None) -> None:
    row = Verdict.objects.get()
    body = b"{}" if forge is None else canonical.encode(forge(canonical.decode(bytes(getattr(row, column)))))
    Verdict.objects.update(**{column: body})


def harmless(verdict: dict[str, Any]) -> dict[str, Any]:
    """The same verdict, with another effect to show."""
    return {**verdict, "effect": [{"text": "Nothing at all", "value": False}]}


def smaller(judged: dict[str, Any]) -> dict[str, Any]:
    """The same input, with another quantity."""
    proposal = judged["proposal"]
    return {**judged, "proposal": {**proposal, "params": {**proposal["params"], "quantity": 1}}}


@pytest.mark.parametrize(
    ("column", "forge"), [("body", None), ("body", harmless), ("input", None), ("input", smaller)]
)
def test_a_person_is_asked_and_shown_what_was_accepted(
    column: str, forge: Forge | None, doubtful: UUID, bank: Bank
) -> None:
    rewrite(column, forge)
    attempt(doubtful)
    assert trading_desk.states(doubtful)[0] is IntentState.IN_DOUBT
    asked = Escalation.objects.get(state=State.OPEN)
    shown = factories.evidence_of(asked)
    assert asked.effect == "".join(item.text for item in shown.effect) == "Buy 2 ABC"
    assert shown.proposal.params["quantity"] == 2
    assert bank.calls == 1

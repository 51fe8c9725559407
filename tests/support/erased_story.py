"""A flow in which one word is said wherever somebody can say something, ready to be erased."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import User

from audit.access.roles import Role
from audit.records import queries as record_queries
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import notes
from runtime.contracts.problem import Problem
from runtime.flows.services import record_feedback
from runtime.packs.services import packs
from runtime.registry.services import users
from tests.support import api_client, factories, recorded_flows

WORD = "Kowalczyk-0815"
SUBJECT = "symbol:AAPL"
KEY = {"Idempotency-Key": "once"}


@dataclass(frozen=True)
class Story:
    """The flow, its escalation, who decided it, and the proposal that was sent under `KEY`."""

    dfid: UUID
    escalation_id: UUID
    approver: int
    caller: api_client.Caller
    body: dict[str, Any]
    opened_by: dict[str, str]

    def propose_again(self) -> api_client.Heard:
        """The same call with the same key."""
        return self.caller.post(f"/flows/{self.dfid}/proposals", self.body, KEY)


def told() -> Story:
    """Proposed, escalated, asked, answered, noted, aborted and found wrong."""
    loaded = packs.load(text=recorded_flows.PACK, source="erased.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded
    made = users.add(
        tenant="default",
        name="olivia",
        password="a long passphrase",
        roles=[Role.OPERATOR],
        actor="system",
    )
    assert isinstance(made, User), made
    return again(api_client.session())


def again(caller: api_client.Caller, *, number: int = 1) -> Story:
    """A flow like it, of the same session."""
    olivia = User.objects.get(username="olivia")
    dfid, body = _open(caller, number)
    _decide(dfid, olivia, Action.REQUEST_INFO, f"Is it {WORD}?")
    caller.post(f"/flows/{dfid}/answers", {"text": f"Yes, {WORD}."}).ok()
    escalation = Escalation.objects.get(flow=dfid)
    story = Story(dfid, escalation.pk, olivia.pk, caller, body, _opening(number))
    note(story)
    _decide(dfid, olivia, Action.ABORT, f"Not for {WORD}.")
    _assess(dfid, olivia)
    return story


def propose(caller: api_client.Caller, *, number: int) -> UUID:
    """One that waits for a person."""
    return _open(caller, number)[0]


def accept(caller: api_client.Caller, *, number: int) -> UUID:
    """One that waits for a worker."""
    return _open(caller, number, cents=18_950)[0]


def note(story: Story) -> None:
    """Somebody writes a note beside the flow."""
    written = notes.write_on_flow(
        tenant="default",
        author=User.objects.get(pk=story.approver),
        dfid=story.dfid,
        text=f"{WORD} called.",
    )
    assert not isinstance(written, Problem), written


def _assess(dfid: UUID, author: User) -> None:
    """Somebody says what they think of how it ended."""
    found = record_queries.list_of_flow(tenant="default", dfid=dfid)
    assert found is not None
    said = {"assessment": "WRONG", "reason": f"{WORD} was right to ask."}
    given = record_feedback.give(
        tenant="default", record=found.records[-1], author=author, form_id=uuid4(), **said
    )
    assert not isinstance(given, Problem), given


def _opening(number: int) -> dict[str, str]:
    return {"Idempotency-Key": f"open-{number}"}


def _open(
    caller: api_client.Caller, number: int, *, cents: int = recorded_flows.HIGH
) -> tuple[UUID, dict[str, Any]]:
    opened = caller.post("/flows", {"trigger": f"{WORD} wrote"}, _opening(number)).ok(201)
    dfid = UUID(opened["dfid"])
    params = {"symbol": "AAPL", "action": "BUY", "quantity": 1, "notional_cents": cents}
    body = api_client.proposal(caller.context(str(dfid)), params=params, explain=f"{WORD} asked for it.")
    caller.post(f"/flows/{dfid}/proposals", body, KEY).ok()
    return dfid, body


def _decide(dfid: UUID, who: User, action: Action, why: str) -> None:
    decided = factories.decide(Escalation.objects.get(flow=dfid), who, action, justification=why)
    assert not isinstance(decided, Problem), decided

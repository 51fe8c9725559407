"""What every demo agent does alike: open a flow, look, think, propose, and take the answer."""

import logging
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, Final

from demo.client import AgentNotice, Client, Context, GivenVerdict
from demo.http_client import CallRefused, Stopped, Unreachable
from demo.notes import Notes

log = logging.getLogger("demo.agents")

MAX_OPEN: Final = 6
# Asking without a token would make the agent PASSIVE: leave some to be safe.
_SPARE_TOKENS: Final = 2
_TROUBLE_S: Final = 10.0
_MICROS_PER_TOKEN: Final = 8
# How soon an agent that was told to be silent notices that it may speak again.
_CUE_S: Final = 1.0
_CIRCLE_TOKENS: Final = 5_000
_MOST_CIRCLES: Final = 40
_NOT_FOUND: Final = 404

_ENDED = frozenset({"EXECUTION_OUTCOME", "FLOW_ABORTED", "FLOW_CLOSED"})
_STOPPED = frozenset({"AGENT_PASSIVE", "AGENT_LOCKED", "AGENT_SUSPENDED", "AGENT_RETIRED", "UNAUTHORIZED"})


@dataclass
class Persona:
    """One agent: opens a flow, looks, thinks, proposes, and follows what comes back."""

    client: Client
    rng: random.Random
    stop: threading.Event
    open_escalations: dict[str, int] = field(default_factory=dict)
    # What is behind each of them, for the questions of people.
    asked_for: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    # Flows under which a strategist wants this one to act.
    orders: SimpleQueue[str] = field(default_factory=SimpleQueue)
    # Apart from `rng`, so that what an agent thinks does not change what it does.
    thoughts: random.Random = field(default_factory=random.Random)
    turns: int = 0
    # Whether the last proposal was one of those that all ask a person, since the agent has lost its autonomy.
    is_supervised: bool = False
    # Where the open escalations are kept over a restart; nowhere without it.
    notes_folder: Path | None = None
    # What a scenario asks of this agent, until it is cleared.
    falls_silent: threading.Event = field(default_factory=threading.Event)
    overspends: threading.Event = field(default_factory=threading.Event)

    pace_s: ClassVar[tuple[float, float]] = (4.0, 8.0)
    outcome_s: ClassVar[float] = 12.0
    person_s: ClassVar[float] = 25.0

    def __post_init__(self) -> None:
        self.notes = Notes(folder=self.notes_folder, agent_id=self.client.agent_id)
        for dfid, kept in self.notes.load().items():
            self.open_escalations[dfid], self.asked_for[dfid] = kept["after"], kept["proposal"]

    def run(self) -> None:
        """Take turns until told to stop; trouble is waited out, never given up on."""
        while not self.stop.is_set():
            pause_s = self.rng.uniform(*self.pace_s)
            if self.falls_silent.is_set():
                self.stop.wait(_CUE_S)
                continue
            try:
                if self.overspends.is_set():
                    self.think_in_circles()
                elif not self.has_asked_enough():
                    self.turn()
            except Stopped:
                break
            except (CallRefused, Unreachable) as trouble:
                log.warning("%s: %s", self.client.agent_id, trouble)
                pause_s += _TROUBLE_S
            except Exception:
                log.exception("%s: a turn failed", self.client.agent_id)
                pause_s += _TROUBLE_S
            self.stop.wait(pause_s)
        self.client.wire.close()

    def turn(self) -> None:
        """One piece of work."""
        raise NotImplementedError

    def begin(self, *, trigger: str) -> tuple[str, Context]:
        """Open a flow and read its context."""
        self.turns += 1
        dfid = self._open_under_order() or self.client.open_flow(trigger=trigger)
        context = self.client.context(dfid)
        self.think(dfid, tokens=self.thoughts.randint(300, 1400))
        return dfid, context

    def _open_under_order(self) -> str | None:
        """A flow under one that a strategist has named; None without an order that still stands."""
        while not self.orders.empty():
            try:
                return self.client.open_flow(
                    trigger="order: of the strategist", parent_dfid=self.orders.get()
                )
            except CallRefused as refusal:
                log.info("%s: the order has passed: %s", self.client.agent_id, refusal)
        return None

    def think(self, dfid: str, *, tokens: int) -> bool:
        """Report what a thought has used; False when that was more than the flow may use."""
        cost_usd = str(Decimal(tokens * _MICROS_PER_TOKEN) / 1_000_000)
        try:
            self.client.report_usage(dfid, tokens=tokens, cost_usd=cost_usd, tool_calls=1)
        except CallRefused as refusal:
            if refusal.code != "BUDGET_EXCEEDED":
                raise
            log.info("%s: %s", self.client.agent_id, refusal)
            return False
        self.client.report_step(dfid, step_type="reasoning", words=f"A thought of {tokens} tokens.")
        return True

    def think_in_circles(self) -> None:
        """Think in a flow of its own until the flow's compute budget is used up; nothing is proposed."""
        dfid, _ = self.begin(trigger="scenario: think in circles")
        for _ in range(_MOST_CIRCLES):
            if not self.think(dfid, tokens=_CIRCLE_TOKENS):
                return

    def propose(self, dfid: str, body: Mapping[str, Any]) -> GivenVerdict:
        """Submit and take the first consequence of the answer."""
        verdict = self.client.propose(dfid, body)
        log.info(
            "%s: %s %s %s %s",
            self.client.agent_id,
            body["policy_kind"],
            verdict.verdict,
            ",".join(sorted(verdict.codes())),
            verdict.state,
        )
        self.is_supervised = "AGENT_SUPERVISED" in verdict.codes()
        if verdict.verdict == "ESCALATE":
            self._remember(dfid, body)
        if verdict.codes() & _STOPPED:
            self.stop.wait(3 * _TROUBLE_S)
        return verdict

    def settle(self, verdict: GivenVerdict) -> None:
        """Wait within reason for what becomes of a proposal; a rejected flow is withdrawn."""
        if verdict.verdict == "ACCEPT":
            self._hear(verdict.dfid, patience_s=self.outcome_s)
        elif verdict.verdict == "ESCALATE":
            self._hear(verdict.dfid, patience_s=self.person_s)
        elif verdict.state != "ABORTED":
            self.client.cancel(verdict.dfid, reason="No better proposal to make in this flow.")

    def carry_out(self, dfid: str, body: Mapping[str, Any]) -> None:
        """Propose an action that may wait for a person on its way; it counts as open until it has ended."""
        verdict = self.propose(dfid, body)
        if verdict.verdict == "ACCEPT":
            self._remember(dfid, body)
        self.settle(verdict)

    def may_escalate(self, dfid: str, *, most: int = MAX_OPEN) -> bool:
        """Whether a token is left and another open question is fair to the people who answer them."""
        if self.has_open(most):
            return False
        return int(self.client.flow(dfid)["budget"]["escalation_tokens"]) > _SPARE_TOKENS

    def has_asked_enough(self) -> bool:
        """Whether a supervised agent, which asks of all that it does, leaves people in peace for now."""
        return self.is_supervised and self.has_open(MAX_OPEN)

    def has_open(self, count: int) -> bool:
        """Whether at least so many of its actions wait for a person now."""
        self.listen()
        return len(self.open_escalations) >= count

    def listen(self) -> None:
        """Hear what came meanwhile of everything that waits for a person."""
        for dfid in list(self.open_escalations):
            try:
                self._hear(dfid, patience_s=0)
            except CallRefused as refusal:
                if refusal.status != _NOT_FOUND:
                    raise
                # kept from a database that is no longer there
                self._forget(dfid)

    def reply(self, proposal: Mapping[str, Any]) -> str | None:
        """What to say to a person who asks about a proposal; most have nothing to add."""
        return None

    def _hear(self, dfid: str, *, patience_s: float) -> None:
        after = self.open_escalations.get(dfid, 0)
        if patience_s > 0:
            for event in self.client.follow(dfid, patience_s=patience_s, after=after):
                if self._heed(dfid, event):
                    return
        else:
            events, _ = self.client.feedback(dfid, after=after)
            for event in events:
                self._heed(dfid, event)

    def _heed(self, dfid: str, event: AgentNotice) -> bool:
        """Take one event to heart; True when the flow has nothing more to say."""
        if dfid in self.open_escalations:
            self.open_escalations[dfid] = event.seq
            self._keep_notes()
        if event.event_type in _ENDED:
            self._forget(dfid)
            log.info("%s: %s %s", self.client.agent_id, event.event_type, event.data.get("status", ""))
            return True
        if event.event_type == "INFORMATION_REQUESTED":
            self._answer(dfid, number=int(event.data["number"]))
        return False

    def _remember(self, dfid: str, body: Mapping[str, Any]) -> None:
        self.open_escalations[dfid] = 0
        self.asked_for[dfid] = body
        self._keep_notes()

    def _forget(self, dfid: str) -> None:
        self.open_escalations.pop(dfid, None)
        self.asked_for.pop(dfid, None)
        self._keep_notes()

    def _keep_notes(self) -> None:
        self.notes.keep(
            {
                dfid: {"after": after, "proposal": self.asked_for.get(dfid, {})}
                for dfid, after in self.open_escalations.items()
            }
        )

    def _answer(self, dfid: str, *, number: int) -> None:
        words = self.reply(self.asked_for.get(dfid, {}))
        if words is None:
            return
        try:
            self.client.answer(dfid, text=words, number=number)
        except CallRefused as refusal:
            log.info("%s: the answer came too late: %s", self.client.agent_id, refusal)

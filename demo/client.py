"""A small typed client of the agent API, for one agent in one thread. Standard library only."""

import hashlib
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from demo.http_client import CallRefused, HttpAnswer, Wire

API: Final = "/api/v1"
PROTOCOL_VERSION: Final = "1.0.0"
LONGEST_WAIT_S: Final = 30
_REMEMBER_S: Final = 86_400
_UNAUTHENTICATED: Final = 401


@dataclass(frozen=True)
class VerdictReason:
    """Why a proposal was not simply accepted; the two numbers are there for a limit."""

    code: str
    message: str
    proposed_value: Any
    limit: Any


@dataclass(frozen=True)
class GivenVerdict:
    """What the gate answered: ``ACCEPT``, ``REJECT`` or ``ESCALATE``, and how the flow stands."""

    dfid: str
    verdict: str
    state: str
    attempts_left: int
    reasons: tuple[VerdictReason, ...]
    intent_id: str | None
    escalation_id: str | None

    def codes(self) -> frozenset[str]:
        """The reason codes."""
        return frozenset(reason.code for reason in self.reasons)


@dataclass(frozen=True)
class Context:
    """What the agent may know now; ``ref`` binds a proposal to it."""

    ref: str
    facts: Mapping[str, Any]
    raw: Mapping[str, Any]

    def fact(self, path: str) -> Any:
        """The value at a dotted path such as ``price.AAPL``, or None."""
        value: Any = self.facts
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True)
class AgentNotice:
    """One piece of feedback on a flow."""

    seq: int
    event_type: str
    data: Mapping[str, Any]


class Client:
    """Shakes hands by itself, keeps its session, and when in doubt sends again under the same key."""

    def __init__(
        self,
        *,
        base_url: str,
        agent_id: str,
        key: str,
        manifest_version: str = "1.0.0",
        patience_s: float = 30.0,
        stop: threading.Event | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.manifest_version = manifest_version
        self.wire = Wire(base_url=base_url, patience_s=patience_s, stop=stop or threading.Event())
        self._key = key
        self._token = ""

    def handshake(self) -> Mapping[str, Any]:
        """Open a session for this agent and manifest version; later calls carry its token."""
        body = {
            "agent_id": self.agent_id,
            "manifest_version": self.manifest_version,
            "protocol_version": PROTOCOL_VERSION,
        }
        answer = self.wire.fetch("POST", f"{API}/handshake", body=body, headers=_bearer(self._key))
        self._token = str(answer.body["session_token"])
        return answer.body

    def open_flow(self, *, trigger: str, parent_dfid: str | None = None) -> str:
        """Start a flow, under a parent or alone, and return its DFID."""
        body = {"trigger": trigger, "parent_dfid": parent_dfid}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return str(self._call("POST", "/flows", body, headers).body["dfid"])

    def flow(self, dfid: str) -> Mapping[str, Any]:
        """The flow's state, attempts left and budget."""
        return self._call("GET", f"/flows/{dfid}").body

    def context(self, dfid: str) -> Context:
        """A frozen view of the world; a later proposal names it."""
        body = self._call("POST", f"/flows/{dfid}/context", {}).body
        return Context(ref=str(body["context_ref"]), facts=body["context"]["facts"], raw=body["context"])

    def propose(self, dfid: str, proposal: Mapping[str, Any], *, idempotency_key: str = "") -> GivenVerdict:
        """Submit a claim; whatever happens on the way, it is judged once under its key."""
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return _given(self._call("POST", f"/flows/{dfid}/proposals", proposal, headers).body)

    def propose_at_once(
        self,
        proposal: Mapping[str, Any],
        *,
        trigger: str = "",
        seen: Mapping[str, int] | None = None,
        dfid: str = "",
        idempotency_key: str = "",
    ) -> GivenVerdict:
        """Open a flow, have its context compiled and propose, in one call; or try again in the flow ``dfid``.

        ``seen`` names the facts that the claim stands on, each by the version that was read.
        """
        rest = {"trigger": trigger, "seen": seen, "dfid": dfid}
        body = {**proposal, "context": "current", **{name: told for name, told in rest.items() if told}}
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return _given(self._call("POST", "/proposals", body, headers).body)

    def report_usage(
        self, dfid: str, *, tokens: int, cost_usd: str, tool_calls: int = 0
    ) -> Mapping[str, Any]:
        """Report what thinking has used; ``Refused`` with BUDGET_EXCEEDED when it was too much."""
        body = {"tokens": tokens, "cost_usd": cost_usd, "tool_calls": tool_calls}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return self._call("POST", f"/flows/{dfid}/usage", body, headers).body

    def feedback(self, dfid: str, *, after: int = 0, wait_s: int = 0) -> tuple[list[AgentNotice], int]:
        """Events past ``after`` and the cursor to go on from; waits up to ``wait_s`` for the first."""
        path = f"/flows/{dfid}/feedback?after={after}&wait={wait_s}"
        body = self._call("GET", path, timeout_s=wait_s + 15).body
        events = [
            AgentNotice(seq=int(row["seq"]), event_type=str(row["event_type"]), data=row["data"])
            for row in body["events"]
        ]
        return events, int(body["next"])

    def follow(self, dfid: str, *, patience_s: float, after: int = 0) -> Iterator[AgentNotice]:
        """Feedback as it comes, until patience ends or the caller has heard enough."""
        deadline = time.monotonic() + patience_s
        while (left_s := deadline - time.monotonic()) > 0:
            events, after = self.feedback(dfid, after=after, wait_s=max(1, min(int(left_s), LONGEST_WAIT_S)))
            yield from events

    def answer(self, dfid: str, *, text: str, number: int) -> None:
        """Answer a person's question; ``Refused`` once nobody waits for the answer any more."""
        self._call("POST", f"/flows/{dfid}/answers", {"text": text, "number": number})

    def report_step(self, dfid: str, *, step_type: str, words: str) -> None:
        """Say what was done while reasoning: a claim for the flow's Reasoning lane."""
        digest = hashlib.sha256(words.encode()).hexdigest()
        self._call(
            "POST", f"/flows/{dfid}/steps", {"step_type": step_type, "digest": digest, "summary": words}
        )

    def take_step(
        self, dfid: str, *, instruction: str, output: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Report a step of the workflow: ``next`` is demanded then; ``findings`` say why it was refused."""
        body = {"step_type": "instruction", "instruction": instruction, "output": dict(output or {})}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return self._call("POST", f"/flows/{dfid}/steps", body, headers).body

    def ask_rules(self, dfid: str, *, ruleset: str, features: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a ruleset says of these features: a rule output."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"ruleset": ruleset, "features": features}
        return self._call("POST", f"/flows/{dfid}/rules", body, headers).body

    def remember(self, *, scope: str, key: str, value: Any, source: str) -> None:
        """Keep a value for later contexts of whoever may read the scope."""
        self._call("PUT", f"/memory/{scope}/{key}", {"value": value, "source": source, "ttl_s": _REMEMBER_S})

    def events(self, *, after: int = 0, wait_s: int = 0) -> tuple[list[AgentNotice], int]:
        """What concerns the agent itself past ``after``; waits up to ``wait_s`` for the first."""
        body = self._call("GET", f"/events?after={after}&wait={wait_s}", timeout_s=wait_s + 15).body
        events = [
            AgentNotice(seq=int(row["seq"]), event_type=str(row["event_type"]), data=row["data"])
            for row in body["events"]
        ]
        return events, int(body["next"])

    def close_flow(self, dfid: str, *, reason: str) -> None:
        """End a flow that has nothing left to do."""
        self._call("POST", f"/flows/{dfid}/close", {"reason": reason})

    def cancel(self, dfid: str, *, reason: str) -> None:
        """Withdraw a flow; refused once its intent is being carried out."""
        self._call("POST", f"/flows/{dfid}/cancel", {"reason": reason})

    def decide(self, dfid: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask which option to propose: a decision package. With ``consult`` other agents are asked first."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return self._call("POST", f"/flows/{dfid}/decide", question, headers).body

    def consultations(self, dfid: str) -> list[Mapping[str, Any]]:
        """Who was consulted in a flow, and what they answered."""
        return list(self._call("GET", f"/flows/{dfid}/consultations").body["consultations"])

    def capabilities(self, name: str) -> list[Mapping[str, Any]]:
        """The agents that the registry names for a capability."""
        return list(self._call("GET", f"/capabilities?capability_name={name}").body["capabilities"])

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to another agent, or to the registry; the same message again is sent once."""
        self._call("POST", "/messages", message)

    def messages(self, *, wait_s: int = 0) -> list[Mapping[str, Any]]:
        """What waits in the mailbox; waits up to ``wait_s`` for the first."""
        path = f"/messages?after=0&wait_s={wait_s}"
        return list(self._call("GET", path, timeout_s=wait_s + 15).body["messages"])

    def acknowledge(self, message_id: str) -> None:
        """Take a message, so that it does not come again."""
        self._call("POST", f"/messages/{message_id}/ack", {})

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> HttpAnswer:
        if not self._token:
            self.handshake()
        for last in (False, True):
            sent = {**_bearer(self._token), **(headers or {})}
            try:
                return self.wire.fetch(method, API + path, body=body, headers=sent, timeout_s=timeout_s)
            except CallRefused as refusal:
                # a session that ended, or a server that lost it: a new one may do what the old one could not
                if last or refusal.status != _UNAUTHENTICATED:
                    raise
            self.handshake()
        raise AssertionError("unreachable: the second try returns or raises")


def _given(body: Mapping[str, Any]) -> GivenVerdict:
    reasons = tuple(
        VerdictReason(
            code=str(row["code"]),
            message=str(row.get("message", "")),
            proposed_value=row.get("proposed_value"),
            limit=row.get("limit"),
        )
        for row in body["reasons"]
    )
    return GivenVerdict(
        dfid=str(body["dfid"]),
        verdict=str(body["verdict"]),
        state=str(body["state"]),
        attempts_left=int(body["attempts_left"]),
        reasons=reasons,
        intent_id=body.get("intent_id"),
        escalation_id=body.get("escalation_id"),
    )


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}

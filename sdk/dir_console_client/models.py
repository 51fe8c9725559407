"""What a console answers, as plain values. Fields that it adds later are in `raw`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = Mapping[str, Any]


class Status(StrEnum):
    """How an action stands: waiting, refused, or ended as its outcome says.

    PERMITTED is the end of a policy kind without steps: the console does nothing, the agent may.
    """

    HELD = "HELD"
    RUNNING = "RUNNING"
    REJECTED = "REJECTED"
    ABORTED = "ABORTED"
    CLOSED = "CLOSED"
    PERMITTED = "PERMITTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    COMPENSATED = "COMPENSATED"


@dataclass(frozen=True)
class Reason:
    """Why a proposal was not simply accepted; the two values are there for a limit."""

    code: str
    check: str
    message: str
    proposed_value: Any = None
    limit: Any = None


@dataclass(frozen=True)
class Verdict:
    """What the gate answered: `ACCEPT`, `REJECT` or `ESCALATE`, and how the flow stands."""

    dfid: str
    proposal_id: str
    verdict: str
    state: str
    attempts_left: int
    reasons: tuple[Reason, ...]
    valid_until: str
    intent_id: str | None
    escalation_id: str | None
    retry_after_s: int | None
    raw: Json = field(repr=False)

    @property
    def is_held(self) -> bool:
        """Whether a person must decide."""
        return self.verdict == "ESCALATE"

    @property
    def is_rejected(self) -> bool:
        """Whether nothing will be done."""
        return self.verdict == "REJECT"

    def words(self) -> str:
        """The reasons in one sentence each."""
        return " ".join(f"{reason.code}: {reason.message}." for reason in self.reasons)


@dataclass(frozen=True)
class Context:
    """What the agent may know now. `ref` binds a proposal to it."""

    ref: str
    expires_at: str
    facts: Json
    raw: Json = field(repr=False)

    def fact(self, path: str) -> Any:
        """The value at a dotted path such as `price.AAPL`, or None."""
        value: Any = self.facts
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True)
class Event:
    """One piece of feedback. `seq` is where to go on from."""

    seq: int
    event_type: str
    at: str
    data: Json


@dataclass(frozen=True)
class Question:
    """What a person wants to know before deciding; `until` is the deadline for an answer."""

    number: int
    question: str
    until: str


@dataclass(frozen=True)
class Result:
    """What became of an action.

    `effect` is HAPPENED, NOT_HAPPENED or UNKNOWN once it has ended, `receipt` what the target answered,
    `decision` what a person chose, `params` what they changed the parameters to (None for unchanged), and
    `reason` the code that ended the flow. The verdict is missing where only the flow was waited for.
    """

    status: Status
    dfid: str
    verdict: Verdict | None = None
    effect: str | None = None
    receipt: Any = None
    decision: str | None = None
    params: Json | None = None
    reason: str | None = None
    raw: Json = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        """Whether it was done, or may be done as it was proposed or as `params` say."""
        return self.status in {Status.SUCCEEDED, Status.PERMITTED}

    def words(self) -> str:
        """The result in plain words, for a model or a log."""
        if self.ok:
            done = "Done" if self.status is Status.SUCCEEDED else "Permitted"
            return f"{done}." if self.params is None else f"{done}, with other parameters: {self.params}."
        if self.status is Status.HELD:
            return f"Waits for a person; nothing was done yet. Flow {self.dfid}."
        told = "" if self.verdict is None else f" {self.verdict.words()}"
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.status.value}{why}.{told}"


@dataclass(frozen=True)
class TaskChange:
    """A task after a change. `etag` is what `if_match` takes; `event_id` names an event that was added."""

    task_id: str
    state: str
    context_version: int
    etag: str
    event_id: str | None = None


@dataclass(frozen=True)
class Task:
    """A task: a flow with the context that its agent keeps. `raw` has its newest events and links."""

    task_id: str
    state: str
    context: Json
    context_version: int
    etag: str
    world_version_id: int
    events: tuple[Json, ...]
    links: tuple[Json, ...]
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class Sent:
    """A message as the console took it."""

    message_id: str
    conversation_id: str
    expires_at: str
    protocol_version: str


@dataclass(frozen=True)
class Message:
    """A message in the mailbox. `number` is where to go on from, `sender` None for the registry."""

    number: int
    message_id: str
    message_type: str
    conversation_id: str
    correlation_id: str | None
    sender: str | None
    expires_at: str
    payload: Json
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class Provider:
    """Who offers a capability; `raw` has what it states of itself."""

    agent_id: str
    capability_name: str
    state: str
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class Consultation:
    """What became of a question to one provider. `choice` and `reason` are its claims."""

    consultation_id: str
    provider: str
    state: str
    message_id: str
    deadline: str
    choice: str | None
    confidence: float | None
    reason: str


def verdict_of(body: Json) -> Verdict:
    """The verdict of an answer's body."""
    return Verdict(
        dfid=str(body["dfid"]),
        proposal_id=str(body["proposal_id"]),
        verdict=str(body["verdict"]),
        state=str(body["state"]),
        attempts_left=int(body["attempts_left"]),
        reasons=tuple(
            Reason(
                code=str(row["code"]),
                check=str(row.get("check", "")),
                message=str(row.get("message", "")),
                proposed_value=row.get("proposed_value"),
                limit=row.get("limit"),
            )
            for row in body["reasons"]
        ),
        valid_until=str(body["valid_until"]),
        intent_id=body.get("intent_id"),
        escalation_id=body.get("escalation_id"),
        retry_after_s=body.get("retry_after_s"),
        raw=body,
    )


def context_of(body: Json) -> Context:
    """The context of an answer's body."""
    return Context(
        ref=str(body["context_ref"]),
        expires_at=str(body["expires_at"]),
        facts=body["context"]["facts"],
        raw=body["context"],
    )


def event_of(row: Json) -> Event:
    """One event of a list."""
    return Event(
        seq=int(row["seq"]),
        event_type=str(row["event_type"]),
        at=str(row.get("at", "")),
        data=row["data"],
    )


def task_change_of(body: Json) -> TaskChange:
    """The change of a task."""
    return TaskChange(
        task_id=str(body["task_id"]),
        state=str(body["state"]),
        context_version=int(body["context_version"]),
        etag=str(body["etag"]),
        event_id=body.get("event_id"),
    )


def task_of(body: Json) -> Task:
    """The task of an answer's body."""
    return Task(
        task_id=str(body["task_id"]),
        state=str(body["state"]),
        context=body["context"],
        context_version=int(body["context_version"]),
        etag=str(body["etag"]),
        world_version_id=int(body["world_version_id"]),
        events=tuple(body["events"]),
        links=tuple(body["links"]),
        raw=body,
    )


def sent_of(body: Json) -> Sent:
    """The answer to a message that was sent."""
    return Sent(
        message_id=str(body["message_id"]),
        conversation_id=str(body["conversation_id"]),
        expires_at=str(body["expires_at"]),
        protocol_version=str(body["protocol_version"]),
    )


def message_of(row: Json) -> Message:
    """One message of a mailbox."""
    headers = row["headers"]
    return Message(
        number=int(row["number"]),
        message_id=str(headers["message_id"]),
        message_type=str(headers["message_type"]),
        conversation_id=str(headers["conversation_id"]),
        correlation_id=headers.get("correlation_id"),
        sender=headers.get("from_agent_id"),
        expires_at=str(row["expires_at"]),
        payload=row["payload"],
        raw=row,
    )


def provider_of(row: Json) -> Provider:
    """One capability record."""
    return Provider(
        agent_id=str(row["provider_agent_id"]),
        capability_name=str(row["capability_name"]),
        state=str(row["health"]["state"]),
        raw=row,
    )


def consultation_of(row: Json) -> Consultation:
    """One consultation of a flow."""
    confidence = row.get("confidence")
    return Consultation(
        consultation_id=str(row["consultation_id"]),
        provider=str(row["provider_agent_id"]),
        state=str(row["state"]),
        message_id=str(row["message_id"]),
        deadline=str(row["deadline"]),
        choice=row.get("choice"),
        confidence=None if confidence is None else float(confidence),
        reason=str(row.get("reason", "")),
    )

"""The conversation with a console, without any input or output.

Each call is a generator: it yields what to send and how long to pause, and is sent what came back. The
clients for threads and for event loops drive the same generators, so both keep the same rules: one session,
the same key on every try, and safe mode where the console does not let the agent act.
"""

import math
import random
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Protocol, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlencode

from dir_console_client.errors import Refused, SafeMode
from dir_console_client.models import (
    Context,
    Event,
    Json,
    Question,
    Result,
    Status,
    Verdict,
    context_of,
    event_of,
    verdict_of,
)

API: Final = "/api/v1"
PROTOCOL_VERSION: Final = "1.0.0"
LONGEST_WAIT_S: Final = 30
TIMEOUT_S: Final = 10.0
SAFE_MODE_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_BUSY: Final = frozenset({408, 429, 502, 503, 504})

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """One request. A long poll has a longer `timeout_s`."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True)
class Answer:
    """What came back; `body` is empty where it was no JSON object. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: Json


class Signer(Protocol):
    """What signs proposals, such as `dir_console_client.signatures.SigningKey`."""

    def sign(self, *, agent_id: str, idempotency_key: str, path: str, proposal: Json) -> str: ...


class NoAnswer(Exception):
    """Thrown into a generator by its driver: the call was refused by the network, broken off, or too slow."""


class ProposalFields(TypedDict, total=False):
    """What a proposal may say beside its kind and parameters.

    `trigger` is why a flow is opened, any JSON. `valid_for_s` (60) is how long the action may wait, and
    `constraints` are further bounds that its kind declares. `confidence` is between 0 and 1. `decision_id`
    names a decision package that is followed. `key` makes a repeat the same proposal.
    """

    trigger: Any
    dfid: str
    context_ref: str
    seen: Mapping[str, int]
    valid_for_s: int
    constraints: Mapping[str, Any]
    confidence: float
    explain: str | None
    decision_id: str
    key: str


Talk = Generator[Call | Pause, Answer, T]
OnQuestion = Callable[[Question], str | None]


@dataclass
class Conversation:
    """What one agent knows of its session. `patience_s` bounds how long one call is tried again.

    `signer` signs proposals, where the agent's manifest has a key for them.
    """

    agent_id: str
    key: str = field(repr=False)
    manifest_version: str
    instance_id: str | None = None
    patience_s: float = 30.0
    signer: Signer | None = field(default=None, repr=False)
    _token: str = field(default="", repr=False)
    _safe_until: float = 0.0
    _safe_words: str = ""

    # sessions

    def handshake(self) -> Talk[Json]:
        """Open a session; the policy kinds that may be proposed are in `policy_kinds`.

        Raises:
            SafeMode: where the console knows neither key, agent nor version, or does not let the agent act.
        """
        body = {
            "agent_id": self.agent_id,
            "manifest_version": self.manifest_version,
            "protocol_version": PROTOCOL_VERSION,
        }
        if self.instance_id is not None:
            body["instance_id"] = self.instance_id
        call = Call("POST", f"{API}/handshake", body, {"Authorization": f"Bearer {self.key}"})
        answer = yield from self._until_answered(call)
        if answer.status != HTTPStatus.OK:
            raise self._enter_safe_mode(str(Refused(status=answer.status, problem=answer.body)))
        self._token = str(answer.body["session_token"])
        return answer.body

    def schema(self, kind: str, version: str = "latest") -> Talk[Json]:
        """The JSON Schemas of a policy kind's parameters and constraints."""
        return (yield from self.call("GET", f"/schema/policy/{quote(kind, safe='')}/{quote(version)}"))

    # flows

    def open_flow(self, trigger: Any, *, parent_dfid: str | None = None) -> Talk[str]:
        """Open a flow, under a parent or alone; its DFID."""
        body = {"trigger": trigger, "parent_dfid": parent_dfid}
        opened = yield from self.call("POST", "/flows", body, key=str(uuid.uuid4()))
        return str(opened["dfid"])

    def flow(self, dfid: str) -> Talk[Json]:
        """The flow's state, attempts left and budget."""
        return (yield from self.call("GET", f"/flows/{dfid}"))

    def context(self, dfid: str) -> Talk[Context]:
        """A frozen view of the world, which a proposal names."""
        return context_of((yield from self.call("POST", f"/flows/{dfid}/context", {})))

    def cancel(self, dfid: str, *, reason: str) -> Talk[Json]:
        """Withdraw a flow; refused once its intent is being carried out."""
        return (yield from self.call("POST", f"/flows/{dfid}/cancel", {"reason": reason}))

    def close_flow(self, dfid: str, *, reason: str) -> Talk[Json]:
        """End a flow that has nothing left to do."""
        return (yield from self.call("POST", f"/flows/{dfid}/close", {"reason": reason}))

    def usage(self, dfid: str, *, tokens: int = 0, cost_usd: str = "0", tool_calls: int = 0) -> Talk[Json]:
        """Report what thinking has used since the last report; what is left. `cost_usd` is a decimal text."""
        body = {"tokens": tokens, "cost_usd": cost_usd, "tool_calls": tool_calls}
        return (yield from self.call("POST", f"/flows/{dfid}/usage", body, key=str(uuid.uuid4())))

    def rules(
        self, dfid: str, ruleset: str, features: Mapping[str, Any], *, policy_kind: str | None = None
    ) -> Talk[Json]:
        """What a ruleset says of some features: advice. Cedar policies are asked about `policy_kind`."""
        body: dict[str, Any] = {"ruleset": ruleset, "features": dict(features)}
        if policy_kind is not None:
            body["policy_kind"] = policy_kind
        return (yield from self.call("POST", f"/flows/{dfid}/rules", body))

    def decide(
        self,
        dfid: str,
        objectives: Sequence[Mapping[str, Any]],
        options: Sequence[Mapping[str, Any]] = (),
        *,
        rule_output_id: str | None = None,
        consult: Mapping[str, Any] | None = None,
    ) -> Talk[Json]:
        """A decision package: which option to propose. With `consult` other agents are asked first."""
        body = {
            "objectives": list(objectives),
            "options": list(options) or None,
            "rule_output_id": rule_output_id,
            "consult": None if consult is None else dict(consult),
        }
        sent = {name: value for name, value in body.items() if value is not None}
        return (yield from self.call("POST", f"/flows/{dfid}/decide", sent, key=str(uuid.uuid4())))

    # proposals

    def propose(self, kind: str, params: Mapping[str, Any], **more: Unpack[ProposalFields]) -> Talk[Verdict]:
        """Propose an action; the verdict on it.

        Without `dfid` a flow is opened for it in the same call. Without `context_ref` it is judged on the
        facts of now: a kind that depends on facts wants to know in `seen` which versions of them it was
        decided on, or a context. A repeat under the same `key` is judged once.
        """
        dfid, context_ref = more.get("dfid"), more.get("context_ref")
        body = {
            "policy_kind": kind,
            "params": dict(params),
            "execution_constraints": {
                "validity_window_sec": more.get("valid_for_s", 60),
                **(more.get("constraints") or {}),
            },
            "context_ref": context_ref,
            "context": None if context_ref else "current",
            "dfid": dfid,
            "trigger": None if dfid else more.get("trigger", kind),
            **{name: more.get(name) for name in ("seen", "confidence", "explain", "decision_id")},
        }
        sent = {name: value for name, value in body.items() if value is not None}
        key, path = more.get("key") or str(uuid.uuid4()), "/proposals"
        if self.signer is not None:
            sent["signature"] = self.signer.sign(
                agent_id=self.agent_id, idempotency_key=key, path=API + path, proposal=sent
            )
        return verdict_of((yield from self.call("POST", path, sent, key=key)))

    def wait(
        self,
        dfid: str,
        *,
        timeout_s: float = 300.0,
        on_question: OnQuestion | None = None,
        verdict: Verdict | None = None,
    ) -> Talk[Result]:
        """Follow a flow to its end, or until `timeout_s` seconds have passed: HELD or RUNNING then.

        `on_question` answers what a person asks before deciding; None leaves the question open.
        """
        until, after = time.monotonic() + timeout_s, 0
        heard = Result(status=Status.RUNNING, dfid=dfid, verdict=verdict)
        while True:
            # Rounded up: a poll that waits for nothing would be sent again and again in the last second.
            left_s = max(0, min(math.ceil(until - time.monotonic()), LONGEST_WAIT_S))
            events, after = yield from self.feedback(dfid, after=after, wait_s=left_s)
            for event in events:
                if event.event_type == "ESCALATION_RESOLVED":
                    heard = replace(
                        heard, decision=str(event.data["action"]), params=event.data.get("params")
                    )
                elif event.event_type == "INFORMATION_REQUESTED" and on_question is not None:
                    yield from self._answer(dfid, event.data, on_question)
            ended = _end_of(events, heard)
            if ended is not None:
                return ended
            if time.monotonic() >= until:
                state = str((yield from self.flow(dfid))["state"])
                return replace(heard, status=Status.HELD) if state == "ESCALATED" else heard

    def act(
        self,
        kind: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float = 300.0,
        on_question: OnQuestion | None = None,
        **more: Unpack[ProposalFields],
    ) -> Talk[Result]:
        """`propose`, whose other arguments it takes, and `wait` for what becomes of it."""
        verdict = yield from self.propose(kind, params, **more)
        if verdict.is_rejected:
            return Result(status=Status.REJECTED, dfid=verdict.dfid, verdict=verdict, effect="NOT_HAPPENED")
        return (
            yield from self.wait(verdict.dfid, timeout_s=timeout_s, on_question=on_question, verdict=verdict)
        )

    # feedback

    def feedback(self, dfid: str, *, after: int = 0, wait_s: int = 0) -> Talk[tuple[list[Event], int]]:
        """Events past `after`, and where to go on from; waits up to `wait_s` (30 at most) for the first."""
        return (yield from self._events(f"/flows/{dfid}/feedback", after, wait_s))

    def events(self, *, after: int = 0, wait_s: int = 0) -> Talk[tuple[list[Event], int]]:
        """The same for what concerns the agent itself: facts, budget, status, stops."""
        return (yield from self._events("/events", after, wait_s))

    def answer(self, dfid: str, *, number: int, text: str) -> Talk[Json]:
        """Answer a person's question; Refused once nobody waits for it any more."""
        return (yield from self.call("POST", f"/flows/{dfid}/answers", {"number": number, "text": text}))

    def _answer(self, dfid: str, asked: Json, on_question: OnQuestion) -> Talk[None]:
        question = Question(
            number=int(asked["number"]), question=str(asked["question"]), until=str(asked.get("until", ""))
        )
        text = on_question(question)
        if text is None:
            return
        try:
            yield from self.answer(dfid, number=question.number, text=text)
        except Refused:
            return  # answered before, or decided meanwhile: what counts comes as the next event

    def _events(self, path: str, after: int, wait_s: int) -> Talk[tuple[list[Event], int]]:
        asked = urlencode({"after": after, "wait": wait_s})
        body = yield from self.call("GET", f"{path}?{asked}", timeout_s=wait_s + TIMEOUT_S)
        return [event_of(row) for row in body["events"]], int(body["next"])

    # calls

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        if_match: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Talk[Json]:
        """The body of the answer, in a session that is opened where there is none.

        `key` is sent as Idempotency-Key, `if_match` as If-Match.

        Raises:
            Refused: for an answer that trying again would not change.
            SafeMode: where no session can be had, or no answer came in time.
        """
        named = {"Idempotency-Key": key, "If-Match": if_match}
        headers = {name: value for name, value in named.items() if value is not None}
        had_session = bool(self._token)
        if not had_session:
            yield from self.handshake()
        while True:
            sent = Call(
                method, API + path, body, {**headers, "Authorization": f"Bearer {self._token}"}, timeout_s
            )
            answer = yield from self._until_answered(sent)
            if answer.status == HTTPStatus.UNAUTHORIZED and had_session:
                # It has ended, or the server has lost it: a new one may do what this one could not.
                had_session = False
                yield from self.handshake()
                continue
            if answer.status >= HTTPStatus.BAD_REQUEST:
                raise Refused(status=answer.status, problem=answer.body)
            return answer.body

    def _until_answered(self, call: Call) -> Talk[Answer]:
        """An answer that is worth having: the same bytes and headers are sent until it comes."""
        if (left_s := self._safe_until - time.monotonic()) > 0:
            raise SafeMode(self._safe_words, retry_after_s=left_s)
        until, pause_s = time.monotonic() + self.patience_s, _FIRST_PAUSE_S
        while True:
            try:
                answer = yield call
            except NoAnswer as error:
                if time.monotonic() + pause_s > until:
                    words = f"The console does not answer: {error}"
                    raise self._enter_safe_mode(words) from error
            else:
                if not _is_busy(answer) or time.monotonic() + pause_s > until:
                    return answer
                told = answer.headers.get("retry-after", "")
                pause_s = max(pause_s, min(float(told), _LONGEST_PAUSE_S) if told.isdigit() else 0.0)
            yield Pause(pause_s * random.uniform(0.7, 1.3))  # noqa: S311  # spreads retries, guards nothing
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _enter_safe_mode(self, words: str) -> SafeMode:
        self._token, self._safe_words = "", words
        self._safe_until = time.monotonic() + SAFE_MODE_S
        return SafeMode(words, retry_after_s=SAFE_MODE_S)


def _is_busy(answer: Answer) -> bool:
    """Whether the same request may fare better later; what the console says of it goes first."""
    said = answer.body.get("retriable")
    if isinstance(said, bool) and answer.status >= HTTPStatus.BAD_REQUEST:
        return said
    return answer.status in _BUSY


def _end_of(events: list[Event], heard: Result) -> Result | None:
    """The result that these events end a flow with; the last outcome counts: a receipt can come late."""
    of_type = {event.event_type: event.data for event in events}
    if (told := of_type.get("EXECUTION_OUTCOME")) is not None:
        return replace(
            heard,
            status=Status(told["status"]),
            effect=told.get("effect"),
            receipt=told.get("receipt"),
            reason=told.get("error_category"),
            raw=told,
        )
    if (told := of_type.get("FLOW_ABORTED")) is not None:
        return replace(
            heard, status=Status.ABORTED, effect="NOT_HAPPENED", reason=told.get("reason"), raw=told
        )
    if (told := of_type.get("FLOW_CLOSED")) is not None:
        # A flow that its agent closes says why in `detail`.
        status = Status.CLOSED if told.get("detail") else Status.PERMITTED
        return replace(heard, status=status, reason=told.get("reason") or None, raw=told)
    return None

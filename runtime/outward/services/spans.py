"""What happened in a flow, as spans of a trace: the flow, the gate, the waits for a person, the calls.

Pure. A span is known by its start and its end, both entries of the flow. Its ids follow from the flow and
from what it is, so a span that is sent again is the same span.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from audit import traces
from audit.events import Kind
from audit.traces import Trace
from runtime.contracts.receiver import FlowEntry
from runtime.contracts.states import ENDED, AttemptState, FlowState

Value = str | int | Sequence[str]
# The kinds of entries that can end a span.
ENDING: Final = frozenset(
    {
        Kind.FLOW_MOVED,
        Kind.VERDICT_GIVEN,
        Kind.ESCALATION_DECIDED,
        Kind.ESCALATION_EXPIRED,
        Kind.ESCALATION_WITHDRAWN,
        Kind.ATTEMPT_FINISHED,
        Kind.INTENT_IN_DOUBT,
        Kind.INTENT_HELD,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span of OpenTelemetry. `trace_id` has 32 hexadecimal digits, `span_id` and `parent_id` have 16.

    `parent_id` is empty where there is none. `ended_by` is the number of the entry that ends it. `error` is
    a code, empty where nothing went wrong. `is_call` is a request to a target.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: datetime
    end: datetime
    ended_by: int
    attributes: Mapping[str, Value]
    error: str = ""
    is_call: bool = False


@dataclass(slots=True)
class _Begun:
    """A span that has not ended."""

    what: str
    name: str
    start: datetime
    attributes: dict[str, Value]
    is_call: bool = False


@dataclass(slots=True)
class _Flow:
    """A flow as far as its entries have been read."""

    dfid: str
    trace: Trace
    root: _Begun | None = None
    gates: dict[str, _Begun] = field(default_factory=dict)
    waits: dict[str, _Begun] = field(default_factory=dict)
    calls: dict[tuple[str, int], _Begun] = field(default_factory=dict)

    def span_id(self, what: str) -> str:
        return hashlib.sha256(f"{self.dfid}:{what}".encode()).hexdigest()[:16]

    def ended(self, begun: _Begun, by: FlowEntry, said: Mapping[str, Value], error: str = "") -> Span:
        return Span(
            trace_id=self.trace.trace_id,
            span_id=self.span_id(begun.what),
            parent_id=self.trace.span_id if begun is self.root else self.span_id("flow"),
            name=begun.name,
            start=begun.start,
            end=by.at,
            ended_by=by.seq,
            attributes={"dir.dfid": self.dfid, **begun.attributes, **said},
            error=error,
            is_call=begun.is_call,
        )


def of_flow(dfid: str, entries: Sequence[FlowEntry]) -> list[Span]:
    """The spans that have ended, in the order of their ends. `entries` are the flow's, from the first on."""
    flow = _Flow(dfid=dfid, trace=traces.of_flow(dfid, {}))
    return [span for entry in entries for span in _read(flow, entry)]


def of_test(digits: str, at: datetime) -> Span:
    """A span of no flow, to try a receiver; `digits` are 48 hexadecimal ones or more."""
    return Span(
        trace_id=digits[:32],
        span_id=digits[32:48],
        parent_id="",
        name="receiver:test",
        start=at,
        end=at,
        ended_by=0,
        attributes={},
    )


def _read(flow: _Flow, entry: FlowEntry) -> Iterator[Span]:
    said = entry.payload
    match entry.kind:
        case Kind.FLOW_OPENED:
            _open(flow, entry)
        case Kind.FLOW_MOVED if said["to_state"] in ENDED and (root := flow.root) is not None:
            state = {"dir.flow.state": said["to_state"], "dir.flow.reason": said["reason"]}
            error = (said["reason"] or said["to_state"]) if said["to_state"] == FlowState.ABORTED else ""
            yield flow.ended(root, entry, state, error)
            flow.root = None
        case Kind.PROPOSAL_SUBMITTED:
            about = {"dir.proposal_id": said["proposal_id"], "dir.policy_kind": said["policy_kind"]}
            flow.gates[said["proposal_id"]] = _Begun(f"gate:{said['proposal_id']}", "gate", entry.at, about)
        case Kind.VERDICT_GIVEN if (gate := flow.gates.pop(said["proposal_id"], None)) is not None:
            codes = [reason["code"] for reason in said["reasons"]]
            verdict = {"dir.verdict": said["verdict"], "dir.impact": said["impact"], "dir.reasons": codes}
            yield flow.ended(gate, entry, verdict)
        case Kind.ESCALATION_OPENED | Kind.ESCALATION_REOPENED:
            _wait(flow, entry)
        case Kind.ESCALATION_DECIDED | Kind.ESCALATION_EXPIRED | Kind.ESCALATION_WITHDRAWN:
            if (wait := flow.waits.pop(said["escalation_id"], None)) is not None:
                result = said.get("action") or entry.kind.partition(":")[2].upper()
                yield flow.ended(wait, entry, {"dir.escalation.result": result})
        case Kind.ATTEMPT_STARTED:
            about = {
                "dir.intent_id": said["intent_id"],
                "dir.attempt": said["number"],
                "dir.step": said["step"],
                **{f"dir.{name}": said[name] for name in ("direction", "purpose") if said.get(name)},
            }
            key = (said["intent_id"], said["number"])
            flow.calls[key] = _Begun(f"attempt:{key[0]}:{key[1]}", "attempt", entry.at, about, is_call=True)
        case Kind.ATTEMPT_FINISHED | Kind.INTENT_IN_DOUBT:
            call = flow.calls.pop((said["intent_id"], said["number"]), None)
            if call is not None:
                yield flow.ended(call, entry, *_result(said))
        case Kind.INTENT_HELD:
            yield from _hold(flow, entry)
        case _:
            pass


def _open(flow: _Flow, entry: FlowEntry) -> None:
    said = entry.payload
    flow.trace = traces.of_flow(flow.dfid, said)
    about: dict[str, Value] = {"gen_ai.agent.id": said["agent_id"]}
    if said.get("parent_dfid"):
        about["dir.parent_dfid"] = said["parent_dfid"]
    flow.root = _Begun("flow", "flow", entry.at, about)


def _wait(flow: _Flow, entry: FlowEntry) -> None:
    """A person is asked, for the first time or again after a decision was taken back."""
    said = entry.payload
    about = {"dir.escalation_id": said["escalation_id"]} | {
        f"dir.escalation.{name}": said[name] for name in ("family", "reason", "impact") if said.get(name)
    }
    what = f"escalation:{said['escalation_id']}:{entry.seq}"
    flow.waits[said["escalation_id"]] = _Begun(what, "escalation wait", entry.at, about)


def _hold(flow: _Flow, entry: FlowEntry) -> Iterator[Span]:
    """The call that was about to be made was not made; those of an intent are made one at a time."""
    said = entry.payload
    for key in [key for key in flow.calls if key[0] == said["intent_id"]]:
        held = {"dir.result": AttemptState.HELD.value, "dir.held": said["why"]}
        yield flow.ended(flow.calls.pop(key), entry, held)


def _result(said: Mapping[str, Any]) -> tuple[dict[str, Value], str]:
    """What came of a call, and the code of what went wrong. A call that is in doubt has no result."""
    result = said.get("result") or AttemptState.UNKNOWN.value
    about: dict[str, Value] = {"dir.result": result}
    if said.get("status_code") is not None:
        about["http.response.status_code"] = said["status_code"]
    error = "" if result == AttemptState.SUCCEEDED else (said.get("error_category") or result)
    if error:
        about["error.type"] = error
    return about, error

"""What a flow's entries record of the columns of its intents and their calls that change on the way.

Those columns decide which call is made, until when, and against which limits. So each is followed through the
entries, and the row is compared with what comes out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit import canonical, cells
from audit.chain import time_text
from audit.events import Kind
from runtime.contracts.policy_kind import RouteAction
from runtime.contracts.states import AttemptState, Direction, FlowState, IntentState, OutcomeStatus, Purpose
from runtime.flows.models import Attempt, Intent, Outcome

# What an intent becomes by the outcome that is recorded of it.
ENDED_BY = {
    OutcomeStatus.SUCCEEDED: IntentState.DONE,
    OutcomeStatus.FAILED: IntentState.FAILED,
    OutcomeStatus.EXPIRED: IntentState.EXPIRED,
    OutcomeStatus.CANCELLED: IntentState.CANCELLED,
    OutcomeStatus.COMPENSATED: IntentState.FAILED,
}
# Entries of older versions do not record everything: what none records is not compared.
NOT_STATED = None
_NO_STEP = -1
_CAUSE_CHARS, _CATEGORY_CHARS = 64, 32
_OPEN = "OPEN"
_OPEN_STATES = (AttemptState.STARTED, AttemptState.AWAITING, AttemptState.HELD)
_UNSETTLED = {"effect": "", "settled_by": "", "contradicts": ""}
_NOTHING_LIFTED = canonical.digest(b"[]")
_NOTHING_TO_UNDO = canonical.digest(b"")


@dataclass(kw_only=True, slots=True)
class IntentRecord:
    """One intent as its entries describe it: `columns` by name, each in the form that `stored` gives it.

    `calls` holds the columns of its attempts by their numbers, as `stored_call` gives them; `finished` the
    positions that are done, and undone, each with its direction. `at_rest` is the state of an intent that no
    worker may take: it has ended, or is with a person; None while it waits for a call or is in one. `outcome`
    is what the entry about its outcome records, empty while there is none.
    """

    request_digest: str
    steps: Sequence[str]
    columns: dict[str, Any] = field(default_factory=dict)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finished: set[tuple[int, str]] = field(default_factory=set)
    at_rest: IntentState | None = None
    outcome: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows for it, whatever becomes of its flow."""
        return self.at_rest in ENDED_BY.values()


def follow(records: MutableMapping[str, IntentRecord], kind: str, payload: Mapping[str, Any]) -> None:
    """Take the next entry of a flow; `records` holds its intents by their ids."""
    if kind == Kind.INTENT_CREATED:
        # The first entry about an intent counts: another one that came later is no second chance.
        records.setdefault(payload["intent_id"], _created(payload))
    elif kind == Kind.FLOW_MOVED:
        for moved in records.values():
            _move_flow(moved, payload)
    elif kind in _TAKES and payload["intent_id"] in records:
        _TAKES[Kind(kind)](records[payload["intent_id"]], payload)


def stored(row: Intent) -> dict[str, Any]:
    """The compared columns of a row: a digest for bytes, text for a time."""
    return {
        "valid_until": time_text(row.valid_until),
        "not_before": "" if row.not_before is None else time_text(row.not_before),
        "undo": cells.digest_of(row.undo),
        "lifted": cells.digest_of(row.lifted),
        "position": row.position,
        "direction": row.direction,
        "purpose": row.purpose,
        "answered": row.answered,
        "attempts": row.attempts,
        "cause": row.cause,
        "cause_category": row.cause_category,
    }


def stored_call(row: Attempt) -> dict[str, Any]:
    """The compared columns of an attempt's row; no entry records whether one that has not ended is held."""
    return {
        "step": row.step,
        "direction": row.direction,
        "purpose": row.purpose,
        "target_key": row.target_key,
        "state": _OPEN if row.state in _OPEN_STATES else row.state,
        "effect": row.effect,
        "settled_by": row.settled_by,
        "contradicts": row.contradicts,
    }


def list_unlike_calls(record: IntentRecord, rows: Iterable[Attempt]) -> Iterator[tuple[int, str, Any, Any]]:
    """Each column of the attempts' rows that is not as recorded: number, name, recorded value, the row's.

    A row that is gone has no columns: its number comes with an empty name. A row that no entry is about is
    left out, since it frees nothing that was in doubt.
    """
    held = {row.number: stored_call(row) for row in rows}
    for number, columns in record.calls.items():
        if number not in held:
            yield number, "", "recorded", ""
            continue
        for name, recorded in columns.items():
            if recorded is not NOT_STATED and held[number][name] != recorded:
                yield number, name, recorded, held[number][name]


def place_of(record: IntentRecord, step: str) -> int:
    """The position of a step by its name; -1 for a name that the intent does not have."""
    # Where the requests could not be read, an entry has the number of the step.
    number = int(step) if step.isdecimal() else _NO_STEP
    return record.steps.index(step) if step in record.steps else number


def outcome_digest(row: Outcome) -> str:
    """The digest of what an outcome holds beside its status and its receipt."""
    return canonical.digest(outcome_bytes(row))


def outcome_bytes(row: Outcome) -> bytes:
    """The canonical bytes of what an outcome holds beside its status and its receipt."""
    return canonical.encode(
        {
            "error_category": row.error_category,
            "expected": cells.digest_of(row.expected),
            "deviations": cells.digest_of(row.deviations),
            "writes": cells.digest_of(row.writes),
            "attempts": row.attempts,
            "duration_ms": row.duration_ms,
            "recorded_by": row.recorded_by,
        }
    )


def list_unlike(record: IntentRecord, row: Intent) -> Iterator[tuple[str, Any, Any]]:
    """Each column of a row that is not as recorded: its name, the recorded value, and the row's."""
    held = stored(row)
    for name, recorded in record.columns.items():
        if recorded is not NOT_STATED and held[name] != recorded:
            yield name, recorded, held[name]


def _created(payload: Mapping[str, Any]) -> IntentRecord:
    return IntentRecord(
        request_digest=payload["request_digest"],
        steps=tuple(payload["step_ids"]),
        columns={
            "valid_until": payload["valid_until"],
            "not_before": "",
            "undo": _NOTHING_TO_UNDO,
            "lifted": _NOTHING_LIFTED,
            "position": 0,
            "direction": Direction.FORWARD.value,
            "purpose": Purpose.CALL.value,
            "answered": 0,
            "attempts": 0,
            "cause": "",
            "cause_category": "",
        },
    )


def _move_flow(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    """A flow that is escalated has a person asked about what it does; whatever follows ends that."""
    if record.has_ended:
        return
    if payload["to_state"] != FlowState.ESCALATED:
        record.at_rest = None
    elif record.at_rest is None:
        record.at_rest = IntentState.WITH_PERSON


def _doubt(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    record.at_rest = IntentState.IN_DOUBT


def _take_back(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    record.at_rest = IntentState.CANCELLED


def _end(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    record.at_rest = ENDED_BY[OutcomeStatus(payload["status"])]
    record.outcome = payload


def _resume(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    columns = record.columns
    columns["valid_until"] = payload.get("valid_until", NOT_STATED)
    if payload.get("lifted_digest") is not None or payload.get("lifted"):
        columns["lifted"] = payload.get("lifted_digest", NOT_STATED)
    columns["purpose"] = Purpose.CALL.value
    columns["answered"] = columns["attempts"]


def _delay(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    record.columns |= {"not_before": payload["not_before"], "undo": payload["undo_digest"]}


def _release(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    record.columns["undo"] = _NOTHING_TO_UNDO


def _return(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    record.columns |= {
        "valid_until": payload["valid_until"],
        "lifted": payload["lifted_digest"],
        "purpose": payload["purpose"],
        "answered": payload["answered"],
        "not_before": "",
        "undo": _NOTHING_TO_UNDO,
    }
    record.at_rest = IntentState(payload["state"])


def _start(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    record.columns["attempts"] = max(record.columns["attempts"], payload["number"])
    record.calls[payload["number"]] = {
        "step": payload["step"],
        "direction": payload.get("direction", NOT_STATED),
        "purpose": payload.get("purpose", NOT_STATED),
        "target_key": payload["target_key"],
        "state": _OPEN,
        **_UNSETTLED,
    }


def _await(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    record.at_rest = IntentState.AWAITING


def _finish(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    if record.at_rest is IntentState.AWAITING:
        record.at_rest = None
    if payload.get("next_at") is not None:
        record.columns["purpose"] = payload.get("next_purpose", NOT_STATED)
    call = record.calls.setdefault(payload["number"], {})
    call["state"] = payload["result"]
    # What was found out of older calls was not entered for each.
    call.update(_UNSETTLED if "next_purpose" in payload else dict.fromkeys(_UNSETTLED, NOT_STATED))


def _settle(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    settled = {
        "effect": payload["effect"],
        "settled_by": payload["by"],
        "contradicts": payload["contradicts"] or "",
    }
    for number in payload["numbers"]:
        record.calls.setdefault(number, {}).update(settled)


def _take_route(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    if payload["action"] == RouteAction.FALL_BACK:
        _move(record, payload["to_step"], Direction.FORWARD)


def _advance(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    if "valid_until" not in payload:
        # A person who marks a step as done extends the window, which older entries do not record.
        record.columns["valid_until"] = NOT_STATED
    elif payload["valid_until"] is not None:
        record.columns["valid_until"] = payload["valid_until"]
    record.finished.add((place_of(record, payload["step"]), payload["direction"]))
    if payload.get("next_step") is not None:
        _move(record, payload["next_step"], payload["direction"])


def _turn_back(record: IntentRecord, payload: Mapping[str, Any]) -> None:
    """What is done is named in the order of the steps, and the last of it is undone first."""
    _move(record, payload["done"][-1], Direction.COMPENSATE)
    record.columns["cause"] = payload["cause"][:_CAUSE_CHARS]
    category = payload.get("category", NOT_STATED)
    record.columns["cause_category"] = category if category is NOT_STATED else category[:_CATEGORY_CHARS]


def _move(record: IntentRecord, step: str, direction: str) -> None:
    record.columns |= {
        "position": place_of(record, step),
        "direction": str(direction),
        "purpose": Purpose.CALL.value,
    }


_TAKES: Mapping[Kind, Callable[[IntentRecord, Mapping[str, Any]], None]] = {
    Kind.INTENT_RESUMED: _resume,
    Kind.INTENT_IN_DOUBT: _doubt,
    Kind.INTENT_DELAYED: _delay,
    Kind.INTENT_RELEASED: _release,
    Kind.INTENT_RETURNED: _return,
    Kind.INTENT_CANCELLED: _take_back,
    Kind.INTENT_SUPERSEDED: _take_back,
    Kind.OUTCOME_RECORDED: _end,
    Kind.ATTEMPT_STARTED: _start,
    Kind.ATTEMPT_FINISHED: _finish,
    Kind.ATTEMPT_SETTLED: _settle,
    Kind.TASK_OPENED: _await,
    Kind.CALLBACK_AWAITED: _await,
    Kind.SAGA_ADVANCED: _advance,
    Kind.SAGA_DIRTIED: _turn_back,
    Kind.ROUTE_TAKEN: _take_route,
}
ENDS = (Kind.INTENT_CANCELLED, Kind.INTENT_SUPERSEDED, Kind.OUTCOME_RECORDED)
KINDS = frozenset({Kind.INTENT_CREATED, Kind.FLOW_MOVED, *_TAKES})

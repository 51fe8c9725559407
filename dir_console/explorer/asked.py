"""What the search of auditors is asked by its address. What cannot be read is named, and finds nothing."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from audit.entry_search import LEAST_OF_HASH
from audit.events import Kind
from audit.records import periods
from runtime.contracts import states
from runtime.core import id_search
from runtime.core.views import query_params

KEYS: Final[Mapping[str, str]] = {
    "dfid": "Flow id (DFID), any part",
    "agent": "Agent",
    "kind": "Policy kind",
    "state": "Flow state",
    "reason": "Reason code",
    "resource": "Resource",
    "subject": "Subject",
    "approver": "Approver",
    "trace": "Trace id",
    "record": "Record id",
    "escalation": "Escalation id, any part",
    "intent": "Intent id, any part",
    "proposal": "Proposal id, any part",
    "hash": "Hash or digest, its beginning",
    "context": "Context reference, its beginning",
    "stream": "Stream",
    "event": "Entry kind",
    "actor": "Actor",
    "from": "From, UTC",
    "to": "Before, UTC",
}
_IDS: Final = ("dfid", "escalation", "intent", "proposal")
_HASHES: Final = ("hash", "context")
_TIMES: Final = ("from", "to")
_LONGEST: Final = 200
_HEX: Final = re.compile(r"[0-9a-f]+", re.ASCII)
_TRACE_DIGITS: Final = 32
_HASH_DIGITS: Final = 64


@dataclass(frozen=True, kw_only=True)
class AskedKeys:
    """The keys as they were typed, as they are meant, and by key what is wrong with one."""

    typed: Mapping[str, str]
    values: Mapping[str, str]
    wrong: Mapping[str, str]
    since: datetime | None
    until: datetime | None

    @property
    def names(self) -> list[str]:
        """The keys that are given."""
        return [name for name in KEYS if self.values.get(name)]

    def value(self, name: str) -> str:
        """What a key is to be; empty where it is not given."""
        return self.values.get(name, "")


def read(given: Mapping[str, str]) -> AskedKeys:
    """Read the keys of an address."""
    typed = {name: query_params.text(given.get(name, ""), longest=_LONGEST) for name in KEYS}
    values: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for name, text in typed.items():
        if text and name not in _TIMES:
            read_one = _READERS.get(name, _plain)
            try:
                values[name] = read_one(text)
            except ValueError as error:
                wrong[name] = f"{KEYS[name].partition(',')[0]}: {error}"
    moments: dict[str, datetime | None] = dict.fromkeys(_TIMES)
    for name in _TIMES:
        if typed[name]:
            try:
                moments[name] = periods.moment(typed[name])
                values[name] = typed[name]
            except ValueError:
                wrong[name] = "A time is a date (2026-11-23) or a time in UTC (2026-11-23T14:00)."
    return AskedKeys(typed=typed, values=values, wrong=wrong, since=moments["from"], until=moments["to"])


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError("this holds characters that no name has.")
    return text


def _id(text: str) -> str:
    digits = id_search.digits_of(text)
    if not digits:
        raise ValueError("an id has hexadecimal digits and hyphens, as 019aa000-….")
    return digits


def _hash(text: str) -> str:
    digits = text.lower().removeprefix("sha256:")
    if not LEAST_OF_HASH <= len(digits) <= _HASH_DIGITS or not _HEX.fullmatch(digits):
        raise ValueError(f"give {LEAST_OF_HASH} to {_HASH_DIGITS} hexadecimal digits.")
    return digits


def _trace(text: str) -> str:
    digits = text.lower()
    if len(digits) != _TRACE_DIGITS or not _HEX.fullmatch(digits):
        raise ValueError(f"a trace id has {_TRACE_DIGITS} hexadecimal digits.")
    return digits


def _state(text: str) -> str:
    if text not in states.FlowState.values():
        raise ValueError(f"{text} is no state of a flow.")
    return text


def _event(text: str) -> str:
    if text not in set(Kind):
        raise ValueError(f"{text} is no kind of an entry.")
    return text


_READERS: Final[Mapping[str, Callable[[str], str]]] = {
    **dict.fromkeys(_IDS, _id),
    **dict.fromkeys(_HASHES, _hash),
    "trace": _trace,
    "state": _state,
    "event": _event,
}

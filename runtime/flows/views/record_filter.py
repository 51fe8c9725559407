"""What the page of records is asked by its address. What cannot be read is named, and finds nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from audit.assessments import Assessment
from audit.records import evaluators, fold, periods
from audit.records.queries import RecordFilter, Superseded
from audit.records.statuses import Status
from runtime.core.views import query_params

_TEXTS: Final = ("decision_key", "subject", "approver", "policy_decision", "trace_id", "agent_id", "outcome")
_CHOICES: Final[Mapping[str, frozenset[str]]] = {
    "status": frozenset(Status),
    "approval_mode": frozenset(fold.MODES),
    "scorecard": frozenset(evaluators.RESULTS),
    "failed_evaluator": frozenset(evaluators.NAMES),
    "superseded": frozenset(Superseded),
    "feedback": frozenset(Assessment),
}
FIELDS: Final = (*_TEXTS, *_CHOICES, "dfid", "from", "to")
_LONGEST: Final = 200
_WRONG_TIME: Final = "{} is neither a date (2026-11-23) nor a time in UTC (2026-11-23T14:00)."
_WRONG_FLOW: Final = "{} is not the id of a flow."


@dataclass(frozen=True, kw_only=True)
class AskedRecords:
    """The filter with what was typed for each field, and by field what is wrong with it."""

    wanted: RecordFilter
    typed: Mapping[str, str]
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether everything is asked for."""
        return not any(self.typed.values())


def read(given: Mapping[str, str]) -> AskedRecords:
    """Read the fields of an address."""
    typed = {name: query_params.text(given.get(name, ""), longest=_LONGEST) for name in FIELDS}
    wrong = {name: f"{name} cannot be searched for." for name in _TEXTS if not typed[name].isprintable()}
    for name, known in _CHOICES.items():
        if typed[name] and typed[name] not in known:
            wrong[name] = f"{typed[name]} is not a value of {name}."
    dfid = query_params.uuid(typed["dfid"])
    if typed["dfid"] and dfid is None:
        wrong["dfid"] = _WRONG_FLOW.format(typed["dfid"])
    since, until = (read_moment(typed, name, wrong) for name in ("from", "to"))
    if wrong:
        return AskedRecords(wanted=RecordFilter(), typed=typed, wrong=wrong)
    texts: dict[str, Any] = {name: typed[name] for name in (*_TEXTS, *_CHOICES)}
    superseded = Superseded(texts.pop("superseded"))
    wanted = RecordFilter(**texts, superseded=superseded, dfid=dfid, since=since, until=until)
    return AskedRecords(wanted=wanted, typed=typed)


def read_moment(typed: Mapping[str, str], name: str, wrong: dict[str, str]) -> datetime | None:
    """The time that was typed into a field; None, and what is wrong with it, where it is none."""
    if not typed[name]:
        return None
    try:
        return periods.moment(typed[name])
    except ValueError:
        wrong[name] = _WRONG_TIME.format(typed[name])
        return None

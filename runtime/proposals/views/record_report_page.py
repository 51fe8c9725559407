"""The page of a report on DecisionRecords: a form in its address, and the answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from runtime.core.views import query_params
from runtime.flows.views import record_filter, record_presenters
from runtime.kernel import units
from runtime.proposals.queries import record_reports
from runtime.registry.queries import agent_list

# As many as are replayed while somebody waits for a page; the audit API replays more.
MOST_REPLAYED: Final = 40
_FIELDS: Final = ("decision_key", "param", "over", "days", "from", "to")
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Report:
    """A report: its name in the address, its title, and what it answers."""

    name: str
    title: str
    words: str

    @property
    def template(self) -> str:
        """The part of the page with its form and its answer."""
        return f"audit/_report_{self.name}.html"


REPORTS: Final = (
    Report(
        "high_value_outcomes",
        "High-value outcomes",
        "What was decided about amounts above a value, by whom, and on which evidence.",
    ),
    Report("most_denials", "Most denials", "The rules that refused most proposals in the last days."),
    Report(
        "replay_health",
        "Replay health",
        "The share of the newest flows that replay equal, for each version of a policy kind.",
    ),
)


@dataclass(slots=True)
class AskedReport:
    """What was typed, what is wrong with it, and whether the form was sent at all."""

    typed: Mapping[str, str]
    is_sent: bool
    wrong: dict[str, str] = field(default_factory=dict)


@require_safe
@signed_in
def show(request: HttpRequest, name: str) -> HttpResponse:
    """Show one report."""
    report = next((each for each in REPORTS if each.name == name), None)
    if report is None:
        raise Http404
    given = request.GET or QueryDict(f"days={record_reports.DAYS_OF_DENIALS}")
    typed = {each: query_params.text(given.get(each, ""), longest=_LONGEST) for each in _FIELDS}
    asked = AskedReport(typed=typed, is_sent=bool(request.GET))
    tenant = tenant_of(request.user)
    context = {
        "report": report,
        "answer": _ANSWERS[name](tenant, asked),
        "asked": asked,
        "most_days": record_reports.MOST_DAYS,
        "most_replayed": MOST_REPLAYED,
        "kinds": [kind.kind for kind in agent_list.list_kinds(tenant=tenant)],
    }
    return render(request, "audit/record_report.html", context)


def _high_value_outcomes(tenant: str, asked: AskedReport) -> dict[str, Any] | None:
    typed, wrong = asked.typed, asked.wrong
    since, until = (record_filter.read_moment(typed, name, wrong) for name in ("from", "to"))
    over = units.number_in(typed["over"])
    if asked.is_sent and over is None:
        wrong["over"] = f"{typed['over'] or 'An empty field'} is not a number such as 250000 or 12.5."
    for name in ("decision_key", "param"):
        if asked.is_sent and not (typed[name] and typed[name].isprintable()):
            wrong[name] = f"{name} is missing."
    if wrong or not asked.is_sent or over is None:
        return None
    answer = record_reports.high_value_outcomes(
        tenant=tenant,
        decision_key=typed["decision_key"],
        param=typed["param"],
        over=over,
        since=since,
        until=until,
    )
    shown = record_presenters.outcomes(answer["outcomes"])
    return {**answer, "outcomes": shown}


def _most_denials(tenant: str, asked: AskedReport) -> dict[str, Any] | None:
    days = query_params.whole(asked.typed["days"])
    if days is None or not 1 <= days <= record_reports.MOST_DAYS:
        asked.wrong["days"] = (
            f"{asked.typed['days']} is not a number of days from 1 to {record_reports.MOST_DAYS}."
        )
        return None
    return record_reports.most_denials(tenant=tenant, days=days)


def _replay_health(tenant: str, asked: AskedReport) -> dict[str, Any] | None:
    since, until = (record_filter.read_moment(asked.typed, name, asked.wrong) for name in ("from", "to"))
    if asked.wrong or not asked.is_sent:
        return None
    answer = record_reports.replay_health(tenant=tenant, since=since, until=until, flows=MOST_REPLAYED)
    for spec in answer["decision_specs"]:
        rate = spec["replay_equal_rate"]
        spec["percent"] = "" if rate is None else f"{rate:.0%}"
    return answer


_ANSWERS: Final[Mapping[str, Callable[[str, AskedReport], dict[str, Any] | None]]] = {
    "high_value_outcomes": _high_value_outcomes,
    "most_denials": _most_denials,
    "replay_health": _replay_health,
}

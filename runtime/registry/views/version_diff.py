"""Changes of a new version, loosened ones first, and its dry run on stored proposals."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from runtime.contracts.states import Decision
from runtime.contracts.verdict import Finding
from runtime.core import ports
from runtime.core.views import labels
from runtime.kernel import units
from runtime.kernel.effects import visible
from runtime.kernel.version_diff import Change, VersionDifference
from runtime.proposals.queries.policy_dry_run import DryRunReport
from runtime.registry.models import Manifest, PolicyKind

# The order of importance for a person who activates a version.
ORDER = (
    Change.LOOSENED,
    Change.GRANTED,
    Change.UNKNOWN,
    Change.ADDED,
    Change.CHANGED,
    Change.REMOVED,
    Change.WITHDRAWN,
    Change.TIGHTENED,
)
MOST_SHOWN = 50
_MEANINGS: Mapping[Decision, str] = {
    Decision.ACCEPT: "would have run without a person",
    Decision.ESCALATE: "would have waited for a person",
    Decision.REJECT: "would have been refused",
}


Units = Mapping[str, str]


def changes(
    before: Manifest | PolicyKind | None, found: Sequence[VersionDifference], *, units: tuple[Units, Units]
) -> dict[str, Any]:
    """Return what a version changes compared to `before`: one row per field, and what to warn about.

    `units` are the units of amounts by their path, in the earlier version and in this one.
    """
    was, now = units
    loosened = (item.path for item in found if item.change is Change.LOOSENED)
    return {
        "before": before,
        "changes": [
            {
                "path": item.path,
                "badge": labels.badge(labels.CHANGES, item.change),
                "before": _text(item.before, was.get(item.path, "")),
                "after": _text(item.after, now.get(item.path, "")),
            }
            for item in sorted(found, key=lambda item: ORDER.index(item.change))
        ],
        "summary": summary(found),
        "loosened": list(dict.fromkeys(loosened)),
        "granted": [visible(str(item.after)) for item in found if item.change is Change.GRANTED],
    }


def _text(value: Any, unit: str) -> str:
    """Return a value on one line, an amount with its unit, an integer with separators; empty if none."""
    return "" if value is None else labels.amount_in(visible(labels.plain_value(value)), unit)


def summary(differences: Sequence[VersionDifference]) -> str:
    """Count the changes by direction: `2 loosened, 1 tightened`."""
    counts = ((change, sum(item.change is change for item in differences)) for change in ORDER)
    return ", ".join(f"{count} {change.value.lower()}" for change, count in counts if count)


def trial(report: DryRunReport) -> dict[str, Any]:
    """Return a dry run for the page: what it means for people, and the newest changed verdicts.

    `open` are escalations that wait for a person now, and which the version would have settled.
    """
    changed = len(report.changes)
    waiting = ports.list_open_escalations(
        proposals=[change.proposal_id for change in report.changes if change.was is Decision.ESCALATE]
    )
    noun = "verdict" if changed == 1 else "verdicts"
    return {
        "sentence": f"Would have changed {changed} {noun} of the last {report.looked_at}."
        if report.looked_at
        else "No proposals are stored yet, so there is nothing to evaluate.",
        "meanings": list(_meanings(report)),
        "open": [
            {
                "id": waiting[change.proposal_id],
                "effect": change.effect,
                "agent_id": change.agent_id,
                "now": labels.badge(labels.VERDICTS, change.now),
            }
            for change in report.changes
            if change.proposal_id in waiting
        ],
        "moves": [
            {
                "was": labels.badge(labels.VERDICTS, was),
                "now": labels.badge(labels.VERDICTS, now),
                "count": count,
            }
            for was, now, count in report.moves
        ],
        "rows": [
            {
                "dfid": change.dfid,
                "agent_id": change.agent_id,
                "at": change.at,
                "effect": change.effect,
                "was": labels.badge(labels.VERDICTS, change.was),
                "now": labels.badge(labels.VERDICTS, change.now),
                "was_reasons": _reasons(change.was_reasons),
                "now_reasons": _reasons(change.now_reasons),
            }
            for change in report.changes[:MOST_SHOWN]
        ],
        "more": max(0, changed - MOST_SHOWN),
        "other_reasons": report.other_reasons,
        "untold": [{"why": why, "count": count} for why, count in report.untold],
    }


def _meanings(report: DryRunReport) -> Iterator[str]:
    """Say what would have become of the changed proposals, with their amounts: one sentence per verdict."""
    for now, what in _MEANINGS.items():
        count = sum(change.now is now for change in report.changes)
        if count:
            written = [units.write(Decimal(amount), unit) for unit, amount in report.amounts_of(now).items()]
            who, together = ("1 proposal", "") if count == 1 else (f"{count} proposals", "together ")
            amounts = f", {together}{' and '.join(written)}," if written else ""
            yield f"{who}{amounts} {what}."


def _reasons(findings: Iterable[Finding]) -> list[dict[str, str]]:
    codes = dict.fromkeys((item.code, item.message) for item in findings)
    return [{"code": code, "message": message} for code, message in codes]

"""What a draft of a ruleset would have said of what was asked before, as people read it."""

from typing import Any, Final

from runtime.advice.queries import ruleset_trials
from runtime.advice.queries.ruleset_trials import Said
from runtime.contracts.ruleset import ProposedAction, RulesetDocument
from runtime.core.views import labels

MOST_SHOWN: Final = 50


def trial(tenant: str, draft: RulesetDocument) -> dict[str, Any]:
    """Return the trial of a draft on the newest outputs of its ruleset."""
    report = ruleset_trials.ask_again(tenant=tenant, draft=draft)
    changed = len(report.changes)
    return {
        "sentence": f"Would change {changed:,} of the last {report.looked_at:,}."
        if report.looked_at
        else "Nobody has asked this ruleset yet, so there is nothing to ask again.",
        "is_cut": report.is_cut,
        "untold": [{"why": why, "count": count} for why, count in report.untold],
        "rows": [
            {
                "dfid": change.dfid,
                "agent_id": change.agent_id,
                "at": change.at,
                "was": _words(change.was, besides=change.now),
                "now": _words(change.now, besides=change.was),
            }
            for change in report.changes[:MOST_SHOWN]
        ],
        "more": max(0, changed - MOST_SHOWN),
    }


def words_of(action: ProposedAction) -> str:
    """An action with its parameters on one line."""
    params = ", ".join(f"{name} {labels.plain_value(value)}" for name, value in action.params.items())
    return f"{action.action}: {params}" if params else action.action


def _words(said: Said, *, besides: Said) -> list[str]:
    """What was said, as far as the other says something else."""
    words = [said.status] if said.status != besides.status else []
    words += [
        f"{aspect}: {'; '.join(words_of(action) for action in actions)}"
        for aspect, actions in said.decided
        if (aspect, actions) not in besides.decided
    ]
    words += [f"{aspect}: undecided" for aspect, _ in besides.decided if aspect not in dict(said.decided)]
    words += [f"guardrail {name}" for name in said.guardrails if name not in besides.guardrails]
    return words

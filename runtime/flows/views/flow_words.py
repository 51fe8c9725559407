"""What came of a flow, in words, for the lists that name it by its effect."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from runtime.contracts import states
from runtime.contracts.verdict import Segment
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.flows.queries import flow_summaries
from runtime.flows.queries.intent_records import IntentRecord

# An intent without an outcome, by the state in which no worker may take it.
AT_REST: Mapping[str, Badge] = {
    states.IntentState.IN_DOUBT: Badge("warn", "ask", "In doubt"),
    states.IntentState.AWAITING: Badge("info", "user", "Awaiting an answer"),
    states.IntentState.WITH_PERSON: Badge("warn", "refer", "With a person"),
    states.IntentState.CANCELLED: labels.OUTCOMES[states.OutcomeStatus.CANCELLED],
}
UNDER_WAY = Badge("info", "bolt", "Under way")


@dataclass(frozen=True, slots=True)
class FlowWords:
    """A flow's effect sentence and its end; `untrusted`: the stored effect does not match the ledger.

    `erased`: there is none, since the words of the flow were erased.
    """

    effect: Sequence[Segment]
    untrusted: bool
    erased: bool
    ended: Badge


def ended(intent: IntentRecord) -> Badge:
    """The outcome of an intent, or where it stands without one."""
    status = intent.outcome.get("status")
    if status is not None:
        return labels.badge(labels.OUTCOMES, status)
    return UNDER_WAY if intent.at_rest is None else labels.badge(AT_REST, intent.at_rest)


def of_flows(*, tenant: str, dfids: Collection[UUID]) -> dict[UUID, FlowWords]:
    """The words of each flow that has a verdict; without an intent, the verdict is its end so far."""
    found = flow_summaries.of_flows(tenant=tenant, dfids=dfids)
    return {
        dfid: FlowWords(
            effect=summary.effect,
            untrusted=summary.is_untrusted,
            erased=summary.is_erased,
            ended=labels.badge(labels.VERDICTS, summary.verdict)
            if summary.intent is None
            else ended(summary.intent),
        )
        for dfid, summary in found.items()
    }

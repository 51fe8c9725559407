"""What was predicted of an intent beside what became of it: recorded from receipts, else the live value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from audit import canonical
from runtime.contracts.outcome import FactChange
from runtime.contracts.states import OutcomeStatus
from runtime.contracts.verdict import Difference
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.flows.models import Intent
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.kernel import effects, predicted
from runtime.kernel.predicted import Compared, Standing
from runtime.state.models import Version
from runtime.state.queries import visible_facts

STANDINGS: Mapping[Standing, Badge] = {
    Standing.AS_PREDICTED: Badge("ok", "check", "As predicted"),
    Standing.SAME_CHANGE: Badge(
        "info",
        "check",
        "Same change, different start",
        "It changed by the predicted amount, from a different value",
    ),
    Standing.DEVIATES: Badge("warn", "high", "Deviates"),
    Standing.NOT_OBSERVED: Badge("idle", "ask", "Not observed", "No step wrote this fact"),
}
NOT_YET = Badge("idle", "clock", "Not yet known", "No outcome is recorded yet")
LONGEST_SOURCE = 22


@dataclass(frozen=True, slots=True)
class EffectView:
    """A predicted fact beside the written one; `before` and `after` are empty if no step wrote it.

    `source`, `version` and `at` tell who wrote the shown value when. `live` is the current value, empty if a
    step wrote the fact: it is no observation of the effect, and others may have changed it since. `signed` is
    what a person was shown as predicted, if something else was predicted at the acceptance.
    """

    fact: str
    current: str
    proposed: str
    before: str
    after: str
    badge: Badge
    source: str = ""
    version: int | None = None
    at: datetime | None = None
    live: str = ""
    signed: str = ""


def of_intent(intent: Intent, units: Mapping[str, str]) -> list[EffectView]:
    """Return every fact that the intent was predicted to change; nothing of one that ended without effect.

    `units` are those of the facts by path. The caller has compared intent and outcome with the ledger.
    """
    outcome = getattr(intent, "outcome", None)
    if outcome is None:
        compared = predicted.compare(expected=IntentPlan.of(intent).expected, written=())
        return [_view(item, units, badge=NOT_YET) for item in compared]
    written = [FactChange.model_validate(item) for item in canonical.decode(bytes(outcome.writes))]
    if outcome.status != OutcomeStatus.SUCCEEDED and not written:
        return []
    compared = predicted.compare(expected=canonical.decode(bytes(outcome.expected)), written=written)
    last = {change.fact: change.version for change in written}
    unseen = [item.fact for item in compared if item.fact not in last]
    versions = visible_facts.list_named(tenant=intent.tenant, versions=last) if last else {}
    current = visible_facts.list_current(tenant=intent.tenant, paths=unseen) if unseen else {}
    return [
        _view(
            item,
            units,
            badge=STANDINGS[item.standing],
            source=versions.get(item.fact) or current.get(item.fact),
            is_live=item.fact in current,
        )
        for item in compared
    ]


def beside_signed(
    shown: Sequence[EffectView], signed: Sequence[Difference], units: Mapping[str, str]
) -> list[EffectView]:
    """Add what a person was shown as predicted, where facts that moved since led to another prediction."""
    values = {effects.visible(item.fact): _figure(item.proposed, units.get(item.fact, "")) for item in signed}
    return [
        replace(item, signed=value) if (value := values.get(item.fact, "")) != item.proposed else item
        for item in shown
    ]


def _view(
    item: Compared,
    units: Mapping[str, str],
    *,
    badge: Badge,
    source: Version | None = None,
    is_live: bool = False,
) -> EffectView:
    is_written = item.standing is not Standing.NOT_OBSERVED
    unit = units.get(item.fact, "")
    return EffectView(
        fact=effects.visible(item.fact),
        current=_figure(item.current, unit),
        proposed=_figure(item.proposed, unit),
        before=_figure(item.before, unit) if is_written else "",
        after=_figure(item.after, unit) if is_written else "",
        badge=badge,
        source="" if source is None else _source(source.writer),
        version=None if source is None else source.version,
        at=None if source is None else source.written_at,
        live=_stored(source, unit) if source is not None and is_live else "",
    )


def _source(writer: str) -> str:
    """Name the writer of a fact; the steps of an intent write what they take from a receipt."""
    kind, _, _ = writer.partition(":")
    return "receipt" if kind == "intent" else effects.shorten(effects.visible(writer), LONGEST_SOURCE)


def _stored(source: Version, unit: str) -> str:
    return effects.visible(labels.amount_in(labels.stored_value(source.value), unit))


def _figure(value: Any, unit: str) -> str:
    return effects.visible(labels.amount_in(labels.plain_value(value), unit))

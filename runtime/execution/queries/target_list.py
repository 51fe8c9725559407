"""Targets with their circuits and what waits for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, F

from audit import actors
from audit.models import LedgerEntry
from runtime.contracts.states import LIVE_INTENTS, CallbackState, IntentState
from runtime.execution.models import Circuit, TargetCallback
from runtime.flows.models import Intent
from runtime.registry.models import Target
from runtime.registry.queries import recorded_targets, target_endpoints
from runtime.registry.queries.target_endpoints import TargetEndpoint

PAGE = 200


@dataclass(frozen=True, kw_only=True)
class TargetRow:
    """A target: `place` is where calls go; `waiting` counts live intents by their state.

    `is_whole`: its row is what was configured last. Where it is not, nothing is called there, and `place` has
    its address alone.
    """

    target: Target
    place: TargetEndpoint
    moved: bool
    is_whole: bool
    circuit: Circuit | None
    waiting: Mapping[str, int]


def list_targets(*, tenant: str) -> Sequence[TargetRow]:
    """Every target by name, at most PAGE."""
    circuits = {row.target: row for row in Circuit.objects.of(tenant)}
    intents = Intent.objects.of(tenant).filter(state__in=LIVE_INTENTS).values_list("target", "state")
    waiting: dict[str, dict[str, int]] = {}
    for target, state, number in intents.annotate(number=Count("pk")).order_by("target", "state"):
        waiting.setdefault(target, {})[state] = number
    configured = recorded_targets.list_configured(tenant=tenant)
    found = []
    for row in Target.objects.of(tenant).order_by("name")[:PAGE]:
        is_whole = recorded_targets.compare_target(row, configured.get(row.name)) is None
        place = target_endpoints.place_of(row) if is_whole else TargetEndpoint(base_url=row.base_url)
        found.append(
            TargetRow(
                target=row,
                place=place,
                is_whole=is_whole,
                moved=place.base_url != row.base_url,
                circuit=circuits.get(row.name),
                waiting=waiting.get(row.name, {}),
            )
        )
    return found


def list_awaited(*, tenant: str) -> Sequence[TargetCallback]:
    """Calls that targets have taken on, the next deadline first, at most PAGE; each with its intent."""
    rows = TargetCallback.objects.of(tenant).filter(
        state=CallbackState.OPEN, intent__state=IntentState.AWAITING, intent__attempts=F("number")
    )
    return list(rows.select_related("intent").order_by("deadline_at", "pk")[:PAGE])


def get_target(*, tenant: str, name: str) -> Target | None:
    """The target of a name. PostgreSQL cannot even compare a text that has a NUL."""
    return None if "\x00" in name else Target.objects.of(tenant).filter(name=name).first()


def list_newest(*, tenant: str, names: Sequence[str]) -> Sequence[LedgerEntry]:
    """The newest entries of the targets' own streams, newest first."""
    streams = [actors.target(name) for name in names]
    rows = LedgerEntry.objects.filter(tenant=tenant, stream__in=streams)
    return list(rows.order_by("-id")[:20])

"""The tour on the overview: what a proposal passes on its way, in four stations with counts of today."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from audit.access.permissions import signed_in
from escalations import queries
from escalations.models import Escalation
from escalations.queue_filter import QueueFilter
from runtime.contracts import states
from runtime.flows.queries import activity
from runtime.registry.queries import tour as preference
from runtime.registry.services import tour as preferences


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A part of the way: its counts, each with its word, and the page on which to see it."""

    title: str
    counts: Sequence[tuple[str, str]]
    words: str
    url_name: str
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """The stations in their order, and the escalation to begin with, if one is open."""

    stations: Sequence[Station]
    first: UUID | None


def stations(*, tenant: str, user_pk: int, now: datetime, active: int, waiting: int) -> Tour | None:
    """The tour with its counts; None for a person who has put it away.

    How many agents are `active` and how many escalations are `waiting` is known to the overview already.
    """
    if preference.is_hidden(user_pk=user_pk):
        return None
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    verdicts = activity.count_verdicts_since(tenant=tenant, since=midnight)
    # On a busy day only the newest are counted, which a plus sign says.
    more = "+" if sum(verdicts.values()) >= activity.MOST_COUNTED else ""
    receipts = activity.count_receipts_since(tenant=tenant, since=midnight)
    return Tour(
        stations=(
            Station(
                title="Agent",
                counts=[(str(active), "active")],
                words="An agent proposes an action and says why. It performs nothing itself.",
                url_name="agents",
                link="Agents",
            ),
            Station(
                title="Gate",
                counts=[(f"{verdicts[decision]}{more}", decision) for decision in states.Decision.values()],
                words="The gate judges each proposal by manifest, limits, rules and facts. It asks no model.",
                url_name="flows",
                link="Flows",
            ),
            Station(
                title="You",
                counts=[(str(waiting), "open")],
                words="What the gate does not decide alone waits for a person, with the evidence frozen.",
                url_name="escalations",
                link="Escalations",
            ),
            Station(
                title="Receipt",
                counts=[
                    (f"{receipts}{'+' if receipts >= activity.MOST_COUNTED else ''}", "executed with receipt")
                ],
                words="What was accepted is called once, and the target's receipt is kept in the ledger.",
                url_name="ledger",
                link="Ledger",
            ),
        ),
        first=_first_to_decide(tenant),
    )


def _first_to_decide(tenant: str) -> UUID | None:
    """The open decision that is due next, one of high impact where there is one; else any open item."""
    for wanted in (QueueFilter(impact=states.Impact.HIGH_IMPACT), QueueFilter()):
        rows: Sequence[Escalation] = queries.list_decisions(
            tenant=tenant, wanted=wanted, after=None, size=1
        ).rows or queries.list_operational(tenant=tenant, wanted=wanted)
        if rows:
            return rows[0].escalation_id
    return None


@require_POST
@signed_in
def hide(request: HttpRequest) -> HttpResponse:
    """Put the tour away for this person, in every browser."""
    if isinstance(request.user, User):
        preferences.hide(user=request.user)
    messages.info(request, "The tour is hidden. You can show it again from Help.")
    return redirect("overview")


@require_POST
@signed_in
def show(request: HttpRequest) -> HttpResponse:
    """Show the tour to this person again."""
    if isinstance(request.user, User):
        preferences.show(user=request.user)
    return redirect("overview")

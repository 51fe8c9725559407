"""The page of an escalation whose flow was erased: what its entries still say of each decision."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from audit import erasures
from audit.events import Kind
from audit.models import LedgerEntry
from escalations import presenters
from escalations.models import Escalation
from runtime.core.views import labels
from runtime.flows.views import erased_words
from runtime.registry.queries import people

_DECIDED = (Kind.ESCALATION_DECIDED, Kind.ESCALATION_FIRST_DECIDED)


def answer(request: HttpRequest, escalation: Escalation, *, status: int = 200) -> HttpResponse | None:
    """The page; None for an escalation whose words are there."""
    erased = erased_words.find(escalation.flow)
    if erased is None:
        return None
    context = {"escalation": escalation, "erased": erased, "decisions": _decisions(escalation)}
    return render(request, "escalations/erased.html", context, status=status)


def _decisions(escalation: Escalation) -> list[dict[str, Any]]:
    erasure = erasures.find(tenant=escalation.tenant, dfid=escalation.flow_id)
    attested = {} if erasure is None else erasure.statements
    rows = LedgerEntry.objects.filter(
        tenant=escalation.tenant, stream=str(escalation.flow_id), kind__in=_DECIDED
    )
    told = [(row, row.payload) for row in rows.order_by("seq")]
    names = people.names_of([row.actor for row, _ in told])
    return [
        {
            "seq": row.seq,
            "at": row.at,
            "who": labels.actor_words(row.actor, names),
            # The entry of a first decision does not say what was chosen.
            "action": labels.badge(presenters.RESOLUTIONS, said["action"]) if "action" in said else None,
            "evidence_hash": said["evidence_hash"],
            "statement_digest": said["statement_digest"],
            "attested_by": attested.get(said["statement_digest"], ("", ""))[1],
        }
        for row, said in told
        if said["escalation_id"] == str(escalation.pk)
    ]

"""What pages say of a flow whose words were erased: when, by whom and why, as its entry records it."""

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from audit import erasures
from runtime.core.views import labels
from runtime.flows.models import Flow
from runtime.registry.queries import people


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedView:
    """The last erasure of a flow: how many cells it emptied, and how many unsalted digests stay."""

    dfid: str
    at: datetime
    who: str
    reason: str
    cells: int
    guessable: int


def find(flow: Flow) -> ErasedView | None:
    """The erasure of a flow; None where its words are there, and where no entry tells of one."""
    if flow.erased_at is None:
        return None
    erasure = erasures.find(tenant=flow.tenant, dfid=flow.pk)
    if erasure is None:
        return None
    return ErasedView(
        dfid=str(flow.pk),
        at=erasure.at,
        who=labels.actor_words(erasure.actor, people.names_of([erasure.actor])),
        reason=labels.visible_lines(erasure.reason),
        cells=erasure.cells + erasure.payloads,
        guessable=erasure.guessable,
    )


def page(request: HttpRequest, erased: ErasedView, *, what: str) -> HttpResponse:
    """The page of something that was erased with its flow; `what` names it, such as `context`."""
    return render(request, "runtime/erased.html", {"erased": erased, "what": what})

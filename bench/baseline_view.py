"""A bare Django view: it inserts the rows of one accepted proposal in one transaction, and judges nothing.

The rows are copies of a proposal that the product itself took, so both write the same bytes to the same
tables under the same constraints. The flow row is inserted where the product updates one.
"""

import uuid
from functools import cache
from typing import Any

from django.db import models, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from audit.models import LedgerEntry, Payload
from runtime.core.ids import new_id
from runtime.core.models import Answer
from runtime.flows.models import Feedback, Intent
from runtime.registry.models import Bundle


@cache
def _pattern() -> dict[str, Any]:
    """The rows that one accepted proposal left behind."""
    intent = Intent.objects.select_related("proposal__verdict__bundle", "flow").order_by("created_at")[0]
    flow = intent.flow
    # Opening the flow and compiling its context wrote three entries; the proposal wrote the rest.
    entries = list(LedgerEntry.objects.filter(stream=str(flow.dfid)).order_by("seq"))
    return {
        "flow": flow,
        "proposal": intent.proposal,
        "verdict": intent.proposal.verdict,
        "bundle": intent.proposal.verdict.bundle,
        "intent": intent,
        "feedback": list(Feedback.objects.filter(flow=flow)),
        "entries": [entry for entry in entries if entry.kind not in {"flow:opened", "context:compiled"}][1:],
        "payload": Payload.objects.order_by("-pk")[0],
        "answer": Answer.objects.order_by("pk")[0],
    }


def insert(request: HttpRequest) -> JsonResponse:
    """Insert the copies; answer with the new DFID."""
    pattern, dfid = _pattern(), new_id()
    with transaction.atomic():
        flow = _copy(pattern["flow"], dfid=dfid)
        proposal = _copy(pattern["proposal"], proposal_id=new_id(), flow=flow)
        Bundle.objects.bulk_create([pattern["bundle"]], ignore_conflicts=True)
        _copy(pattern["verdict"], proposal=proposal)
        _copy(pattern["intent"], intent_id=new_id(), flow=flow, proposal=proposal)
        Feedback.objects.bulk_create([_unsaved(row, id=None, flow=flow) for row in pattern["feedback"]])
        LedgerEntry.objects.bulk_create(
            [_unsaved(row, id=None, stream=str(dfid)) for row in pattern["entries"]]
        )
        _copy(pattern["payload"], id=None, commitment=uuid.uuid4().hex * 2)
        _copy(pattern["answer"], id=None, key=str(dfid))
    return JsonResponse({"dfid": str(dfid)})


def _unsaved(row: models.Model, **changed: Any) -> Any:
    names = {field.name: field.attname for field in row._meta.concrete_fields}
    kept = {name: attname for name, attname in names.items() if name not in changed}
    return type(row)(**{attname: getattr(row, attname) for attname in kept.values()}, **changed)


def _copy(row: models.Model, **changed: Any) -> Any:
    made = _unsaved(row, **changed)
    made.save(force_insert=True)
    return made


urlpatterns = [path("bare", insert)]

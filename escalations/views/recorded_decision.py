"""The record of a decision on one page, to be printed, with all that checking it elsewhere needs."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import cells
from audit.access.permissions import signed_in, tenant_of
from audit.sealing import keys
from audit.verification import verify
from escalations import decision_search, notice_presenters, notice_queries, presenters, queries
from escalations.models import Escalation
from escalations.services import recorded_decisions
from escalations.services.recorded_decisions import RecordedDecision
from escalations.views import decision_export, decision_rows, erased_page
from runtime.core import clock
from runtime.core.views import labels
from runtime.flows.models import Intent
from runtime.flows.queries import recorded_flow
from runtime.proposals.views import proposal_presenters


@require_safe
@signed_in
def detail(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Show the decisions on one escalation; with `format=json` as a file, which has the evidence, too."""
    tenant = tenant_of(request.user)
    escalation = queries.get(tenant=tenant, escalation_id=escalation_id)
    if escalation is None:
        raise Http404
    if request.GET.get("format") != "json":
        erased = erased_page.answer(request, escalation)
        if erased is not None:
            return erased
    # Read rows and entries in one snapshot: concurrent writes of a worker are no mismatch.
    with verify.snapshot():
        decisions = decision_search.list_of_escalation(tenant=tenant, escalation_id=escalation.pk)
        records = recorded_decisions.check(tenant=tenant, decisions=decisions)
        if request.GET.get("format") == "json":
            return decision_export.with_evidence(records, {"escalation_id": str(escalation.pk)})
        shown = [_shown(escalation, record) for record in records]
    context = {
        "escalation": escalation,
        "ended": labels.badge(presenters.RESOLUTIONS, escalation.resolution or escalation.state),
        "records": shown,
        "notices": notice_presenters.notices(notice_queries.list_of_escalation(escalation=escalation)),
        "now": clock.now(),
        "address": request.build_absolute_uri(request.path),
    }
    return render(request, "escalations/recorded_decision.html", context)


def _shown(escalation: Escalation, record: RecordedDecision) -> dict[str, Any]:
    """The parts of one record; of one that does not match the ledger, only what differs."""
    evidence, row = record.evidence, record.decision
    if evidence is None:
        return {"untrusted": record.mismatches, "row": decision_rows.shown(record)}
    statement: Mapping[str, Any] = record.statement
    effect = statement.get("effect")
    return {
        "row": decision_rows.shown(record),
        "impact": labels.badge(labels.IMPACTS, evidence.impact),
        "findings": proposal_presenters.findings((*evidence.failing, *evidence.referred), evidence.amounts),
        "evidence_hash": row.evidence_hash,
        "in_force": statement.get("revision_in_force"),
        "conditions": [labels.visible_lines(labels.plain_value(item)) for item in statement["conditions"]],
        "effect_stated": None if effect is None else labels.badge(presenters.EFFECT_BADGES, effect),
        "statement": labels.visible_lines(bytes(row.statement).decode()),
        "statement_digest": cells.digest_of(row.statement),
        "signature": bytes(row.signature).hex(),
        "key_id": row.key_id,
        "public_key": keys.public_keys(tenant=escalation.tenant).get(row.key_id, ""),
        "entry": _entry(record),
        **_ran(escalation, record),
    }


def _entry(record: RecordedDecision) -> dict[str, Any] | None:
    entry = recorded_decisions.find_entry(record)
    return None if entry is None else {"seq": entry.seq, "hash": bytes(entry.hash).hex()}


def _ran(escalation: Escalation, record: RecordedDecision) -> dict[str, Any]:
    """What ran, from its rows; where they do not match the ledger, only what differs."""
    rows = Intent.objects.of(escalation.tenant).select_related("outcome", "flow")
    intent = rows.filter(pk=record.intent_id).first() if record.intent_id else None
    if intent is None:
        return {"ran": None}
    unlike = recorded_flow.of_flow(tenant=intent.tenant, dfid=intent.flow_id).list_unlike(intent)
    units = {} if record.evidence is None else record.evidence.amounts.facts
    return {"untrusted_ran": unlike} if unlike else {"ran": proposal_presenters.intent_shown(intent, units)}

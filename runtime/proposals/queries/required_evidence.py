"""When the evidence came that a policy kind requires: facts, reported steps and their labels, receipts."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Max, Q

from audit import queries
from audit.events import Kind
from runtime.contracts import timestamps
from runtime.contracts.policy_kind import EvidenceNeed, KindDocument
from runtime.contracts.states import OutcomeStatus
from runtime.flows.models import Flow, Outcome
from runtime.kernel import schemas
from runtime.kernel.rules import evaluate
from runtime.state.models import Fact


def get_evidence(*, flow: Flow, kind: KindDocument, params: dict[str, Any]) -> dict[str, int] | None:
    """The newest time of what there is of it, in Unix milliseconds, by `evaluate.evidence_key`.

    None where the kind requires none. Parameters that do not fit their schema name no fact.
    """
    if not kind.needs:
        return None
    found: dict[str, datetime] = {}
    if any(need.fact is not None for need in kind.needs) and schemas.fits(kind.params_schema, params):
        found |= _facts(flow, kind.needs, params)
    if any(need.step is not None or need.label is not None for need in kind.needs):
        found |= _steps(flow)
    receipts = {need.receipt for need in kind.needs if need.receipt is not None}
    if receipts:
        found |= _receipts(flow, receipts)
    asked = {evaluate.evidence_key(need, params) for need in kind.needs}
    return {key: timestamps.to_ms(at) for key, at in sorted(found.items()) if key in asked}


def _facts(flow: Flow, needs: Iterable[EvidenceNeed], params: dict[str, Any]) -> dict[str, datetime]:
    keys = {evaluate.evidence_key(need, params) for need in needs if need.fact is not None}
    paths = {key.partition(":")[2] for key in keys if key is not None}
    rows = Fact.objects.of(flow.tenant).filter(path__in=paths)
    return {f"fact:{path}": at for path, at in rows.values_list("path", "written_at")}


def _steps(flow: Flow) -> dict[str, datetime]:
    """Oldest first, so that the newest of each name stays."""
    dated = queries.list_dated(tenant=flow.tenant, stream=str(flow.pk), kinds=[Kind.STEP_REPORTED])
    found: dict[str, datetime] = {}
    for _, at, said in dated:
        found[f"step:{said['step_type']}"] = at
        found |= {f"label:{label}": at for label in said.get("source_labels", ())}
    return found


def _receipts(flow: Flow, kinds: Iterable[str]) -> dict[str, datetime]:
    family = flow.root_id or flow.pk
    rows = Outcome.objects.filter(
        Q(intent__flow=family) | Q(intent__flow__root=family),
        intent__proposal__policy_kind__in=list(kinds),
        status=OutcomeStatus.SUCCEEDED,
    )
    newest = rows.order_by().values_list("intent__proposal__policy_kind").annotate(Max("recorded_at"))
    return {f"receipt:{kind}": at for kind, at in newest}

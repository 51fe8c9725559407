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
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow, Outcome
from runtime.kernel import ontology, schemas
from runtime.kernel.rules import evaluate
from runtime.registry.queries import ontology_versions
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


def get_max_ages(*, flow: Flow, kind: KindDocument, params: dict[str, Any]) -> dict[str, int] | None:
    """How old required facts may be where the kind does not say: as the ontology declares, by `evidence_key`.

    None where the kind asks for none, or nothing is declared of them. Under an ontology that is not what was
    activated no age is small enough.
    """
    needs = [need for need in kind.needs if need.fact is not None and need.max_age_s is None]
    if not needs or not schemas.fits(kind.params_schema, params):
        return None
    declared = ontology_versions.find_in_force(tenant=flow.tenant)
    keys = sorted({evaluate.evidence_key(need, params) or "" for need in needs})
    if declared is None:
        return None
    if isinstance(declared, Mismatch):
        return dict.fromkeys(keys, 0)
    found = dict[str, int]()
    for key in keys:
        fact = ontology.find_type(declared, key.partition(":")[2])
        if fact is not None and fact.max_age_s is not None:
            found[key] = fact.max_age_s
    return dict(sorted(found.items())) or None


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

"""The bytes of a flow's rows for its evidence pack: from the contexts that it was shown to its outcomes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from audit import queries
from audit.events import Kind
from audit.packs import sources
from audit.packs.sources import Gathering, Objects
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.contexts.models import Snapshot
from runtime.execution.models import HumanTask
from runtime.flows.models import Intent, Outcome, Proposal, Verdict
from runtime.flows.queries import intent_records
from runtime.registry.models import Bundle

Payloads = Sequence[Mapping[str, Any]]
# What a proposal says, its verdict, its requests, its tasks and the gate's input repeat, and the trigger the
# input, too; the options that a recommendation was asked about may be the proposal, what it was made from has
# what others were asked and answered, and a statement has the answer of a task.
_REPEATED = (
    Kind.FLOW_OPENED,
    Kind.PROPOSAL_SUBMITTED,
    Kind.ATTEMPT_FINISHED,
    Kind.CONSULTATION_ASKED,
    Kind.CONSULTATION_ENDED,
    Kind.TASK_ANSWERED,
)
_REPEATING = (
    (Kind.PROPOSAL_SUBMITTED, "proposal_digest"),
    (Kind.VERDICT_GIVEN, "input_digest"),
    (Kind.VERDICT_GIVEN, "verdict_digest"),
    (Kind.INTENT_CREATED, "request_digest"),
    (Kind.RULES_EVALUATED, "input_digest"),
    (Kind.RULES_EVALUATED, "output_digest"),
    (Kind.DECISION_RECOMMENDED, "input_digest"),
    (Kind.DECISION_RECOMMENDED, "package_digest"),
    (Kind.TASK_OPENED, "task_hash"),
    (Kind.TASK_ANSWERED, "statement_digest"),
)
_KINDS = (
    *_REPEATED,
    Kind.CONTEXT_COMPILED,
    Kind.VERDICT_GIVEN,
    Kind.INTENT_CREATED,
    Kind.OUTCOME_RECORDED,
    Kind.RULES_EVALUATED,
    Kind.DECISION_RECOMMENDED,
    Kind.TASK_OPENED,
)


def of_flow(tenant: str, dfid: UUID) -> Objects:
    """What is stored of the digests that the flow's entries name (`settings.DIR_PACK_OBJECTS`)."""
    said: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in _KINDS}
    for kind, payload in queries.list_payloads(tenant=tenant, stream=str(dfid), kinds=_KINDS):
        said[kind].append(payload)
    gathered = Gathering()
    _gather_contexts(gathered, dfid, said[Kind.CONTEXT_COMPILED])
    _gather_proposals(gathered, dfid, said[Kind.PROPOSAL_SUBMITTED])
    _gather_verdicts(gathered, dfid, said[Kind.VERDICT_GIVEN])
    _gather_requests(gathered, dfid, said[Kind.INTENT_CREATED])
    _gather_outcomes(gathered, dfid, said[Kind.OUTCOME_RECORDED])
    _gather_advice(gathered, dfid, said)
    _gather_tasks(gathered, dfid, said)
    if sources.has_erased(tenant=tenant, payloads=[item for kind in _REPEATED for item in said[kind]]):
        for kind, name in _REPEATING:
            for payload in said[kind]:
                gathered.withhold(payload.get(name), sources.ERASED)
    return gathered.objects()


def _gather_contexts(gathered: Gathering, dfid: UUID, said: Payloads) -> None:
    rows = Snapshot.objects.filter(flow=dfid).values_list("context_ref", "body") if said else ()
    bodies = dict(rows)
    for payload in said:
        ref = payload.get("context_ref")
        gathered.take(ref, _cells(bodies, ref))


def _gather_proposals(gathered: Gathering, dfid: UUID, said: Payloads) -> None:
    rows = Proposal.objects.filter(flow=dfid).values_list("pk", "body") if said else ()
    bodies = {str(pk): body for pk, body in rows}
    for payload in said:
        gathered.take(payload.get("proposal_digest"), _cells(bodies, payload.get("proposal_id")))


def _gather_verdicts(gathered: Gathering, dfid: UUID, said: Payloads) -> None:
    rows = Verdict.objects.filter(proposal__flow=dfid).values_list("pk", "input", "body") if said else ()
    inputs, bodies = {}, {}
    for pk, given, body in rows:
        inputs[str(pk)], bodies[str(pk)] = given, body
    named = {str(payload.get("policy_bundle_hash")) for payload in said}
    bundles = dict(Bundle.objects.filter(pk__in=named).values_list("pk", "body")) if said else {}
    for payload in said:
        proposal = payload.get("proposal_id")
        gathered.take(payload.get("input_digest"), _cells(inputs, proposal))
        gathered.take(payload.get("verdict_digest"), _cells(bodies, proposal))
        rules = payload.get("policy_bundle_hash")
        gathered.take(rules, _cells(bundles, rules))


def _gather_requests(gathered: Gathering, dfid: UUID, said: Payloads) -> None:
    rows = Intent.objects.filter(flow=dfid).values_list("pk", "requests") if said else ()
    requests = {str(pk): held for pk, held in rows}
    for payload in said:
        gathered.take(payload.get("request_digest"), _cells(requests, payload.get("intent_id")))


def _gather_outcomes(gathered: Gathering, dfid: UUID, said: Payloads) -> None:
    rows: Iterable[Outcome] = Outcome.objects.filter(intent__flow=dfid) if said else ()
    # No row holds these bytes: they are made of its columns, as they were for the entry.
    held = {str(row.pk): intent_records.outcome_bytes(row) for row in rows}
    for payload in said:
        gathered.take(payload.get("outcome_digest"), _cells(held, payload.get("intent_id")))


def _gather_advice(gathered: Gathering, dfid: UUID, said: Mapping[Kind, Payloads]) -> None:
    asked, packaged = said[Kind.RULES_EVALUATED], said[Kind.DECISION_RECOMMENDED]
    outputs = RuleOutput.objects.select_related("ruleset").filter(flow=dfid) if asked else ()
    by_id = {str(row.pk): row for row in outputs}
    for payload in asked:
        row = by_id.get(str(payload.get("rule_output_id")))
        gathered.take(payload.get("input_digest"), [] if row is None else [row.input])
        gathered.take(payload.get("output_digest"), [] if row is None else [row.body])
        gathered.take(payload.get("ruleset_digest"), [] if row is None else [row.ruleset.body])
    packages = DecisionPackageRow.objects.filter(flow=dfid) if packaged else ()
    packages_by_id = {str(row.pk): row for row in packages}
    for payload in packaged:
        package = packages_by_id.get(str(payload.get("decision_id")))
        gathered.take(payload.get("input_digest"), [] if package is None else [package.input])
        gathered.take(payload.get("package_digest"), [] if package is None else [package.body])


def _gather_tasks(gathered: Gathering, dfid: UUID, said: Mapping[Kind, Payloads]) -> None:
    opened, answered = said[Kind.TASK_OPENED], said[Kind.TASK_ANSWERED]
    rows = (
        HumanTask.objects.filter(intent__flow=dfid).values_list("pk", "body", "statement") if opened else ()
    )
    shown, signed = {}, {}
    for pk, body, statement in rows:
        shown[str(pk)], signed[str(pk)] = body, statement
    for payload in opened:
        gathered.take(payload.get("task_hash"), _cells(shown, payload.get("task_id")))
    for payload in answered:
        gathered.take(payload.get("statement_digest"), _cells(signed, payload.get("task_id")))


def _cells(rows: Mapping[str, object], key: object) -> list[object]:
    return [rows[key]] if isinstance(key, str) and key in rows else []

"""The one bridge into the gate: everything `judge` may know, read in the transaction that will write.

Few round trips on purpose: world, history and snapshot are one query each, and most cases need two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from math import ceil
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Q, QuerySet

from audit import actors, canonical, statements
from runtime.advice.queries import packages
from runtime.contexts.models import Snapshot
from runtime.contracts import timestamps
from runtime.contracts.calibration import ConfidenceUse
from runtime.contracts.facts import (
    AgentFacts,
    ComputeFacts,
    DecisionFacts,
    Facts,
    FlowFacts,
    Lift,
    SnapshotFacts,
    ToolFacts,
)
from runtime.contracts.manifest import DEFAULT_RETRY_WINDOW_S, ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import AgentRole, AgentStatus, Decision
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow, Proposal
from runtime.kernel import budget_rules
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.rules import evaluate, kind_reads, safety, templates
from runtime.proposals.queries import required_evidence
from runtime.registry.models import Agent, PolicyKind
from runtime.registry.queries import (
    agent_labels,
    autonomy_levels,
    calibration_maps,
    granted_kinds,
    recorded_versions,
    ruleset_versions,
    stored_documents,
    tool_pins,
)
from runtime.registry.queries.autonomy_levels import RecordedLevel
from runtime.resources.models import Resource
from runtime.resources.queries import compute_left, resource_facts
from runtime.state.queries import visible_facts
from runtime.state.queries.visible_facts import LiveFacts
from runtime.workflows.queries import positions
from runtime.workflows.queries.positions import Standing

# The rules in force, and which of them were left out.
ComparedRules = tuple[PolicyBundle, tuple[Mismatch, ...]]


@dataclass(frozen=True, kw_only=True)
class AlreadyRead:
    """What the caller has read in the same transaction, under the same locks.

    `decision` is what `find_decision` has found. What else is None is read where it is needed: `world` is
    what `read_world` finds where nobody has set a condition, and `claimed` what `list_claimed` finds.
    """

    compared: ComparedRules | None = None
    level: RecordedLevel | None = None
    world: LiveFacts | None = None
    claimed: Sequence[Resource] | None = None
    decision: DecisionFacts | None = None


NOTHING_READ: Final = AlreadyRead()


def get_rules(*, agent: Agent, kind_name: str) -> PolicyBundle:
    """The active manifest and policy kind for a proposal; a missing part is None."""
    return compare_rules(agent=agent, kind_name=kind_name)[0]


def follow(compared: ComparedRules, followed: Standing | Mismatch | None) -> ComparedRules:
    """The rules with the workflow that the flow follows.

    Where it is not as it was registered, the manifest grants nothing: it could not be held to its workflow.
    """
    rules, mismatches = compared
    if followed is None:
        return compared
    if isinstance(followed, Mismatch):
        return rules.model_copy(update={"manifest": None}), (*mismatches, followed)
    return rules.model_copy(update={"workflow": followed.document}), mismatches


def compare_rules(
    *, agent: Agent, kind_name: str, kinds: Sequence[PolicyKind] | None = None
) -> ComparedRules:
    """The active rules, and which part of them differs from what the ledger recorded as activated.

    Such a part is None, as if it were missing: bytes that nobody has activated grant nothing. `kinds` are
    active kinds that were read before, the one of this name among them if there is one.
    """
    if kinds is None:
        kinds = granted_kinds.list_active(tenant=agent.tenant, names=frozenset({kind_name}))
    row = next((kind for kind in kinds if kind.kind == kind_name), None)
    manifest = granted_kinds.active_row(agent)
    wrong_kind = None if row is None else recorded_versions.compare_kind(row)
    wrong_manifest = None if manifest is None else recorded_versions.compare_manifest(agent, manifest)
    kind = None if row is None or wrong_kind else stored_documents.kind_of(bytes(row.body))
    rulesets, wrong_rulesets = ruleset_versions.compare_named(
        tenant=agent.tenant, names=() if kind is None else kind.rulesets
    )
    rules = PolicyBundle(
        manifest=None
        if manifest is None or wrong_manifest
        else stored_documents.manifest_of(bytes(manifest.body)),
        kind=kind,
        rulesets=rulesets,
    )
    rules, wrong_maps = _calibrated(agent, rules)
    wrong = (wrong_manifest, wrong_kind, *wrong_rulesets, *wrong_maps)
    return rules, tuple(one for one in wrong if one is not None)


def _calibrated(agent: Agent, rules: PolicyBundle) -> tuple[PolicyBundle, tuple[Mismatch, ...]]:
    """The rules with the active calibration maps, where the manifest asks for them; most ask no database.

    Where one is not what was activated, the manifest grants nothing: without it, more would be let through.
    """
    if rules.kind is None or not _asks_for_maps(rules.manifest):
        return rules, ()
    maps, wrong = calibration_maps.compare_active(agent=agent, kind_name=rules.kind.kind)
    if wrong:
        return rules.model_copy(update={"manifest": None}), wrong
    return (rules.model_copy(update={"calibrations": maps}) if maps else rules), ()


def _asks_for_maps(manifest: ManifestDocument | None) -> bool:
    return manifest is not None and manifest.confidence is ConfidenceUse.CALIBRATED


def list_bundle_digests(cases: Iterable[tuple[Flow, str]]) -> dict[tuple[UUID, str], str]:
    """The digest of the rules in force by flow (pk) and kind name, with the workflow that the flow has."""
    asked = list(cases)
    rows = _IN_FORCE.rows(names=sorted({kind for _, kind in asked}))
    bodies = {
        (row.tenant, row.kind): bytes(row.body) for row in rows if recorded_versions.compare_kind(row) is None
    }
    followed = positions.list_bodies([flow for flow, _ in asked])
    agents = {flow.agent_id: flow.agent for flow, _ in asked}
    manifests = {pk: granted_kinds.manifest_body(agent) for pk, agent in agents.items()}
    calibrated = [pk for pk, manifest in manifests.items() if _asks_for_maps(_manifest_of(manifest))]
    maps = calibration_maps.list_active_bodies(calibrated) if calibrated else {}
    digests = {}
    for flow, kind in asked:
        body = bodies.get((flow.tenant, kind))
        digests[flow.pk, kind] = _bundle_digest(
            manifests[flow.agent_id],
            body,
            list_rulesets(flow.tenant, body),
            followed.get(flow.pk),
            maps.get((flow.agent_id, kind), ()),
        )
    return digests


def list_rulesets(tenant: str, kind: bytes | None) -> tuple[bytes, ...]:
    """The stored rulesets that a stored kind names; most name none, which asks no database."""
    names = () if kind is None else stored_documents.kind_of(kind).rulesets
    found, _ = ruleset_versions.compare_named(tenant=tenant, names=names)
    return tuple(ruleset.to_bytes() for ruleset in found)


def _manifest_of(body: bytes | None) -> ManifestDocument | None:
    return None if body is None else stored_documents.manifest_of(body)


def _in_force(*, names: list[str]) -> QuerySet[PolicyKind]:
    return PolicyKind.objects.filter(active=True, kind__in=names)


_IN_FORCE: Final = statements.Read(_in_force)


def get_facts(
    *,
    flow: Flow,
    agent: Agent,
    rules: PolicyBundle,
    params: dict[str, Any],
    conditions: tuple[str, ...],
    snapshot: SnapshotFacts | None,
    session_valid: bool,
    lifts: tuple[Lift, ...],
    at: datetime,
    read: AlreadyRead = NOTHING_READ,
) -> Facts:
    """The facts of one case at `at`. The caller holds the locks of flow and agent."""
    kind, live, unsafe = rules.kind, LiveFacts(), ""
    # What is read beside the kind's own expressions.
    beside = (*conditions, *feature_sources(rules))
    if kind is not None:
        live = (
            read_world(tenant=flow.tenant, kind=kind, params=params, conditions=beside)
            if read.world is None or conditions
            else read.world
        )
        unsafe = safety.why_unsafe(kind) or safety.why_too_slow(kind, world=live.values, conditions=beside)
    labels, unread = _labels(agent, rules, beside, at)
    claimed = list_claimed(flow=flow, rules=rules) if read.claimed is None else read.claimed
    level = autonomy_levels.get_recorded(agent) if read.level is None else read.level
    return Facts(
        agent=AgentFacts(
            agent_id=agent.agent_id,
            role=AgentRole(agent.role),
            status=AgentStatus(agent.status),
            owner=agent.owner,
        ),
        session_valid=session_valid,
        flow=FlowFacts(
            state=flow.state,
            attempts_used=flow.attempts_used,
            attempts_allowed=flow.attempts_allowed,
            opened_at_ms=timestamps.to_ms(flow.opened_at),
            trigger=canonical.decode(bytes(flow.trigger)),
        ),
        world=live.values,
        world_versions=live.versions or None,
        world_version_id=live.world_version,
        snapshot=snapshot,
        history=_history(agent, rules, beside, at),
        escalation_tokens=budget_rules.whole_tokens(escalation_millitokens(agent=agent, rules=rules, at=at)),
        lifts=lifts,
        compute=_compute(flow, rules),
        resources=None
        if kind is None or not kind.claims
        else resource_facts.list_facts(flow=flow, rows=claimed),
        evidence=None
        if kind is None
        else required_evidence.get_evidence(flow=flow, kind=kind, params=params),
        max_ages=None
        if kind is None
        else required_evidence.get_max_ages(flow=flow, kind=kind, params=params),
        decision=read.decision,
        unsafe=unsafe or unread or None,
        tools=get_tools(agent.tenant, kind),
        autonomy=autonomy_levels.gate_level(level),
        labels=labels,
    )


def _compute(flow: Flow, rules: PolicyBundle) -> ComputeFacts | None:
    """What is left of the compute budget; a new flow has one only where the manifest sets it."""
    if flow.is_new and rules.manifest is not None and rules.manifest.compute is None:
        return None
    return compute_left.get_compute(flow)


def _labels(
    agent: Agent, rules: PolicyBundle, conditions: tuple[str, ...], at: datetime
) -> tuple[tuple[str, ...] | None, str]:
    """The labels of the agent where something asks for them, and why they cannot be known, if so."""
    if not asks_for_labels(rules) and not any(kind_reads.names_labels(text) for text in conditions):
        return None, ""
    recorded = agent_labels.get_recorded(agent)
    if recorded is None:
        return None, "the entry of the ledger with the labels of the agent cannot be read"
    return tuple(recorded.at(at)), ""


def asks_for_labels(rules: PolicyBundle) -> bool:
    """Whether a rule of the manifest, or an expression of the kind, reads the labels of the agent."""
    if rules.manifest is None or rules.kind is None:
        return False
    return bool(rules.manifest.label_rules) or kind_reads.of_kind(rules.kind).labels


def get_tools(tenant: str, kind: KindDocument | None) -> tuple[ToolFacts, ...] | None:
    """The tools of MCP servers that a kind calls; most call none, which asks no database."""
    if kind is None or not kind.tools:
        return None
    return tool_pins.list_facts(tenant=tenant, tools=kind.tools)


def find_decision(
    *, flow: Flow, rules: PolicyBundle, decision_id: str | None
) -> DecisionFacts | Mismatch | None:
    """What the gate may know of the decision package that a proposal says it follows, where its kind asks."""
    if rules.kind is None or not rules.kind.follows_decision or decision_id is None:
        return None
    return packages.get_facts(flow=flow, decision_id=decision_id)


def feature_sources(rules: PolicyBundle) -> tuple[str, ...]:
    """The expressions by which the gate reads the features of the rulesets that the kind names."""
    return tuple(
        feature.value
        for ruleset in rules.rulesets
        for feature in ruleset.features.values()
        if feature.value is not None
    )


def get_facts_of_now(
    *,
    flow: Flow,
    agent: Agent,
    rules: PolicyBundle,
    params: dict[str, Any],
    at: datetime,
    decision: DecisionFacts | None = None,
) -> Facts:
    """The facts of a proposal that was judged before: nobody sends it now, so no session is in question."""
    return get_facts(
        flow=flow,
        agent=agent,
        rules=rules,
        params=params,
        conditions=(),
        snapshot=None,
        session_valid=True,
        lifts=(),
        at=at,
        read=AlreadyRead(decision=decision),
    )


def get_rate_wait_s(*, agent: Agent, rules: PolicyBundle, at: datetime) -> int:
    """In how many whole seconds the agent may propose again, whose stored proposal of `at` came too soon.

    That one counts too: of its newest, as many as the limit allows, the oldest must have left the minute.
    """
    allowed = 1 if rules.manifest is None else rules.manifest.proposals_per_minute or 1
    own = Proposal.objects.filter(agent=agent, author=actors.agent(agent.agent_id))
    newest = own.order_by("-received_at").values_list("received_at", flat=True)
    last = newest[allowed - 1 : allowed].first() or at
    return max(1, ceil((last + timedelta(minutes=1) - at).total_seconds()))


def list_claimed(*, flow: Flow, rules: PolicyBundle) -> list[Resource]:
    """The resources that the kind claims, by name; most claim none, which asks no database."""
    if rules.kind is None or not rules.kind.claims:
        return []
    names = {claim.resource for claim in rules.kind.claims}
    return resource_facts.list_named(tenant=flow.tenant, names=names)


def escalation_millitokens(*, agent: Agent, rules: PolicyBundle, at: datetime) -> int:
    """What the agent's escalation bucket holds at `at`, in thousandths of a token."""
    return budget_rules.refill(
        millitokens=agent.escalation_millitokens,
        filled_at_ms=None if agent.bucket_at is None else timestamps.to_ms(agent.bucket_at),
        now_ms=timestamps.to_ms(at),
        per_hour=0 if rules.manifest is None else rules.manifest.escalations_per_hour,
    )


def get_snapshot(*, flow: Flow, context_ref: str | None) -> SnapshotFacts | None:
    """A snapshot that was issued to this flow; None for any other reference."""
    if not context_ref:
        return None
    row = Snapshot.objects.filter(flow=flow, context_ref=context_ref).first()
    if row is None:
        return None
    return SnapshotFacts(
        facts=flat(canonical.decode(bytes(row.body))["facts"]), expires_at_ms=timestamps.to_ms(row.expires_at)
    )


def get_seen(*, tenant: str, seen: Mapping[str, int], selected: Sequence[str], at: datetime) -> SnapshotFacts:
    """The facts that an agent says it has seen, by path and version, as a context that showed them.

    It expires as the last context would that could have held all of them. One that is not `selected` for the
    agent, or never was, is left out, as from a context.
    """
    visible = {
        path: version
        for path, version in seen.items()
        if any(templates.selects(selector, path) for selector in selected)
    }
    found = visible_facts.list_with_next(tenant=tenant, versions=visible)
    shown = [row for row in found if row.version == visible[row.path]]
    until = min([at, *(row.written_at for row in found if row.version > visible[row.path])])
    return SnapshotFacts(
        facts={row.path: canonical.decode(bytes(row.value)) for row in shown},
        expires_at_ms=timestamps.to_ms(until + timedelta(seconds=settings.DIR_CONTEXT_TTL_S)),
    )


def count_rejected(*, agent: Agent, rules: PolicyBundle, retry_key: str, at: datetime) -> int:
    """How many tries of the agent at the same were rejected in its retry window, whichever flow they were in.

    The caller holds the agent's lock.
    """
    named = None if rules.manifest is None else rules.manifest.retry_window_s
    since = at - timedelta(seconds=named or DEFAULT_RETRY_WINDOW_S)
    return _TRIES.first(agent=agent.pk, retry_key=retry_key, since=since) or 0


def _tries(*, agent: int, retry_key: str, since: datetime) -> QuerySet[Proposal, int]:
    """One row with their number; none where there are none."""
    tried = Proposal.objects.filter(agent=agent, retry_key=retry_key, retry_key__gt="", received_at__gt=since)
    together = tried.order_by().values("agent")
    return together.annotate(tries=Count("pk")).values_list("tries", flat=True)


_TRIES: Final = statements.Read(_tries)


def get_world(
    *, tenant: str, kind: KindDocument, params: dict[str, Any], conditions: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The live facts that the kind's expressions, and a person's conditions, can name; path to value."""
    return read_world(tenant=tenant, kind=kind, params=params, conditions=conditions).values


def read_world(
    *, tenant: str, kind: KindDocument, params: dict[str, Any], conditions: tuple[str, ...] = ()
) -> LiveFacts:
    """The same with their versions, and the last numbered version of the world, in one statement."""
    selected = list_selectors(kind=kind, params=params, conditions=conditions)
    return visible_facts.read_live(tenant=tenant, selected=selected)


def list_selectors(
    *, kind: KindDocument, params: dict[str, Any], conditions: tuple[str, ...] = ()
) -> frozenset[str]:
    """The paths and namespaces (`price.`; the empty one: every fact) of the same."""
    if safety.why_unsafe(kind):
        return frozenset()  # which facts it reads is not worked out: nothing will read them
    selectors = kind_reads.of_kind(kind).facts
    if conditions:
        selectors |= kind_reads.named_facts(conditions)
    if kind_reads.EVERYTHING in selectors:
        return frozenset({""})
    return selectors.union(evaluate.required_facts(kind, params))


def flat(nested: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Facts by path from facts by namespace and name."""
    return {
        f"{namespace}.{name}": value for namespace, names in nested.items() for name, value in names.items()
    }


@lru_cache(maxsize=1024)
def _bundle_digest(
    manifest: bytes | None,
    kind: bytes | None,
    rulesets: tuple[bytes, ...],
    workflow: bytes | None,
    calibrations: tuple[bytes, ...],
) -> str:
    granted = _manifest_of(manifest)
    rules = PolicyBundle(
        manifest=granted,
        kind=None if kind is None else stored_documents.kind_of(kind),
        rulesets=tuple(stored_documents.ruleset_of(body) for body in rulesets),
        workflow=None if workflow is None else stored_documents.workflow_of(workflow),
        calibrations=tuple(stored_documents.calibration_of(body) for body in calibrations)
        if kind is not None and _asks_for_maps(granted)
        else (),
    )
    return rules.digest


def _history(
    agent: Agent, rules: PolicyBundle, conditions: tuple[str, ...], at: datetime
) -> dict[str, int] | None:
    """Counts over the agent's past, only where something reads them: they cost a scan of a day."""
    manifest, kind = rules.manifest, rules.kind
    if kind is None or manifest is None:
        return None
    read = kind_reads.reads_history(kind) or any("history" in text for text in conditions)
    if manifest.proposals_per_minute is None and not read:
        return None
    own = Q(author=actors.agent(agent.agent_id))
    minute, hour = at - timedelta(minutes=1), at - timedelta(hours=1)
    rows = Proposal.objects.filter(agent=agent, received_at__gt=at - timedelta(hours=24))
    counted: dict[str, int] = rows.aggregate(
        proposals_1m=Count("pk", filter=own & Q(received_at__gt=minute)),
        proposals_1h=Count("pk", filter=own & Q(received_at__gt=hour)),
        accepted_1h=Count("pk", filter=Q(verdict__decision=Decision.ACCEPT, received_at__gt=hour)),
        accepted_24h=Count("pk", filter=Q(verdict__decision=Decision.ACCEPT)),
        rejected_24h=Count("pk", filter=own & Q(verdict__decision=Decision.REJECT)),
        escalated_24h=Count("pk", filter=own & Q(verdict__decision=Decision.ESCALATE)),
    )
    return counted

"""Rules that open incidents: drafted by one admin, activated by another one, switched off by any of them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from audit import actors, events, ledger
from audit.models import Tree
from runtime.contracts.incident import IncidentRule, RuleState, Scope, Severity
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.reasons import Reason
from runtime.core import clock, transactions
from runtime.incidents.models import IncidentRuleRow, RuleCursor
from runtime.incidents.queries import rule_list
from runtime.registry.services import dual_control

# What is an incident in most installations. Nothing opens by itself before they are added and activated.
USUAL: Final[Sequence[IncidentRule]] = (
    IncidentRule(
        name="ledger-tampering",
        title="A stored row does not match the ledger",
        severity=Severity.SEV1,
        kinds=("row:mismatched",),
    ),
    IncidentRule(
        name="effect-contradicted",
        title="A call took effect although a person stated otherwise",
        severity=Severity.SEV2,
        kinds=("attempt:reported_late",),
        where=("contradicts",),
    ),
    IncidentRule(
        name="compensation-failed",
        title="A completed step could not be undone",
        severity=Severity.SEV2,
        kinds=("escalation:opened",),
        reason=Reason.COMPENSATION_FAILED.value,
    ),
    IncidentRule(
        name="red-line-crossed",
        title="Red lines were crossed again and again",
        severity=Severity.SEV2,
        kinds=("verdict:given",),
        reason=Reason.RED_LINE_CROSSED.value,
        times=3,
        within_s=3600,
        per=Scope.AGENT,
    ),
    IncidentRule(
        name="agent-silent",
        title="An agent is silent",
        severity=Severity.SEV3,
        kinds=("escalation:opened",),
        reason=Reason.AGENT_SILENT.value,
        per=Scope.AGENT,
    ),
    IncidentRule(
        name="target-down",
        title="The circuit of a target opened again and again",
        severity=Severity.SEV3,
        kinds=("circuit:opened",),
        times=3,
        within_s=1800,
    ),
    IncidentRule(
        name="refused-often",
        title="An agent is refused again and again",
        severity=Severity.SEV4,
        kinds=("verdict:given",),
        where=("verdict=REJECT",),
        times=10,
        within_s=900,
        per=Scope.AGENT,
    ),
)


@transactions.retried
def draft(*, tenant: str, document: IncidentRule, actor: str) -> IncidentRuleRow:
    """Save the next version of a rule; it counts nothing before another admin has activated it."""
    return _draft(tenant, document, actor)


@transactions.retried
def activate(*, tenant: str, name: str, version: int, reason: str, actor: str) -> IncidentRuleRow | Problem:
    """Put a version in force, in place of another one; it counts what is sealed from now on."""
    _stop_walk()
    row = _lock(tenant, name, version)
    if isinstance(row, Problem):
        return row
    if row.state == RuleState.ACTIVE:
        return _wrong_state("This version is active already.")
    if (refused := dual_control.refuse_tampered(rule_list.compare(row))) is not None:
        return refused
    approved = dual_control.check(author=row.drafted_by, actor=actor, what=f"the incident rule {row}")
    if isinstance(approved, Problem):
        return approved
    return _activate(row, actor=actor, reason=reason, solo=approved.solo)


@transactions.retried
def switch_off(*, tenant: str, name: str, version: int, reason: str, actor: str) -> IncidentRuleRow | Problem:
    """End a version, or discard a draft: it opens nothing more, and one admin is enough for that."""
    _stop_walk()
    row = _lock(tenant, name, version)
    if isinstance(row, Problem):
        return row
    if row.state == RuleState.OFF:
        return _wrong_state("This version is off already.")
    at = _time(tenant)
    ended = _end(row, at=at, reason=reason)
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[ended])
    return row


@transactions.retried
def add_usual(*, tenant: str, actor: str, activates: bool = False) -> int:
    """Draft those usual rules that have no version yet; returns how many.

    `activates` puts them in force at once: for the operator of the server, who could load anything.
    """
    known = set(IncidentRuleRow.objects.of(tenant).values_list("name", flat=True))
    added = [_draft(tenant, document, actor) for document in USUAL if document.name not in known]
    if activates:
        for row in added:
            _activate(row, actor=actor, reason="", solo=False)
    return len(added)


def _draft(tenant: str, document: IncidentRule, actor: str) -> IncidentRuleRow:
    # The unique version lets one of two at a time through; the other one is tried again.
    rows = IncidentRuleRow.objects.of(tenant).filter(name=document.name).order_by("-version")
    newest = rows.values_list("version", flat=True).first()
    at = _time(tenant)
    row = IncidentRuleRow.objects.create(
        tenant=tenant,
        name=document.name,
        version=(newest or 0) + 1,
        body=document.to_bytes(),
        digest=document.digest,
        drafted_by=actor,
        drafted_at=at,
    )
    drafted = events.IncidentRuleDrafted(name=row.name, version=row.version, digest=row.digest)
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[drafted])
    return row


def _activate(row: IncidentRuleRow, *, actor: str, reason: str, solo: bool) -> IncidentRuleRow:
    size = Tree.objects.values_list("size", flat=True).first() or 0
    _wake_cursor(size)
    at, written = _time(row.tenant), []
    before = IncidentRuleRow.objects.of(row.tenant).select_for_update()
    for other in before.filter(name=row.name, state=RuleState.ACTIVE):
        written.append(_end(other, at=at, reason=f"version {row.version} takes its place"))
    row.state, row.activated_by, row.activated_at = RuleState.ACTIVE, actor, at
    row.from_leaf, row.ended_at = size, None
    row.save(update_fields=["state", "activated_by", "activated_at", "from_leaf", "ended_at"])
    activated = events.IncidentRuleActivated(
        name=row.name,
        version=row.version,
        digest=row.digest,
        from_leaf=size,
        reason=reason,
        solo=solo,
    )
    ledger.append_to(
        tenant=row.tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[*written, activated]
    )
    return row


def _stop_walk() -> None:
    """Wait for the round that is under way, and let none begin before this transaction ends."""
    RuleCursor.objects.select_for_update().first()


def _wake_cursor(size: int) -> None:
    """Where no rule was in force nobody walked: what was sealed meanwhile is passed over."""
    cursor, is_new = RuleCursor.objects.select_for_update().get_or_create(defaults={"next_leaf": size})
    if not is_new and not IncidentRuleRow.objects.filter(state=RuleState.ACTIVE).exists():
        RuleCursor.objects.filter(pk=cursor.pk).update(next_leaf=max(size, cursor.next_leaf))


def _end(row: IncidentRuleRow, *, at: datetime, reason: str) -> events.Event:
    row.state, row.ended_at = RuleState.OFF, at
    row.save(update_fields=["state", "ended_at"])
    row.sightings.all().delete()
    return events.IncidentRuleEnded(name=row.name, version=row.version, reason=reason)


def _lock(tenant: str, name: str, version: int) -> IncidentRuleRow | Problem:
    rows = IncidentRuleRow.objects.of(tenant).select_for_update()
    row = rows.filter(name=name, version=version).first()
    return row or Problem(code=ProblemCode.NOT_FOUND, detail="No incident rule has this name and version.")


def _wrong_state(detail: str) -> Problem:
    return Problem(code=ProblemCode.INCIDENT_RULE_NOT_IN_THAT_STATE, detail=detail)


def _time(tenant: str) -> datetime:
    return ledger.time_of_next(tenant=tenant, stream=actors.SYSTEM, at=clock.now())

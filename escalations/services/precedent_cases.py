"""Reading what people decided in the last days, with the decision records that precedents refer to."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from audit import actors
from audit.models import DecisionRecord, RecordFeedback
from escalations import contracts, queries
from escalations.contracts import Action, DecisionState
from escalations.evidence_contracts import JudgedEvidence
from escalations.models import Decision, Escalation
from escalations.precedents import RULES, Case
from escalations.services import decision_pace

DAYS: Final = 90
# The newest ones: an older habit is none any more.
MOST: Final = 1000
_IN_FORCE: Final = (DecisionState.IN_EFFECT, DecisionState.CONFIRMED)
_DECIDED: Final = (Action.OVERRIDE, Action.MODIFY, Action.ABORT)


def list_cases(*, tenant: str, now: datetime) -> list[Case]:
    """What people decided in the last 90 days, the oldest first; at most the newest 1,000.

    An escalation of which the evidence is not what the ledger says is left out, and so is one whose flow has
    not ended, since it has no last record yet.
    """
    rows = Escalation.objects.of(tenant).filter(
        family=contracts.Family.DECISION,
        resolution__in=[action.value for action in _DECIDED],
        resolved_at__gte=now - timedelta(days=DAYS),
    )
    newest = list(rows.order_by("-resolved_at", "-pk")[:MOST])
    flows = {row.flow_id for row in newest}
    evidence = queries.get_evidence(tenant=tenant, escalations=newest)
    outcomes = decision_pace.outcomes_of(flows)
    records = _last_records(tenant, flows)
    approvers = _approvers({row.pk for row in newest})
    said = _assessments(tenant, flows)
    cases = list[Case]()
    for row in reversed(newest):
        shown, record_id = evidence.get(row.pk), records.get(row.flow_id)
        if not isinstance(shown, JudgedEvidence) or record_id is None:
            continue
        for finding in shown.referred:
            cases.append(
                Case(
                    record_id=record_id,
                    dfid=str(row.flow_id),
                    kind=shown.policy_kind,
                    check=finding.check,
                    # A rule has its id as the reason code.
                    rule=finding.code if finding.check == RULES else finding.subject,
                    code=finding.code,
                    agent_id=shown.agent_id,
                    action=row.resolution,
                    approvers=approvers.get(row.pk, ()),
                    outcome=outcomes.get(row.flow_id, ""),
                    value=_whole(finding.proposed_value),
                    limit=_whole(finding.limit),
                    unit=shown.amounts.of_finding(finding.check, finding.subject),
                    assessments=said.get(row.flow_id, ()),
                )
            )
    return cases


def _last_records(tenant: str, flows: Collection[UUID]) -> dict[UUID, str]:
    """The record of the end of each flow, the one that nothing superseded."""
    rows = DecisionRecord.objects.filter(tenant=tenant, dfid__in=flows, terminal=True)
    return dict(rows.order_by("seq").values_list("dfid", "record_id"))


def _approvers(escalations: Collection[UUID]) -> Mapping[UUID, tuple[str, ...]]:
    found: dict[UUID, tuple[str, ...]] = defaultdict(tuple)
    rows = Decision.objects.filter(escalation__in=escalations, state__in=_IN_FORCE)
    for escalation, person in rows.order_by("sequence").values_list("escalation_id", "approver_id"):
        found[escalation] += (actors.user(person),)
    return found


def _assessments(tenant: str, flows: Collection[UUID]) -> Mapping[UUID, tuple[str, ...]]:
    """What counts of the feedback on the records of each flow: the newest of each person."""
    newest: dict[tuple[UUID, str], str] = {}
    rows = RecordFeedback.objects.filter(tenant=tenant, dfid__in=flows).order_by("pk")
    for dfid, author, assessment in rows.values_list("dfid", "author", "assessment"):
        newest[dfid, author] = assessment
    found: dict[UUID, tuple[str, ...]] = defaultdict(tuple)
    for (dfid, _), assessment in newest.items():
        found[dfid] += (assessment,)
    return found


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None

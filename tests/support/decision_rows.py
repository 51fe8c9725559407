"""What tests of decisions look at: what is stored, and what a refusal left behind."""

from typing import Any

from audit import canonical
from audit.models import LedgerEntry, Payload
from audit.verification import findings
from escalations.models import Decision, Escalation, Evidence
from runtime.contracts.problem import Problem
from runtime.flows.models import Feedback, Intent, Outcome, Proposal, Verdict


def state_of(escalation: Escalation) -> dict[str, Any]:
    """Everything a decision could change, except the ledger."""
    row = Escalation.objects.select_related("flow__agent").get(pk=escalation.pk)
    counted = (Decision, Evidence, Proposal, Verdict, Intent, Outcome, Feedback, Payload)
    return {
        "escalation": (row.state, row.version, row.revision, row.evidence_hash, row.resolution),
        "flow": (row.flow.state, row.flow.reason, row.flow.feedback_seq, row.flow.attempts_used),
        "agent": (row.flow.agent.status, row.flow.agent.escalation_millitokens),
        **{model.__name__: model._default_manager.count() for model in counted},
    }


def recorded(escalation: Escalation) -> list[tuple[str, str]]:
    """Kind and actor of every entry of the escalation's flow, in order."""
    rows = LedgerEntry.objects.filter(stream=str(escalation.flow_id)).order_by("seq")
    return list(rows.values_list("kind", "actor"))


def last_payload(escalation: Escalation) -> dict[str, Any]:
    """The payload of the flow's last entry."""
    row = LedgerEntry.objects.filter(stream=str(escalation.flow_id)).order_by("seq").last()
    assert row is not None
    payload: dict[str, Any] = canonical.decode(bytes(row.body))["payload"]
    return payload


def unlike(escalation: Escalation) -> list[str]:
    """What verification finds wrong with the escalation's flow: entries, and the rows they are about."""
    found = findings.verify_all().findings
    return [item.detail for item in found if item.stream == str(escalation.flow_id)]


def refused(answer: object) -> tuple[int, str]:
    """Status and code of a refusal, which always says what to do next."""
    assert isinstance(answer, Problem), answer
    assert answer.detail.endswith(".")
    return answer.status, answer.code

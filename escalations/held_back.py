"""Why a step is held back, or its receipt questioned: sentences from ledger and verdict."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit import queries
from audit.events import Kind
from escalations.models import Escalation
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.reasons import PAUSED, Reason
from runtime.kernel import effects
from runtime.proposals.queries import stored_cases

_KINDS = (Kind.INTENT_BLOCKED, Kind.INVARIANTS_CHECKED, Kind.RECEIPT_MISFIT)
_ASKED = (*PAUSED, Reason.RECEIPT_INVALID, Reason.INVARIANT_VIOLATED_AFTER)


def list_reasons(escalation: Escalation) -> list[str]:
    """What does not hold, a sentence each; none where the escalation is about something else.

    The caller has compared the verdict with the ledger.
    """
    if escalation.intent_id is None or escalation.reason not in _ASKED or escalation.proposal_id is None:
        return []
    told = queries.list_payloads(tenant=escalation.tenant, stream=str(escalation.flow_id), kinds=_KINDS)
    own = [(kind, said) for kind, said in told if said["intent_id"] == str(escalation.intent_id)]
    kind = stored_cases.get_case(proposal_id=escalation.proposal_id).rules.kind
    if kind is None or not own:
        return []
    return [effects.visible(line) for line in _sentences(kind, *own[-1])]


def _sentences(kind: KindDocument, told: str, said: Mapping[str, Any]) -> Iterator[str]:
    if told == Kind.RECEIPT_MISFIT:
        for place in said["pointers"]:
            yield f"{place} of the receipt of {said['step']} does not fit its schema ({said['severity']})."
        step = next((one for one in kind.steps if one.id == said["step"]), None)
        if step is not None and step.misfit.remediation:
            yield step.misfit.remediation
    elif told == Kind.INVARIANTS_CHECKED:
        for name in said["violated"]:
            yield f"After {said['step']} the invariant {name} does not hold{_message(kind, name)}."
    elif said.get("subject"):
        name = said["subject"]
        what = "precondition" if said["code"] == Reason.PRECONDITION_FAILED else "invariant"
        yield f"The {what} {name} does not hold{_message(kind, name)}."


def _message(kind: KindDocument, name: str) -> str:
    """The words that the policy kind has for an invariant or a precondition."""
    pinned = (each.pinned for each in kind.safety_assertions)
    known = {one.invariant_id: (one.message, one.severity) for one in pinned if one is not None}
    conditions = {one.id: one.message for step in kind.steps for one in step.preconditions}
    if name in known:
        message, severity = known[name]
        return f" ({severity}){': ' + message if message else ''}"
    return f": {conditions[name]}" if conditions.get(name) else ""

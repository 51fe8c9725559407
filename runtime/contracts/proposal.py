"""A proposal as the gate judges it: read back from the canonical bytes that are stored."""

from typing import Annotated, Any

from pydantic import Field

from runtime.contracts.policy_kind import Contract

Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class JudgedProposal(Contract):
    """One claim. Times are Unix milliseconds of the server; ids are text.

    `intent_id` is the id that the intent will have if this is accepted: the gate renders every request.
    `conditions` are CEL obligations that a person attached; they must hold at the gate and inside the claim.
    `by_person` is true for OVERRIDE and MODIFY, whose author is a signed-in person.
    """

    proposal_id: str
    intent_id: str
    dfid: str
    tenant: str
    author: str
    by_person: bool
    policy_kind: str
    policy_version: str | None
    params: dict[str, Any]
    execution_constraints: dict[str, Any]
    context_ref: str | None
    confidence: Confidence | None
    human_review_required: bool
    expected_effects: Any = None
    conditions: tuple[str, ...] = ()
    received_at_ms: int
    valid_until_ms: int

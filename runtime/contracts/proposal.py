"""The one shape of a proposal between the wire and its row: what the gate judges, stored as canonical bytes.

A field that agents may send is declared in `envelope` and copied here; on the way from here to the gate
nothing names it again.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field

from runtime.contracts.document import Contract, is_none
from runtime.contracts.envelope import ProposalEnvelope

Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ProposalDocument(Contract):
    """One proposal. Times are Unix milliseconds of the server; ids are text.

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
    # The versions of facts that the agent says it has seen, by path; it stands on them as on a context.
    seen: dict[str, int] | None = Field(default=None, exclude_if=is_none)
    # The decision package of the flow that it follows.
    decision_id: str | None = Field(default=None, exclude_if=is_none)
    received_at_ms: int
    valid_until_ms: int
    # 32 random hexadecimal digits, so that no guess of the words can be confirmed by a digest.
    salt: str | None = Field(default=None, exclude_if=is_none)

    @classmethod
    def from_envelope(
        cls,
        envelope: ProposalEnvelope,
        *,
        proposal_id: str,
        intent_id: str,
        dfid: str,
        tenant: str,
        author: str,
        received_at_ms: int,
        salt: str,
        context_ref: str | None = None,
        seen: Mapping[str, int] | None = None,
    ) -> Self:
        """The proposal of an agent. Its explanation is stored beside it, so that it can be erased.

        `context_ref` names a context that was compiled with the proposal, `seen` what is judged in its place.
        """
        window = timedelta(seconds=envelope.execution_constraints["validity_window_sec"])
        return cls(
            proposal_id=proposal_id,
            intent_id=intent_id,
            dfid=dfid,
            tenant=tenant,
            author=author,
            by_person=False,
            policy_kind=envelope.policy_kind,
            policy_version=envelope.policy_version,
            params=envelope.params,
            execution_constraints=dict(envelope.execution_constraints),
            context_ref=context_ref or envelope.context_ref,
            confidence=envelope.confidence,
            human_review_required=bool(envelope.human_review_required),
            expected_effects=envelope.expected_effects,
            seen=None if seen is None else dict(seen),
            decision_id=envelope.decision_id,
            received_at_ms=received_at_ms,
            valid_until_ms=received_at_ms + window // timedelta(milliseconds=1),
            salt=salt,
        )

    @classmethod
    def from_person(
        cls,
        stored: "ProposalDocument",
        *,
        proposal_id: str,
        intent_id: str,
        author: str,
        params: Mapping[str, Any] | None,
        conditions: tuple[str, ...],
        evidence_hash: str,
        received_at_ms: int,
        salt: str,
    ) -> Self:
        """The proposal of a person: an agent's `stored` one, with other `params` where they are given.

        The evidence that was shown replaces the agent's context. The window is as long and begins now. The
        version that the agent asked for, its confidence and its wish for a review are left out.
        """
        return cls(
            proposal_id=proposal_id,
            intent_id=intent_id,
            dfid=stored.dfid,
            tenant=stored.tenant,
            author=author,
            by_person=True,
            policy_kind=stored.policy_kind,
            policy_version=None,
            params=dict(stored.params if params is None else params),
            execution_constraints=stored.execution_constraints,
            context_ref=evidence_hash,
            confidence=None,
            human_review_required=False,
            expected_effects=stored.expected_effects,
            conditions=conditions,
            received_at_ms=received_at_ms,
            valid_until_ms=received_at_ms + stored.window_ms,
            salt=salt,
        )

    @property
    def window_ms(self) -> int:
        """How long the proposal is valid, from the moment it was received."""
        return self.valid_until_ms - self.received_at_ms

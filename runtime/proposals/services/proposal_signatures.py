"""Signatures of proposals: who has an agent's token cannot propose for it without the key of its manifest."""

from dataclasses import dataclass

from audit import canonical
from runtime.contracts import signed_proposal
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import agent_signatures
from runtime.core.idempotency import IdempotentRequest
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A signature that was verified: by which key, by its name, and what is kept of it."""

    key_id: str
    body: bytes


def verify(*, agent: Agent, envelope: ProposalEnvelope, call: IdempotentRequest) -> Signed | Problem | None:
    """The signature of a proposal, where the active manifest has a `proposal_key`; None where it has none.

    403 for a proposal that is not signed by that key, for this call. Without a key nothing is asked, and a
    signature counts for nothing.
    """
    manifest = granted_kinds.manifest_of(agent)
    if manifest is None or manifest.proposal_key is None:
        return None
    said = signed_proposal.signed_bytes(
        agent_id=agent.agent_id,
        idempotency_key=call.key,
        path=call.path,
        proposal=canonical.decode(call.body),
    )
    given = envelope.signature or ""
    key_id = agent_signatures.signing_key_of(said, given, public_key=manifest.proposal_key)
    if key_id is None:
        detail = (
            "The active manifest has a `proposal_key`: the proposal needs a `signature` by it, made for this "
            "path and this Idempotency-Key."
        )
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    return Signed(key_id=key_id, body=signed_proposal.kept(said, given))

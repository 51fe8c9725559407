"""Artifacts: content that is kept elsewhere, named by its digest. The runtime stores the reference alone."""

from audit import actors, events, ledger
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import AGENT_STATUS_CODES, ProblemCode
from runtime.contracts.states import AgentStatus
from runtime.core import clock, transactions
from runtime.registry.models import Agent
from runtime.registry.services import agents
from runtime.state.models import Artifact

MAX_ARTIFACTS = 1000


@transactions.retried
def register(*, agent: Agent, asked: api_schemas.ArtifactRequest) -> api_schemas.ArtifactAnswer | Problem:
    """Register a reference; the same digest again keeps the first one, for content does not change its name.

    403 for an agent that is not ACTIVE, 409 TOO_MANY_ARTIFACTS past MAX_ARTIFACTS.
    """
    # The lock makes the bound exact, and a repeat find the first.
    locked = agents.lock_by_pk(pk=agent.pk)
    if locked.status != AgentStatus.ACTIVE:
        detail = f"The agent is {locked.status} and cannot register artifacts until it is ACTIVE."
        return Problem(code=AGENT_STATUS_CODES[locked.status], detail=detail)
    digest = asked.digest.removeprefix("sha256:")
    row = Artifact.objects.filter(agent=agent, digest=digest).first()
    if row is None:
        if Artifact.objects.filter(agent=agent).count() >= MAX_ARTIFACTS:
            detail = f"An agent can register at most {MAX_ARTIFACTS} artifacts."
            return Problem(code=ProblemCode.TOO_MANY_ARTIFACTS, detail=detail)
        at = clock.now()
        row = Artifact.objects.create(
            tenant=agent.tenant,
            agent=agent,
            digest=digest,
            media_type=asked.media_type,
            size_bytes=asked.size_bytes,
            location=asked.location,
            title=asked.title,
            registered_at=at,
        )
        stream = actors.agent(agent.agent_id)
        registered = events.ArtifactRegistered(
            digest=digest, media_type=row.media_type, size_bytes=row.size_bytes
        )
        ledger.append_to(tenant=agent.tenant, stream=stream, actor=stream, at=at, events=[registered])
    return api_schemas.ArtifactAnswer(digest=row.digest, registered_at=row.registered_at)

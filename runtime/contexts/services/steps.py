"""Steps: what an agent claims about its own reasoning. Never proof.

The gate reads of them only what restricts: the steps of a workflow, and the labels that an agent says it has.
"""

from uuid import UUID

from audit import actors, canonical, events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.source_labels import LabelSource
from runtime.core import clock, transactions
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Agent
from runtime.registry.services import agent_labels

# A flow takes a few proposals; a reasoning of more steps than this belongs into a payload of its own.
MAX_STEPS = 200


@transactions.retried
def report(*, agent: Agent, dfid: UUID, asked: api_schemas.StepRequest) -> api_schemas.StepAnswer | Problem:
    """Record a step in the flow's Reasoning lane; `seq` is its entry in the flow's stream.

    The summary may be personal: the ledger holds a commitment to it. 404 for a flow that is not the agent's,
    409 once it has ended, 429 TOO_MANY_STEPS past MAX_STEPS.
    """
    flow = flows.lock_open(
        agent=agent, dfid=dfid, once_ended=" and no longer accepts steps. Open a new flow."
    )
    if isinstance(flow, Problem):
        return flow
    if flow.steps_reported >= MAX_STEPS:
        said = f"A flow accepts at most {MAX_STEPS} steps."
        return Problem(
            code=ProblemCode.TOO_MANY_STEPS,
            detail=f"{said} Report several as one, with a payload_ref to the whole.",
            dfid=str(flow.dfid),
        )
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    commitment = None
    if asked.summary is not None:
        summary = canonical.encode(asked.summary)
        commitment = ledger.commit_payload(
            tenant=flow.tenant, data_class=PayloadClass.PARAMETERS, body=summary
        )
    journal.add(
        events.StepReported(
            step_type=asked.step_type,
            digest=asked.digest.removeprefix("sha256:"),
            payload_ref=asked.payload_ref,
            source_labels=asked.source_labels,
            summary_commitment=commitment,
        )
    )
    if asked.source_labels:
        agent_labels.gain(
            agent_pk=agent.pk,
            labels=asked.source_labels,
            because=LabelSource.STEP,
            source=str(flow.pk),
            at=journal.at,
        )
    Flow.objects.filter(pk=flow.pk).update(steps_reported=flow.steps_reported + 1)
    journal.write()
    return api_schemas.StepAnswer(seq=flow.head_seq)

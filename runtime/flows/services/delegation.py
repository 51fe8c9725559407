"""Opening a child under another flow: who may, and how large a family gets (`kernel.flow_tree`)."""

from typing import assert_never
from uuid import UUID

from audit import actors, events
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import AGENT_STATUS_CODES, ProblemCode
from runtime.contracts.source_labels import LabelSource
from runtime.contracts.states import AgentRole, AgentStatus
from runtime.flows.models import Flow
from runtime.flows.queries import children
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import flow_tree
from runtime.kernel.flow_tree import Delegation, Refusal
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agent_labels


def lock_parent(*, dfid: UUID, tenant: str) -> Flow | None:
    """The parent-to-be, locked, and before it the root of its family, so that the count of both is exact.

    Its other children are not locked: nothing here ends them.
    """
    root_id = Flow.objects.of(tenant).filter(dfid=dfid).values_list("root_id", flat=True).first()
    if root_id is not None:
        locks.lock_one(dfid=root_id)
    return locks.lock_one(dfid=dfid, tenant=tenant)


def refuse(*, parent: Flow | None, agent: Agent) -> Problem | None:
    """Why `agent` may not open a child under `parent`, which the caller has locked; None where it may."""
    if parent is None:
        return not_delegated()
    manifest = granted_kinds.manifest_of(parent.agent)
    refusal = flow_tree.refuse(
        Delegation(
            parent_agent=parent.agent.agent_id,
            parent_role=AgentRole(parent.agent.role),
            parent_status=AgentStatus(parent.agent.status),
            may_delegate_to=() if manifest is None else manifest.may_delegate_to,
            child_agent=agent.agent_id,
            ancestors_open=children.are_ancestors_open(parent),
            parent_depth=parent.depth,
            open_children=children.count_open(parent=parent),
            open_family=children.count_open_family(root_id=parent.root_id or parent.pk),
        )
    )
    dfid = str(parent.pk)
    match refusal:
        case None:
            return None
        case Refusal.NOT_DELEGATED:
            return not_delegated()
        case Refusal.PARENT_ENDED:
            detail = "The parent flow, or one above it, has ended. Open a flow without parent_dfid."
            return Problem(code=ProblemCode.FLOW_NOT_OPEN, detail=detail, dfid=dfid)
        case Refusal.DELEGATOR_HELD:
            status = parent.agent.status
            detail = f"The agent of the parent flow is {status} and cannot delegate. Wait until it is ACTIVE."
            return Problem(code=AGENT_STATUS_CODES[status], status=409, detail=detail, dfid=dfid)
        case Refusal.TOO_DEEP:
            detail = f"A family of flows can have at most {flow_tree.MAX_DEPTH} levels below its root."
            return Problem(code=ProblemCode.TOO_DEEP, detail=detail, dfid=dfid)
        case Refusal.TOO_MANY_CHILDREN:
            detail = (
                f"A flow can have at most {flow_tree.MAX_OPEN_CHILDREN} open children and a family "
                f"{flow_tree.MAX_OPEN_FAMILY}. Wait until some have ended."
            )
            return Problem(code=ProblemCode.TOO_MANY_CHILDREN, detail=detail, dfid=dfid)
        case _:
            assert_never(refusal)


def record(*, parent: Flow, child: Flow) -> None:
    """Note a new child in its parent's row and stream; its agent gets the labels of the parent's."""
    Flow.objects.filter(pk=parent.pk).update(children_opened=parent.children_opened + 1)
    actor = actors.agent(child.agent.agent_id)
    journal = Journal(flow=parent, actor=actor, at=child.opened_at)
    journal.add(events.ChildOpened(child_dfid=str(child.pk), agent_id=child.agent.agent_id))
    agent_labels.pass_on(
        giver=parent.agent,
        agent=child.agent,
        because=LabelSource.PARENT,
        source=str(parent.pk),
        at=child.opened_at,
    )
    journal.write()


def not_delegated() -> Problem:
    """An unknown flow and one whose agent delegates nothing to the caller look the same."""
    return Problem(
        code=ProblemCode.FLOW_NOT_FOUND,
        detail="No flow that may delegate to this agent has this DFID.",
        violations=(
            Violation(pointer="/parent_dfid", message="is not a flow that may delegate to this agent"),
        ),
    )

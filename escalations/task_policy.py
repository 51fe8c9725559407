"""May this person answer this task now? Pure; one function answers the form and the POST.

Stricter than a decision: whoever has a stake in the agent or wrote the proposal never answers, even alone.
"""

from dataclasses import dataclass

from audit import actors
from audit.access import roles
from audit.access.roles import Permission
from escalations import policy
from escalations.policy import Denied, OwnerLeft, Person
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Impact
from runtime.kernel import separation


@dataclass(frozen=True, kw_only=True)
class TaskContext:
    """What is answered. `author` wrote the proposal, as the ledger names people (`user:7`)."""

    is_open: bool
    group: str
    impact: Impact
    author: str
    agent_owner: str
    owners_left: tuple[OwnerLeft, ...] = ()


def may_answer(person: Person, task: TaskContext, *, now_ms: int) -> Denied | None:
    """Why `person` may not answer, or None. The first reason that speaks against it is the answer."""
    if not task.is_open:
        return Denied(ProblemCode.TASK_CLOSED, "This task was answered, or its deadline has passed.")
    if not roles.allows(person.roles, Permission.ANSWER_TASKS):
        return Denied(ProblemCode.ROLE_MISSING, "Answering needs the role operator, senior or admin.")
    if task.group not in {*person.groups_now, *person.roles}:
        return Denied(ProblemCode.NOT_OF_GROUP, f"Only people in the group {task.group} can answer this.")
    bound = _stake(person, task, now_ms=now_ms)
    if bound is not None:
        return Denied(ProblemCode.SEPARATION_OF_DUTY, f"{bound}: someone else must answer.")
    confirmed_at_ms = person.confirmed_at_ms
    is_fresh = confirmed_at_ms is not None and now_ms - confirmed_at_ms <= policy.STEP_UP_S * 1000
    if task.impact is not Impact.LOW_IMPACT and not is_fresh:
        why = "Confirm your password first: it was last confirmed more than 5 minutes ago."
        return Denied(ProblemCode.STEP_UP, why)
    return None


def _stake(person: Person, task: TaskContext, *, now_ms: int) -> str | None:
    names = {person.username, *person.groups}
    if task.agent_owner in names:
        return "You own this agent"
    if task.author == actors.user(person.user_id):
        return "You wrote the proposal"
    for left in task.owners_left:
        if left.owner in names and now_ms < separation.ends_ms(left.at_ms):
            return f"You owned this agent less than {separation.DAYS} days ago"
    return None

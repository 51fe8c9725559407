"""Reads of tasks: what is open, for whom, and what has ended lately."""

from collections.abc import Collection, Sequence
from uuid import UUID

from django.db.models import Case, IntegerField, Value, When

from runtime.contracts.states import TaskState
from runtime.execution.models import HumanTask

MOST_OPEN = 100
MOST_ENDED = 20


def list_open(*, tenant: str, groups: Collection[str]) -> Sequence[HumanTask]:
    """The open tasks, those of these groups first, each in the order of their deadlines."""
    is_mine = Case(When(group__in=list(groups), then=Value(0)), default=Value(1), output_field=IntegerField())
    rows = HumanTask.objects.of(tenant).filter(state=TaskState.OPEN).select_related("intent__flow__agent")
    return list(rows.annotate(is_other=is_mine).order_by("is_other", "deadline_at")[:MOST_OPEN])


def list_ended(*, tenant: str) -> Sequence[HumanTask]:
    """The tasks that ended last, the newest first."""
    rows = HumanTask.objects.of(tenant).exclude(state=TaskState.OPEN).select_related("intent__flow__agent")
    return list(rows.order_by("-ended_at")[:MOST_ENDED])


def get(*, tenant: str, task_id: UUID) -> HumanTask | None:
    """A task with its intent, proposal and agent; None where the tenant has none of this id."""
    rows = HumanTask.objects.of(tenant).select_related("intent__flow__agent", "intent__proposal")
    return rows.filter(pk=task_id).first()

"""The tasks of people: the list, the page of one with its typed form, and the POST of an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit import canonical
from audit.access.permissions import require, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import forms, recorded_tasks, task_list, task_policy
from escalations.policy import Denied
from escalations.services import task_answers
from escalations.views import posts
from escalations.views.policy_person import person_of
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Direction, TaskState
from runtime.core import clock, transactions
from runtime.core.views import error_page, labels
from runtime.core.views.labels import Badge
from runtime.execution.models import HumanTask
from runtime.execution.services.human_steps import LockedTask
from runtime.kernel import effects
from runtime.proposals.views import schema_form
from runtime.registry.queries import group_members, people

STATES: Mapping[str, Badge] = {
    TaskState.OPEN: Badge("info", "user", "Open"),
    TaskState.ANSWERED: Badge("ok", "check", "Answered"),
    TaskState.OVERDUE: Badge("warn", "clock", "Overdue"),
}


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task in a list. `is_mine`: the person is in its group; `words` is empty where they were erased."""

    task: HumanTask
    words: str
    agent_id: str
    badge: Badge
    undoes: bool
    is_mine: bool


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the open tasks, those for the person first, and what has ended lately."""
    tenant, groups = tenant_of(request.user), group_members.groups_now(user_pk=request.user.pk or 0)
    rows = [_row(task, groups) for task in task_list.list_open(tenant=tenant, groups=groups)]
    context = {
        "mine": [row for row in rows if row.is_mine],
        "others": [row for row in rows if not row.is_mine],
        "ended": [_row(task, groups) for task in task_list.list_ended(tenant=tenant)],
    }
    return render(request, "escalations/tasks.html", context)


@require_safe
@signed_in
def show(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Show one task: what is asked, and the form of its answer."""
    return _page(request, task_id)


@require_POST
@require(Permission.ANSWER_TASKS)
def answer(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Take the answer. The service checks and records who may give one."""
    task = _get(request, task_id)
    schema = recorded_tasks.shown_of(task).get("receipt_schema", {})
    asked = forms.TaskForm(request.POST, schema=schema).read()
    if isinstance(asked, Problem):
        # It never reaches the service, which records all other refusals.
        error_page.record(request, asked)
        return _page(request, task_id, problem=asked, entered=request.POST.dict())
    try:
        taken: object = task_answers.answer(
            tenant=tenant_of(request.user), task_id=task_id, person=person_of(request), request=asked
        )
    except transactions.BusyError:
        taken = posts.BUSY
    if isinstance(taken, Problem):
        return _page(request, task_id, problem=taken, entered=request.POST.dict())
    messages.success(request, "Recorded with your signature. The flow goes on.")
    return redirect("task", task_id)


def _page(
    request: HttpRequest,
    task_id: UUID,
    *,
    problem: Problem | None = None,
    entered: Mapping[str, Any] | None = None,
) -> HttpResponse:
    task, at = _get(request, task_id), clock.now()
    shown, person = recorded_tasks.shown_of(task), person_of(request)
    is_erased = task.intent.flow.erased_at is not None
    mismatches = [] if is_erased else recorded_tasks.compare(task)
    schema = shown.get("receipt_schema", {})
    denied = _denied(task, request, at=at)
    fields = schema_form.fields(schema, {}, None if entered is None else dict(entered))
    simple = {field.name.removeprefix(schema_form.PREFIX) for field in fields}
    groups = group_members.groups_now(user_pk=person.user_id)
    context = {
        "row": _row(task, groups),
        "task": task,
        "shown": shown,
        "instructions": labels.visible_lines(str(shown.get("instructions", ""))).splitlines(),
        "effect": effects.visible(str(shown.get("effect", ""))),
        "params": _pairs(shown.get("params", {})),
        "receipts": [(step, labels.pretty(receipt)) for step, receipt in shown.get("receipts", {}).items()],
        "fields": fields,
        # What the typed fields cannot say is written as JSON.
        "asks_json": bool(set(schema.get("properties", {})) - simple) or not fields,
        "entered": dict(entered or {}),
        "problem": problem,
        "untrusted": mismatches,
        "erased": is_erased,
        "step_up": denied is not None and denied.code is ProblemCode.STEP_UP,
        "why_not": "" if denied is None or denied.code is ProblemCode.STEP_UP else denied.why,
        "answer": labels.pretty(canonical.decode(bytes(task.answer)))
        if task.answer and not mismatches
        else "",
        "answered_by": people.names_of([task.answered_by]).get(task.answered_by, task.answered_by),
        "here": reverse("task", args=[task_id]),
    }
    status = 200 if problem is None else problem.status
    return render(request, "escalations/task.html", context, status=status)


def _denied(task: HumanTask, request: HttpRequest, *, at: datetime) -> Denied | None:
    found = LockedTask(flow=task.intent.flow, intent=task.intent, task=task)
    context = task_answers.context_of(found, at=at)
    return task_policy.may_answer(person_of(request), context, now_ms=timestamps.to_ms(at))


def _row(task: HumanTask, groups: Sequence[str] | frozenset[str]) -> TaskRow:
    shown = recorded_tasks.shown_of(task)
    return TaskRow(
        task=task,
        words=effects.visible(str(shown.get("instructions", ""))),
        agent_id=task.intent.flow.agent.agent_id,
        badge=labels.badge(STATES, task.state),
        undoes=task.direction == Direction.COMPENSATE,
        is_mine=task.group in groups,
    )


def _pairs(values: object) -> list[tuple[str, str]]:
    if not isinstance(values, dict):
        return []
    return [(effects.visible(str(name)), labels.plain_value(value)) for name, value in values.items()]


def _get(request: HttpRequest, task_id: UUID) -> HumanTask:
    task = task_list.get(tenant=tenant_of(request.user), task_id=task_id)
    if task is None:
        raise Http404
    return task

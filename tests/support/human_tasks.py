"""A trial pack whose purchases wait for people: one approves, the broker is called, another confirms."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from escalations.services import task_answers
from escalations.services.task_answers import TaskAnswer, TaskAnswered
from runtime.contracts.problem import Problem
from runtime.execution.models import HumanTask
from runtime.execution.services import attempting
from tests.support import factories, trading_desk

GROUP = "treasury"
_PLAIN = trading_desk.PACK
_STEP = "- {id: order, executor: BY_WHOM, target: broker, request: {method: POST, path: /orders}}"
SCHEMA = (
    "{type: object, properties: {approved: {type: boolean, enum: [true]}, "
    "desk: {type: string, enum: [A, B]}, price: {type: integer, minimum: 1, title: Price seen}, "
    "note: {type: string, maxLength: 40}}, required: [approved, price], additionalProperties: false}"
)
_APPROVE = (
    "- {id: approve, executor: human, receipt_schema: SCHEMA, "
    'human: {group: treasury, instructions: "Look at {quantity} of {symbol}", deadline_s: 600UNDO}MORE}'
)
_ORDER = (
    "- {id: order, executor: http, target: broker, request: {method: POST, path: /orders}, "
    "compensate: {path: /orders/undo}}"
)
_CONFIRM = (
    "- {id: confirm, executor: human, receipt_schema: SCHEMA, "
    'human: {group: treasury, instructions: "Confirm it", deadline_s: 600}}'
)


def pack(*steps: str, impact: str = "LOW_IMPACT", undo: str = "", more: str = "") -> str:
    """The pack with these steps: approve, order or confirm."""
    known = {"approve": _APPROVE, "order": _ORDER, "confirm": _CONFIRM}
    lines = "\n      ".join(known[step] for step in steps)
    lines = lines.replace("UNDO", f', undo: "{undo}"' if undo else "").replace("MORE", more)
    text = _PLAIN.replace(_STEP, lines.replace("SCHEMA", SCHEMA))
    return text.replace("LOW_IMPACT", impact)


def person(name: str = "tara", *groups: str) -> User:
    """Somebody of the group."""
    return factories.user(name, groups=groups or (GROUP,))


def attempt(intent_id: UUID) -> str:
    """One attempt of a worker; its status."""
    return attempting.attempt(intent_id, owner=trading_desk.OWNER).status.value


def task(intent_id: UUID) -> HumanTask:
    """The newest task of an intent."""
    return HumanTask.objects.filter(intent=intent_id).latest("number")


def answer(
    asked: HumanTask, account: User, *, shown: str = "", who: dict[str, Any] | None = None, **given: Any
) -> TaskAnswered | Problem:
    """Send the form as it is filled in, by whoever has just given the password."""
    return task_answers.answer(
        tenant=trading_desk.TENANT,
        task_id=asked.pk,
        person=factories.person(account, **(who or {})),
        request=TaskAnswer(
            task_hash=shown or asked.task_hash, answer=given or {"approved": True, "price": 100}
        ),
    )

"""Who may answer a task: its group, nobody with a stake, and a fresh password where it weighs much."""

from typing import Any

import pytest

from escalations import task_policy
from escalations.policy import OwnerLeft, Person
from escalations.task_policy import TaskContext
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Impact
from runtime.kernel import separation

NOW_MS = 1_800_000_000_000


def asked(**fields: Any) -> TaskContext:
    known = {"is_open": True, "group": "treasury", "impact": Impact.HIGH_IMPACT, "author": "agent:trader"}
    return TaskContext(**{**known, "agent_owner": "desk", **fields})


def person(**fields: Any) -> Person:
    known: dict[str, Any] = {
        "user_id": 7,
        "username": "tara",
        "roles": frozenset({"operator"}),
        "groups": frozenset({"treasury"}),
        "groups_now": frozenset({"treasury"}),
        "confirmed_at_ms": NOW_MS,
        "is_solo": True,
    }
    return Person(**{**known, **fields})


def code(who: Person, task: TaskContext) -> ProblemCode | None:
    denied = task_policy.may_answer(who, task, now_ms=NOW_MS)
    return None if denied is None else denied.code


LEFT = OwnerLeft(owner="treasury", changed_by=(), at_ms=NOW_MS - 1000)


@pytest.mark.parametrize(
    ("who", "task", "found"),
    [
        ({}, {}, None),
        ({}, {"is_open": False}, ProblemCode.TASK_CLOSED),
        ({"roles": frozenset({"auditor"})}, {}, ProblemCode.ROLE_MISSING),
        ({"groups_now": frozenset()}, {}, ProblemCode.NOT_OF_GROUP),
        ({"groups_now": frozenset()}, {"group": "operator"}, None),
        ({"username": "desk"}, {}, ProblemCode.SEPARATION_OF_DUTY),
        ({}, {"agent_owner": "treasury"}, ProblemCode.SEPARATION_OF_DUTY),
        ({}, {"author": "user:7"}, ProblemCode.SEPARATION_OF_DUTY),
        ({}, {"owners_left": (LEFT,)}, ProblemCode.SEPARATION_OF_DUTY),
        ({}, {"owners_left": (OwnerLeft(owner="other", changed_by=(), at_ms=NOW_MS),)}, None),
        (
            {},
            {
                "owners_left": (
                    OwnerLeft(owner="treasury", changed_by=(), at_ms=NOW_MS - separation.DAYS * 86_400_000),
                )
            },
            None,
        ),
        ({"confirmed_at_ms": None}, {}, ProblemCode.STEP_UP),
        ({"confirmed_at_ms": NOW_MS - 301_000}, {}, ProblemCode.STEP_UP),
        ({"confirmed_at_ms": None}, {"impact": Impact.LOW_IMPACT}, None),
    ],
)
def test_the_first_reason_that_speaks_against_it_is_the_answer(
    who: dict[str, Any], task: dict[str, Any], found: ProblemCode | None
) -> None:
    assert code(person(**who), asked(**task)) is found

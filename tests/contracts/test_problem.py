"""A problem takes its status, title and retriability from the catalogue; a second status is given."""

import json

from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode


def test_a_problem_has_what_its_code_says() -> None:
    problem = Problem(code=ProblemCode.FLOW_NOT_OPEN, detail="It has ended.")
    assert (problem.status, problem.retriable) == (409, False)
    assert Problem(code=ProblemCode.VERSION_UNSUPPORTED, status=404, detail="Use the latest.").status == 404


def test_a_code_is_its_own_text() -> None:
    assert json.dumps([ProblemCode.STEP_UP]) == '["STEP_UP"]'
    assert f"{ProblemCode.STEP_UP}" == str(ProblemCode.STEP_UP) == "STEP_UP"


def test_only_what_passes_by_itself_is_retriable() -> None:
    assert {code.value for code in ProblemCode if code.is_retriable} == {
        "ASKED_JUST_NOW",
        "BUSY",
        "INTERNAL_ERROR",
        "NOT_SEALED",
        "RATE_LIMITED",
        "RECOVERY",
        "RECOVERY_UNDER_WAY",
        "TEMPORARILY_UNAVAILABLE",
        "TOO_MANY_WAITING",
    }

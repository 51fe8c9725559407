"""Whether the person gave the password a moment ago: what cannot be taken back asks for it again."""

from typing import Final

from allauth.account.authentication import get_authentication_records
from django.http import HttpRequest

from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock

STEP_UP_S: Final = 300
NEEDED: Final = Problem(
    code=ProblemCode.STEP_UP,
    detail="Confirm your password first: it was last confirmed more than 5 minutes ago.",
)


def is_fresh(request: HttpRequest) -> bool:
    """Whether the signed-in person has confirmed the password within the last five minutes."""
    records = get_authentication_records(request, request.user)
    confirmed = [record["at"] for record in records if record.get("method") == "password"]
    return bool(confirmed) and clock.now().timestamp() - max(confirmed) <= STEP_UP_S

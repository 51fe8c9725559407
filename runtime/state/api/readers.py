"""Whose call it is, and which facts it may be told of."""

from django.http import HttpRequest

from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.registry.api import auth
from runtime.registry.models import Key
from runtime.state.queries import sight
from runtime.state.queries.sight import Sight


def sight_of(request: HttpRequest) -> Sight:
    """What the caller of a call under `auth.StateReader` may read."""
    reader = auth.state_reader_of(request)
    return sight.of_key(reader) if isinstance(reader, Key) else sight.of_agent(reader.agent)


def refuse_outside(request: HttpRequest, prefix: str, *, is_covered: bool) -> None:
    """403 for a feed that asks outside its prefix; an agent is not told whether there is anything (404)."""
    if is_covered:
        return
    reader = auth.state_reader_of(request)
    if isinstance(reader, Key):
        raise ProblemError(outside(reader))
    detail = f"The agent's manifest subscribes to no fact under {prefix}."
    raise ProblemError(Problem(code=ProblemCode.FACT_NOT_FOUND, detail=detail))


def outside(key: Key) -> Problem:
    """The refusal of a feed's call about facts that its key does not cover."""
    detail = f"This feed key covers only facts under {key.fact_prefix}. Use the key of the right feed."
    return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)

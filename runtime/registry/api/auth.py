"""Who calls: `Authorization: Bearer` and nothing else. Cookies and identity headers are ignored."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer

from audit import actors
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.registry.models import Agent, Key, Session
from runtime.registry.services import credentials

_CALLER = "dir_caller"


@dataclass(frozen=True, kw_only=True)
class Caller:
    """An identified caller, by the ledger stream that records its refusals."""

    tenant: str
    stream: str


class AgentKey(HttpBearer):
    """The long-lived key of an agent, for the handshake only."""

    def authenticate(self, request: HttpRequest, token: str) -> Key | None:
        key = credentials.agent_key(token)
        if key is None:
            _forbid_other(request, token, "Open the session (handshake) with the agent key.")
            return None
        _remember(request, _of_key(key))
        return key


class SessionToken(HttpBearer):
    """The token that a handshake gave."""

    def authenticate(self, request: HttpRequest, token: str) -> Session | None:
        session = credentials.session(token)
        if session is None:
            _forbid_other(request, token, "Send the session token that the handshake returned.")
            return None
        _remember(request, Caller(tenant=session.agent.tenant, stream=actors.agent(session.agent.agent_id)))
        return session


class FeedKey(HttpBearer):
    """The key of a state feed."""

    def authenticate(self, request: HttpRequest, token: str) -> Key | None:
        key = credentials.feed_key(token)
        if key is None:
            _forbid_other(
                request, token, "Writing state requires a feed key: issue_key --feed NAME --prefix P."
            )
            return None
        _remember(request, _of_key(key))
        return key


def session_of(request: HttpRequest) -> Session:
    """The session that `SessionToken` found."""
    found: Any = getattr(request, "auth", None)
    if not isinstance(found, Session):
        raise TypeError("the call is not guarded by a session token")
    return found


def agent_key_of(request: HttpRequest) -> tuple[Key, Agent]:
    """The key that `AgentKey` found, and its agent."""
    key = feed_key_of(request)
    if key.agent is None:
        raise TypeError("the call is not guarded by an agent key")
    return key, key.agent


def feed_key_of(request: HttpRequest) -> Key:
    """The key that `FeedKey` found."""
    found: Any = getattr(request, "auth", None)
    if not isinstance(found, Key):
        raise TypeError("the call is not guarded by a key")
    return found


def caller_of(request: HttpRequest) -> Caller | None:
    """The caller, as far as a valid credential shows; also where that credential may not make this call."""
    found: Any = getattr(request, _CALLER, None)
    return found if isinstance(found, Caller) else None


def _remember(request: HttpRequest, caller: Caller) -> None:
    setattr(request, _CALLER, caller)


def _of_key(key: Key) -> Caller:
    stream = actors.feed(key.feed) if key.agent is None else actors.agent(key.agent.agent_id)
    return Caller(tenant=key.tenant, stream=stream)


def _forbid_other(request: HttpRequest, token: str, detail: str) -> None:
    """403 for a valid credential of another sort; text that is none at all stays a plain 401."""
    given = credentials.read(token)
    if given is None:
        return
    key = credentials.agent_key(token) or credentials.feed_key(token)
    session = credentials.session(token)
    if key is not None:
        _remember(request, _of_key(key))
    elif session is not None:
        _remember(request, Caller(tenant=session.agent.tenant, stream=actors.agent(session.agent.agent_id)))
    else:
        return
    raise ProblemError(Problem(code=ProblemCode.UNAUTHORIZED, detail=detail))

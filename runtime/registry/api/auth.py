"""Who calls: `Authorization: Bearer` and nothing else; identity headers are ignored.

Only the audit API, which changes nothing, takes the cookie of a signed-in browser too.
"""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer

from audit import actors
from audit.access import permissions
from audit.access.readers import Reader
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
    """The long-lived key of an agent, or a token of an issuer that is bound to it; for the handshake only."""

    openapi_description = (
        "The key of an agent, or a token (JWT) of a trusted issuer whose subject is bound to it."
    )

    def authenticate(self, request: HttpRequest, token: str) -> Key | None:
        key = credentials.agent_credential(token)
        if key is None:
            _forbid_other(request, token, "Open the session (handshake) with the agent key.")
            return None
        _remember(request, Caller(tenant=key.tenant, stream=key.holder))
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
        _remember(request, Caller(tenant=key.tenant, stream=key.holder))
        return key


class StateReader(HttpBearer):
    """The session token of an agent, the key of a feed, or that of an auditor: all who may read facts."""

    openapi_description = "The session token of an agent, the key of a state feed, or an auditor's key."

    def authenticate(self, request: HttpRequest, token: str) -> Session | Key | None:
        session = credentials.session(token)
        if session is not None:
            stream = actors.agent(session.agent.agent_id)
            _remember(request, Caller(tenant=session.agent.tenant, stream=stream))
            return session
        key = credentials.feed_key(token) or credentials.auditor_key(token)
        if key is None:
            _forbid_other(request, token, "Read facts with the session token that the handshake returned.")
            return None
        _remember(request, Caller(tenant=key.tenant, stream=key.holder))
        return key


class AuditorAccess(HttpBearer):
    """An auditor's key or, without an Authorization header, a signed-in user who holds a role. GET only."""

    openapi_description = (
        "An auditor's key (`manage.py issue_key --auditor NAME`). The browser session of a user who holds a "
        "role is accepted where no Authorization header is sent."
    )

    def __call__(self, request: HttpRequest) -> Reader | None:
        # A page of another site can make a browser send its cookie, so what takes one must not write.
        if request.method != "GET":
            detail = "The audit API only reads. Use GET."
            raise ProblemError(Problem(code=ProblemCode.METHOD_NOT_ALLOWED, detail=detail))
        if self.header not in request.headers:
            return _signed_in(request)
        reader: Reader | None = super().__call__(request)
        return reader

    def authenticate(self, request: HttpRequest, token: str) -> Reader | None:
        key = credentials.auditor_key(token)
        if key is None:
            _forbid_other(request, token, "Reading the audit API requires an auditor's key.")
            return None
        _remember(request, Caller(tenant=key.tenant, stream=key.holder))
        return Reader(tenant=key.tenant, name=key.holder)


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


def state_reader_of(request: HttpRequest) -> Session | Key:
    """Whom `StateReader` found."""
    found: Any = getattr(request, "auth", None)
    if not isinstance(found, Session | Key):
        raise TypeError("the call is not guarded by a reader of facts")
    return found


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


def _signed_in(request: HttpRequest) -> Reader | None:
    if not request.user.is_authenticated:
        return None
    tenant, name = permissions.tenant_of(request.user), permissions.actor_of(request.user)
    _remember(request, Caller(tenant=tenant, stream=name))
    if not permissions.roles_of(request.user):
        detail = "Reading the audit API requires a role, and your account has none. An admin can give it one."
        raise ProblemError(Problem(code=ProblemCode.ROLE_MISSING, detail=detail))
    return Reader(tenant=tenant, name=name)


def _forbid_other(request: HttpRequest, token: str, detail: str) -> None:
    """403 for a valid credential of another sort; text that is none at all stays a plain 401."""
    key, session = credentials.any_key(token), credentials.session(token)
    if key is not None:
        _remember(request, Caller(tenant=key.tenant, stream=key.holder))
    elif session is not None:
        _remember(request, Caller(tenant=session.agent.tenant, stream=actors.agent(session.agent.agent_id)))
    else:
        return
    raise ProblemError(Problem(code=ProblemCode.UNAUTHORIZED, detail=detail))

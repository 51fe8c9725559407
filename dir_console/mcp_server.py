"""`/mcp`: the policy kinds of an agent as tools of the Model Context Protocol, by the official SDK.

It is a face of the agent API and no second road: each tool call is `POST /api/v1/proposals` with the
session of the agent whose key came with the request, made inside this process. So the same gate judges it,
in the same line, under the same bounds, and its answer is kept under a key. The server keeps nothing
between requests but sessions, which it opens again when it must; a client that hangs up cancels nothing.
"""

import hashlib
import json
import math
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO
from typing import Any, Final

import httpx2
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from dir_console import auth, mcp_reads, problems
from dir_console.mcp_reads import Caller, Offered
from dir_console.requests_in_turn import RequestsInTurn, refuse
from dir_console.waiting_line import FullLineError
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode

PATH: Final = "/mcp"
PROPOSALS: Final = "/api/v1/proposals"
HELD: Final = "AWAITING_HUMAN_INPUT"
LONGEST_WAIT_S: Final = 25
MOST_SESSIONS: Final = 10_000
_INSTRUCTIONS: Final = (
    "Each tool proposes an action; rules or a person decide. A tool that answers AWAITING_HUMAN_INPUT has "
    "done nothing yet: wait with dir_wait, or go on and ask dir_status later. A REJECTED answer says what "
    "to mend."
)
# Of what a path may hold: whether there is such a flow, the agent API says.
_DFID_FORM: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_DFID: Final = {"type": "string", "description": "The flow (dfid) that an earlier call named."}
# Members of a call beside the parameters of the kind, where these have no member of the name.
_BESIDE: Final[Mapping[str, Mapping[str, Any]]] = {
    "dfid": {
        **_DFID,
        "description": "Try again in the flow of an earlier REJECTED or CONTEXT_REQUIRED answer.",
    },
    "context_ref": {"type": "string", "description": "The facts you decided on, from CONTEXT_REQUIRED."},
    "dir_explain": {"type": "string", "description": "Why, in plain words, for the person who may decide."},
    "dir_confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "How sure you are."},
    "dir_new": {"type": "boolean", "description": "True: do it again, though the same was done just now."},
}
_STATUS: Final = Tool(
    name="dir_status",
    description="How an earlier action stands, by its dfid.",
    input_schema={"type": "object", "properties": {"dfid": _DFID}, "required": ["dfid"]},
    annotations=ToolAnnotations(read_only_hint=True),
)
_WAIT: Final = Tool(
    name="dir_wait",
    description=f"Wait up to {LONGEST_WAIT_S} seconds for an earlier action to end, by its dfid.",
    input_schema={
        "type": "object",
        "properties": {
            "dfid": _DFID,
            "timeout_s": {"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT_S},
        },
        "required": ["dfid"],
    },
    annotations=ToolAnnotations(read_only_hint=True),
)


@dataclass(frozen=True)
class Heard:
    """An answer of the agent API."""

    status: int
    body: Mapping[str, Any]

    @property
    def is_refusal(self) -> bool:
        """Whether it is a problem document."""
        return self.status >= HTTPStatus.BAD_REQUEST


@dataclass
class Api:
    """The agent API as this process serves it, with the sessions of agents by the digests of their keys."""

    application: Any
    _sessions: OrderedDict[str, str] = field(default_factory=OrderedDict)

    async def call(
        self, request: "Request", method: str, path: str, body: Any = None, key: str | None = None
    ) -> Heard:
        """One call in the session of the agent, which is opened where there is none or it has ended."""
        named = hashlib.sha256(request.key.encode()).hexdigest()
        token = self._sessions.get(named)
        for last in (False, True):
            if token is None:
                opened = await self._shake(request)
                if opened.is_refusal:
                    return opened
                token = str(opened.body["session_token"])
                self._keep(named, token)
            heard = await self._send(request, method, path, body, token, key)
            if last or heard.status != HTTPStatus.UNAUTHORIZED:
                return heard
            token = None
        raise AssertionError("unreachable: the second try returns")

    async def _shake(self, request: "Request") -> Heard:
        hello = {
            "agent_id": request.caller.agent_id,
            "manifest_version": request.caller.manifest_version,
            "protocol_version": "1.0.0",
            "instance_id": "mcp",
        }
        return await self._send(request, "POST", "/api/v1/handshake", hello, request.key, None)

    def _keep(self, named: str, token: str) -> None:
        self._sessions[named] = token
        self._sessions.move_to_end(named)
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)

    async def _send(
        self, request: "Request", method: str, path: str, body: Any, token: str, key: str | None
    ) -> Heard:
        headers = {"Authorization": f"Bearer {token}", "Host": request.http.headers.get("Host", "")}
        if key is not None:
            headers["Idempotency-Key"] = key
        address = auth.address_of(request.http)
        transport = httpx2.ASGITransport(app=self.application, client=(address, 0))
        async with httpx2.AsyncClient(transport=transport, base_url="http://console") as client:
            answer = await client.request(
                method, path, headers=headers, timeout=None, **({} if body is None else {"json": body})
            )
        return Heard(status=answer.status_code, body=answer.json())


@dataclass(frozen=True, kw_only=True)
class Request:
    """Who asks: the key with its agent, and the request that they came with."""

    key: str
    caller: Caller
    http: HttpRequest


class McpServer:
    """The ASGI application of `/mcp`. `running` is held from the start to the end of the server."""

    def __init__(self, application: Any, in_turn: RequestsInTurn) -> None:
        self.api = Api(application)
        self._in_turn = in_turn
        self._manager: StreamableHTTPSessionManager | None = None
        self._server: Server[dict[str, Any]] = Server(
            "dir-console",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            # One agent's tools are nothing for another, and they change with its manifest.
            cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="private")},
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until it is left."""
        manager = StreamableHTTPSessionManager(
            app=self._server,
            stateless=True,
            json_response=True,
            security_settings=_security(),
            max_request_body_size=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
        )
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        asked = ASGIRequest(scope, BytesIO())  # its headers only: the body is for the protocol
        scheme, _, key = asked.headers.get("Authorization", "").partition(" ")
        try:
            caller = await self._find_caller(asked, key.strip()) if scheme.lower() == "bearer" else None
        except FullLineError as full:
            await _send(send, refuse(full.retry_after_s, is_agent=True))
            return
        if caller is None:
            detail = "Send the agent's key as Authorization: Bearer."
            await _send(send, problems.respond(Problem(code=ProblemCode.UNAUTHENTICATED, detail=detail)))
            return
        if self._manager is None:
            detail = "The MCP server is not running."
            await _send(
                send, problems.respond(Problem(code=ProblemCode.TEMPORARILY_UNAVAILABLE, detail=detail))
            )
            return
        scope["dir_request"] = Request(key=key.strip(), caller=caller, http=asked)
        await self._manager.handle_request(scope, receive, send)

    async def _find_caller(self, asked: HttpRequest, key: str) -> Caller | None:
        return await self._in_turn.read_in_turn(asked, lambda: mcp_reads.find_caller(key))

    async def _list_tools(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tools = [_tool(offered) for offered in _request_of(context).caller.tools]
        return ListToolsResult(tools=[*tools, _STATUS, _WAIT])

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        try:
            return await self._answer(_request_of(context), context, params)
        except FullLineError as full:
            # It may have been proposed already; the same call finds that again.
            said = f"The console is busy. Send the same call again in {full.retry_after_s} seconds."
            return _failed({"status": ProblemCode.TOO_MANY_WAITING.value, "retriable": True}, said)

    async def _answer(
        self, request: Request, context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        given = dict(params.arguments or {})
        if params.name == _STATUS.name:
            return await self._follow(request, given.get("dfid"), wait_s=0)
        if params.name == _WAIT.name:
            return await self._follow(request, given.get("dfid"), wait_s=_seconds(given.get("timeout_s")))
        offered = next((one for one in request.caller.tools if one.kind.lower() == params.name), None)
        if offered is None:
            said = f"No tool {params.name}: your active manifest does not grant it, or it does not exist."
            return _failed({"status": "UNKNOWN_TOOL"}, said)
        named = (context.meta or {}).get("dir/idempotency_key")
        return await self._propose(request, offered, given, named if isinstance(named, str) else None)

    async def _propose(
        self, request: Request, offered: Offered, given: dict[str, Any], named: str | None
    ) -> CallToolResult:
        beside = {name: given.pop(name) for name in _beside(offered) if name in given}
        key, is_repeat = await self._key_of(request, offered.kind, given, beside, named)
        body = {
            "policy_kind": offered.kind,
            "params": given,
            "execution_constraints": {"validity_window_sec": 300},
            "confidence": beside.get("dir_confidence"),
            "explain": beside.get("dir_explain"),
            "dfid": beside.get("dfid"),
            "context_ref": beside.get("context_ref"),
            "context": None if beside.get("context_ref") else "current",
            "trigger": None if beside.get("dfid") else {"mcp": offered.kind},
        }
        sent = {name: value for name, value in body.items() if value is not None}
        heard = await self.api.call(request, "POST", PROPOSALS, sent, key)
        if heard.is_refusal:
            if heard.body.get("code") == ProblemCode.CONTEXT_REQUIRED:
                return await self._show_context(request, beside.get("dfid"))
            return _refused(heard)
        verdict = {**heard.body, **({"repeated": True} if is_repeat else {})}
        if verdict["verdict"] == "REJECT":
            words = " ".join(f"{reason['code']}: {reason['message']}." for reason in verdict["reasons"])
            return _failed({**verdict, "status": "REJECTED"}, f"Rejected. {words}")
        if verdict["verdict"] == "ESCALATE":
            return await self._follow(request, verdict["dfid"], wait_s=0, verdict=verdict)
        return await self._follow(request, verdict["dfid"], wait_s=LONGEST_WAIT_S, verdict=verdict)

    async def _show_context(self, request: Request, dfid: Any) -> CallToolResult:
        """The facts that the kind wants to be decided on: the model sees them before it asks again."""
        if dfid is None:
            opened = await self.api.call(
                request, "POST", "/api/v1/flows", {"trigger": "mcp"}, str(uuid.uuid4())
            )
            if opened.is_refusal:
                return _refused(opened)
            dfid = opened.body["dfid"]
        seen = await self.api.call(request, "POST", f"/api/v1/flows/{dfid}/context", {})
        if seen.is_refusal:
            return _refused(seen)
        shown = {
            "status": ProblemCode.CONTEXT_REQUIRED.value,
            "dfid": dfid,
            "context_ref": seen.body["context_ref"],
            "expires_at": seen.body["expires_at"],
            "facts": seen.body["context"]["facts"],
        }
        said = "This tool depends on facts. Decide on these, and call it again with dfid and context_ref."
        return _failed(shown, f"{said} {json.dumps(shown['facts'])}")

    async def _follow(
        self, request: Request, dfid: Any, *, wait_s: int, verdict: Mapping[str, Any] | None = None
    ) -> CallToolResult:
        """How a flow stands, after a wait of up to `wait_s` seconds for its end."""
        if not isinstance(dfid, str) or not _DFID_FORM.fullmatch(dfid):
            return _failed(
                {"status": "BAD_REQUEST"}, "dfid is the id of a flow, as an earlier call named it."
            )
        until, after, events = time.monotonic() + wait_s, 0, list[Mapping[str, Any]]()
        while True:
            left_s = max(0, math.ceil(until - time.monotonic()))
            path = f"/api/v1/flows/{dfid}/feedback?after={after}&wait={left_s}"
            heard = await self.api.call(request, "GET", path)
            if heard.is_refusal:
                return _refused(heard)
            events += heard.body["events"]
            after = heard.body["next"]
            ended = _end_of(events)
            if ended is not None:
                return _result({**ended, **_told(verdict), "dfid": dfid})
            if time.monotonic() >= until or (verdict is not None and _is_held(events)):
                break
        flow = await self.api.call(request, "GET", f"/api/v1/flows/{dfid}")
        standing = await self._standing(request, events, flow.body)
        return _result({**standing, **_told(verdict), "dfid": dfid})

    async def _key_of(
        self,
        request: Request,
        kind: str,
        params: Mapping[str, Any],
        beside: Mapping[str, Any],
        named: str | None,
    ) -> tuple[str, bool]:
        """Under which key a call is made, and whether an equal one was answered just now.

        MCP has no key, and a client that repeats a call after a timeout must not act twice. So a call without
        a key of its own has one of what it says, for ten minutes.
        """
        if named is not None:
            return f"mcp:{hashlib.sha256(named.encode()).hexdigest()}", False
        said = {
            "kind": kind,
            "params": params,
            **{name: beside.get(name) for name in ("dfid", "context_ref")},
        }
        prefix = f"mcp:{hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()}:"
        if beside.get("dir_new") is True:
            return f"{prefix}{uuid.uuid4()}", False
        earlier = await self._in_turn.read_in_turn(
            request.http, lambda: mcp_reads.find_earlier_key(request.caller.pk, PROPOSALS, prefix)
        )
        if earlier is not None:
            return earlier, True
        # Equal calls at the same time have the same key, too.
        return f"{prefix}{int(time.time() // mcp_reads.SAME_CALL.total_seconds())}", False

    async def _standing(
        self, request: Request, events: list[Mapping[str, Any]], flow: Mapping[str, Any]
    ) -> dict[str, Any]:
        """How it stands before its end."""
        asked = [event["data"] for event in events if event["event_type"] == "ESCALATION_REQUIRED"]
        if flow.get("state") != "ESCALATED" or not asked:
            return {"status": str(flow.get("state"))}
        escalation_id = str(asked[-1]["escalation_id"])
        expires_at = await self._in_turn.read_in_turn(
            request.http, lambda: mcp_reads.get_deadline(escalation_id)
        )
        return {"status": HELD, "escalation_id": escalation_id, "expires_at": expires_at}


def _request_of(context: ServerRequestContext[Any, Any]) -> Request:
    asked = context.request
    found = None if asked is None else asked.scope.get("dir_request")
    if not isinstance(found, Request):
        raise TypeError("the request did not come through McpServer")
    return found


def _security() -> TransportSecuritySettings:
    """Django's own list of hosts, each with any port: a page of another site reaches nothing by this door."""
    hosts = [host.removeprefix(".") for host in settings.ALLOWED_HOSTS]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection="*" not in hosts,
        allowed_hosts=[name for host in hosts for name in (host, f"{host}:*")],
        allowed_origins=[
            origin
            for host in hosts
            for scheme in ("http", "https")
            for origin in (f"{scheme}://{host}", f"{scheme}://{host}:*")
        ],
    )


def _beside(offered: Offered) -> list[str]:
    taken = offered.params_schema.get("properties", {})
    return [name for name in _BESIDE if name not in taken]


def _tool(offered: Offered) -> Tool:
    schema = dict(offered.params_schema)
    schema["properties"] = {
        **schema.get("properties", {}),
        **{name: dict(_BESIDE[name]) for name in _beside(offered)},
    }
    return Tool(
        name=offered.kind.lower(),
        title=offered.title,
        description=offered.description or offered.title,
        input_schema=schema,
        annotations=ToolAnnotations(
            read_only_hint=not offered.has_effect, destructive_hint=not offered.is_reversible
        ),
    )


def _seconds(given: Any) -> int:
    return min(max(given, 0), LONGEST_WAIT_S) if isinstance(given, int) else LONGEST_WAIT_S


def _told(verdict: Mapping[str, Any] | None) -> dict[str, Any]:
    if verdict is None:
        return {}
    names = ("proposal_id", "escalation_id", "reasons", "repeated")
    return {name: verdict[name] for name in names if name in verdict}


def _is_held(events: list[Mapping[str, Any]]) -> bool:
    kinds = [event["event_type"] for event in events]
    return "ESCALATION_REQUIRED" in kinds and "ESCALATION_RESOLVED" not in kinds


def _end_of(events: list[Mapping[str, Any]]) -> dict[str, Any] | None:
    """How it ended; None while it has not. The last outcome counts, since a receipt can come late."""
    of_type = {event["event_type"]: event["data"] for event in events}
    decided = of_type.get("ESCALATION_RESOLVED", {})
    known = {name: decided[name] for name in ("action", "params") if name in decided}
    if (told := of_type.get("EXECUTION_OUTCOME")) is not None:
        return {
            **known,
            "status": told["status"],
            "effect": told.get("effect"),
            "receipt": told.get("receipt"),
        }
    if (told := of_type.get("FLOW_ABORTED")) is not None:
        return {**known, "status": "ABORTED", "effect": "NOT_HAPPENED", "reason": told.get("reason")}
    if (told := of_type.get("FLOW_CLOSED")) is not None:
        return {**known, "status": "CLOSED" if told.get("detail") else "PERMITTED"}
    return None


def _result(said: dict[str, Any]) -> CallToolResult:
    is_error = said["status"] in {"ABORTED", "FAILED", "EXPIRED", "CANCELLED", "COMPENSATED"}
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(said))], structured_content=said, is_error=is_error
    )


def _failed(said: Mapping[str, Any], words: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=words)], structured_content=dict(said), is_error=True
    )


def _refused(heard: Heard) -> CallToolResult:
    code, detail = str(heard.body.get("code", "")), str(heard.body.get("detail", ""))
    wrong = [f"{one['pointer']} {one['message']}" for one in heard.body.get("violations") or ()]
    said = {
        "status": code,
        **{name: heard.body[name] for name in ("dfid", "retriable") if name in heard.body},
    }
    return _failed(said, " ".join([f"{code}: {detail}", *wrong]))


async def _send(send: Any, response: HttpResponse) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})

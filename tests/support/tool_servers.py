"""MCP servers on the loopback address: one by the official SDK, and a raw one that can misbehave."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID, uuid4

import uvicorn
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

from audit import canonical
from runtime.contexts.services import contexts
from runtime.contracts import api_schemas
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.problem import Problem
from runtime.execution.services import tool_looks
from runtime.flows.services import flows
from runtime.packs.services import packs
from runtime.proposals.services import intake
from runtime.registry.models import Session
from runtime.registry.queries import tool_pins
from runtime.registry.services import credentials, handshakes, tools

TENANT, SERVER, TOOL = "default", "notes", "add_note"
DESCRIBED: dict[str, Any] = {
    "name": TOOL,
    "description": "Adds a note.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 200}},
        "required": ["text"],
    },
    "outputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
}
PACK = """
pack: notes
version: 1.0.0
policy_kinds:
  - kind: ADD_NOTE
    version: 1.0.0
    title: Add a note
    risk_tier: T0
    params_schema:
      type: object
      properties: {text: {type: string, maxLength: 200}}
      required: [text]
    impact: "'LOW_IMPACT'"
    effect: "Add the note {text}"
    steps:
      - {id: add, executor: mcp, target: notes, timeout_s: 3, tool: {name: add_note}, receipt_schema: SCHEMA}
targets: {notes: {base_url: "BASE_URL", protocol: mcp}}
agents:
  - agent_id: writer
    role: EXECUTOR
    owner: desk
    mission: Write notes
    manifest: {version: 1.0.0, policy_kinds: [ADD_NOTE], limits: {}, escalations_per_hour: 9}
"""


def pack(base_url: str) -> str:
    """A kind that calls the tool of a server at `base_url`."""
    schema = json.dumps(DESCRIBED["outputSchema"])
    return PACK.replace("BASE_URL", base_url).replace("SCHEMA", schema)


def load(text: str) -> None:
    """Load a pack and activate what it brings."""
    loaded = packs.load(text=text, source="notes.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded


def session() -> Session:
    """A session of the agent that may call the tool."""
    issued = credentials.issue_agent_key(tenant=TENANT, agent_id="writer", actor="system")
    assert not isinstance(issued, Problem)
    key = credentials.agent_key(issued.text)
    assert key is not None
    assert key.agent is not None
    asked = api_schemas.HandshakeRequest(agent_id="writer", manifest_version="1.0.0", protocol_version="1.0")
    answer = handshakes.open_session(key=key, agent=key.agent, request=asked)
    assert not isinstance(answer, Problem), answer
    found = credentials.session(answer.session_token)
    assert found is not None
    return found


def propose(opened: Session, params: Mapping[str, Any], *, kind: str = "ADD_NOTE") -> dict[str, Any]:
    """A flow of its own and a proposal in it; the verdict."""
    flow = flows.open_flow(agent=opened.agent, trigger={"why": "trial"})
    assert not isinstance(flow, Problem), flow
    dfid = UUID(str(flow.dfid))
    context = contexts.compile_context(agent=opened.agent, dfid=dfid)
    assert not isinstance(context, Problem), context
    body = canonical.encode(
        {
            "policy_kind": kind,
            "params": params,
            "execution_constraints": {"validity_window_sec": 60},
            "context_ref": context.context_ref,
            "confidence": 0.9,
        }
    )
    answered = intake.submit(
        session=opened,
        dfid=dfid,
        envelope=ProposalEnvelope.model_validate_json(body),
        body=body,
        idempotency_key=str(uuid4()),
        path=f"/flows/{dfid}/proposals",
    )
    assert isinstance(answered, intake.Answered), answered
    return {**canonical.decode(answered.body), "dfid": str(dfid)}


def accept(opened: Session, text: str = "hi") -> UUID:
    """An accepted proposal to call the tool; the id of its waiting intent."""
    verdict = propose(opened, {"text": text})
    assert verdict["verdict"] == "ACCEPT", verdict
    return UUID(verdict["intent_id"])


def opened(base_url: str) -> Session:
    """The pack loaded, the server looked at, the tool pinned; a session of the agent."""
    load(pack(base_url))
    found = tool_looks.look(tenant=TENANT, server=SERVER)
    assert found is not None
    assert not found.trouble, found
    pin()
    return session()


def pin(server: str = SERVER, name: str = TOOL, *, actor: str = "user:1") -> tools.Pinned:
    """Pin a tool as it was seen last."""
    row = tool_pins.get_tool(tenant=TENANT, server=server, name=name)
    assert row is not None
    done = tools.pin(
        tenant=TENANT, server=server, name=name, shown=row.found_digest, reason="Looked at", actor=actor
    )
    assert isinstance(done, tools.Pinned), done
    return done


Answering = Callable[["Hostile", BaseHTTPRequestHandler, Mapping[str, Any]], None]


@dataclass
class Hostile:
    """A raw server. `described` is what it lists; `on_call` answers a call; `calls` are those that came.

    `release` lets a call go that hangs.
    """

    port: int = 0
    described: list[dict[str, Any]] = field(default_factory=lambda: [dict(DESCRIBED)])
    on_call: Answering | None = None
    on_list: Answering | None = None
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


def result(request: BaseHTTPRequestHandler, asked: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Answer a request so."""
    send(request, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": given}).encode())


def send(
    request: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, content_type: str = "application/json"
) -> None:
    request.send_response(status)
    request.send_header("Content-Type", content_type)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def answers(structured: Mapping[str, Any], text: str = "done") -> Answering:
    """A call that is answered with structured content."""

    def write(server: Hostile, request: BaseHTTPRequestHandler, asked: Mapping[str, Any]) -> None:
        content = [{"type": "text", "text": text}]
        result(request, asked, {"content": content, "structuredContent": structured})

    return write


@contextmanager
def hostile(on_call: Answering | None = None, **members: Any) -> Iterator[Hostile]:
    """A raw server that runs until it is left."""
    server = Hostile(on_call=on_call or answers({"id": 7}), **members)

    class RawAnswers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            method = asked["method"]
            server.methods.append(method)
            server.headers.append(dict(self.headers))
            if method == "initialize":
                version = {"protocolVersion": asked["params"]["protocolVersion"]}
                named = {"serverInfo": {"name": "raw", "version": "1"}, "capabilities": {"tools": {}}}
                result(self, asked, {**version, **named})
            elif method == "tools/list":
                listing = server.on_list
                if listing is not None:
                    listing(server, self, asked)
                else:
                    result(self, asked, {"tools": server.described})
            elif method == "tools/call":
                server.calls.append(asked["params"])
                assert server.on_call is not None
                server.on_call(server, self, asked)
            else:
                send(self, b"", status=202)

        def log_message(self, *words: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that hangs up is what some of these are for

    running = Quiet(("127.0.0.1", 0), RawAnswers)
    server.port = running.server_address[1]
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        running.shutdown()
        running.server_close()
        thread.join()


class Added(BaseModel):
    """What the tool of the official SDK's server answers."""

    id: int


@contextmanager
def by_the_sdk(*, json_response: bool, stateless: bool) -> Iterator[tuple[str, list[str]]]:
    """A server by the official SDK with the same tool; its address, and the notes that were added."""
    notes: list[str] = []
    server = MCPServer("notes")

    @server.tool(description="Adds a note.")
    def add_note(text: str) -> Added:
        notes.append(text)
        return Added(id=len(notes))

    app = server.streamable_http_app(json_response=json_response, stateless_http=stateless)
    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", notes
    finally:
        running.should_exit = True
        thread.join()
        listener.close()

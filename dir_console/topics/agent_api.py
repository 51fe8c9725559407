"""`POST /api/v1/proposals` called inside this process: one function judges, whichever road is taken."""

from io import BytesIO
from typing import Any, Final, cast

from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse

from audit import actors
from dir_console.topics.messages import Answer, Message, refusal
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import refusals, transactions
from runtime.registry.services import credentials

PROPOSALS: Final = "/api/v1/proposals"


class AgentApi:
    """The agent API without a socket: its middleware, authentication, checks, refusals and stored answers."""

    def __init__(self) -> None:
        self._application = BaseHandler()
        self._application.load_middleware(is_async=False)

    def propose(self, message: Message, *, agent_id: str) -> Answer:
        """Judge the proposal of a message that came on the topic of `agent_id`.

        The token says who proposes. One of another agent is refused, since its answer would be read by the
        agent of the topic.
        """
        try:
            session = credentials.session(message.token)
            if session is not None and session.agent.agent_id != agent_id:
                return self._refuse_other(session.agent.tenant, session.agent.agent_id)
            response = cast(
                HttpResponse, self._application.get_response(WSGIRequest(_environ(message)))
            )  # no view of the API streams
        finally:
            transactions.give_back_connection()
        return Answer(
            status=response.status_code,
            body=response.content,
            retry_after_s=response.headers.get("Retry-After", ""),
        )

    def _refuse_other(self, tenant: str, agent_id: str) -> Answer:
        problem = Problem(
            code=ProblemCode.UNAUTHORIZED,
            detail="The session is of another agent than the topic. Send it on the topic of its own agent.",
        )
        refusals.record_refusal(
            tenant=tenant,
            stream=actors.agent(agent_id),
            code=problem.code,
            path=PROPOSALS,
            detail=problem.detail,
        )
        return refusal(problem)


def _environ(message: Message) -> dict[str, Any]:
    """The request as a server would hand it on."""
    environ = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": PROPOSALS,
        "QUERY_STRING": "",
        "SERVER_NAME": "topic-intake",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": _host(),
        "HTTP_AUTHORIZATION": f"Bearer {message.token}",
        "HTTP_IDEMPOTENCY_KEY": message.key,
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(message.body)),
        "wsgi.input": BytesIO(message.body),
        "wsgi.url_scheme": "http",
    }
    # An absent header and an empty one are answered differently.
    if not message.key:
        del environ["HTTP_IDEMPOTENCY_KEY"]
    if message.traceparent:
        environ["HTTP_TRACEPARENT"] = message.traceparent
    return environ


def _host() -> str:
    """A host name that the console accepts: the call comes by none."""
    named = next(iter(settings.ALLOWED_HOSTS), "*")
    return "localhost" if named == "*" else str(named).removeprefix(".")

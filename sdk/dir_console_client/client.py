"""Clients of a console: `Client` for threads, `AsyncClient` for event loops. Both have the same calls."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from time import sleep
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
import httpx2

from dir_console_client import messages as message_calls
from dir_console_client import tasks as task_calls
from dir_console_client.conversation import Answer, Call, Conversation, NoAnswer, Pause, Signer, Talk

P = ParamSpec("P")
T = TypeVar("T")


class _Settings:
    """Where the console is, and who the agent is.

    `key` is the agent's key, as an admin issued it; keep it out of code and logs. `manifest_version` is the
    version of the manifest that the agent was built for. `patience_s` bounds how long one call is tried
    again. `signing_key` signs proposals, where the manifest has a `proposal_key`: 32 bytes in base64, as
    secret as `key`.

    Raises:
        ValueError: for a key that no console has issued: the transport would repeat it in its error.
    """

    def __init__(
        self,
        base_url: str,
        *,
        agent_id: str,
        key: str,
        manifest_version: str = "1.0.0",
        instance_id: str | None = None,
        patience_s: float = 30.0,
        signing_key: str | None = None,
    ) -> None:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ValueError("the key has a line break, a space or another character that no key has")
        self.base_url = base_url.rstrip("/")
        self.conversation = Conversation(
            agent_id=agent_id,
            key=key,
            manifest_version=manifest_version,
            instance_id=instance_id,
            patience_s=patience_s,
            signer=None if signing_key is None else _signer(signing_key),
        )

    def escalation_url(self, escalation_id: str) -> str:
        """The page where a person decides."""
        return f"{self.base_url}/escalations/{escalation_id}/"


def _signer(signing_key: str) -> Signer:
    # Most agents sign nothing, and need no cryptography for that.
    from dir_console_client.signatures import SigningKey

    return SigningKey(signing_key)


def _in_thread(
    talk: Callable[Concatenate[Conversation, P], Talk[T]],
) -> Callable[Concatenate["Client", P], T]:
    @wraps(talk)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(talk(self.conversation, *args, **kwargs))

    return method


def _in_loop(
    talk: Callable[Concatenate[Conversation, P], Talk[T]],
) -> Callable[Concatenate["AsyncClient", P], Awaitable[T]]:
    @wraps(talk)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(talk(self.conversation, *args, **kwargs))

    return method


class Client(_Settings):
    """A console, for one agent. Used as a context manager it closes its connections."""

    def __init__(self, base_url: str, **settings: Any) -> None:
        super().__init__(base_url, **settings)
        self._http = httpx2.Client(base_url=self.base_url)

    handshake = _in_thread(Conversation.handshake)
    schema = _in_thread(Conversation.schema)
    open_flow = _in_thread(Conversation.open_flow)
    flow = _in_thread(Conversation.flow)
    context = _in_thread(Conversation.context)
    cancel = _in_thread(Conversation.cancel)
    close_flow = _in_thread(Conversation.close_flow)
    usage = _in_thread(Conversation.usage)
    rules = _in_thread(Conversation.rules)
    decide = _in_thread(Conversation.decide)
    consult = _in_thread(message_calls.consult)
    consultations = _in_thread(message_calls.consultations)
    propose = _in_thread(Conversation.propose)
    wait = _in_thread(Conversation.wait)
    act = _in_thread(Conversation.act)
    feedback = _in_thread(Conversation.feedback)
    events = _in_thread(Conversation.events)
    answer = _in_thread(Conversation.answer)
    open_task = _in_thread(task_calls.open_task)
    task = _in_thread(task_calls.task)
    change_task = _in_thread(task_calls.change_task)
    add_task_event = _in_thread(task_calls.add_task_event)
    link_task = _in_thread(task_calls.link_task)
    send_message = _in_thread(message_calls.send_message)
    reply = _in_thread(message_calls.reply)
    messages = _in_thread(message_calls.messages)
    acknowledge = _in_thread(message_calls.acknowledge)
    capabilities = _in_thread(message_calls.capabilities)
    advertise = _in_thread(message_calls.advertise)

    def run(self, talk: Talk[T]) -> T:
        """Drive one conversation to its end."""
        try:
            wanted = next(talk)
            while True:
                if isinstance(wanted, Pause):
                    sleep(wanted.seconds)
                    wanted = talk.send(_NOTHING)
                    continue
                try:
                    answer = _answer_of(self._http.request(**_request_of(wanted)))
                except httpx2.TransportError as error:
                    wanted = talk.throw(NoAnswer(str(error) or type(error).__name__))
                else:
                    wanted = talk.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    def close(self) -> None:
        """Close the connections; the session ends by itself."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Settings):
    """The same for an event loop."""

    def __init__(self, base_url: str, **settings: Any) -> None:
        super().__init__(base_url, **settings)
        self._http = httpx2.AsyncClient(base_url=self.base_url)

    handshake = _in_loop(Conversation.handshake)
    schema = _in_loop(Conversation.schema)
    open_flow = _in_loop(Conversation.open_flow)
    flow = _in_loop(Conversation.flow)
    context = _in_loop(Conversation.context)
    cancel = _in_loop(Conversation.cancel)
    close_flow = _in_loop(Conversation.close_flow)
    usage = _in_loop(Conversation.usage)
    rules = _in_loop(Conversation.rules)
    decide = _in_loop(Conversation.decide)
    consult = _in_loop(message_calls.consult)
    consultations = _in_loop(message_calls.consultations)
    propose = _in_loop(Conversation.propose)
    wait = _in_loop(Conversation.wait)
    act = _in_loop(Conversation.act)
    feedback = _in_loop(Conversation.feedback)
    events = _in_loop(Conversation.events)
    answer = _in_loop(Conversation.answer)
    open_task = _in_loop(task_calls.open_task)
    task = _in_loop(task_calls.task)
    change_task = _in_loop(task_calls.change_task)
    add_task_event = _in_loop(task_calls.add_task_event)
    link_task = _in_loop(task_calls.link_task)
    send_message = _in_loop(message_calls.send_message)
    reply = _in_loop(message_calls.reply)
    messages = _in_loop(message_calls.messages)
    acknowledge = _in_loop(message_calls.acknowledge)
    capabilities = _in_loop(message_calls.capabilities)
    advertise = _in_loop(message_calls.advertise)

    async def run(self, talk: Talk[T]) -> T:
        """Drive one conversation to its end."""
        try:
            wanted = next(talk)
            while True:
                if isinstance(wanted, Pause):
                    await anyio.sleep(wanted.seconds)
                    wanted = talk.send(_NOTHING)
                    continue
                try:
                    answer = _answer_of(await self._http.request(**_request_of(wanted)))
                except httpx2.TransportError as error:
                    wanted = talk.throw(NoAnswer(str(error) or type(error).__name__))
                else:
                    wanted = talk.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    async def close(self) -> None:
        """Close the connections; the session ends by itself."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


_NOTHING = Answer(status=0, headers={}, body={})


def _request_of(call: Call) -> dict[str, Any]:
    sent: dict[str, Any] = {
        "method": call.method,
        "url": call.path,
        "headers": {"Accept": "application/json", **call.headers},
        "timeout": call.timeout_s,
    }
    return sent if call.body is None else {**sent, "json": call.body}


def _answer_of(response: httpx2.Response) -> Answer:
    try:
        body = response.json()
    except ValueError:
        body = {}
    headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status_code, headers=headers, body=body if isinstance(body, dict) else {})

"""Proposals that wait for SQLite's one writer are answered in one commit, each as if it had come alone."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from pytest_django.fixtures import Settings

from audit.verification import verify
from dir_console.requests_in_turn import Line, RequestsInTurn
from dir_console.shared_commits import Asked, SharedCommits
from runtime.core import transactions
from runtime.core.models import Answer
from runtime.flows.models import Flow
from runtime.proposals.services import one_call
from tests.support import api_client
from tests.support.wait_until import until_async

pytestmark = [
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has more than one writer"),
    pytest.mark.usefixtures("real_db"),
]

PATIENCE_S = 30.0
AT_ONCE = 16
CHANGED = {"params": {"symbol": "AAPL", "action": "BUY", "quantity": 2}}


@dataclass(frozen=True)
class Sent:
    """A proposal in one call under a key; `raw` is sent as it is in place of `body`."""

    key: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    token: str | None = None

    @property
    def body(self) -> bytes:
        seen = {"price.AAPL": 1, "market.state": 1}
        made = api_client.proposal(**{"context": "current", "seen": seen, **self.changes})
        return json.dumps(made).encode() if self.raw is None else self.raw


# Some are accepted, one is repeated, and the others are refused for reasons of each kind.
ALL_KINDS = (
    Sent("first"),
    Sent("accepted"),
    Sent("accepted"),
    Sent("accepted", CHANGED),
    Sent("no-params", {"params": {}}),
    Sent("not-json", raw=b"{"),
    Sent("stranger", token="nobody"),  # no credential of anybody
    Sent("unknown", {"policy_kind": "NO_SUCH_KIND"}),
    Sent("last", CHANGED),
)


@pytest.fixture
def handler(settings: Settings) -> Iterator[RequestsInTurn]:
    settings.DIR_REQUESTS_AT_ONCE = AT_ONCE
    api_client.load_pack()
    made = RequestsInTurn()
    yield made
    made.end_threads()


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """How many were to be written in one commit, and whether they were."""
    seen: list[tuple[int, bool]] = []
    run = transactions.run_together

    def noted(works: Sequence[Callable[[], Any]], **rest: Any) -> list[Any] | None:
        results = run(works, **rest)
        seen.append((len(works), results is not None))
        return results

    monkeypatch.setattr(transactions, "run_together", noted)
    return seen


async def answer_to(handler: RequestsInTurn, sent: Sent, token: str) -> tuple[int, bytes]:
    """Status and body of the answer; the client stays until it has both."""
    headers = {
        "host": "testserver",
        "authorization": f"Bearer {sent.token or token}",
        "content-type": "application/json",
        "idempotency-key": sent.key,
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/proposals",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    words = [{"type": "http.request", "body": sent.body}]
    status, parts = 0, list[bytes]()

    async def receive() -> dict[str, Any]:
        if words:
            return words.pop()
        await asyncio.Event().wait()
        raise AssertionError("nobody leaves")

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    await handler(scope, receive, send)
    return status, b"".join(parts)


async def together(
    handler: RequestsInTurn, all_sent: Sequence[Sent], token: str, *, leaving: int | None = None
) -> list[Any]:
    """The answers to what came while the thread that writes was busy; the client of that number hangs up."""
    free = threading.Event()
    busy = handler._threads[Line.ONE_WRITER].submit(free.wait, PATIENCE_S)
    calls = [asyncio.create_task(answer_to(handler, sent, token)) for sent in all_sent]
    await until_async(lambda: len(handler._shared_commits._waiting) == len(all_sent))
    if leaving is not None:
        calls[leaving].cancel()
    free.set()
    assert busy.result()
    everything = asyncio.gather(*calls, return_exceptions=leaving is not None)
    return await asyncio.wait_for(everything, PATIENCE_S)


def told(status: int, body: bytes) -> tuple[Any, ...]:
    """What an answer says, without what differs between equal flows."""
    read = json.loads(body)
    return status, read.get("verdict"), read.get("code"), read.get("state"), read.get("attempts_left")


def failing_at(key: str, fail: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the proposal of this key do all that it does, and then this."""
    submit = one_call.submit

    def failing(*, call: Any, **rest: Any) -> Any:
        answer = submit(call=call, **rest)
        if call.key == key:
            fail()
        return answer

    monkeypatch.setattr(one_call, "submit", failing)


def is_whole() -> bool:
    return isinstance(verify.verify_database(), verify.Whole)


def test_each_is_answered_as_if_it_had_come_alone(
    handler: RequestsInTurn, commits: list[tuple[int, bool]]
) -> None:
    one, other = api_client.session(), api_client.session(api_client.OTHER)

    async def story() -> tuple[list[Any], list[Any]]:
        at_once = await together(handler, ALL_KINDS, one.token)
        in_turn = [await answer_to(handler, sent, other.token) for sent in ALL_KINDS]
        return at_once, in_turn

    at_once, in_turn = asyncio.run(story())
    assert commits == [(8, True)]
    assert [told(*answer) for answer in at_once] == [told(*answer) for answer in in_turn]
    assert [status for status, _ in at_once] == [200, 200, 200, 422, 200, 400, 401, 200, 200]
    assert at_once[1] == at_once[2], "repeated within one commit"
    flows = [
        Flow.objects.filter(agent__agent_id=name).count() for name in (api_client.TRADER, api_client.OTHER)
    ]
    assert flows == [5, 5]
    assert is_whole()


def test_nobody_is_answered_before_the_commit(
    handler: RequestsInTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = api_client.session()
    reached, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        assert goes_on.wait(PATIENCE_S)

    failing_at("k2", wait, monkeypatch)

    async def story() -> list[Any]:
        answering = asyncio.ensure_future(together(handler, [Sent(f"k{n}") for n in range(4)], caller.token))
        await until_async(reached.is_set)
        assert handler.line(Line.ONE_WRITER).at_work == 4
        assert await asyncio.to_thread(Flow.objects.count) == 0
        goes_on.set()
        return await answering

    assert [status for status, _ in asyncio.run(story())] == [200] * 4
    assert Flow.objects.count() == 4


def crash() -> None:
    raise RuntimeError("a bug")


def dangle() -> None:
    """A row that only the commit refuses: it belongs to nobody, in no group."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO auth_user_groups (user_id, group_id) VALUES (987654, 987654)")


@pytest.mark.parametrize("fail", [crash, dangle])
def test_what_fails_fails_alone(
    handler: RequestsInTurn,
    commits: list[tuple[int, bool]],
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[[], None],
) -> None:
    caller = api_client.session()
    failing_at("k1", fail, monkeypatch)
    answers = asyncio.run(together(handler, [Sent(f"k{n}") for n in range(5)], caller.token))
    assert commits == [(5, False)]
    assert [status for status, _ in answers] == [200, 500, 200, 200, 200]
    # Its own transaction had ended before the failure, so it stands, as it would have alone.
    assert Answer.objects.count() == Flow.objects.count() == 5
    assert is_whole()


def test_who_hangs_up_is_answered_to_nobody_and_keeps_nobody_waiting(handler: RequestsInTurn) -> None:
    caller = api_client.session()

    answers = asyncio.run(together(handler, [Sent(f"k{n}") for n in range(4)], caller.token, leaving=1))
    assert isinstance(answers[1], asyncio.CancelledError)
    assert [told(*answers[n])[:2] for n in (0, 2, 3)] == [(200, "ACCEPT")] * 3
    assert Flow.objects.count() == 4


@pytest.mark.parametrize("part", ["begin", "answer", "end"])
@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_nobody_is_left_waiting_by_what_fails_around_an_answer(part: str, error: type[BaseException]) -> None:
    def fail(*_: Any) -> Any:
        raise error

    def asked(number: int) -> Asked:
        parts: dict[str, Any] = {
            "begin": lambda: None,
            "answer": lambda: HttpResponse(str(number)),
            "end": lambda answer: None,
        }
        return Asked(**(parts | ({part: fail} if number == 1 else {})))

    free = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(free.wait, PATIENCE_S)
        commits = SharedCommits(threads)
        one, failed, other = [commits.submit(asked(number)) for number in range(3)]
        free.set()
        assert isinstance(failed.exception(PATIENCE_S), error)
        answers: list[Any] = [answered.result(PATIENCE_S) for answered in (one, other)]
        assert [answer.content for answer in answers] == [b"0", b"2"]
        threads.submit(lambda: connection.close())

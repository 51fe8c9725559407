"""A person asks the target of a call in doubt: by the one road, recorded, and nothing is settled by it."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from pydantic import ValidationError
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry, Payload
from runtime.contracts.pack import PackTarget
from runtime.contracts.problem import Problem
from runtime.contracts.states import QueryResult
from runtime.core import clock
from runtime.execution.models import Circuit
from runtime.execution.queries import status_queries as recorded
from runtime.execution.services import calling, status_queries
from runtime.flows.models import Attempt
from runtime.flows.queries import calls_in_doubt
from runtime.registry.models import Target
from runtime.registry.queries import target_endpoints
from runtime.stops.services import stops
from tests.support import asked_targets, ledger_tampering, misbehaving_targets, trading_desk
from tests.support.asked_targets import Asked

FOUND = misbehaving_targets.answer(200, b'{"order_id":"7"}', headers={"Set-Cookie": "a=1", "ETag": "x"})
NOT_FOUND = misbehaving_targets.answer(404, b'{"error":"no such key"}')
BROKEN = misbehaving_targets.answer(500, b"<h1>boom</h1>")
LARGE = misbehaving_targets.answer(200, b"x" * 5_000_000)

pytestmark = pytest.mark.django_db


@pytest.fixture
def target(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", asked_targets.PACK)
    with asked_targets.opened(FOUND) as opened:
        yield opened


@pytest.fixture
def call(target: Asked) -> Attempt:
    """A call in doubt."""
    return asked_targets.put_in_doubt(trading_desk.open_desk(base_url=target.standing.base_url))


def ask(call: Attempt, actor: str = "user:7") -> QueryResult | Problem:
    return status_queries.ask(tenant="default", intent_id=call.intent_id, number=call.number, actor=actor)


def refused(answer: QueryResult | Problem) -> str:
    assert isinstance(answer, Problem), answer
    assert answer.detail.endswith(".")
    return answer.code


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    at = clock.now() + timedelta(seconds=seconds)
    monkeypatch.setattr(clock, "now", lambda: at)


@pytest.mark.parametrize(
    ("answer", "found", "status", "body"),
    [
        (FOUND, QueryResult.FOUND, 200, '{"order_id":"7"}'),
        (NOT_FOUND, QueryResult.NOT_FOUND, 404, '{"error":"no such key"}'),
        (BROKEN, QueryResult.UNKNOWN, 500, "<h1>boom</h1>"),
        (LARGE, QueryResult.UNKNOWN, 200, "x" * status_queries.SHOWN_BYTES),
        (misbehaving_targets.cut, QueryResult.UNKNOWN, None, '{"ok":'),
        (misbehaving_targets.drop, QueryResult.UNKNOWN, None, None),
    ],
)
def test_the_answer_is_recorded_as_it_came_and_settles_nothing(
    answer: misbehaving_targets.Answering,
    found: QueryResult,
    status: int | None,
    body: str | None,
    target: Asked,
    call: Attempt,
) -> None:
    target.answer = answer
    before = trading_desk.states(call.intent_id)
    assert ask(call) is found
    query = recorded.get_newest(call=call)
    assert query is not None
    assert (query.query, query.asked_by, query.found, query.status_code) == (1, "user:7", found, status)
    assert (None if query.raw is None else query.raw["body"]) == body
    assert query.took_ms >= 0
    (sent,) = target.questions
    assert sent.path == f"/orders/{call.target_key}"
    assert sent.body == b""
    assert "Idempotency-Key" not in sent.headers
    assert trading_desk.states(call.intent_id) == before
    assert calls_in_doubt.is_in_doubt(intent=call.intent)
    assert Attempt.objects.count() == 1
    assert ledger_tampering.differences() == []


def test_only_headers_that_help_are_kept(call: Attempt) -> None:
    ask(call)
    query = recorded.get_newest(call=call)
    assert query is not None
    assert query.raw is not None
    names = {name.lower() for name, _ in query.raw["headers"]}
    assert "etag" in names
    assert "set-cookie" not in names
    assert not query.raw["is_cut"]


def test_a_target_that_hangs_costs_the_time_of_a_question_and_no_more(
    target: Asked, call: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "ASKED_TIMEOUT_S", 0.3)
    target.answer = lambda _: target.standing.release.wait(10)
    assert ask(call) is QueryResult.UNKNOWN
    query = recorded.get_newest(call=call)
    assert query is not None
    assert (query.error_category, query.raw) == ("TIMED_OUT", None)
    assert 300 <= query.took_ms < 5_000


def test_what_is_stored_of_an_answer_is_compared_with_its_entry(call: Attempt) -> None:
    ask(call)
    entry = LedgerEntry.objects.get(kind="status_query:finished")
    row = Payload.objects.filter(commitment=entry.payload["answer_commitment"])
    row.update(content=b'{"body":"it is there"}')
    query = recorded.get_newest(call=call)
    assert query is not None
    assert (query.is_tampered, query.raw) == (True, None)


def test_a_stop_keeps_the_question_back(target: Asked, call: Attempt) -> None:
    stops.stop_all(tenant="default", actor="user:1", reason="trial")
    assert refused(ask(call)) == "TARGET_HELD"
    assert target.questions == []
    assert not LedgerEntry.objects.filter(kind="status_query:started").exists()


def test_a_stop_between_the_record_and_the_first_byte_wins(target: Asked, call: Attempt) -> None:
    question = status_queries._begin(
        tenant="default", intent_id=call.intent_id, number=call.number, actor="user:7"
    )
    assert isinstance(question, status_queries.Question)
    stops.stop_all(tenant="default", actor="user:1", reason="trial")
    answer = status_queries._send(question)
    assert status_queries._record(question, answer) is QueryResult.NOT_SENT
    assert target.questions == []
    query = recorded.get_newest(call=call)
    assert query is not None
    assert query.why == "SYSTEM_STOPPED"


def test_an_open_circuit_lets_nothing_through_and_a_half_open_one_tries_the_question(
    target: Asked, call: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.now()
    opened = {"state": "OPEN", "failures": 5, "openings": 1, "retry_at": now + timedelta(seconds=30)}
    Circuit.objects.update_or_create(
        tenant="default", target="broker", defaults={**opened, "changed_at": now}
    )
    assert refused(ask(call)) == "TARGET_HELD"
    assert target.questions == []
    later(monkeypatch, 31)
    assert ask(call) is QueryResult.FOUND
    assert Circuit.objects.get().state == "CLOSED"


def test_a_failing_question_counts_for_the_circuit(target: Asked, call: Attempt) -> None:
    before = Circuit.objects.get().failures
    target.answer = BROKEN
    ask(call)
    assert Circuit.objects.get().failures == before + 1


def test_a_call_is_asked_about_once_in_five_seconds(
    target: Asked, call: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(call) is QueryResult.FOUND
    assert refused(ask(call, actor="user:8")) == "ASKED_JUST_NOW"
    later(monkeypatch, 5.1)
    assert ask(call) is QueryResult.FOUND
    assert len(target.questions) == 2
    query = recorded.get_newest(call=call)
    assert query is not None
    assert query.query == 2


def test_what_is_not_in_doubt_or_has_no_probe_is_not_asked_about(call: Attempt, target: Asked) -> None:
    assert refused(
        status_queries.ask(tenant="other", intent_id=call.intent_id, number=1, actor="user:7")
    ) == ("NOT_FOUND")
    Attempt.objects.update(effect="HAPPENED", settled_by="user:7", settled_at=clock.now())
    assert refused(ask(call)) == "NOT_IN_DOUBT"
    assert target.questions == []


def test_a_step_without_a_probe_cannot_be_asked_about(target: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = asked_targets.PACK.replace(', probe: {path: "/orders/${key}"}', "")
    monkeypatch.setattr(trading_desk, "PACK", plain)
    call = asked_targets.put_in_doubt(trading_desk.open_desk(base_url=target.standing.base_url))
    assert refused(ask(call)) == "NO_STATUS_QUERY"
    assert target.questions == []


def test_a_target_that_was_rewritten_is_not_asked(target: Asked, call: Attempt) -> None:
    Target.objects.update(honours_keys=True)
    assert refused(ask(call)) == "TAMPERED"
    assert target.questions == []
    assert LedgerEntry.objects.filter(kind="row:mismatched").exists()


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert('{key}')",
        "http://broker.example/{key}",
        "https://broker.example/orders",
        "https://{key}/orders",
        "https://user@broker.example/{key}",
        "https://broker.example/{key}/{key}",
        "https://broker.example/{key}\n",
        "//broker.example/{key}",
        "https://broker.example/a b{key}",
    ],
)
def test_a_deep_link_is_https_with_a_fixed_host_and_one_key(link: str) -> None:
    with pytest.raises(ValidationError):
        PackTarget(base_url="http://127.0.0.1:1", deep_link=link)


def test_the_key_is_quoted_in_the_link() -> None:
    given = PackTarget(base_url="http://127.0.0.1:1", deep_link=asked_targets.LINKED)
    place = target_endpoints.TargetEndpoint(base_url="", deep_link=given.deep_link or "")
    link = target_endpoints.link_to(place, key='a&b=c#"><script>/../')
    assert link == "https://broker.example/orders?key=a%26b%3Dc%23%22%3E%3Cscript%3E%2F..%2F"

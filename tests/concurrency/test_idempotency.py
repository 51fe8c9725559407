"""Equal calls at once: one of them happens, and all hear the same answer."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

from audit.verification.verify import Whole, verify_database
from runtime.contexts.models import Snapshot
from runtime.core.models import Answer
from runtime.flows.models import Flow, Intent, Proposal
from runtime.registry.services import credentials
from tests.support import api_client

T = TypeVar("T")
CALLERS = 50


def race(count: int, work: Callable[[int], T]) -> list[T]:
    """`work` in `count` threads that start together, each with a connection of its own."""
    start = threading.Barrier(count)

    def one(number: int) -> T:
        try:
            start.wait(timeout=60)
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=count) as pool:
        return list(pool.map(one, range(count)))


def statuses(answers: list[api_client.Heard]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


def test_fifty_equal_proposals_are_one(real_db: str) -> None:
    api_client.load_pack()
    trader = api_client.session()
    dfid = trader.open_flow()
    body = api_client.proposal(trader.context(dfid))
    answers = race(CALLERS, lambda number: api_client.Caller(trader.token).propose(dfid, body, "one-key"))
    assert statuses(answers) == {200: CALLERS}
    assert len({answer.content for answer in answers}) == 1
    assert (Proposal.objects.count(), Intent.objects.count(), Answer.objects.count()) == (1, 1, 1)
    assert isinstance(verify_database(), Whole)


def test_fifty_proposals_under_their_own_keys_make_one_intent(real_db: str) -> None:
    api_client.load_pack()
    trader = api_client.session()
    dfid = trader.open_flow()
    body = api_client.proposal(trader.context(dfid))
    answers = race(
        CALLERS, lambda number: api_client.Caller(trader.token).propose(dfid, body, f"key-{number}")
    )
    assert statuses(answers) == {200: 1, 409: CALLERS - 1}
    assert {answer.body.get("code") for answer in answers} == {None, "FLOW_NOT_OPEN"}
    assert (Proposal.objects.count(), Intent.objects.count()) == (1, 1)
    assert isinstance(verify_database(), Whole)


def test_one_key_with_two_bodies_at_once_decides_one(real_db: str) -> None:
    api_client.load_pack()
    trader = api_client.session()
    dfid = trader.open_flow()
    context_ref = trader.context(dfid)

    def work(number: int) -> api_client.Heard:
        body = api_client.proposal(context_ref, explain=f"variant {number % 2}")
        return api_client.Caller(trader.token).propose(dfid, body, "one-key")

    answers = race(20, work)
    assert statuses(answers) == {200: 10, 422: 10}
    assert Proposal.objects.count() == 1


def test_fifty_equal_flows_are_one(real_db: str) -> None:
    api_client.load_pack()
    trader = api_client.session()
    headers = {"Idempotency-Key": "one-key"}
    answers = race(
        CALLERS, lambda number: api_client.Caller(trader.token).post("/flows", {"trigger": "x"}, headers)
    )
    assert statuses(answers) == {201: CALLERS}
    assert len({answer.content for answer in answers}) == 1
    assert Flow.objects.count() == 1
    assert isinstance(verify_database(), Whole)


def test_contexts_of_one_flow_at_once_all_come(real_db: str) -> None:
    api_client.load_pack()
    trader = api_client.session()
    dfid = trader.open_flow()
    answers = race(10, lambda number: api_client.Caller(trader.token).post(f"/flows/{dfid}/context"))
    assert statuses(answers) == {201: 10}
    assert len({answer.body["context_ref"] for answer in answers}) == Snapshot.objects.count() == 1
    assert isinstance(verify_database(), Whole)


def test_cancel_and_proposal_at_once_leave_one_of_them(real_db: str) -> None:
    api_client.load_pack()
    trader = api_client.session()
    for _ in range(5):
        dfid = trader.open_flow()
        body = api_client.proposal(trader.context(dfid))

        def work(number: int, dfid: str = dfid, body: dict[str, object] = body) -> api_client.Heard:
            caller = api_client.Caller(trader.token)
            return (
                caller.propose(dfid, body)
                if number
                else caller.post(f"/flows/{dfid}/cancel", {"reason": "x"})
            )

        cancelled, proposed = race(2, work)
        assert cancelled.status == 200
        assert proposed.status in {200, 409}
        assert Flow.objects.get(dfid=dfid).state == "ABORTED"
    assert not Intent.objects.exclude(state="CANCELLED").exists()
    assert isinstance(verify_database(), Whole)


def test_a_key_revoked_in_mid_flight_lets_nothing_in_afterwards(real_db: str) -> None:
    api_client.load_pack()
    key = api_client.agent_key()
    token = api_client.Caller(key).post("/handshake", api_client.hello()).ok()["session_token"]
    revoked = threading.Event()

    def work(number: int) -> tuple[bool, int]:
        if number == 0:
            credentials.revoke_key(key_id=key.partition(".")[0], actor="system")
            revoked.set()
            return False, 0
        late = revoked.is_set()
        return late, api_client.Caller(token).post("/flows", {"trigger": "x"}).status

    answers = race(20, work)[1:]
    assert {status for late, status in answers if late} <= {401}
    assert {status for _, status in answers} <= {201, 401}
    assert api_client.Caller(token).post("/flows", {"trigger": "x"}).status == 401

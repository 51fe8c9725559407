"""Long polls of the agent's own events under a real uvicorn, and readers that race."""

import time
from concurrent.futures import Future
from typing import Any

from audit.live import hints
from runtime.contexts.models import AgentEvent
from runtime.contexts.services import agent_events
from runtime.state.services import facts
from runtime.stops.services import stops
from tests.api.test_long_poll import PROMPT_S, Site, site
from tests.support import racing, trading_desk
from tests.support.wait_until import until

__all__ = ["site"]


def poll(site: Site, *, wait_s: int, after: int = 0) -> "Future[tuple[int, Any, float]]":
    def work() -> tuple[int, Any, float]:
        began = time.monotonic()
        status, body, _ = site.call("GET", f"/events?after={after}&wait={wait_s}")
        return status, body, time.monotonic() - began

    return site.pool.submit(work)


def await_listener() -> None:
    until(lambda: any("agent:trader" in board.bells for board in hints._boards.values()))


def test_a_changed_fact_wakes_who_subscribes_to_it(site: Site) -> None:
    waiting = poll(site, wait_s=15)
    await_listener()
    facts.write(tenant="default", path="price.AAPL", value=1, writer="system", expected_version=None)
    status, body, took_s = waiting.result(timeout=60)
    assert status == 200
    assert [event["data"] for event in body["events"]] == [{"path": "price.AAPL", "version": 2}]
    assert (body["next"], body["gap"]) == (1, False)
    assert took_s < PROMPT_S


def test_a_stop_wakes_the_agent(site: Site) -> None:
    waiting = poll(site, wait_s=15)
    await_listener()
    stops.stop_all(tenant="default", actor="user:1", reason="drill")
    _, body, took_s = waiting.result(timeout=60)
    assert [event["event_type"] for event in body["events"]] == ["STOPPED"]
    assert took_s < PROMPT_S


def test_patience_ends_without_news(site: Site) -> None:
    status, body, took_s = poll(site, wait_s=1, after=7).result(timeout=60)
    assert (status, body) == (200, {"events": [], "next": 7, "gap": False})
    assert 1.0 <= took_s < 1.0 + PROMPT_S


def test_refuses_at_once_who_has_no_session(site: Site) -> None:
    for token, expected in (("", 401), ("garbage", 401), (site.key, 403)):
        began = time.monotonic()
        assert site.call("GET", "/events?wait=15", token=token)[0] == expected
        assert time.monotonic() - began < PROMPT_S


def test_eight_readers_at_once_are_told_the_same_once(real_db: str) -> None:
    desk = trading_desk.open_desk()
    for round_number in range(1, 4):
        trading_desk.write_fact("price.ABC", 100 + round_number)
        pages = racing.race(8, lambda _: agent_events.read(agent=desk.agent, after=0))
        assert {page.next for page in pages} == {round_number}
        assert AgentEvent.objects.count() == round_number

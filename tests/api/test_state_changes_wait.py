"""Waiting for `state:changed`: a change in sight wakes who waits, and nothing else does."""

from typing import Any

from audit.live import hints
from runtime.maintenance.services import sealing
from runtime.state.services.world_writes import HINTS
from tests.api.test_long_poll import Site, site
from tests.support import factories
from tests.support.wait_until import until

__all__ = ["site"]


def test_a_change_wakes_who_waits_and_no_other_does(site: Site) -> None:
    sealing.seal_now()
    after = site.call("GET", "/state/changes?after=1")[1]["next"]

    def poll(wait_s: int) -> Any:
        return site.pool.submit(site.call, "GET", f"/state/changes?after={after}&wait_s={wait_s}")

    waiting = poll(20)
    until(lambda: any(HINTS in board.bells for board in hints._boards.values()))
    factories.write("cash.main", 1)
    sealing.seal_now()
    assert not waiting.done()
    factories.write("price.AAPL", 7)
    sealing.seal_now()
    status, body, _ = waiting.result(timeout=60)
    assert status == 200
    assert [list(event["facts"]) for event in body["events"]] == [["price.AAPL"]]
    status, body, _ = site.call("GET", f"/state/changes?after={body['next']}&wait_s=1")
    assert (status, body["events"]) == (200, [])
    for token, expected in (("", 401), ("garbage", 401), (site.key, 403)):
        assert site.call("GET", "/state/changes?wait_s=15", token=token)[0] == expected

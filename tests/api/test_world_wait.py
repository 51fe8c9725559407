"""`Prefer: wait=1` under a real uvicorn: a write is answered once its version of the world has a number."""

import pytest
from django.db import connection

from audit.live import hints
from runtime.maintenance.services import sealing
from runtime.state.models import WorldVersion
from tests.api.test_long_poll import PROMPT_S, Site, site
from tests.support import api_client
from tests.support.wait_until import until

__all__ = ["site"]
PATH = "/state/facts/price.NEW"


def test_a_write_waits_for_its_number(site: Site) -> None:
    sealing.seal_now()
    token = api_client.feed_key()
    waiting = site.pool.submit(
        lambda: site.call("PUT", PATH, {"value": 1}, token=token, prefer=f"wait={int(PROMPT_S)}")
    )
    if connection.vendor != "sqlite":
        until(lambda: any("world" in board.bells for board in hints._boards.values()))
        until(lambda: WorldVersion.objects.filter(version=None).exists())
        sealing.add_waiting()
    status, body, response = waiting.result(timeout=60)
    assert (status, body["world_version_id"]) == (200, 2)
    if connection.vendor != "sqlite":
        assert response.headers["Preference-Applied"] == "wait=5"


def test_says_that_it_is_not_numbered_yet(site: Site) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite numbers in the transaction")
    token = api_client.feed_key()
    _, body, response = site.call("PUT", PATH, {"value": 1}, token=token, prefer="wait=1")
    assert body["world_version_id"] is None
    assert response.headers["Preference-Applied"] is None
    # What does not wait is answered at once, and a refusal is passed on as it is.
    assert site.call("PUT", PATH, {"value": 2}, token=token, prefer="wait=0")[1]["version"] == 2
    assert site.call("PUT", PATH, {"value": 2}, token="x", prefer="wait=5")[0] == 401

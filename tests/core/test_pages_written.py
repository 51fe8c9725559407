"""How many pages SQLite writes for one action: each index of a table that it adds rows to costs one."""

import struct
import uuid
from pathlib import Path

import pytest
from django.db import connection

from tests.support import api_client

# In a small database an index has a page or two: an index more is a page more.
MOST = 79
TIMES = 20
_HEADER, _FRAME_HEADER = 32, 24


def frames(log: Path) -> tuple[int, int]:
    """How many pages stand in a write-ahead log, and how many commits; those of an earlier round do not."""
    held = log.read_bytes()
    (size,) = struct.unpack_from(">I", held, 8)
    pages = commits = 0
    for place in range(_HEADER, len(held), _FRAME_HEADER + size):
        if held[place + 8 : place + 16] != held[16:24]:
            break
        pages += 1
        commits += struct.unpack_from(">I", held, place + 4)[0] > 0
    return pages, commits


def act(caller: api_client.Caller) -> None:
    body = api_client.proposal(context="current", seen={"price.AAPL": 1, "market.state": 1})
    assert caller.post("/proposals", body, {"Idempotency-Key": uuid.uuid4().hex}).ok()["verdict"] == "ACCEPT"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="counted in SQLite's write-ahead log")
def test_an_action_writes_no_more_pages_than_it_has_to(real_db: str) -> None:
    """A time would change with the machine; this number does not."""
    api_client.load_pack()
    caller = api_client.session()
    for _ in range(TIMES):
        act(caller)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_autocheckpoint=0")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for _ in range(TIMES):
        act(caller)
    pages, commits = frames(Path(f"{real_db}-wal"))
    assert commits == TIMES
    assert pages <= MOST * TIMES, f"{pages / TIMES:.1f} pages for an action"

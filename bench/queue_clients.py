"""Many browsers on the queue, without their screens: the protocol of static/js/live.js, in one process.

Each has a session of its own, one socket and at most six HTTP connections, as Chromium has to one host. A
hint starts a timer for each region that it concerns; when it ends, the regions ask for their fragments, all
at once. The constants are those of live.js and connection.js. Nothing is spread by chance there, nor here.
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from multiprocessing import synchronize
from typing import Any
from urllib.parse import urlsplit

import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from bench.page_parts import Region, read_regions

DEBOUNCE_S = 0.25
LEAST_GAP_S = 1.0
ANSWER_S = 10.0
BEAT_S = 2.0
PING_S = 15.0
CONNECTIONS = 6
PAGE = "/escalations/"

# What is reported: ("hint" or "row", browser, stream or row, Unix seconds), ("ready",), ("failed", why).
Report = Callable[[tuple[Any, ...]], None]


def run(base_url: str, cookies: Sequence[str], reports: Any, active_at: Any, ends: synchronize.Event) -> None:
    """Open a page for each cookie, and report what reaches it until `ends` is set.

    `active_at` is when any of them last asked or decided to ask, in Unix seconds.
    """
    uvloop.run(_serve(base_url, cookies, reports.put, active_at, ends))


async def _serve(
    base_url: str, cookies: Sequence[str], report: Report, active_at: Any, ends: synchronize.Event
) -> None:
    living = []
    for number, cookie in enumerate(cookies):
        # One after the other: people open their pages at different times.
        browser = Browser(number, base_url, cookie, report, active_at)
        await browser.load()
        living.append(asyncio.create_task(browser.live()))
        await browser.is_open.wait()
    report(("ready",))
    while not ends.is_set():
        await asyncio.sleep(0.1)
    for task in living:
        task.cancel()
    await asyncio.gather(*living, return_exceptions=True)


class Browser:
    """One page: its regions, its socket, and the timers between them."""

    def __init__(self, number: int, base_url: str, cookie: str, report: Report, active_at: Any) -> None:
        self._number, self._base_url, self._report = number, base_url, report
        self._cookie, self._active_at = cookie, active_at
        self._pool = Pool(base_url, cookie)
        self._regions: list[Region] = []
        self._timers: set[Region] = set()
        self._asked_at: dict[Region, float] = {}
        self._busy: set[Region] = set()
        self._again: set[Region] = set()
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open = asyncio.Event()

    async def load(self) -> None:
        """Load the page once, for its regions and rows."""
        status, html = await self._pool.get(PAGE, {})
        if status != 200:
            raise RuntimeError(f"the queue answered {status}")
        self._regions = read_regions(html)

    async def live(self) -> None:
        """Keep the socket open, say that the page is there, and follow the hints."""
        address = f"ws://{urlsplit(self._base_url).netloc}/ws/live/"
        headers = {"Cookie": self._cookie}
        origin = Origin(self._base_url)
        async with connect(address, origin=origin, additional_headers=headers, ping_interval=None) as socket:
            beats = [
                asyncio.create_task(_repeat(socket, "beat", BEAT_S)),
                asyncio.create_task(_repeat(socket, "ping", PING_S)),
            ]
            self._refresh_all()  # hints arrive from now on, not from before
            self.is_open.set()
            try:
                async for frame in socket:
                    if frame != "pong":
                        self._hint(json.loads(frame)["stream"])
            finally:
                for beat in beats:
                    beat.cancel()
        self._report(("failed", "a socket was closed"))

    def _hint(self, stream: str) -> None:
        self._report(("hint", self._number, stream, time.time()))
        for region in self._regions:
            if region.wants(stream):
                self._soon(region)

    def _refresh_all(self) -> None:
        for region in self._regions:
            self._soon(region)

    def _soon(self, region: Region) -> None:
        if region in self._timers:
            return
        self._active_at.value = time.time()
        since = time.monotonic() - self._asked_at.get(region, float("-inf"))
        self._timers.add(region)
        wait_s = max(DEBOUNCE_S, LEAST_GAP_S - since)
        asyncio.get_running_loop().call_later(wait_s, self._ask, region)

    def _ask(self, region: Region) -> None:
        self._timers.discard(region)
        self._asked_at[region] = time.monotonic()
        self._active_at.value = time.time()
        task = asyncio.create_task(self._refresh(region))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _refresh(self, region: Region) -> None:
        if region in self._busy:
            self._again.add(region)
            return
        self._busy.add(region)
        try:
            headers = {"HX-Request": "true", "HX-Current-URL": self._base_url + PAGE}
            async with asyncio.timeout(ANSWER_S):
                status, html = await self._pool.get(region.address(), headers)
            if status == 200:
                rows, at = region.take(html), time.time()
                for row in rows - self._seen:
                    self._report(("row", self._number, row, at))
                self._seen |= rows
            else:
                self._report(("failed", f"{region.url} answered {status}"))
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            self._report(("failed", f"{region.url}: {type(error).__name__}"))
            self._again.add(region)
        finally:
            self._busy.discard(region)
            if region in self._again:
                self._again.discard(region)
                self._soon(region)


class Pool:
    """Kept HTTP connections to one host, at most `CONNECTIONS` in use; the others wait in order."""

    def __init__(self, base_url: str, cookie: str) -> None:
        parts = urlsplit(base_url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._head = f"Host: {parts.netloc}\r\nCookie: {cookie}\r\nAccept: */*\r\nConnection: keep-alive\r\n"
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def get(self, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """The status and body of a GET. A connection that was closed meanwhile is opened again."""
        given = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"GET {path} HTTP/1.1\r\n{self._head}{given}\r\n".encode()
        async with self._free:
            try:
                return await self._send(request)
            except (ConnectionError, asyncio.IncompleteReadError):
                while self._idle:
                    self._idle.pop()[1].close()
                return await self._send(request)

    async def _send(self, request: bytes) -> tuple[int, str]:
        async with self._connection() as (reader, writer):
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            # Django's CommonMiddleware states the length of every page.
            length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
            body = await reader.readexactly(length)
        return int(head.split(" ", 2)[1]), body.decode()

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        while self._idle and self._idle[-1][0].at_eof():
            self._idle.pop()[1].close()
        if self._idle:
            pair = self._idle.pop()
        else:
            pair = await asyncio.open_connection(self._host, self._port, limit=2**20)
        try:
            yield pair
        except BaseException:
            pair[1].close()
            raise
        self._idle.append(pair)


async def _repeat(socket: ClientConnection, word: str, every_s: float) -> None:
    await asyncio.sleep(random.random() * every_s)  # pages are opened at different times
    while True:
        await socket.send(word)
        await asyncio.sleep(every_s)

"""Closed-loop clients: each process keeps one connection and sends the next call after the last answer."""

import http.client
import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from demo.client import Client

CLIENTS = 8


@dataclass(frozen=True)
class Figure:
    """Calls per second over all clients, and how long single calls took."""

    per_second: float
    p50_ms: float
    p99_ms: float
    calls: int


def proposals(base_url: str, key: str, calls: int) -> Figure:
    """Full proposals, each on a flow and context that were made before the clock started."""
    return _race(_propose, [(base_url, key, calls // CLIENTS)] * CLIENTS)


@dataclass(frozen=True)
class Post:
    """One POST of JSON, sent again and again."""

    base_url: str
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def posts(post: Post, calls: int) -> Figure:
    """As many calls with the same body."""
    return race([partial(posting, post)] * CLIENTS, calls // CLIENTS)


def race(clients: Sequence[Callable[[], Callable[[], None]]], calls: int) -> Figure:
    """So many calls of each client, each in a process of its own, which first makes what it calls."""
    return _race(_repeat, [(client, calls) for client in clients])


def _race(work: Any, shares: list[tuple[Any, ...]]) -> Figure:
    barrier = multiprocessing.Barrier(len(shares))
    answers: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    racers = [multiprocessing.Process(target=work, args=(*share, barrier, answers)) for share in shares]
    for racer in racers:
        racer.start()
    stamps = [answers.get(timeout=600) for _ in racers]
    for racer in racers:
        racer.join()
    began, ended = min(s[0] for s in stamps), max(s[1] for s in stamps)
    return figure([ms for stamp in stamps for ms in stamp[2:]], seconds=ended - began)


def figure(times_ms: Sequence[float], *, seconds: float) -> Figure:
    """Of calls that took so long each, and so many seconds together."""
    times = sorted(times_ms)
    return Figure(
        per_second=len(times) / seconds,
        p50_ms=times[len(times) // 2],
        p99_ms=times[int(len(times) * 0.99)],
        calls=len(times),
    )


def _propose(base_url: str, key: str, calls: int, barrier: Any, answers: Any) -> None:
    client = Client(base_url=base_url, agent_id="bench-agent", key=key)
    ready = []
    for _ in range(calls):
        dfid = client.open_flow(trigger="bench")
        ready.append((dfid, client.context(dfid).ref))
    barrier.wait()
    times, began = [], time.time()
    for dfid, context_ref in ready:
        body = {
            "policy_kind": "BENCH_ORDER",
            "params": {"symbol": "ACME", "quantity": 5, "notional_cents": 50000},
            "execution_constraints": {"validity_window_sec": 3600, "max_slippage_bps": 50},
            "context_ref": context_ref,
            "confidence": 0.9,
        }
        started = time.perf_counter()
        verdict = client.propose(dfid, body, idempotency_key=dfid)
        times.append((time.perf_counter() - started) * 1000)
        if verdict.verdict != "ACCEPT":
            raise RuntimeError(f"the bench's proposal was not accepted: {verdict}")
    answers.put([began, time.time(), *times])


def _repeat(client: Callable[[], Callable[[], None]], calls: int, barrier: Any, answers: Any) -> None:
    call = client()
    barrier.wait()
    times, began = [], time.time()
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    answers.put([began, time.time(), *times])


def posting(post: Post) -> Callable[[], None]:
    """What sends it once over a connection that is kept; another status than 200 raises."""
    parts = urlsplit(post.base_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    body, headers = json.dumps(post.body), {"Content-Type": "application/json", **post.headers}

    def call() -> None:
        connection.request("POST", post.path, body=body, headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{post.path} answered {answer.status}")

    return call

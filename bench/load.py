"""Closed-loop clients: each process keeps one connection and sends the next call after the last answer."""

import http.client
import json
import multiprocessing
import time
from dataclasses import dataclass
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
    return _race(_propose, [(base_url, key, calls // CLIENTS, number) for number in range(CLIENTS)])


def bare(base_url: str, calls: int) -> Figure:
    """Calls of the bare view."""
    return _race(_bare, [(base_url, "", calls // CLIENTS, number) for number in range(CLIENTS)])


def _race(work: Any, shares: list[tuple[str, str, int, int]]) -> Figure:
    barrier = multiprocessing.Barrier(len(shares))
    answers: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    racers = [multiprocessing.Process(target=work, args=(*share, barrier, answers)) for share in shares]
    for racer in racers:
        racer.start()
    stamps = [answers.get(timeout=600) for _ in racers]
    for racer in racers:
        racer.join()
    began, ended = min(s[0] for s in stamps), max(s[1] for s in stamps)
    times = sorted(ms for stamp in stamps for ms in stamp[2:])
    return Figure(
        per_second=len(times) / (ended - began),
        p50_ms=times[len(times) // 2],
        p99_ms=times[int(len(times) * 0.99)],
        calls=len(times),
    )


def _propose(base_url: str, key: str, calls: int, number: int, barrier: Any, answers: Any) -> None:
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


def _bare(base_url: str, _key: str, calls: int, _number: int, barrier: Any, answers: Any) -> None:
    parts = urlsplit(base_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    body = json.dumps({"params": {"symbol": "ACME", "quantity": 5, "notional_cents": 50000}})
    barrier.wait()
    times, began = [], time.time()
    for _ in range(calls):
        started = time.perf_counter()
        connection.request("POST", "/bare", body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        times.append((time.perf_counter() - started) * 1000)
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"the bare view answered {answer.status}")
    answers.put([began, time.time(), *times])

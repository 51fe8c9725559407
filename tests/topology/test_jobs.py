"""The doorbell of the production topology: it costs a request nothing, whatever the broker does."""

import json
import socket
import subprocess
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

import dir_console.celery
from audit.live.background import PerProcess
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.flows.queries import due_intents
from runtime.flows.queries.due_intents import DueIntent
from runtime.workers import celery_tasks, embedded, sweep_rounds
from tests.faults.processes import ROOT, clean_environment, python
from tests.support.wait_until import until

RING = """
import json, sys, time, uuid
import django
django.setup()
import dir_console.celery
from audit.live.background import PerProcess
from runtime.workers import celery_tasks
from tests.support.wait_until import until
start = time.monotonic()
for _ in range(3000):
    celery_tasks.ring([uuid.uuid4()])
print(json.dumps(time.monotonic() - start), flush=True)
until(lambda: celery_tasks.ringers.get().is_pausing, timeout_s=90)
print(json.dumps(True))
"""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids that reached the broker."""
    ids: list[str] = []
    send_by(monkeypatch, lambda args, **_: ids.extend(args))
    monkeypatch.setattr(celery_tasks, "ringers", PerProcess(celery_tasks.Ringer))
    return ids


def send_by(monkeypatch: pytest.MonkeyPatch, send: Callable[..., Any]) -> None:
    """A task of this test's own: the ringer of an earlier test goes on with the task that it was given."""
    monkeypatch.setattr(celery_tasks, "attempt", SimpleNamespace(apply_async=send))


def test_each_id_is_sent_once_from_another_thread(sent: list[str]) -> None:
    ids = [uuid4() for _ in range(3)]
    celery_tasks.ring(ids)
    celery_tasks.ring([])
    until(lambda: sent == [str(one) for one in ids], timeout_s=90)


def test_intents_that_wait_for_the_same_moment_are_sent_together_and_guards_alone(
    sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[tuple[str, ...]] = []
    gate = threading.Event()

    def send(args: tuple[str, ...], **_: Any) -> None:
        gate.wait(60)
        messages.append(args)

    send_by(monkeypatch, send)
    monkeypatch.setattr(celery_tasks, "guard", SimpleNamespace(apply_async=send, name="guard"))
    first, ids = uuid4(), [str(uuid4()) for _ in range(embedded.TOGETHER + 2)]
    celery_tasks.ring([first])
    until(lambda: not celery_tasks.ringers.get()._pending, timeout_s=90)
    celery_tasks.ring([UUID(one) for one in ids])
    celery_tasks.ring_guards([1, 2])
    gate.set()
    until(lambda: len(messages) == 5, timeout_s=90)
    most = embedded.TOGETHER
    assert messages == [(str(first),), tuple(ids[:most]), tuple(ids[most:]), ("1",), ("2",)]


def test_guards_notices_and_sealing_wait_in_queues_of_their_own() -> None:
    route = dir_console.celery.app.amqp.router.route
    queues = {
        task: route({}, task)["queue"]
        for task in (
            celery_tasks.attempt.name,
            celery_tasks.sweep.name,
            celery_tasks.guard.name,
            celery_tasks.send_notices.name,
            celery_tasks.send_events.name,
            celery_tasks.ask_for_results.name,
            celery_tasks.seal.name,
            celery_tasks.number.name,
            celery_tasks.score.name,
            celery_tasks.erase_due.name,
            celery_tasks.replay.name,
        )
    }
    assert {task: (queue.name, queue.exchange.name, queue.routing_key) for task, queue in queues.items()} == {
        "runtime.attempt": ("celery", "celery", "celery"),
        "runtime.sweep": ("celery", "celery", "celery"),
        "runtime.guard": ("guards", "guards", "guards"),
        "runtime.send_notices": ("notices", "notices", "notices"),
        "runtime.send_events": ("notices", "notices", "notices"),
        "runtime.ask_for_results": ("notices", "notices", "notices"),
        "runtime.seal": ("sealer", "sealer", "sealer"),
        "runtime.number": ("sealer", "sealer", "sealer"),
        "runtime.score": ("celery", "celery", "celery"),
        "runtime.erase_due": ("celery", "celery", "celery"),
        "runtime.replay": ("celery", "celery", "celery"),
    }


def test_a_full_queue_drops_and_does_not_wait(sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    send_by(monkeypatch, lambda args, **_: gate.wait(60))
    celery_tasks.ring([uuid4()])
    celery_tasks.ring([uuid4() for _ in range(2 * celery_tasks.QUEUE_LIMIT)])
    assert celery_tasks.ringers.get().is_pausing
    celery_tasks.ring([uuid4()])
    gate.set()


def test_a_failing_broker_is_left_alone_for_a_while(sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Any] = []

    def fail(args: Any, **_: Any) -> None:
        tries.append(args)
        raise OSError("no broker")

    send_by(monkeypatch, fail)
    celery_tasks.ring([uuid4() for _ in range(10)])
    until(lambda: celery_tasks.ringers.get().is_pausing, timeout_s=90)
    celery_tasks.ring([uuid4()])
    assert len(tries) == 1


def test_a_fork_gets_a_ringer_of_its_own(sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    inherited = celery_tasks.ringers.get()
    monkeypatch.setattr(celery_tasks.ringers, "_pid", 0)
    assert celery_tasks.ringers.get() is not inherited


def test_the_tasks_do_what_their_names_say(monkeypatch: pytest.MonkeyPatch) -> None:
    attempted: list[tuple[UUID, str]] = []
    monkeypatch.setattr(
        attempting, "attempt", lambda intent_id, *, owner: attempted.append((intent_id, owner))
    )
    at = clock.now()
    monkeypatch.setattr(clock, "now", lambda: at)
    waiting = [DueIntent(intent_id=(intent_id := uuid4()), target="broker", next_at=at)]
    monkeypatch.setattr(due_intents, "list_pending", lambda *, intent_ids, at: waiting)
    monkeypatch.setattr(sweep_rounds, "run", lambda: attempted.append((UUID(int=0), "sweep")))
    monkeypatch.setattr(celery_tasks, "_swept_at_s", float("-inf"))
    celery_tasks.attempt(str(intent_id))
    celery_tasks.sweep()
    celery_tasks.sweep()
    assert [name for _, name in attempted[1:]] == ["sweep"], "sweeps that piled up are passed over"
    assert attempted[0][0] == intent_id
    assert (celery_tasks.attempt.name, celery_tasks.sweep.name) == ("runtime.attempt", "runtime.sweep")


@pytest.mark.slow
@pytest.mark.parametrize("is_deaf", [False, True])
def test_neither_a_stopped_nor_a_hung_broker_costs_a_request_anything(is_deaf: bool, tmp_path: Any) -> None:
    with socket.socket() as broker:
        broker.bind(("127.0.0.1", 0))
        if is_deaf:
            broker.listen(50)
        env = clean_environment(
            {"REDIS_URL": f"redis://127.0.0.1:{broker.getsockname()[1]}/0", "DIR_DATA": str(tmp_path)}
        )
        done = subprocess.run(
            python("-c", RING), cwd=ROOT, env=env, capture_output=True, text=True, timeout=200, check=True
        )
    took_s, is_pausing = (json.loads(line) for line in done.stdout.splitlines())
    assert took_s < 100  # hours, had each ring waited for the connection's two seconds
    assert is_pausing

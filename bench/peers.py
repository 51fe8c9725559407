"""What the nearest peers need for a call, beside an action here, in one run.

squidbrake answers whether a tool call may be made, over HTTP, and records it; DBOS runs a workflow of one
durable step in its own process. Each is installed by pip into an environment of its own, and left out where
that fails. An action here does more: it compiles a context, checks facts, limits and a claim, and reserves.
The roads take turns.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from bench import action, environment, load
from bench.environment import Server, Stand
from bench.load import Figure, Post
from demo.client import Client

SQUIDBRAKE: Final = "squidbrake==0.14.8"
DBOS: Final = "dbos==3.4.0"
# Environments stay there for the next run.
FOLDER: Final = Path(os.environ.get("DIR_BENCH_PEERS", Path(tempfile.gettempdir()) / "dir-bench-peers"))
WARM: Final = 20
AGENTS: Final = tuple(f"bench-agent-{number}" for number in range(load.CLIENTS))
_RULES: Final = """
default: review
mode: enforce
rules:
  - id: small-orders
    action: allow
    reason: A small order
    match: {name: ["order*"], input: {notional_cents: {gte: 0, lte: 100000}}}
"""
_WORKFLOW: Final = """
import json, sys, time
from dbos import DBOS

url, times, warm = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DBOS(config={"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"})

@DBOS.step()
def order(quantity):
    return {"filled": quantity}

@DBOS.workflow()
def act(quantity):
    return order(quantity)

DBOS.launch()
for _ in range(warm):
    act(5)
cpu, stamps = time.process_time(), [time.perf_counter()]
for _ in range(times):
    act(5)
    stamps.append(time.perf_counter())
cpu_ms = (time.process_time() - cpu) * 1000 / times
print(json.dumps([cpu_ms, *((after - before) * 1000 for before, after in zip(stamps, stamps[1:]))]))
DBOS.destroy()
"""


@dataclass
class _Road:
    """CPU milliseconds and calls a second of one road, by round."""

    cpu_ms: list[float] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpu_ms)

    @property
    def per_second(self) -> float:
        return statistics.median(figure.per_second for figure in self.figures)

    @property
    def p99_ms(self) -> float:
        return statistics.median(figure.p99_ms for figure in self.figures)


def run(stand: Stand, actions: int, rounds: int) -> dict[str, float]:
    """Measure on one database; prints CPU of the server for a call, and calls a second of eight clients.

    squidbrake is measured on SQLite, where it works after installation; DBOS on both.
    """
    action.load(stand, also=AGENTS)
    key = environment.manage(stand, "issue_key", action.AGENT)
    keys = [environment.manage(stand, "issue_key", name) for name in AGENTS]
    ours, each, guarded, durable = _Road(), _Road(), _Road(), _Road()
    with ExitStack() as stack:
        server = stack.enter_context(environment.serving(stand, "dir_console.asgi:application"))
        client = Client(base_url=server.base_url, agent_id=action.AGENT, key=key)
        stack.callback(client.wire.close)
        peer = stack.enter_context(_squidbrake(stand)) if stand.name == "SQLite" else None
        workflows = stack.enter_context(_dbos(stand))
        for turn in range(rounds + 1):  # the first round compiles, and is not counted
            times = actions if turn else WARM
            _note(ours, _act(stand, server, client, key, times), counts=turn > 0)
            crowd = _crowd(server, keys, times)
            if turn:
                each.figures.append(crowd)
            if peer is not None:
                _note(guarded, _ask(stand, *peer, times), counts=turn > 0)
            if workflows is not None and turn:
                _note(durable, _work(workflows, actions), counts=True)
    return _report(stand, ours, each, guarded if peer else None, durable if workflows else None)


def _act(stand: Stand, server: Server, client: Client, key: str, times: int) -> tuple[float, Figure]:
    cpu_ms, _ = action.measure(stand, server, partial(action.act, client, action.one_call), times)
    clients = [partial(action.acting, server.base_url, key)] * load.CLIENTS
    return cpu_ms, load.race(clients, max(times // load.CLIENTS, 1))


def _crowd(server: Server, keys: Sequence[str], times: int) -> Figure:
    """Actions of as many clients as there are keys, each of an agent of its own."""
    clients = [
        partial(action.acting, server.base_url, key, agent) for agent, key in zip(AGENTS, keys, strict=True)
    ]
    return load.race(clients, max(times // len(clients), 1))


def _ask(stand: Stand, server: Server, post: Post, times: int) -> tuple[float, Figure]:
    cpu_ms, _ = action.measure(stand, server, load.posting(post), times)
    return cpu_ms, load.posts(post, max(times, load.CLIENTS))


def _note(road: _Road, found: tuple[float, Figure], *, counts: bool) -> None:
    if counts:
        road.cpu_ms.append(found[0])
        road.figures.append(found[1])


def _work(command: list[str], times: int) -> tuple[float, Figure]:
    done = subprocess.run(
        [*command, str(times), str(WARM)], check=True, capture_output=True, text=True, timeout=600
    )
    cpu_ms, *times_ms = json.loads(done.stdout.splitlines()[-1])
    return float(cpu_ms), load.figure(times_ms, seconds=sum(times_ms) / 1000)


@contextmanager
def _squidbrake(stand: Stand) -> Iterator[tuple[Server, Post] | None]:
    """A server of its own with one rule, and the call that the rule allows."""
    programs = _install(SQUIDBRAKE)
    if programs is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="dir-bench-peer-") as folder:
        rules = Path(folder, "rules.yaml")
        rules.write_text(_RULES)
        said = {"SQUIDBRAKE_HOME": folder, "RULES_PATH": str(rules), "SQUIDBRAKE_AUTO_CONNECT": "0"}
        environ = {**stand.environ, **said, "SQUIDBRAKE_FOREGROUND": "1"}
        program = [str(programs / "squidbrake")]
        told = subprocess.run(
            [*program, "add-key", "bench"], env=environ, check=True, capture_output=True, text=True
        )
        key = next(word for word in told.stdout.split() if word.startswith("gw_"))
        with environment.listening(program, environ) as server:
            call = {"name": "order", "kind": "tool_call", "input": action.BODY["params"], "source": "bench"}
            yield server, Post(server.base_url, "/v1/events", call, {"X-Gateway-Key": key})


@contextmanager
def _dbos(stand: Stand) -> Iterator[list[str] | None]:
    """The command that runs so many workflows on the stand's database, or on a file beside it."""
    programs = _install(DBOS)
    if programs is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="dir-bench-peer-") as folder:
        script = Path(folder, "workflow.py")
        script.write_text(_WORKFLOW)
        url = stand.environ.get("DATABASE_URL", f"sqlite:///{folder}/dbos.sqlite3")
        yield [str(programs / "python"), str(script), url.replace("postgres://", "postgresql://")]


def _install(requirement: str) -> Path | None:
    """Where the programs of its environment are; None, with a sentence, where it cannot be installed."""
    home = FOLDER / requirement
    programs = home / "bin"
    if not (home / "ready").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
            pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", requirement]
            subprocess.run([*pip, "--disable-pip-version-check"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{requirement} was left out: {error}", file=sys.stderr)
            return None
        (home / "ready").touch()
    return programs


def _report(
    stand: Stand, ours: _Road, each: _Road, guarded: _Road | None, durable: _Road | None
) -> dict[str, float]:
    _print(stand, "an action in one call", ours)
    _print(stand, "the same, each client an agent", each)
    found = {}
    if guarded is not None:
        _print(stand, f"{SQUIDBRAKE}, an allowed call", guarded)
        found["CPU of an action / of an allowed call of squidbrake"] = ours.cpu / guarded.cpu
        found["calls a second of squidbrake / actions"] = guarded.per_second / ours.per_second
    if durable is not None:
        _print(stand, f"{DBOS}, a workflow of one step", durable)
        found["CPU of an action / of a workflow of DBOS, in process"] = ours.cpu / durable.cpu
        found["workflows a second of DBOS, in process / actions of eight agents"] = (
            durable.per_second / each.per_second
        )
    for name, ratio in found.items():
        print(f"{stand.name:<12}{name:<70}{ratio:>8.2f}")
    return {f"{stand.name}: {name}": ratio for name, ratio in found.items()}


def _print(stand: Stand, what: str, road: _Road) -> None:
    cpu = f"{road.cpu:>10.1f}" if road.cpu_ms else f"{'':>10}"
    print(f"{stand.name:<12}{what:<46}{cpu}{road.per_second:>12.1f}{road.p99_ms:>9.1f}")

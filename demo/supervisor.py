"""Starts the demo world beside a server and keeps it alive: broker, feed and agents as child processes."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from demo import parent_death
from demo.market import Schedule

# The agents of ``demo.frameworks``, which takes longest to load: nothing of it is imported here.
FRAMEWORKS: Final = ("expense-assistant", "expense-graph")
STOP_S: Final = 5.0
MAX_RESTARTS: Final = 8
_ROOT: Final = Path(__file__).resolve().parents[1]
_LOOK_S: Final = 0.3
_STEADY_S: Final = 60.0
_LONGEST_WAIT_S: Final = 30.0


@dataclass(frozen=True)
class _Command:
    name: str
    argv: Sequence[str]
    env: Mapping[str, str]


@dataclass
class _Child:
    command: _Command
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float = 0.0
    crashes: int = 0

    def spawn(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own modules, no shell
                self.command.argv,
                env=self.command.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.started_at = time.monotonic()

    def look(self) -> None:
        """Start what is not running, later each time; give up on a child that never stays up."""
        if self.process is not None and self.process.poll() is not None:
            self.process = None
            self.crashes = 1 if time.monotonic() - self.started_at > _STEADY_S else self.crashes + 1
            self.restart_at = time.monotonic() + min(2.0 ** (self.crashes - 1), _LONGEST_WAIT_S)
        if self.process is None and self.crashes <= MAX_RESTARTS and time.monotonic() >= self.restart_at:
            self.spawn()


@dataclass
class Children:
    """The running demo; ``stop`` ends all of it, and so does the end of this process."""

    _children: list[_Child]
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def pids(self) -> dict[str, int]:
        """Process id by name, of those that run now."""
        running = [(child.command.name, child.process) for child in self._children]
        return {name: process.pid for name, process in running if process is not None}

    def stop(self) -> None:
        """End every child, by force after a few seconds."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * STOP_S)

    def _supervise(self) -> None:
        # The kernel ties a child to the thread that spawned it: all spawning happens in this one.
        while not self._stopping.is_set():
            for child in self._children:
                child.look()
            self._stopping.wait(_LOOK_S)
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in running:
            try:
                process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def begin(self) -> None:
        """Spawn every child, in a thread that keeps them alive from then on."""
        self._thread = threading.Thread(target=self._supervise, name="demo-children", daemon=True)
        self._thread.start()


def start(
    *,
    base_url: str,
    demo_dir: Path,
    keys: Mapping[str, str],
    feed_key: str,
    broker_port: int,
    secret: str,
    market_key: str = "",
    market: Schedule = Schedule.CYCLE,
    control_token: str = "",
) -> Children:
    """Spawn the demo world and return at once; each child waits for what it needs.

    ``keys`` holds an agent key by agent id; they reach the agents in a file that only the owner can
    read. ``feed_key`` writes under ``price.``, ``market_key`` under ``market.``; without the second
    the market stays as the pack has it. ``market`` says when the broker opens it. Who knows
    ``control_token`` may start scenarios at the broker's ``/scenarios``; without one nobody can.
    Each child logs to ``demo_dir/<name>.log``.
    """
    demo_dir.mkdir(parents=True, exist_ok=True)
    framework_keys = {agent: key for agent, key in keys.items() if agent in FRAMEWORKS}
    agent_keys = {agent: key for agent, key in keys.items() if agent not in FRAMEWORKS}
    keys_file = _keep(agent_keys, demo_dir / "agent_keys.json")
    broker_url = f"http://127.0.0.1:{broker_port}"
    feed_keys = {"DIR_FEED_KEY": feed_key, "DIR_MARKET_KEY": market_key}
    broker_db = str(demo_dir / "broker.sqlite3")
    broker_args = ["--port", str(broker_port), "--db", broker_db, "--market", market.value]
    agents_args = ["--base", base_url, "--broker", broker_url]
    commands = [
        _command("broker", broker_args, {"BROKER_SECRET": secret, "BROKER_CONTROL_TOKEN": control_token}),
        _command("feed", ["--base", base_url, "--broker", broker_url], feed_keys),
        _command("agents", [*agents_args, "--keys", str(keys_file), "--notes", str(demo_dir)], {}),
    ]
    if framework_keys and _has_frameworks():
        frameworks_file = _keep(framework_keys, demo_dir / "framework_keys.json")
        commands.append(_command("frameworks", ["--base", base_url, "--keys", str(frameworks_file)], {}))
    children = Children([_Child(command, demo_dir / f"{command.name}.log") for command in commands])
    children.begin()
    return children


def _has_frameworks() -> bool:
    """Whether what they import is there: an image that holds only what the server needs has none of it."""
    return find_spec("langgraph") is not None and (_ROOT / "sdk").is_dir()


def _keep(keys: Mapping[str, str], file: Path) -> Path:
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        json.dump(dict(keys), out)
    return file


def _command(name: str, args: Sequence[str], secrets: Mapping[str, str]) -> _Command:
    # A child gets no secret but its own: not the server's keys, and not the other children's.
    kept = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONUNBUFFERED"}
    inherited = {key: value for key, value in os.environ.items() if key in kept}
    path = os.pathsep.join(filter(None, [str(_ROOT), str(_ROOT / "sdk"), inherited.get("PYTHONPATH", "")]))
    env = {**inherited, **secrets, "PYTHONPATH": path, parent_death.PARENT_ENV: str(os.getpid())}
    return _Command(name, [sys.executable, "-m", f"demo.{name}", *args], env)

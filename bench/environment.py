"""A stand to measure on: a fresh database, a server on loopback, and agents ready to propose."""

import base64
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STARTUP_S = 60
POSTGRES = os.environ.get("DIR_BENCH_POSTGRES", "postgres://root@127.0.0.1:5432/postgres")


@dataclass(frozen=True)
class Stand:
    """One database to measure on, and the environment of everything that uses it."""

    name: str
    workers: int
    environ: dict[str, str]
    # Empty where the server itself carries out what it accepts.
    redis: str = ""


@contextlib.contextmanager
def sqlite() -> Iterator[Stand]:
    """SQLite in a temporary folder; one server process, since there is one writer."""
    with tempfile.TemporaryDirectory(prefix="dir-bench-") as folder:
        yield _ready(Stand("SQLite", 1, _environ(folder)))


@contextlib.contextmanager
def postgres(admin_url: str, *, redis: str = "") -> Iterator[Stand]:
    """A database of its own on the server of `admin_url`, dropped afterwards; two server processes."""
    import psycopg

    name = f"dir_bench_{os.getpid()}"
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        try:
            with tempfile.TemporaryDirectory(prefix="dir-bench-") as folder:
                url = f"{admin_url.rsplit('/', 1)[0]}/{name}"
                environ = {**_environ(folder), "DATABASE_URL": url}
                if redis:
                    environ |= {"REDIS_URL": redis, "DIR_SECRET_KEY": _key()}
                    environ |= {"DIR_SIGNING_KEY": _key(), "DIR_PAYLOAD_KEY": _key()}
                yield _ready(Stand("PostgreSQL", 2, environ, redis))
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@dataclass(frozen=True)
class Server:
    """A running server: its base URL, and the process that everything it starts belongs to."""

    base_url: str
    pid: int


@contextlib.contextmanager
def serving(stand: Stand, application: str, *options: str) -> Iterator[Server]:
    """Serve an ASGI application on a free port with more `options` of uvicorn."""
    port = _free_port()
    server = ("-m", "uvicorn", application, "--port", str(port), "--log-level", "error", "--no-access-log")
    with spawned(stand, *server, "--workers", str(stand.workers), *options) as pid:
        _wait_for(port)
        yield Server(f"http://127.0.0.1:{port}", pid)


@contextlib.contextmanager
def listening(program: list[str], environ: dict[str, str]) -> Iterator[Server]:
    """Another program that serves on a free port (`PORT`); it says nothing, and ends at the end."""
    port = _free_port()
    with _running(program, {**environ, "PORT": str(port)}) as pid:
        _wait_for(port)
        yield Server(f"http://127.0.0.1:{port}", pid)


@contextlib.contextmanager
def served(stand: Stand, application: str) -> Iterator[str]:
    """Serve an ASGI application on a free port; gives its base URL."""
    with serving(stand, application) as server:
        yield server.base_url


@contextlib.contextmanager
def embedded(stand: Stand) -> Iterator[str]:
    """The console as one process, as `up` starts it; gives its base URL."""
    port = _free_port()
    with spawned(stand, "manage.py", "up", "--no-demo", "--port", str(port)):
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def spawned(stand: Stand, *arguments: str) -> Iterator[int]:
    """A process of this interpreter on the stand, ended at the end; it says nothing. Gives its id."""
    with _running([sys.executable, *arguments], stand.environ) as pid:
        yield pid


@contextlib.contextmanager
def _running(program: list[str], environ: dict[str, str]) -> Iterator[int]:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(program, cwd=ROOT, env=environ, stdout=quiet, stderr=quiet)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=STARTUP_S)


def ping(redis_url: str) -> None:
    """Raise where no Redis answers."""
    import redis

    with redis.Redis.from_url(redis_url) as client:
        client.ping()


def end_with_what_was_started() -> None:
    """Let SIGTERM end the servers and databases of this run too, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def load(stand: Stand, *, base_url: str = "") -> None:
    """Activate the bench's pack; with `base_url`, its step is a call to that target."""
    activate(stand, pack(base_url))


def pack(base_url: str = "") -> str:
    """The bench's pack as YAML; with `base_url`, its step is a call to that target."""
    text = (ROOT / "bench" / "pack.yaml").read_text()
    if not base_url:
        return text
    simulated = "{id: order, executor: simulated}"
    called = "{id: order, executor: http, target: broker, request: {method: POST, path: /orders}}"
    return text.replace(simulated, called) + f'targets: {{broker: {{base_url: "{base_url}"}}}}\n'


def activate(stand: Stand, text: str) -> None:
    """Load a pack, as YAML text, and activate what it holds."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as pack:
        pack.write(text)
        pack.flush()
        manage(stand, "load_pack", pack.name, "--activate")


def manage(stand: Stand, *arguments: str, typed: str = "") -> str:
    """The standard output of a management command that reads `typed` on its standard input."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT, env=stand.environ, check=True, capture_output=True, text=True, input=typed,
    )  # fmt: skip
    return done.stdout.strip()


def _ready(stand: Stand) -> Stand:
    manage(stand, "migrate", "--verbosity", "0")
    manage(stand, "createcachetable")
    return stand


def _environ(folder: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    return {**kept, "DIR_DATA": folder, "DIR_EGRESS_ALLOW": "127.0.0.1"}


def _key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + STARTUP_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")

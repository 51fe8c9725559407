"""A stand to measure on: a fresh database, a server on loopback, and agents ready to propose."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STARTUP_S = 30


@dataclass(frozen=True)
class Stand:
    """One database to measure on, and the environment of everything that uses it."""

    name: str
    workers: int
    environ: dict[str, str]


@contextlib.contextmanager
def sqlite() -> Iterator[Stand]:
    """SQLite in a temporary folder; one server process, since there is one writer."""
    with tempfile.TemporaryDirectory(prefix="dir-bench-") as folder:
        yield _ready(Stand("SQLite", 1, _environ(folder)))


@contextlib.contextmanager
def postgres(admin_url: str) -> Iterator[Stand]:
    """A database of its own on the server of `admin_url`, dropped afterwards; two server processes."""
    import psycopg

    name = f"dir_bench_{os.getpid()}"
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        try:
            with tempfile.TemporaryDirectory(prefix="dir-bench-") as folder:
                url = f"{admin_url.rsplit('/', 1)[0]}/{name}"
                yield _ready(Stand("PostgreSQL", 2, {**_environ(folder), "DATABASE_URL": url}))
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextlib.contextmanager
def served(stand: Stand, application: str) -> Iterator[str]:
    """Serve an ASGI application on a free port; gives its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", application, "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen(
        [*command, "--workers", str(stand.workers), "--no-access-log"], cwd=ROOT, env=stand.environ
    )
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=STARTUP_S)


def manage(stand: Stand, *arguments: str) -> str:
    """The standard output of a management command."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT, env=stand.environ, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def _ready(stand: Stand) -> Stand:
    manage(stand, "migrate", "--verbosity", "0")
    manage(stand, "load_pack", "bench/pack.yaml", "--activate")
    return stand


def _environ(folder: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    return {**kept, "DIR_DATA": folder}


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + STARTUP_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")

"""Start the console as a newcomer does, see a flow end well, stop it, and look for what is left.

Usage: smoke.py FOLDER, where FOLDER is new and becomes the data folder.
"""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: str, limit_s: float, answer: Callable[[], bool]) -> None:
    """Poll `answer` until it is true; after `limit_s` seconds say what did not happen."""
    start = time.monotonic()
    while not answer():
        if time.monotonic() - start > limit_s:
            raise SystemExit(f"smoke: {what} did not happen within {limit_s:.0f} s")
        time.sleep(0.2)
    print(f"smoke: {what} after {time.monotonic() - start:.1f} s", flush=True)


def page(url: str) -> str:
    """The body of a page that answers 200; empty otherwise."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.read().decode() if response.status == 200 else ""
    except (urllib.error.URLError, OSError):
        return ""


def closed_flows(database: Path) -> int:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5) as reader:
            return int(
                reader.execute("SELECT count(*) FROM runtime_flow WHERE state = 'CLOSED'").fetchone()[0]
            )
    except sqlite3.OperationalError:
        return 0


def members(session: int) -> list[int]:
    """Processes of the session that are still there, zombies aside."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, owner = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
            except OSError:
                continue  # ended while we looked
            if int(owner) == session and state != "Z":
                found.append(int(entry.name))
    return found


def visit(*, server: "subprocess.Popen[str]", port: int, folder: Path) -> None:
    base = f"http://127.0.0.1:{port}"

    def alive(answer: bool) -> bool:
        if server.poll() is not None:
            raise SystemExit(f"smoke: `make up` ended by itself with status {server.returncode}")
        return answer

    until("/readyz says yes", 90, lambda: alive(bool(page(f"{base}/readyz"))))
    until("the sign-in page", 10, lambda: alive("password" in page(f"{base}/accounts/login/")))
    until("a flow of the demo closes", 90, lambda: alive(closed_flows(folder / "console.sqlite3") > 0))


def main(folder: Path) -> None:
    # In the background SIGINT arrives ignored; with a handler here, children start with the default.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    port = free_port()
    log = folder.with_suffix(".log")
    with log.open("w") as out:
        server = subprocess.Popen(
            ["make", "--silent", "up", f"ARGS=--port {port} --data {folder}"],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        visit(server=server, port=port, folder=folder)
        os.killpg(server.pid, signal.SIGINT)  # what Ctrl-C does
        until("the stop", 30, lambda: server.poll() is not None)
        until("no process left behind", 10, lambda: not members(server.pid))
        if "Traceback" in log.read_text():
            raise SystemExit("smoke: the log holds a traceback")
        subprocess.run(
            [sys.executable, "manage.py", "verify_ledger"],
            cwd=ROOT,
            check=True,
            timeout=60,
            env=os.environ | {"DIR_DATA": str(folder)},
        )
    except BaseException:
        print(log.read_text()[-6000:], file=sys.stderr)
        raise
    finally:
        for pid in members(server.pid):
            os.kill(pid, signal.SIGKILL)
        server.wait(timeout=10)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

"""A paper broker in its own process, with its own file: ``python -m demo.broker``.

It stands for the world outside: it honours ``Idempotency-Key``, checks the Standard Webhooks
signature when ``BROKER_SECRET`` is set, and can be told to misbehave. It listens on loopback only.
"""

import argparse
import os
import signal
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Final

from demo import broker_http, parent_death
from demo.broker_state import Exchange
from demo.effect_store import Book
from demo.faults import Switch
from demo.market import Schedule, Walk

HOST: Final = "127.0.0.1"
SECRET_ENV: Final = "BROKER_SECRET"  # noqa: S105 - the name of a variable
CONTROL_ENV: Final = "BROKER_CONTROL_TOKEN"


class Server(ThreadingHTTPServer):
    """Threads that do not outlive the process; a backlog for a burst of workers."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256


def main(argv: list[str]) -> int:
    """Serve until SIGTERM, SIGINT or the parent's end."""
    parser = argparse.ArgumentParser(prog="demo.broker", description="A paper broker for trials.")
    parser.add_argument("--port", type=int, default=9410)
    parser.add_argument("--db", type=Path, required=True, metavar="FILE")
    schedules = [schedule.value for schedule in Schedule]
    parser.add_argument("--market", choices=schedules, default=Schedule.CYCLE.value)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args(argv)
    parent_death.bind()
    exchange = Exchange(
        book=Book(path=chosen.db),
        walk=Walk(seed=chosen.seed),
        schedule=Schedule(chosen.market),
        switch=Switch(seed=chosen.seed),
        secret=os.environ.get(SECRET_ENV, ""),
        control_token=os.environ.get(CONTROL_ENV, ""),
    )
    server = Server((HOST, chosen.port), broker_http.handler_for(exchange))

    def stop(_signal: int, _frame: object) -> None:
        exchange.stopping.set()
        # shutdown() waits for the loop, which this handler interrupts: it needs a thread of its own
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"broker ready on {server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    exchange.book.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

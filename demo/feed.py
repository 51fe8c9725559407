"""Carries prices and the market's state from the paper broker into the console, as a feed would.

``python -m demo.feed --base URL --broker URL``, with a key for ``price.`` in ``DIR_FEED_KEY``
and one for ``market.`` in ``DIR_MARKET_KEY`` (a feed key writes under one prefix). Each fact is written on
change only, under the ETag of the version it replaces.
"""

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from demo import parent_death
from demo.http_client import CallRefused, HttpAnswer, Stopped, Unreachable, Wire

PRICE_KEY_ENV: Final = "DIR_FEED_KEY"
MARKET_KEY_ENV: Final = "DIR_MARKET_KEY"
EVERY_S: Final = 1.0
API: Final = "/api/v1"

_LOST_RACE: Final = 412
_ERROR: Final = 400


@dataclass
class Feed:
    """What was last written of each fact; refused facts are named once and left alone.

    ``keys`` holds a key by the namespace it may write.
    """

    console: Wire
    broker: Wire
    keys: Mapping[str, str]
    written: dict[str, Any] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def turn(self) -> int:
        """Read the broker once and write what changed; returns how many facts were written."""
        prices = self.broker.fetch("GET", "/prices").body
        market = self.broker.fetch("GET", "/market").body
        read = {f"market.{name}": state for name, state in market.items()}
        read |= {f"price.{name}": cents for name, cents in prices.items()}
        changed = [
            (path, value)
            for path, value in read.items()
            if path.partition(".")[0] in self.keys
            and path not in self.refused
            and self.written.get(path) != value
        ]
        return sum(self._write(path, value) for path, value in changed)

    def _write(self, path: str, value: Any) -> bool:
        if path not in self.etags and self._learn(path) == value:
            self.written[path] = value
            return False
        answer = self._put(path, value)
        if answer.status == _LOST_RACE:
            # another writer came first: its version is the one to replace now
            self._learn(path)
            answer = self._put(path, value)
        if answer.status == _LOST_RACE or answer.retriable():
            return False
        if answer.status >= _ERROR:
            self.refused.add(path)
            print(f"feed: {path} refused: {answer.status} {answer.body.get('code', '')}", file=sys.stderr)
            return False
        self.etags[path] = str(answer.body["etag"])
        self.written[path] = value
        return True

    def _put(self, path: str, value: Any) -> HttpAnswer:
        headers = self._headers(path)
        if path in self.etags:
            headers["If-Match"] = self.etags[path]
        return self.console.call("PUT", f"{API}/state/facts/{path}", body={"value": value}, headers=headers)

    def _learn(self, path: str) -> Any:
        """Take over the version that is there; returns its value, or None for a fact not yet written."""
        answer = self.console.call("GET", f"{API}/state/facts/{path}", headers=self._headers(path))
        if answer.status >= _ERROR:
            self.etags.pop(path, None)
            return None
        self.etags[path] = str(answer.body["etag"])
        return answer.body.get("value")

    def _headers(self, path: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[path.partition('.')[0]]}"}


def run(*, feed: Feed, stop: threading.Event) -> None:
    """Write every second until told to stop; an unreachable side is waited for."""
    while not stop.is_set():
        try:
            feed.turn()
        except Stopped:
            return
        except (Unreachable, CallRefused) as trouble:
            print(f"feed: {trouble}", file=sys.stderr)
        stop.wait(EVERY_S)


def main(argv: list[str]) -> int:
    """Run until SIGTERM, SIGINT or the parent's end."""
    parser = argparse.ArgumentParser(prog="demo.feed", description="A price feed for trials.")
    parser.add_argument("--base", required=True, metavar="URL")
    parser.add_argument("--broker", default="http://127.0.0.1:9410", metavar="URL")
    chosen = parser.parse_args(argv)
    given = {"price": os.environ.get(PRICE_KEY_ENV), "market": os.environ.get(MARKET_KEY_ENV)}
    keys = {namespace: key for namespace, key in given.items() if key}
    if not keys:
        print(f"feed: put the key that issue_key --feed printed into {PRICE_KEY_ENV}", file=sys.stderr)
        return 2
    stop = threading.Event()
    parent_death.stop_when_told(stop)
    with (
        contextlib.closing(Wire(base_url=chosen.base, stop=stop)) as console,
        contextlib.closing(Wire(base_url=chosen.broker, stop=stop)) as broker,
    ):
        run(feed=Feed(console=console, broker=broker, keys=keys), stop=stop)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

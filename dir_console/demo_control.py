"""The control channel to the running demo: its scenarios, over HTTP on the loopback address."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

PATH = "/scenarios"
TIMEOUT_S = 3.0
MAX_ANSWER = 100_000
# Another program may listen at the address by now.
_NOT_OURS = "What answered does not speak of scenarios. The demo may be starting again."


class DemoUnreachableError(Exception):
    """The demo did not answer, or not as expected: it may be starting again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardState:
    """What the demo says of itself: seconds left and seconds in all by scenario; the symbols it trades."""

    left_s: Mapping[str, float]
    lasts_s: Mapping[str, int]
    symbols: tuple[str, ...]
    symbol: str


def is_offered() -> bool:
    """Whether this process runs the demo."""
    return bool(settings.DIR_DEMO_URL)


def read() -> BoardState:
    """Ask what runs now. Raises `DemoUnreachableError`."""
    return _state(_call("GET", None))


def start(scenario: str, *, symbol: str = "") -> BoardState:
    """Start a scenario, or start its time again. Raises `DemoUnreachableError`."""
    state = _state(_call("POST", {"scenario": scenario, "run": True, "symbol": symbol}))
    if scenario not in state.lasts_s:
        raise DemoUnreachableError(_NOT_OURS)
    return state


def end(scenario: str) -> BoardState:
    """End a scenario before its time. Raises `DemoUnreachableError`."""
    return _state(_call("POST", {"scenario": scenario, "run": False}))


def _call(method: str, body: Mapping[str, Any] | None) -> bytes:
    address = urlsplit(settings.DIR_DEMO_URL)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=TIMEOUT_S)
    headers = {"Authorization": f"Bearer {settings.DIR_DEMO_TOKEN}", "Content-Type": "application/json"}
    try:
        connection.request(method, PATH, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read(MAX_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        raise DemoUnreachableError("The demo does not answer. It may be starting again.") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise DemoUnreachableError(f"The demo refused this with status {answer.status}.")
    return text


def _state(text: bytes) -> BoardState:
    try:
        answer = json.loads(text)
        scenarios = answer["scenarios"]
        return BoardState(
            left_s={name: float(found["left_s"]) for name, found in scenarios.items()},
            lasts_s={name: int(found["lasts_s"]) for name, found in scenarios.items()},
            symbols=tuple(answer["symbols"]),
            symbol=str(answer["symbol"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DemoUnreachableError(_NOT_OURS) from error

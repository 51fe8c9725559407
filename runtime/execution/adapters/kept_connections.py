"""Connections to targets, kept for a moment for the next call; each serves one call at a time.

A target may close a connection that waits, just as the next call goes out over it. Nobody can tell then
whether the call arrived. So a connection waits for a shorter time than servers let one wait, and only a call
whose doubt settles itself goes over one: what a person would have to find out gets one of its own.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx2

from audit.live.background import PerProcess
from runtime.execution.adapters.egress import Egress
from runtime.execution.adapters.transport import GuardedNetwork, GuardedTransport, Trip

# Servers close a connection that waits after two seconds or more.
KEEP_S: Final = 1.0
MOST_AT_ONE_TARGET: Final = 4
MOST: Final = 64


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a connection leads: the host as it is called, and the addresses that were vetted for it."""

    scheme: str
    host: str
    port: int
    addresses: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A client with one connection; since when it waits."""

    place: _Place
    client: httpx2.Client
    wire: GuardedTransport
    network: GuardedNetwork
    since_s: float = 0.0


class _Waiting:
    """The connections of this process that wait, the longest waiting first."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._lock = threading.Lock()

    def take(self, place: _Place) -> _Line | None:
        """One that leads there, the one that has waited least."""
        with self._lock:
            closing = self._forget_old()
            found = next((line for line in reversed(self._lines) if line.place == place), None)
            if found is not None:
                self._lines.remove(found)
        _close(closing)
        return found

    def keep(self, line: _Line) -> None:
        """Let it wait, in place of the one that has waited longest where there are enough."""
        with self._lock:
            closing = self._forget_old()
            same = [other for other in self._lines if other.place == line.place]
            surplus = same[:1] if len(same) >= MOST_AT_ONE_TARGET else []
            if not surplus and len(self._lines) >= MOST:
                surplus = self._lines[:1]
            for other in surplus:
                self._lines.remove(other)
            self._lines.append(replace(line, since_s=time.monotonic()))
        _close([*closing, *surplus])

    def _forget_old(self) -> list[_Line]:
        newest_s = time.monotonic() - KEEP_S
        old = [line for line in self._lines if line.since_s <= newest_s]
        self._lines = self._lines[len(old) :]
        return old


def _close(lines: list[_Line]) -> None:
    for line in lines:
        line.client.close()


_waiting = PerProcess(_Waiting)


@contextmanager
def client(*, url: httpx2.URL, egress: Egress, trip: Trip, reuse: bool) -> Iterator[httpx2.Client]:
    """A client for one call to `url`, as `transport.client` is one, over a kept connection if there is one.

    The rule of `egress` is asked for each call: a connection serves only calls for which its host has the
    same vetted addresses as when it was made. Without `reuse` the connection is a new one, which waits for
    others afterwards all the same.

    Raises:
        egress.EgressRefusedError: when the host is not allowed and not wholly public.
        egress.UnresolvedError: when there is no address.
    """
    port = url.port or (443 if url.scheme == "https" else 80)
    addresses = egress.addresses(host=url.host, port=port)
    place = _Place(scheme=url.scheme, host=url.host, port=port, addresses=frozenset(addresses))
    line = _waiting.get().take(place) if reuse else None
    if line is None:
        line = _open(place, replace(egress, resolver=lambda host, port: addresses), trip)
    line.network.trip = trip
    try:
        yield line.client
    except BaseException:
        line.client.close()
        raise
    if line.wire.is_kept():
        _waiting.get().keep(line)
    else:
        line.client.close()


def _open(place: _Place, egress: Egress, trip: Trip) -> _Line:
    network = GuardedNetwork(egress=egress, trip=trip)
    wire = GuardedTransport(network=network, keep_s=KEEP_S)
    # What a target sets in one call is not sent with the next, which may be another agent's.
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    made = httpx2.Client(
        transport=wire, trust_env=False, follow_redirects=False, timeout=None, cookies=no_cookies
    )
    return _Line(place=place, client=made, wire=wire, network=network)

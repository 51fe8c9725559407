"""The transport under httpx2: vetted addresses, one deadline for the whole call, a note of what was sent."""

import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpcore2
import httpx2

from runtime.execution.adapters.egress import Egress

CONNECT_S = 3.0


@dataclass(kw_only=True)
class Trip:
    """One call on its way. `sent` is true as soon as one byte of the request may have left.

    The first bytes are written inside `gate`; what that raises ends the call with nothing sent.
    """

    timeout_s: float
    gate: Callable[[], AbstractContextManager[None]] = nullcontext
    sent: bool = False
    ends_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.ends_at = time.monotonic() + self.timeout_s

    def left_s(self, error: type[httpcore2.TimeoutException]) -> float:
        """Seconds left of the call; raises `error` when there are none."""
        left = self.ends_at - time.monotonic()
        if left <= 0:
            raise error("the call timed out")
        return left


class GuardedStream(httpcore2.NetworkStream):
    """A connection whose every wait ends with the call: one slow byte at a time earns no more time.

    The call is the one that its network is on: a connection that was kept serves a later one.
    """

    def __init__(self, stream: httpcore2.NetworkStream, network: "GuardedNetwork") -> None:
        self._stream = stream
        self._network = network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._network.trip.left_s(httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        trip = self._network.trip
        if trip.sent:
            self._stream.write(buffer, trip.left_s(httpcore2.WriteTimeout))
            return
        with trip.gate():
            left_s = trip.left_s(httpcore2.WriteTimeout)
            trip.sent = True
            self._stream.write(buffer, left_s)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        left_s = min(CONNECT_S, self._network.trip.left_s(httpcore2.ConnectTimeout))
        return GuardedStream(self._stream.start_tls(ssl_context, server_hostname, left_s), self._network)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class GuardedNetwork(httpcore2.NetworkBackend):
    """Connects to the addresses that the rule has vetted; name and certificate stay the host's own."""

    def __init__(self, *, egress: Egress, trip: Trip) -> None:
        self._egress = egress
        self.trip = trip
        self._plain = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        addresses = self._egress.addresses(host=host, port=port)
        ends_at = time.monotonic() + CONNECT_S
        failure: Exception = httpcore2.ConnectTimeout("no address responded in time")
        for address in addresses:
            left_s = min(ends_at - time.monotonic(), self.trip.left_s(httpcore2.ConnectTimeout))
            if left_s <= 0:
                break
            try:
                stream = self._plain.connect_tcp(address, port, left_s, socket_options=socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return GuardedStream(stream, self)
        raise failure


class GuardedTransport(httpx2.HTTPTransport):
    """httpx2's own transport over a guarded network: no proxy, one connection, no retry of its own.

    The connection is kept for `keep_s` after an answer; with 0 it is not.
    """

    def __init__(self, *, network: GuardedNetwork, keep_s: float = 0.0) -> None:
        super().__init__(verify=tls(), trust_env=False)
        self._pool: httpcore2.ConnectionPool = httpcore2.ConnectionPool(
            ssl_context=tls(),
            max_connections=1,
            max_keepalive_connections=1 if keep_s else 0,
            keepalive_expiry=keep_s,
            network_backend=network,
        )

    def is_kept(self) -> bool:
        """Whether the connection can serve another call: the answer was read whole, and nothing came after.

        Bytes that nobody asked for would be taken for the answer to the next call.
        """
        for connection in self._pool.connections:
            wire: Any = getattr(connection, "_connection", None)
            return bool(connection.is_idle() and wire._h11_state.trailing_data == (b"", False))
        return False


def client(*, egress: Egress, trip: Trip) -> httpx2.Client:
    """A client for one call, over a guarded transport: no proxy of the environment, no redirect followed."""
    wire = GuardedTransport(network=GuardedNetwork(egress=egress, trip=trip))
    return httpx2.Client(transport=wire, trust_env=False, follow_redirects=False, timeout=trip.timeout_s)


@cache
def tls() -> ssl.SSLContext:
    """The system's trust, built once: it takes longer than a call."""
    return ssl.create_default_context()

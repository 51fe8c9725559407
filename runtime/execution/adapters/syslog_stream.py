"""Messages to a syslog receiver over TCP or TLS, with vetted addresses and counted octets (RFC 6587)."""

import socket
import ssl
import time
from collections.abc import Sequence
from typing import Final

from django.conf import settings

from runtime.execution.adapters import egress, transport

# A receiver that has read everything closes its side too; one that does not is not waited for longer.
GOODBYE_S: Final = 1.0


def send(*, host: str, port: int, with_tls: bool, messages: Sequence[bytes], timeout_s: float) -> str | None:
    """Send all messages over one connection; None where they went out and nothing came back, else why not.

    Syslog has no answer. A receiver that breaks the connection off before it has read all is noticed.
    """
    ends_at = time.monotonic() + timeout_s
    try:
        addresses = egress.rule(settings.DIR_EGRESS_ALLOW).addresses(host=host, port=port)
    except egress.EgressRefusedError:
        return egress.REFUSED
    except egress.UnresolvedError:
        return "the host name does not resolve"
    framed = b"".join(b"%d %b" % (len(message), message) for message in messages)
    try:
        stream = _connect(addresses, port)
    except OSError:
        return "no connection could be made"
    try:
        stream.settimeout(max(0.1, ends_at - time.monotonic()))
        if with_tls:
            stream = transport.tls().wrap_socket(stream, server_hostname=host)
        stream.sendall(framed)
        _say_goodbye(stream)
    except TimeoutError:
        return "it did not take everything in time"
    except ssl.SSLError:
        return "no TLS connection could be made, or it broke"
    except OSError:
        return "the connection broke before everything was taken"
    finally:
        stream.close()
    return None


def _connect(addresses: Sequence[str], port: int) -> socket.socket:
    failure: OSError = OSError("no address")
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=transport.CONNECT_S)
        except OSError as error:
            failure = error
    raise failure


def _say_goodbye(stream: socket.socket) -> None:
    """End our side, and let the other end its own: a reset instead means that not all was read."""
    if isinstance(stream, ssl.SSLSocket):
        # Sends the end of TLS; the other side's end, or its silence, is of no interest.
        stream.settimeout(GOODBYE_S)
        try:
            stream = stream.unwrap()
        except (TimeoutError, ssl.SSLError):
            return
    stream.settimeout(GOODBYE_S)
    stream.shutdown(socket.SHUT_WR)
    try:
        while stream.recv(1024):
            pass
    except TimeoutError:
        return

"""A real syslog receiver on loopback, which counts octets as RFC 6587 has it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO


@dataclass
class Listener:
    """`messages` grows with each whole message; a rude one resets each connection after one byte."""

    port: int
    is_rude: bool = False
    messages: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def take(self, peer: socket.socket) -> None:
        """Read one connection to its end."""
        if self.is_rude:
            peer.recv(1)
            # With a wait of no time the end of the connection is a reset.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            return
        with peer.makefile("rb") as stream:
            while count := _count(stream):
                self.messages.append(stream.read(count).decode())


def _count(stream: BinaryIO) -> int:
    """The length of the next message in octets; 0 at the end."""
    digits = b""
    while byte := stream.read(1):
        if byte == b" ":
            return int(digits)
        digits += byte
    return 0


@contextmanager
def listening() -> Iterator[Listener]:
    """A listener on a free port."""
    server = socket.create_server(("127.0.0.1", 0))
    listener = Listener(port=server.getsockname()[1])

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer:
                listener.take(peer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)

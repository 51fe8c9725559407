"""A real syslog receiver on loopback, which counts octets as RFC 6587 has it."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import BinaryIO

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


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
def listening(tls: ssl.SSLContext | None = None) -> Iterator[Listener]:
    """A listener on a free port; with `tls` it speaks TLS."""
    server = socket.create_server(("127.0.0.1", 0))
    listener = Listener(port=server.getsockname()[1])

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            # A peer that does not trust the certificate hangs up.
            with (
                suppress(OSError),
                peer if tls is None else tls.wrap_socket(peer, server_side=True) as stream,
            ):
                listener.take(stream)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


def certificate(folder: Path) -> Path:
    """A file with a key and a certificate of its own for 127.0.0.1, good for an hour."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "syslog")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "syslog.pem"
    path.write_bytes(plain + made.public_bytes(pem))
    return path

"""Signed checkpoints as text: the tlog-checkpoint and signed-note formats of C2SP. Pure.

A checkpoint names the tree (its origin), its size and its root, and who signed that, in a form that tools for
transparency logs read. Our extension lines say when it was signed, the root over the ends of all streams
where it has one, which checkpoint came before it, and why none came for longer than a heartbeat. Those of old
versions have only the first two.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from audit import chain

ED25519: Final = b"\x01"
_HASH_BYTES: Final = 32
_KEY_HASH_BYTES: Final = 4
_SIGNATURE_BYTES: Final = 64
_LONGEST: Final = 10_000
_NAME = re.compile(r"[^\s+]{1,200}")
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


class NoteError(ValueError):
    """The text is not a signed checkpoint of ours; the message says where."""


@dataclass(frozen=True, slots=True)
class Heads:
    """What a checkpoint says of the ends of all streams: how many, and the root over them (32 bytes)."""

    count: int
    root: bytes


class Resumed(StrEnum):
    """Why a checkpoint comes later than a heartbeat after the one before it, as its signer says."""

    START = "START"
    STALL = "STALL"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is signed. `time` is aware, by the signer's clock; `root` has 32 bytes.

    `previous` is the `digest` of the checkpoint before (32 bytes, zeros for none); None in notes of old.
    """

    origin: str
    size: int
    root: bytes
    time: datetime
    heads: Heads | None = None
    previous: bytes | None = None
    resumed: Resumed | None = None

    def digest(self) -> bytes:
        """SHA-256 of the text that is signed: what the next checkpoint names."""
        return hashlib.sha256(self.text().encode()).digest()

    def text(self) -> str:
        """The text that is signed."""
        lines = [self.origin, str(self.size), _base64(self.root), f"time {chain.time_text(self.time)}"]
        if self.heads is not None:
            lines.append(f"heads {self.heads.count} {_base64(self.heads.root)}")
        if self.previous is not None:
            lines.append(f"previous {_base64(self.previous)}")
        if self.resumed is not None:
            lines.append(f"resumed {self.resumed}")
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line: the name and the hash (4 bytes) of the key that it claims, and 64 bytes."""

    name: str
    key_hash: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed checkpoint as it was read: its `text`, what that says, and who claims to have signed it."""

    text: str
    checkpoint: Checkpoint
    signatures: tuple[Signature, ...]

    def signature_by(self, public_key: bytes) -> bytes | None:
        """The signature that claims to be by this key; None where there is none."""
        name = self.checkpoint.origin
        wanted = key_hash(name, public_key)
        found = (each for each in self.signatures if (each.name, each.key_hash) == (name, wanted))
        return next((each.signature for each in found), None)


def key_hash(name: str, public_key: bytes) -> bytes:
    """The four bytes that name an Ed25519 key in a signature line."""
    return hashlib.sha256(name.encode() + b"\n" + ED25519 + public_key).digest()[:_KEY_HASH_BYTES]


def verifier_key(name: str, public_key: bytes) -> str:
    """The key as tools for signed notes take it: `name+hash+base64(type || key)`."""
    return f"{name}+{key_hash(name, public_key).hex()}+{_base64(ED25519 + public_key)}"


def sign(checkpoint: Checkpoint, *, public_key: bytes, sign: Callable[[bytes], bytes]) -> str:
    """The signed note of a checkpoint."""
    text = checkpoint.text()
    line = _base64(key_hash(checkpoint.origin, public_key) + sign(text.encode()))
    return f"{text}\n— {checkpoint.origin} {line}\n"


def read(note: str) -> Signed:
    """Take a signed note apart, strictly. Signatures are not verified here. Raises NoteError."""
    if len(note) > _LONGEST:
        raise NoteError("it is too long for a checkpoint")
    text, separator, signatures = note.partition("\n\n")
    if not separator:
        raise NoteError("no empty line separates the text from the signatures")
    checkpoint = _checkpoint(text.split("\n"))
    if not signatures.endswith("\n"):
        raise NoteError("the last signature line does not end")
    return Signed(note, checkpoint, tuple(_signature(line) for line in signatures[:-1].split("\n")))


def _checkpoint(lines: list[str]) -> Checkpoint:
    if len(lines) < len(("origin", "size", "root", "time")):
        raise NoteError("origin, size, root or time is missing")
    origin, size, root, time, *further = lines
    if not _NAME.fullmatch(origin):
        raise NoteError("the origin is not a name")
    label, _, moment = time.partition(" ")
    if label != "time" or not _TIME.fullmatch(moment):
        raise NoteError("the fourth line is not a time")
    try:
        at = datetime.fromisoformat(moment)
    except ValueError as error:
        raise NoteError("the fourth line is not a time") from error
    heads, previous, resumed = None, None, None
    # Lines of a later version would be signed words that this one does not understand.
    for line in further:
        match line.split(" "):
            case ["heads", count, heads_root] if line is further[0]:
                heads = Heads(_number(count, "number of streams"), _bytes(heads_root, _HASH_BYTES, "heads"))
            case ["previous", digest] if previous is None and resumed is None:
                previous = _bytes(digest, _HASH_BYTES, "digest of the checkpoint before")
            case ["resumed", ("START" | "STALL") as why] if previous is not None and resumed is None:
                resumed = Resumed(why)
            case _:
                raise NoteError("an extension line is unknown")
    named = _bytes(root, _HASH_BYTES, "root")
    return Checkpoint(origin, _number(size, "size"), named, at, heads, previous, resumed)


def _signature(line: str) -> Signature:
    match line.split(" "):
        case ["—", name, encoded] if _NAME.fullmatch(name):
            held = _bytes(encoded, None, "signature")
        case _:
            raise NoteError("a signature line has another form")
    if len(held) != _KEY_HASH_BYTES + _SIGNATURE_BYTES:
        # A witness may sign with a key of another type; nobody here can check that one.
        return Signature(name, b"", b"")
    return Signature(name, held[:_KEY_HASH_BYTES], held[_KEY_HASH_BYTES:])


def _number(text: str, what: str) -> int:
    if not _DECIMAL.fullmatch(text):
        raise NoteError(f"the {what} is not a decimal number")
    return int(text)


def _bytes(text: str, length: int | None, what: str) -> bytes:
    try:
        held = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoteError(f"the {what} is not base64") from error
    if _base64(held) != text or (length is not None and len(held) != length):
        raise NoteError(f"the {what} is not {length or ''} bytes in base64")
    return held


def _base64(held: bytes) -> str:
    return base64.b64encode(held).decode()

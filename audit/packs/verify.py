#!/usr/bin/env python3
"""Check an evidence pack offline: one file, Python's standard library, nothing of the house that made it.

    python3 -I verify.py [PACK.zip] [--checkpoint FILE] [--consistency FILE] [--key KEY] [--json]
    python3 -I verify.py --checkpoints FILE_OR_FOLDER... --key KEY [--consistency FILE] [--json]

Without PACK it checks the unpacked pack in whose folder it lies. With --checkpoints it compares signed
checkpoints with each other: those that you kept, that a witness holds, that others were given. Exit 0:
everything checked is whole; it prints what that proves and what it does not. Exit 1: something is wrong; the
first bad item is named by its stream and number, or by its member or file. Exit 2: it cannot judge.

How to read it: the first half is arithmetic (canonical JSON, the archive, Ed25519, the Merkle tree, notes).
Then a pack is taken apart. After that, every function named `check_` asks one question of the pack and yields
what is wrong; where it yields nothing, the first line of its docstring is what has been proved.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

FORMAT = "dir-console-evidence-pack/1"
# Of packs since checkpoints name the one before; those of the first hold no bytes of advice and tasks.
FORMAT_2 = "dir-console-evidence-pack/2"
EXIT_WHOLE, EXIT_BAD, EXIT_CANNOT_JUDGE = 0, 1, 2
MOST_FINDINGS = 100
MOST_BYTES = 512 * 1024 * 1024
HASH_BYTES = 32
_LONGEST_SHOWN = 80


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and where: an entry by stream and number, a member of the pack, or both."""

    code: str
    detail: str
    stream: str = ""
    seq: int = 0
    member: str = ""

    def __str__(self) -> str:
        places = [f"stream {self.stream}, seq {self.seq}"] if self.stream else []
        places += [f"member {self.member}"] if self.member else []
        return f"{', '.join(places) or 'the file'}: {self.code}, {self.detail}."


class CannotJudge(Exception):
    """There is nothing here that can be called whole or not; the message is a sentence."""


class Malformed(ValueError):
    """What was read has another form than it must have; the message says which part."""


def shown(text: str) -> str:
    """Words of the pack as they may be printed: short, in quotes, without anything that moves a terminal."""
    return ascii(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def sha256(content: bytes) -> str:
    """SHA-256 as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


# --- Canonical JSON (RFC 8785) ------------------------------------------------------------------------------

MOST_DEPTH = 128
MAX_SAFE_INTEGER = 2**53 - 1
# ECMAScript writes numbers from 1e-6 to below 1e21 without an exponent.
_MOST_DIGITS, _MOST_ZEROS = 21, 6


def canonical(value: Any) -> bytes:
    """The one byte form of a JSON value. Raises Malformed for what has none, as NaN or half a character."""
    try:
        return _json_text(value, MOST_DEPTH).encode()
    except UnicodeEncodeError as error:
        raise Malformed("a text holds half a character") from error


def _json_text(value: Any, depth: int) -> str:
    if depth < 0:
        raise Malformed(f"it is nested deeper than {MOST_DEPTH}")
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise Malformed("an integer is beyond 2^53 - 1")
        return str(value)
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_json_text(item, depth - 1) for item in value) + "]"
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise Malformed(f"{type(value).__name__} is not JSON")
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    pairs = (f"{_json_text(name, 0)}:{_json_text(value[name], depth - 1)}" for name in names)
    return "{" + ",".join(pairs) + "}"


def number_text(number: float) -> str:
    """A float as ECMAScript writes it: the shortest digits that read back, an exponent only far from 1."""
    if number == 0:
        return "0"
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if not whole.isdigit():
        raise Malformed("NaN and Infinity are not JSON")
    digits = (whole + fraction).lstrip("0")
    # Where the point stands, counted from the first digit that is not zero.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= _MOST_DIGITS:
        text = digits.ljust(point, "0")
        text = text[:point] + ("." + text[point:] if text[point:] else "")
    elif -_MOST_ZEROS < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if digits[1:] else "") + f"e{point - 1:+d}"
    return "-" + text if number < 0 else text


def read_json(encoded: bytes) -> Any:
    """The value of canonical JSON bytes. Raises Malformed for any others, so that each value has one form."""
    try:
        value = json.loads(encoded.decode(), parse_int=_read_integer)
        is_canonical = canonical(value) == encoded
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error) if isinstance(error, Malformed) else "it is not JSON") from error
    if not is_canonical:
        raise Malformed("it is not canonical JSON")
    return value


def _read_integer(digits: str) -> int | float:
    # A float of 2^60 is written in plain digits: read it back as the float that it was.
    number = float(digits)
    return int(digits) if abs(number) <= MAX_SAFE_INTEGER else number


# --- The forms of values ------------------------------------------------------------------------------------

Reader = Callable[[Any], Any]
_DIGEST_AT_END = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}\Z")
_TO_MILLISECONDS = len("2026-11-23T10:00:00.000")


def fields(value: Any, forms: Mapping[str, Reader]) -> dict[str, Any]:
    """The members of an object that has exactly those of `forms`, each as its reader returns it."""
    if not isinstance(value, dict) or value.keys() != forms.keys():
        raise Malformed(f"it is not an object of {', '.join(sorted(forms))}")
    taken = {}
    for name, read in forms.items():
        try:
            taken[name] = read(value[name])
        except Malformed as error:
            raise Malformed(f"{name} {error}") from error
    return taken


def _like(pattern: str, what: str) -> Reader:
    """A reader of texts that match in full."""
    wanted = re.compile(pattern, re.ASCII | re.DOTALL)

    def read(value: Any) -> str:
        if not isinstance(value, str) or not wanted.fullmatch(value):
            raise Malformed(f"is not {what}")
        return value

    return read


def _list_of(read: Reader) -> Reader:
    def items(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Malformed("is not a list")
        return [read(item) for item in value]

    return items


_text = _like(".*", "text")
_digest = _like("[0-9a-f]{64}", "64 lower-case hexadecimal digits")
_hex = _like("([0-9a-f]{2})*", "lower-case hexadecimal")
_time = _like(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z", "a time in UTC"
)


def _hash(value: Any) -> bytes:
    return bytes.fromhex(_digest(value))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Malformed("is not a number from 0")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed("is not an object")
    return value


def _base64(value: Any) -> bytes:
    try:
        held = base64.b64decode(_text(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed("is not base64") from error
    if base64.b64encode(held).decode() != value:
        raise Malformed("is not canonical base64")
    return held


def _base64_of_32(value: Any) -> bytes:
    held = _base64(value)
    if len(held) != HASH_BYTES:
        raise Malformed("is not 32 bytes in base64")
    return held


# --- The archive --------------------------------------------------------------------------------------------

_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s4H2IH")
_LOCAL_MARK, _CENTRAL_MARK, _END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_VERSION, _UNIX, _FIRST_OF_1980, _READABLE_FILE = 20, 3 << 8, 0x21, 0o644 << 16
_STORED, _DEFLATED = 0, 8
_MOST_MEMBERS, _LONGEST_NAME, _LONGEST_COMMENT, _MOST_OFFSET = 0xFFFE, 0xFFFF, 0xFFFF, 0xFFFFFFFE
_PART = r"(?!\.\.?(/|$))[A-Za-z0-9._-]+"
_PATH = re.compile(rf"{_PART}(/{_PART})*")


def pack_bytes(members: Mapping[str, bytes]) -> bytes:
    """The ZIP file of these members: the same members always make the same bytes.

    Raises ValueError for a name that is no plain relative path, and for what only ZIP64 could hold.
    """
    local: list[bytes] = []
    central: list[bytes] = []
    offset = 0
    for name in sorted(members):
        content, path = members[name], name.encode()
        if not _PATH.fullmatch(name) or len(path) > _LONGEST_NAME or len(content) > _MOST_OFFSET:
            raise ValueError(f"a pack cannot hold {shown(name)}")
        sizes = (zlib.crc32(content), len(content), len(content), len(path))
        about = (_VERSION, 0, _STORED, 0, _FIRST_OF_1980, *sizes, 0)
        local += (_LOCAL.pack(_LOCAL_MARK, *about), path, content)
        # No comment, on the first disk, of no known type.
        further = (0, 0, 0, _READABLE_FILE, offset)
        central += (_CENTRAL.pack(_CENTRAL_MARK, _UNIX | _VERSION, *about, *further), path)
        offset += _LOCAL.size + len(path) + len(content)
        if offset > _MOST_OFFSET or len(members) > _MOST_MEMBERS:
            raise ValueError("the pack is too large for a plain ZIP file")
    size = sum(map(len, central))
    end = _END.pack(_END_MARK, 0, 0, len(members), len(members), size, offset, 0)
    return b"".join((*local, *central, end))


def read_archive(archive: bytes) -> tuple[dict[str, bytes], list[Finding]]:
    """The members of a ZIP file, read generously: `check_archive` finds what differs from `pack_bytes`."""
    end = archive.rfind(_END_MARK, max(0, len(archive) - _END.size - _LONGEST_COMMENT))
    if end < 0 or end + _END.size > len(archive):
        raise CannotJudge("This is not a ZIP file, or its end is missing.")
    *_, count, _, at, _ = _END.unpack_from(archive, end)
    members: dict[str, bytes] = {}
    found: list[Finding] = []
    room = MOST_BYTES
    for _ in range(count):
        if at + _CENTRAL.size > len(archive) or not archive.startswith(_CENTRAL_MARK, at):
            raise CannotJudge("The list of members of this ZIP file cannot be read.")
        header = _CENTRAL.unpack_from(archive, at)
        method, packed, size, length, extra, comment, start = (
            header[nth] for nth in (4, 8, 9, 10, 11, 12, 16)
        )
        at += _CENTRAL.size
        name = archive[at : at + length].decode("ascii", "backslashreplace")
        at += length + extra + comment
        # Members may lie on one another, so it is the sum of their sizes that must stay within bounds.
        room -= max(packed, size)
        if room < 0:
            raise CannotJudge("The members of this ZIP file are too large.")
        if not _PATH.fullmatch(name):
            found.append(Finding("MEMBER_NAME", f"{shown(name)} is not a plain relative path"))
            continue
        if name in members:
            found.append(Finding("MEMBER_REPEATED", "the archive holds it twice", member=name))
            continue
        if method != _STORED:
            found.append(Finding("MEMBER_COMPRESSED", "members of a pack are not compressed", member=name))
        content = _content(archive, start, method, packed, size)
        if content is None:
            found.append(Finding("MEMBER_UNREADABLE", "its bytes cannot be read", member=name))
        members[name] = content or b""
    return members, found


def _content(archive: bytes, at: int, method: int, packed: int, size: int) -> bytes | None:
    if at + _LOCAL.size > len(archive) or not archive.startswith(_LOCAL_MARK, at):
        return None
    *_, name_length, extra_length = _LOCAL.unpack_from(archive, at)
    start = at + _LOCAL.size + name_length + extra_length
    content = archive[start : start + packed]
    if method == _DEFLATED:
        # Not as it must be, but read all the same, so that what else is wrong can be named.
        try:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, size + 1)
        except zlib.error:
            return None
    return content if len(content) == size and method in (_STORED, _DEFLATED) else None


def read_folder(folder: Path, brought: Iterable[Path]) -> dict[str, bytes]:
    """The files of an unpacked pack by their paths in it; `brought` are those that its reader put there."""
    if not (folder / MANIFEST).is_file():
        raise CannotJudge(f"There is no manifest.json in {shown(str(folder))}, so it holds no evidence pack.")
    apart = {path.resolve() for path in brought}
    members: dict[str, bytes] = {}
    room = MOST_BYTES
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.resolve() in apart:
            continue
        room -= path.stat().st_size if path.is_file() else MOST_BYTES
        if room < 0 or len(members) >= _MOST_MEMBERS:
            raise CannotJudge("The folder holds more than a pack, or something that is not a file.")
        members[path.relative_to(folder).as_posix()] = path.read_bytes()
    return members


# --- Ed25519 (RFC 8032) -------------------------------------------------------------------------------------

# A point is (X, Y, Z, T) with x = X/Z, y = Y/Z and xy = T/Z, so that adding two needs no division.
Point = tuple[int, int, int, int]

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)
_NEUTRAL: Point = (0, 1, 1, 0)
_SIGNATURE_BYTES = 64


@lru_cache(maxsize=1000)
def is_signed(message: bytes, signature: bytes, public_key: bytes) -> bool:
    """Whether this is the Ed25519 signature (64 bytes) of the message by the key (32 bytes).

    The equation without the cofactor: S*B - k*A is encoded and must be R to the byte, so no other encoding of
    R passes. S must be below the order of the group, and A a canonical point that is not of small order.
    """
    key = read_point(public_key)
    if key is None or is_small(key) or len(signature) != _SIGNATURE_BYTES:
        return False
    commitment, scalar = signature[:HASH_BYTES], int.from_bytes(signature[HASH_BYTES:], "little")
    if scalar >= _ORDER:
        return False
    hashed = hashlib.sha512(commitment + public_key + message).digest()
    challenge = int.from_bytes(hashed, "little") % _ORDER
    minus_key = (_P - key[0], key[1], key[2], _P - key[3])
    return _encoded(_two_products(scalar, _BASE, challenge, minus_key)) == commitment


def is_small(point: Point) -> bool:
    """Whether eight times the point is nothing: under such a key anybody can sign."""
    eightfold = _doubled(_doubled(_doubled(point)))
    return eightfold[0] == 0 and eightfold[1] == eightfold[2]


def read_point(encoded: bytes) -> Point | None:
    """The point of 32 bytes: y, and the parity of x in the highest bit. None but for the canonical form."""
    number = int.from_bytes(encoded, "little")
    parity, y = number >> 255, number & (2**255 - 1)
    if len(encoded) != HASH_BYTES or y >= _P:
        return None
    above, below = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = above * pow(below, 3, _P) * pow(above * pow(below, 7, _P), (_P - 5) // 8, _P) % _P
    if (below * x * x - above) % _P:
        x = x * _ROOT_OF_MINUS_ONE % _P
    if (below * x * x - above) % _P or (x == 0 and parity):
        return None
    x = x if x & 1 == parity else _P - x
    return x, y, 1, x * y % _P


def _encoded(point: Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(HASH_BYTES, "little")


def _added(one: Point, other: Point) -> Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * _D * one[3] * other[3] % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _doubled(point: Point) -> Point:
    a, b, c = point[0] * point[0], point[1] * point[1], 2 * point[2] * point[2]
    h, g = a + b, a - b
    e, f = h - (point[0] + point[1]) ** 2, c + g
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _two_products(first: int, one: Point, second: int, other: Point) -> Point:
    """first * one + second * other, bit by bit and together. Nothing here is secret, so the time may vary."""
    both, total = _added(one, other), _NEUTRAL
    for bit in range(max(first.bit_length(), second.bit_length()) - 1, -1, -1):
        total = _doubled(total)
        takes = first >> bit & 1, second >> bit & 1
        if any(takes):
            total = _added(total, both if all(takes) else one if takes[0] else other)
    return total


_BASE: Point = read_point((4 * pow(5, -1, _P) % _P).to_bytes(HASH_BYTES, "little")) or _NEUTRAL


# --- The Merkle tree (RFC 9162, section 2.1) ----------------------------------------------------------------

EMPTY_ROOT = hashlib.sha256(b"").digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _path(place: int, last: int, proof: Sequence[bytes]) -> list[tuple[bytes, bool]] | None:
    """The hashes of a proof on the way up, each with whether it is on the left; None for another length."""
    path = []
    for beside in proof:
        if last == 0:
            return None
        is_left = place % 2 == 1 or place == last
        # The last node of a level, without a partner, goes up as it is.
        while is_left and place and place % 2 == 0:
            place, last = place // 2, last // 2
        path.append((beside, is_left))
        place, last = place // 2, last // 2
    return path if last == 0 else None


def is_included(content: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof leads from the leaf with this content and index to the root over `size` leaves."""
    path = _path(index, size - 1, proof) if 0 <= index < size else None
    found = hashlib.sha256(b"\x00" + content).digest()
    for beside, is_left in path or ():
        found = _node(beside, found) if is_left else _node(found, beside)
    return path is not None and found == root


def is_continued(
    *, smaller: int, larger: int, smaller_root: bytes, larger_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether the proof shows that the larger tree begins with the smaller one."""
    if smaller in (0, larger):
        return not proof and smaller_root == (larger_root if smaller == larger else EMPTY_ROOT)
    place, last = smaller - 1, larger - 1
    while place % 2:
        place, last = place // 2, last // 2
    # A smaller tree that is complete is a node of the larger one; its root is not repeated in the proof.
    start, *rest = [*([smaller_root] if smaller & (smaller - 1) == 0 else []), *proof] or [b""]
    path = _path(place, last, rest) if smaller < larger else None
    old = new = start
    for beside, is_left in path or ():
        old, new = (_node(beside, old), _node(beside, new)) if is_left else (old, _node(new, beside))
    return path is not None and old == smaller_root and new == larger_root


# --- Checkpoint notes (C2SP tlog-checkpoint and signed-note) ------------------------------------------------

_NUMBER, _OF_32, _WORD = "(0|[1-9][0-9]{0,18})", "([A-Za-z0-9+/]{43}=)", r"([^\s+]{1,200})"
# Which checkpoint came before, and why none did for long; older ones do not say it.
_LINKS = rf"(?:\nprevious {_OF_32}(?:\nresumed (?:START|STALL))?)?"
_NOTE = re.compile(rf"{_WORD}\n{_NUMBER}\n{_OF_32}\ntime ([^\n]*)(?:\nheads {_NUMBER} {_OF_32})?{_LINKS}")
_NOTE_SIGNATURE = re.compile(f"\u2014 {_WORD} ([A-Za-z0-9+/=]+)")
_LONGEST_NOTE = 20_000
_KEY_HASH_BYTES = 4
_ED25519 = b"\x01"


@dataclass(frozen=True)
class Note:
    """A signed checkpoint: what is signed, what that says, and (name, key hash, signature) of each line.

    `heads` are the number of streams and the root over their ends, where the checkpoint commits to them.
    """

    signed: bytes
    origin: str
    size: int
    root: bytes
    time: str
    heads: tuple[int, bytes] | None
    previous: bytes | None
    signatures: Sequence[tuple[str, bytes, bytes]]

    def signed_by(self, public_key: bytes) -> bool | None:
        """Whether this key has signed; None where no line claims so."""
        name = self.origin.encode()
        key_hash = hashlib.sha256(name + b"\n" + _ED25519 + public_key).digest()[:_KEY_HASH_BYTES]
        claims = [held for by, hashed, held in self.signatures if (by, hashed) == (self.origin, key_hash)]
        return all(is_signed(self.signed, held, public_key) for held in claims) if claims else None

    def signers(self, keys: Mapping[str, bytes]) -> list[str]:
        """The ids of those keys that have signed it."""
        return [key_id for key_id, public_key in keys.items() if self.signed_by(public_key)]


def read_note(note: bytes) -> Note:
    """Take a signed checkpoint apart, strictly. Raises Malformed."""
    try:
        text, _, lines = note[: _LONGEST_NOTE + 1].decode().partition("\n\n")
    except UnicodeDecodeError as error:
        raise Malformed("it is not text") from error
    said = _NOTE.fullmatch(text)
    signatures = [_NOTE_SIGNATURE.fullmatch(line) for line in lines[:-1].split("\n")]
    if len(note) > _LONGEST_NOTE or said is None or not all(signatures) or not lines.endswith("\n"):
        raise Malformed("it has not the form of a signed checkpoint")
    origin, size, root, time, count, heads_root, previous = said.groups()
    claims = [(line[1], _base64(line[2])) for line in signatures if line]
    return Note(
        signed=f"{text}\n".encode(),
        origin=origin,
        size=int(size),
        root=_base64_of_32(root),
        time=_time(time),
        heads=(int(count), _base64_of_32(heads_root)) if count else None,
        previous=_base64_of_32(previous) if previous else None,
        signatures=[(name, held[:_KEY_HASH_BYTES], held[_KEY_HASH_BYTES:]) for name, held in claims],
    )


# --- A pack taken apart -------------------------------------------------------------------------------------

MANIFEST, MANIFEST_SIGNATURE, CHECKPOINT = "manifest.json", "manifest.sig", "checkpoint.txt"
KEYS, ENTRIES, HEAD, PAYLOADS = "keys.json", "entries.jsonl", "head.json", "payloads.jsonl"
ABSENT, SIGNATURES, CONSISTENCY, OBJECTS = "absent.json", "signatures.jsonl", "consistency.json", "objects/"
REQUIRED = {MANIFEST, MANIFEST_SIGNATURE, CHECKPOINT, KEYS, ENTRIES, PAYLOADS, ABSENT, SIGNATURES}
REQUIRED |= {"report.html", "verify.py", "README.txt"}
OPTIONAL = {HEAD, CONSISTENCY}
RECORDS, RECORD_EMITTED, RECORD_SCORED = "records/", "record:emitted", "record:scored"
FEEDBACK_GIVEN = "record:feedback_given"
RECORD_TYPE = "application/vnd.dir-console.decision-record+json"

Forms = Mapping[str, Reader]
_PLACE: Forms = {"tenant": _text, "stream": _text, "seq": _count}
_LINE: Forms = {
    "body": _base64,
    "prev_hash": _hash,
    "hash": _hash,
    "leaf_index": _count,
    "proof": _list_of(_hash),
}
_BODY: Forms = {**_PLACE, "kind": _text, "at": _time, "actor": _text, "payload": _object}
_SIGNATURE: Forms = {"stream": _text, "seq": _count, "statement": _digest, "signature": _hex, "key_id": _text}


def _read_manifest(content: bytes) -> dict[str, Any]:
    named = {"format": _text, "dfid": _text, "tenant": _text, "made_at": _time, "origin": _text}
    said = fields(read_json(content), {**named, "members": _object})
    return {**said, "members": {name: _digest(digest) for name, digest in said["members"].items()}}


def _read_keys(content: bytes) -> list[dict[str, Any]]:
    def until(value: Any) -> Any:
        return None if value is None else _time(value)

    forms = {"key_id": _text, "public_key": _base64_of_32, "from": _time, "until": until}
    return [fields(row, forms) for row in _list_of(_object)(read_json(content))]


def _read_head(content: bytes) -> dict[str, Any]:
    forms = {"checkpoint": _text, "index": _count, "count": _count, "head": _object, "proof": _list_of(_hash)}
    said = fields(read_json(content), forms)
    return {
        **said,
        "checkpoint": read_note(said["checkpoint"].encode()),
        "head": fields(said["head"], {**_PLACE, "hash": _digest}),
    }


def _read_payload(value: Any) -> dict[str, Any]:
    if _object(value).get("erased") is True:
        return {**fields(value, {"commitment": _digest, "erased": bool}), "opening": None}
    said = fields(value, {"commitment": _digest, "salt": _base64, "body": _base64})
    return {"commitment": said["commitment"], "opening": (said["salt"], said["body"])}


def _read_absences(content: bytes) -> dict[str, str]:
    return {_digest(name): _text(reason) for name, reason in _object(read_json(content)).items()}


def _read_proofs(content: bytes) -> dict[tuple[int, int], list[bytes]]:
    forms = {"from": _count, "to": _count, "proof": _list_of(_hash)}
    rows = [fields(row, forms) for row in _list_of(_object)(read_json(content))]
    return {(row["from"], row["to"]): row["proof"] for row in rows}


@dataclass(frozen=True)
class Entry:
    """An entry of the ledger: its line, and its decoded body, empty where `fault` says what is wrong."""

    tenant: str
    stream: str
    seq: int
    body: bytes
    prev_hash: bytes
    hash: bytes
    leaf_index: int
    proof: Sequence[bytes]
    content: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""

    @property
    def kind(self) -> str:
        """What it records; empty where its body cannot be read."""
        return str(self.content.get("kind", ""))

    @property
    def payload(self) -> dict[str, Any]:
        """What its body says; empty where that cannot be read."""
        payload: dict[str, Any] = self.content.get("payload", {})
        return payload

    def digest_of(self, name: str) -> str:
        """The digest in a field of the payload, without a prefix before it; empty where there is none."""
        found = _DIGEST_AT_END.search(str(self.payload.get(name)))
        return found[0] if found else ""

    def wrong(self, code: str, detail: str, member: str = "") -> Finding:
        """A finding at this entry's place; `member` is what holds the bad bytes, else the list of entries."""
        return Finding(code, detail, self.stream, self.seq, member or ENTRIES)


def _read_entry(value: Any) -> Entry:
    line = fields(value, {**_PLACE, **_LINE})
    try:
        return Entry(**line, content=fields(read_json(line["body"]), _BODY))
    except Malformed as error:
        return Entry(**line, fault=str(error))


_AUDIT: Forms = {"prev_hash": _digest, "record_hash": _digest, "signed_by": _text}


@dataclass(frozen=True)
class Record:
    """A decision record as its envelope (DSSE 1.0) has it: the bytes, what they say, and who signed them."""

    member: str
    body: bytes
    said: Mapping[str, Any]
    signature: bytes
    key_id: str

    @property
    def signed(self) -> bytes:
        """What is signed: the bytes behind their type and both lengths."""
        return b"DSSEv1 %d %b %d %b" % (len(RECORD_TYPE), RECORD_TYPE.encode(), len(self.body), self.body)


def _record_name(entry: Entry) -> str:
    """The member with the record that an entry emits."""
    return f"{RECORDS}{entry.seq}.dsse.json"


def _read_record(content: bytes, member: str) -> Record:
    forms = {"payload": _base64, "payloadType": _text, "signatures": _list_of(_object)}
    envelope = fields(read_json(content), forms)
    if envelope["payloadType"] != RECORD_TYPE or len(envelope["signatures"]) != 1:
        raise Malformed("it is no envelope of a decision record with one signature")
    signature = fields(envelope["signatures"][0], {"keyid": _text, "sig": _base64})
    said = _object(read_json(envelope["payload"]))
    audit = _object(said.get("audit"))
    fields({name: audit.get(name) for name in _AUDIT}, _AUDIT)
    return Record(member, envelope["payload"], said, signature["sig"], signature["keyid"])


@dataclass(frozen=True)
class Brought:
    """What whoever checks has from elsewhere: a checkpoint, keys by id, and proofs between two sizes."""

    note: Note | None = None
    keys: Mapping[str, bytes] = field(default_factory=dict)
    proofs: Mapping[tuple[int, int], Sequence[bytes]] = field(default_factory=dict)


class Pack:
    """A pack taken apart. What could not be read is in `unreadable`, and left out everywhere else.

    `archive` is None for a folder; `payloads` are salt and body by commitment, None where they were erased.
    `emitted` are the entries of decision records, `records` those that are here by the number of the entry.
    `namers` are the first entries that name each digest. Raises CannotJudge for what is no pack of this kind.
    """

    def __init__(self, members: Mapping[str, bytes], archive: bytes | None, brought: Brought) -> None:
        self.members, self.archive, self.brought = members, archive, brought
        self.unreadable: list[Finding] = []
        self._documents: dict[str, dict[str, Any] | None] = {}
        if MANIFEST not in members:
            raise CannotJudge("There is no manifest.json in it, so it is no evidence pack.")
        self.manifest: Mapping[str, Any] = self._read(MANIFEST, _read_manifest, {})
        said = self.manifest.get("format", FORMAT)
        if said not in (FORMAT, FORMAT_2):
            raise CannotJudge(f"Its format is {shown(said)}; this file checks {FORMAT} and {FORMAT_2}.")
        self.is_of_first_format = said == FORMAT
        self.note: Note | None = self._read(CHECKPOINT, read_note, None)
        self.keys = self._once(KEYS, self._read(KEYS, _read_keys, []), "key_id")
        self.public_keys: Mapping[str, bytes] = {name: key["public_key"] for name, key in self.keys.items()}
        self.entries: list[Entry] = self._lines(ENTRIES, _read_entry)
        self.flow = [entry for entry in self.entries if entry.stream == self.manifest.get("dfid")]
        self.head: Mapping[str, Any] | None = self._read(HEAD, _read_head, None)
        opened = self._once(PAYLOADS, self._lines(PAYLOADS, _read_payload), "commitment")
        self.payloads: Mapping[str, Any] = {name: line["opening"] for name, line in opened.items()}
        self.absent: Mapping[str, str] = self._read(ABSENT, _read_absences, {})
        signatures = self._lines(SIGNATURES, lambda value: fields(value, _SIGNATURE))
        self.signatures = self._once(SIGNATURES, signatures, "stream", "seq")
        self.proofs: Mapping[tuple[int, int], Sequence[bytes]] = self._read(CONSISTENCY, _read_proofs, {})
        self.namers: dict[str, Entry] = {}
        for entry in self.entries:
            for name in entry.payload:
                self.namers.setdefault(entry.digest_of(name), entry)
        self.namers.pop("", None)
        self.begun = _read_begun(self)
        self.emitted = [entry for entry in self.flow if entry.kind == RECORD_EMITTED]
        self.records = {entry.seq: record for entry in self.emitted if (record := self._record(entry))}

    def _read(self, name: str, read: Callable[[bytes], Any], otherwise: Any) -> Any:
        # That a member is missing is found by `check_members`.
        try:
            return read(self.members[name]) if name in self.members else otherwise
        except Malformed as error:
            self.unreadable.append(Finding("UNREADABLE", str(error), member=name))
            return otherwise

    def _lines(self, name: str, read: Reader) -> list[Any]:
        *lines, rest = self.members.get(name, b"").split(b"\n")
        if rest:
            self.unreadable.append(Finding("UNREADABLE", "its last line does not end", member=name))
        held = []
        for number, line in enumerate(lines, start=1):
            try:
                held.append(read(read_json(line)))
            except Malformed as error:
                self.unreadable.append(Finding("UNREADABLE", f"line {number}: {error}", member=name))
        return held

    def _once(self, name: str, rows: Iterable[Mapping[str, Any]], *key: str) -> dict[Any, Mapping[str, Any]]:
        held: dict[Any, Mapping[str, Any]] = {}
        for row in rows:
            named = tuple(row[part] for part in key)
            found = named if named[1:] else named[0]
            if found in held:
                words = f"{shown(str(found))} is there twice"
                self.unreadable.append(Finding("REPEATED", words, member=name))
            held.setdefault(found, row)
        return held

    def _record(self, entry: Entry) -> Record | None:
        member = _record_name(entry)
        try:
            return _read_record(self.members[member], member) if member in self.members else None
        except Malformed as error:
            self.unreadable.append(entry.wrong("UNREADABLE", str(error), member))
            return None

    def of_kind(self, *kinds: str) -> list[Entry]:
        """The entries of these kinds."""
        return [entry for entry in self.entries if entry.kind in kinds]

    def wrong(self, code: str, detail: str, member: str) -> Finding:
        """A finding about a member; of an object it says which entry names it."""
        namer = self.namers.get(member[len(OBJECTS) :]) if member.startswith(OBJECTS) else None
        return namer.wrong(code, detail, member) if namer else Finding(code, detail, member=member)

    def object_of(self, digest: str) -> bytes | None:
        """The bytes with this digest; None where the pack has none, or others under that name."""
        content = self.members.get(OBJECTS + digest)
        return content if content is not None and sha256(content) == digest else None

    def document(self, digest: str) -> dict[str, Any] | None:
        """The JSON object with this digest; None where it is not here, or is none."""
        if digest not in self._documents:
            content = self.object_of(digest)
            try:
                self._documents[digest] = None if content is None else _object(read_json(content))
            except Malformed as error:
                self.unreadable.append(self.wrong("UNREADABLE", str(error), OBJECTS + digest))
                self._documents[digest] = None
        return self._documents[digest]


# --- Members, archive, manifest -----------------------------------------------------------------------------


_RECORD = re.compile(rf"{RECORDS}[1-9][0-9]{{0,15}}\.dsse\.json")


def check_members(pack: Pack) -> Iterator[Finding]:
    """The pack has exactly the members that its manifest names, each with the bytes that it names."""
    named: Mapping[str, str] = pack.manifest["members"]
    for name in sorted((REQUIRED | named.keys()) - pack.members.keys()):
        yield pack.wrong("MEMBER_MISSING", "it is not in the pack", name)
    for name, content in sorted(pack.members.items()):
        is_object = name.startswith(OBJECTS) and _DIGEST_AT_END.fullmatch(name, len(OBJECTS))
        if not is_object and not _RECORD.fullmatch(name) and name not in REQUIRED | OPTIONAL:
            yield Finding("MEMBER_UNKNOWN", "a pack of this format has no such member", member=name)
        elif name not in named and name not in (MANIFEST, MANIFEST_SIGNATURE):
            yield pack.wrong("MEMBER_UNKNOWN", "the manifest does not name it", name)
        elif named.get(name, sha256(content)) != sha256(content):
            yield pack.wrong("MEMBER_CHANGED", "its bytes are not those that the manifest names", name)


def check_manifest(pack: Pack) -> Iterator[Finding]:
    """The manifest is signed by a key of the pack."""
    line = re.fullmatch(rb"([0-9a-f]{16}) ([0-9a-f]{128})\n", pack.members.get(MANIFEST_SIGNATURE, b""))
    if line is None:
        yield Finding("UNREADABLE", "it has not the form of a signature", member=MANIFEST_SIGNATURE)
        return
    key_id, signature = line[1].decode(), bytes.fromhex(line[2].decode())
    signed = b"dir-console evidence pack 1\n" + pack.members[MANIFEST]
    if not is_signed(signed, signature, pack.public_keys.get(key_id, b"")):
        detail = f"the manifest is not signed by a key {key_id} of the pack"
        yield Finding("MANIFEST_SIGNATURE", detail, member=MANIFEST_SIGNATURE)


def check_archive(pack: Pack) -> Iterator[Finding]:
    """The file is, byte for byte, what its members make."""
    rebuilt = pack_bytes(pack.members)
    archive = rebuilt if pack.archive is None else pack.archive
    if rebuilt == archive:
        return
    place, high = 0, min(len(rebuilt), len(archive))
    while place < high:  # halve: comparing byte by byte takes long in Python
        middle = (place + high + 1) // 2
        place, high = (middle, high) if rebuilt[:middle] == archive[:middle] else (place, middle - 1)
    end, member = 0, ""
    for name in sorted(pack.members):
        end += _LOCAL.size + len(name) + len(pack.members[name])
        member = member or (name if place < end else "")
    yield Finding("ARCHIVE_DIFFERS", f"byte {place} of the file is not what a pack has there", member=member)


# --- Keys ---------------------------------------------------------------------------------------------------

KEY_BEGUN = "signing_key:begun"
_KEY_ID_DIGITS = 16


def key_id_of(public_key: bytes) -> str:
    """The name of a key."""
    return sha256(public_key)[:_KEY_ID_DIGITS]


@dataclass(frozen=True)
class Begun:
    """The entry that begins a key. `is_vouched_for`: the key before it has signed that; None: it has not."""

    entry: Entry
    key_id: str
    public_key: bytes
    previous: str
    is_signed: bool
    is_vouched_for: bool | None


def _read_begun(pack: Pack) -> dict[str, Begun]:
    """The first entry that begins each key, by key id; one that cannot be read begins none."""
    forms = {"key_id": _text, "public_key": _base64_of_32, "previous": _text}
    found: dict[str, Begun] = {}
    for entry in pack.of_kind(KEY_BEGUN):
        words = {name: entry.payload.get(name) for name in forms}
        try:
            said = fields(words, forms)
            own, other = (
                bytes.fromhex(_hex(entry.payload.get(f"{who}signature"))) for who in ("", "previous_")
            )
        except Malformed:
            continue
        if key_id_of(said["public_key"]) != said["key_id"]:
            continue
        # After a restore the log has another origin than the one that its first keys name.
        origin = entry.payload.get("origin", pack.manifest.get("origin"))
        signed = canonical({"type": "dir-console/signing-key", "origin": origin, **words})
        before = found.get(said["previous"])
        vouched = is_signed(signed, other, before.public_key) if before and other else None
        begun = Begun(
            entry, **said, is_signed=is_signed(signed, own, said["public_key"]), is_vouched_for=vouched
        )
        found.setdefault(begun.key_id, begun)
    return found


def check_keys(pack: Pack) -> Iterator[Finding]:
    """Each key has its right name, and an entry of the ledger that begins it says the same of it."""
    for key_id, key in pack.keys.items():
        name, said, point = shown(key_id), pack.begun.get(key_id), read_point(key["public_key"])
        if key_id_of(key["public_key"]) != key_id:
            yield Finding("KEY_NAME", f"{name} is not the name of its public key", member=KEYS)
        if point is None or is_small(point):
            yield Finding("KEY_WEAK", f"{name} is a key under which anybody could sign", member=KEYS)
        if said is None:
            yield Finding("KEY_UNRECORDED", f"no entry begins the key {name}", member=KEYS)
        elif said.public_key != key["public_key"]:
            yield said.entry.wrong("KEY_UNRECORDED", f"it begins {name} with another public key", KEYS)
        elif said.entry.content["at"] != key["from"] or (key["until"] or key["from"]) < key["from"]:
            yield said.entry.wrong("KEY_WINDOW", f"{name} did not sign from when the list of keys says", KEYS)


def check_beginnings(pack: Pack) -> Iterator[Finding]:
    """Each beginning of a key is signed by that key, and by the one before it where it says so."""
    for entry in pack.of_kind(KEY_BEGUN):
        said = pack.begun.get(str(entry.payload.get("key_id")))
        if said is None:
            yield entry.wrong("KEY_UNREADABLE", "it begins no key in a form that can be read")
        elif said.entry is entry and not said.is_signed:
            yield entry.wrong("KEY_SIGNATURE", f"{shown(said.key_id)} has not signed its own beginning")
        elif said.entry is entry and said.is_vouched_for is False:
            yield entry.wrong("KEY_SIGNATURE", f"{shown(said.previous)} has not signed it, as it says")


def check_times(pack: Pack) -> Iterator[Finding]:
    """Each signature was made, by its signer's clock, while its key signed."""
    for key_id, time, where in _signed_times(pack):
        key, said = pack.keys.get(key_id), pack.begun.get(key_id)
        if key is None:
            continue
        # The first key has signed before the ledger was sealed, which is when its own entry was written.
        is_early = _moment(time) < _moment(key["from"]) and not (said and not said.previous)
        if is_early or (key["until"] and _moment(time) > _moment(key["until"])):
            yield replace(where, detail=f"signed at {shown(time)}, when {shown(key_id)} was not to sign")


def _signed_times(pack: Pack) -> Iterator[tuple[str, str, Finding]]:
    """The key and the time of each signature, and a finding at its place that has no words yet."""
    where = Finding("KEY_WINDOW", "")
    manifest_key = pack.members.get(MANIFEST_SIGNATURE, b"")[:_KEY_ID_DIGITS].decode("ascii", "replace")
    yield manifest_key, pack.manifest["made_at"], replace(where, member=MANIFEST_SIGNATURE)
    notes = {CHECKPOINT: pack.note} if pack.note else {}
    notes |= {HEAD: pack.head["checkpoint"]} if pack.head else {}
    for member, note in notes.items():
        for key_id in note.signers(pack.public_keys):
            yield key_id, note.time, replace(where, member=member)
    for entry, form, stated in _statements(pack):
        if stated is not None:
            place = entry.wrong("KEY_WINDOW", "", SIGNATURES)
            yield entry.payload["key_id"], str(stated.get(form.when)), place
    for entry in pack.emitted:
        if record := pack.records.get(entry.seq):
            yield record.key_id, str(entry.content["at"]), entry.wrong("KEY_WINDOW", "", record.member)


def _moment(time: str) -> str:
    # Statements count milliseconds, entries microseconds; both sort as text.
    return time[:_TO_MILLISECONDS]


# --- Checkpoints --------------------------------------------------------------------------------------------


def check_checkpoint(pack: Pack) -> Iterator[Finding]:
    """The checkpoint is of the log that the manifest names, and is signed by a key of the pack."""
    if pack.note:
        yield from _check_note(pack, pack.note, CHECKPOINT)


def _check_note(pack: Pack, note: Note, member: str) -> Iterator[Finding]:
    if note.origin != pack.manifest["origin"]:
        yield Finding("CHECKPOINT_ORIGIN", "it is of another log than the manifest names", member=member)
    claims = {key_id: note.signed_by(public_key) for key_id, public_key in pack.public_keys.items()}
    for key_id in [key_id for key_id, is_right in claims.items() if is_right is False]:
        yield Finding("CHECKPOINT_SIGNATURE", f"the signature of {shown(key_id)} is wrong", member=member)
    if not any(claims.values()):
        yield Finding("CHECKPOINT_SIGNATURE", "no key of the pack has signed it", member=member)


def check_brought_key(pack: Pack) -> Iterator[Finding]:
    """The checkpoint is signed by the key that you gave."""
    if pack.note and not pack.note.signers(pack.brought.keys):
        yield Finding("CHECKPOINT_KEY", "it is not signed by the key that you gave", member=CHECKPOINT)


def check_brought_checkpoint(pack: Pack) -> Iterator[Finding]:
    """The checkpoint that you gave is signed by a known key, and of the same log as the pack."""
    theirs, ours = pack.brought.note, pack.note
    if theirs is None or ours is None:
        return
    if theirs.origin != ours.origin:
        yield Finding("CHECKPOINT_ORIGIN", "the one that you gave is of another log", member=CHECKPOINT)
    elif _are_forked(theirs, ours):
        detail = "it and the checkpoint that you gave differ, and both say that they follow the same one"
        yield Finding("CHAIN_FORKED", detail, member=CHECKPOINT)
    if theirs.origin == ours.origin and not theirs.signers({**pack.public_keys, **pack.brought.keys}):
        detail = "no key of the pack has signed the checkpoint that you gave, nor one that you gave"
        yield Finding("CHECKPOINT_KEY", detail, member=CHECKPOINT)
    first, second = sorted((theirs, ours), key=lambda note: note.size)
    proof = _proof_between(pack, first, second)
    roots = {"smaller_root": first.root, "larger_root": second.root}
    if proof is not None and not is_continued(smaller=first.size, larger=second.size, **roots, proof=proof):
        detail = f"the log of {ours.size} entries does not agree with your checkpoint of {theirs.size}"
        yield Finding("LOG_FORKED", detail, member=CHECKPOINT)


def _are_forked(one: Note, other: Note) -> bool:
    """Whether two checkpoints differ and say that they follow the same one."""
    return one.previous is not None and one.previous == other.previous and one.signed != other.signed


def _proof_between(pack: Pack, first: Note, second: Note) -> Sequence[bytes] | None:
    sizes = (first.size, second.size)
    # Nothing has to be shown of equal sizes, nor of a log that was empty.
    nothing: Sequence[bytes] | None = [] if first.size in (0, second.size) else None
    return pack.brought.proofs.get(sizes, pack.proofs.get(sizes, nothing))


def undecided(pack: Pack) -> str:
    """Why what was asked cannot be judged, in a sentence; empty where it can."""
    theirs, ours = pack.brought.note, pack.note
    if theirs is None or ours is None:
        return ""
    first, second = sorted((theirs, ours), key=lambda note: note.size)
    if _proof_between(pack, first, second) is None:
        return (
            f"Your checkpoint is of {theirs.size} entries, the pack's of {ours.size}. To compare them, save "
            f"GET /api/v1/audit/proofs/consistency?from={first.size}&to={second.size} to a file, and give it "
            "with --consistency FILE."
        )
    trusted = {*theirs.signers({**pack.public_keys, **pack.brought.keys}), *pack.brought.keys}
    if first is theirs and second.size > first.size and not trusted & _vouching_for(pack, ours):
        return (
            "The pack's checkpoint is later than yours and signed by another key, for which the key of yours "
            "has not vouched. Get its public key from elsewhere, and give it with --key."
        )
    return ""


def _vouching_for(pack: Pack, note: Note) -> set[str]:
    """The keys that have signed a checkpoint, and those before them that have vouched for them."""
    reached = set(note.signers(pack.public_keys))
    waiting = list(reached)
    while waiting:
        said = pack.begun.get(waiting.pop())
        if said and said.is_signed and said.is_vouched_for and said.previous not in reached:
            reached.add(said.previous)
            waiting.append(said.previous)
    return reached


def check_head(pack: Pack) -> Iterator[Finding]:
    """The flow's stream is here up to the end that a signed checkpoint commits to."""
    if pack.head is None:
        return
    note, head = pack.head["checkpoint"], pack.head["head"]
    yield from _check_note(pack, note, HEAD)
    if pack.note and note.size == pack.note.size and note.root != pack.note.root:
        yield Finding("LOG_FORKED", "its checkpoint is as large as the pack's, and differs", member=HEAD)
    elif pack.note and _are_forked(note, pack.note):
        detail = "its checkpoint and the pack's differ, and both say that they follow the same one"
        yield Finding("CHAIN_FORKED", detail, member=HEAD)
    if (head["tenant"], head["stream"]) != (pack.manifest["tenant"], pack.manifest["dfid"]):
        yield Finding("HEAD_WRONG", "it is the end of another stream", member=HEAD)
        return
    where = Finding("HEAD_WRONG", "", head["stream"], head["seq"], HEAD)
    count, root = note.heads or (0, b"")
    is_there = is_included(canonical(head), pack.head["index"], count, pack.head["proof"], root)
    if count != pack.head["count"] or not is_there:
        yield replace(where, detail="its checkpoint does not commit to this end of the stream")
    hashes = {entry.seq: entry.hash.hex() for entry in pack.flow}
    if head["seq"] > max(hashes, default=0):
        detail = f"the stream had {head['seq']} entries, the pack ends at {max(hashes, default=0)}"
        yield replace(where, code="TRUNCATED", detail=detail)
    elif hashes.get(head["seq"]) != head["hash"]:
        yield replace(where, detail="the entry there has another hash than the end of the stream")


# --- Entries ------------------------------------------------------------------------------------------------


def check_entries(pack: Pack) -> Iterator[Finding]:
    """Each entry has the hash of its bytes, and its line says of it what they say."""
    places = set()
    for entry in pack.entries:
        if hashlib.sha256(entry.prev_hash + entry.body).digest() != entry.hash:
            yield entry.wrong("HASH_MISMATCH", "the hash is not that of the bytes")
        if entry.fault:
            yield entry.wrong("BODY_UNREADABLE", entry.fault)
        elif any(entry.content[name] != getattr(entry, name) for name in _PLACE):
            yield entry.wrong("BODY_MISMATCH", "its bytes place it elsewhere than its line")
        if entry.tenant != pack.manifest["tenant"]:
            yield entry.wrong("BODY_MISMATCH", "it is of another tenant than the manifest names")
        if (entry.stream, entry.seq) in places:
            yield entry.wrong("REPEATED", "there are two entries for this place")
        places.add((entry.stream, entry.seq))


def check_chain(pack: Pack) -> Iterator[Finding]:
    """The flow's entries are an unbroken chain from the first: each names the hash of the one before."""
    last, prev_hash = 0, bytes(HASH_BYTES)
    for entry in pack.flow:
        if entry.seq > last + 1:
            yield entry.wrong("GAP", f"entry {last + 1} was expected")
        elif entry.seq <= last:
            yield entry.wrong("OUT_OF_ORDER", f"it comes after entry {last}")
        elif entry.prev_hash != prev_hash:
            yield entry.wrong("PREV_MISMATCH", "it does not name the hash of the entry before it")
        last, prev_hash = entry.seq, entry.hash
    if not last and ENTRIES in pack.members:
        yield Finding("GAP", "there is no entry of the flow", pack.manifest["dfid"], 1, ENTRIES)


def check_inclusion(pack: Pack) -> Iterator[Finding]:
    """Each entry is in the tree that the checkpoint signs, later entries of a stream behind earlier ones."""
    leaves: set[int] = set()
    newest: dict[str, int] = {}
    for entry in pack.entries:
        index, note = entry.leaf_index, pack.note
        if note and not is_included(entry.hash, index, note.size, entry.proof, note.root):
            yield entry.wrong("NOT_IN_TREE", "its proof does not lead to the root of the checkpoint")
        if index in leaves or index <= newest.get(entry.stream, -1):
            yield entry.wrong("LEAF_ORDER", "its leaf is not behind those of the entries before it")
        leaves.add(index)
        newest[entry.stream] = index


# --- What entries name: payloads and objects ----------------------------------------------------------------

_REVISIONS = ("escalation:opened", "escalation:revised")
_DIGESTS: Mapping[str, Sequence[str]] = {
    "proposal:submitted": ("proposal_digest",),
    "verdict:given": ("input_digest", "verdict_digest", "policy_bundle_hash"),
    "context:compiled": ("context_ref",),
    **dict.fromkeys(_REVISIONS, ("evidence_hash",)),
    "escalation:decided": ("statement_digest",),
    "escalation:first_decided": ("statement_digest",),
    "effect:stated": ("statement_digest",),
    "information:requested": ("statement_digest",),
    "intent:created": ("request_digest",),
    "outcome:recorded": ("outcome_digest",),
    "rules:evaluated": ("ruleset_digest", "input_digest", "output_digest"),
    "decision:recommended": ("input_digest", "package_digest"),
    "task:opened": ("task_hash",),
    "task:answered": ("statement_digest",),
}
# Rules are the words of admins, which many flows share: an erasure of a flow leaves them.
_RULES = ("policy_bundle_hash", "ruleset_digest")
_SINCE_FORMAT_2 = ("rules:evaluated", "decision:recommended", "task:opened", "task:answered")


def check_payloads(pack: Pack) -> Iterator[Finding]:
    """What entries keep behind commitments is here as it was, or is said to be erased or absent."""
    named: dict[str, Entry] = {}
    for entry in pack.entries:
        for name in entry.payload:
            if name.endswith("_commitment") and entry.digest_of(name):
                named.setdefault(entry.digest_of(name), entry)
    for commitment in sorted(named.keys() - pack.payloads.keys() - pack.absent.keys()):
        yield named[commitment].wrong("PAYLOAD_MISSING", f"nothing opens its {commitment}", PAYLOADS)
    for commitment, opening in pack.payloads.items():
        where = Finding("PAYLOAD_MISMATCH", f"what opens {commitment} does not fit", member=PAYLOADS)
        if opening is not None and sha256(b"".join(opening)) != commitment:
            namer = named.get(commitment)
            yield namer.wrong(where.code, where.detail, PAYLOADS) if namer else where
        if commitment not in named:
            yield replace(where, code="PAYLOAD_UNNAMED", detail=f"no entry names the commitment {commitment}")


def check_objects(pack: Pack) -> Iterator[Finding]:
    """The bytes that entries name by digest are here, or are said to be absent."""
    for entry in pack.entries:
        for name in _DIGESTS.get(entry.kind, ()):
            digest = entry.digest_of(name)
            if not digest and entry.payload.get(name) is not None:
                yield entry.wrong("BODY_UNREADABLE", f"its {name} is no digest")
            elif digest and OBJECTS + digest not in pack.members and digest not in pack.absent:
                if entry.kind in _SINCE_FORMAT_2 and pack.is_of_first_format:
                    continue  # `not_proved` says so
                yield entry.wrong("OBJECT_MISSING", f"the bytes of its {name} are not here", OBJECTS + digest)
    for member in sorted(name for name in pack.members if name.startswith(OBJECTS)):
        digest = member[len(OBJECTS) :]
        if sha256(pack.members[member]) != digest:
            yield pack.wrong("OBJECT_MISMATCH", "its bytes have another digest than its name says", member)
        if digest not in pack.namers:
            yield Finding("OBJECT_UNNAMED", "no entry names it", member=member)
    for digest in sorted(pack.absent):
        if OBJECTS + digest in pack.members or digest in pack.payloads:
            yield Finding("ABSENT_PRESENT", f"{digest} is said to be absent, and is here", member=ABSENT)
        if digest not in pack.namers:
            yield Finding("ABSENT_UNNAMED", f"no entry names {digest}, said to be absent", member=ABSENT)


FLOW_ERASED = "flow:erased"
_ERASED_STATEMENT = b"dir-console erased statement 1\n"


def check_erasures(pack: Pack) -> Iterator[Finding]:
    """Nothing that was erased with the flow is here; digests of erased statements are signed instead."""
    signed = {entry.digest_of("statement_digest") for entry in pack.of_kind(*_FORMS)}
    for erasure in (entry for entry in pack.flow if entry.kind == FLOW_ERASED):
        for item in erasure.payload.get("statements", ()):
            digest, key_id = str(item["statement_digest"]), str(item["key_id"])
            public_key, signature = pack.public_keys.get(key_id), bytes.fromhex(item["signature"])
            if digest not in signed:
                yield erasure.wrong("ERASED_UNNAMED", f"no entry names the erased statement {shown(digest)}")
            elif public_key is None:
                yield erasure.wrong("SIGNATURE_KEY", f"the pack has no key {shown(key_id)}")
            elif not is_signed(_ERASED_STATEMENT + digest.encode(), signature, public_key):
                yield erasure.wrong("SIGNATURE_WRONG", f"{shown(key_id)} has not signed {shown(digest)}")
        for entry in (entry for entry in pack.flow if entry.seq < erasure.seq):
            named = {name for name in _DIGESTS.get(entry.kind, ()) if name not in _RULES}
            for name in sorted(named):
                if OBJECTS + entry.digest_of(name) in pack.members:
                    yield entry.wrong("ERASED_PRESENT", f"its {name} was erased, and its bytes are here")
            for name in entry.payload:
                if name.endswith("_commitment") and pack.payloads.get(entry.digest_of(name)) is not None:
                    yield entry.wrong(
                        "ERASED_PRESENT", f"its {name} was erased, and is opened here", PAYLOADS
                    )


# --- Statements that people signed --------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """A kind of statement: its type, which members say who signed and when, and what its entry says too."""

    type: str
    who: str
    when: str
    names: Sequence[str]


_ON_EVIDENCE = ("escalation_id", "revision", "evidence_hash")
_DECISION = "dir-console/decision/1"
TASK_OPENED, TASK_ANSWERED = "task:opened", "task:answered"
_FORMS: Mapping[str, Form] = {
    "escalation:decided": Form(
        _DECISION, "approver", "decided_at", (*_ON_EVIDENCE, "action", "proposal_id", "effect")
    ),
    "escalation:first_decided": Form(_DECISION, "approver", "decided_at", _ON_EVIDENCE),
    "effect:stated": Form(
        "dir-console/effect/1",
        "approver",
        "stated_at",
        ("escalation_id", "intent_id", "number", "step", "direction", "effect", "contradicts"),
    ),
    "information:requested": Form(
        "dir-console/question/1", "asked_by", "asked_at", (*_ON_EVIDENCE, "number")
    ),
    TASK_ANSWERED: Form(
        "dir-console/task-answer/1",
        "approver",
        "answered_at",
        ("task_id", "task_hash", "intent_id", "number"),
    ),
}


def _statements(pack: Pack) -> Iterator[tuple[Entry, Form, dict[str, Any] | None]]:
    """The entries of signed statements, with what was stated; None where that is not here."""
    for entry in pack.of_kind(*_FORMS):
        yield entry, _FORMS[entry.kind], pack.document(entry.digest_of("statement_digest"))


def check_signatures(pack: Pack) -> Iterator[Finding]:
    """Each statement of a person that is here is signed, by the key and as its entry says."""
    entries = {(entry.stream, entry.seq): entry for entry in pack.of_kind(*_FORMS)}
    for stream, seq in pack.signatures.keys() - entries.keys():
        yield Finding("SIGNATURE_UNNAMED", "the entry names no signed statement", stream, seq, SIGNATURES)
    for place, entry in entries.items():
        line, said = pack.signatures.get(place), entry.payload
        statement = pack.object_of(entry.digest_of("statement_digest"))
        if line is None:
            if statement is not None:
                yield entry.wrong("SIGNATURE_MISSING", "its statement is here without one", SIGNATURES)
            continue
        named = (said["statement_digest"], said["signature"], said["key_id"])
        if (line["statement"], line["signature"], line["key_id"]) != named:
            yield entry.wrong("SIGNATURE_MISMATCH", "it is not what the entry names", SIGNATURES)
        public_key = pack.public_keys.get(line["key_id"])
        if public_key is None:
            yield entry.wrong("SIGNATURE_KEY", f"the pack has no key {shown(line['key_id'])}", SIGNATURES)
        elif statement is not None and not is_signed(statement, bytes.fromhex(line["signature"]), public_key):
            yield entry.wrong("SIGNATURE_WRONG", f"{line['key_id']} has not signed the statement", SIGNATURES)


def check_statements(pack: Pack) -> Iterator[Finding]:
    """Each statement says what its entry says: who signed it, when, and what."""
    for entry, form, stated in _statements(pack):
        if stated is None:
            continue
        actor, at = entry.content["actor"], _moment(entry.content["at"])
        recorded = {**entry.payload, "type": form.type, "tenant": entry.tenant, "dfid": entry.stream}
        recorded |= {form.who: actor, form.when: at}
        said = {**stated, form.when: _moment(str(stated.get(form.when)))}
        if entry.kind == "effect:stated":  # signed a moment earlier, where a clock was set back
            said[form.when] = max(said[form.when], at)
        if "until" in recorded:
            recorded["until"], said["until"] = _moment(recorded["until"]), _moment(str(said.get("until")))
        names = {*form.names, "type", "tenant", "dfid", form.who, form.when} | (recorded.keys() & said.keys())
        pairs = {name: (recorded.get(name), said.get(name)) for name in sorted(names)}
        yield from _differences(entry, "STATEMENT_MISMATCH", "statement_digest", pairs)


def check_decisions(pack: Pack) -> Iterator[Finding]:
    """Each decision is on evidence of its escalation, with what ran, and confirms what it says it does."""
    opened: dict[str, dict[int, str]] = {}
    firsts: dict[str, str] = {}
    for entry in pack.entries:
        said, member = entry.payload, OBJECTS + entry.digest_of("statement_digest")
        if entry.kind in _REVISIONS:
            opened.setdefault(said["escalation_id"], {})[said["revision"]] = said["evidence_hash"]
        if entry.kind not in _FORMS or "escalation_id" not in _FORMS[entry.kind].names:
            continue
        stated = pack.document(entry.digest_of("statement_digest")) or {}
        shown_to_them = opened.get(said["escalation_id"], {})
        if shown_to_them.get(said.get("revision", 0)) != said.get("evidence_hash"):
            yield entry.wrong("EVIDENCE_UNKNOWN", "its evidence is no revision of its escalation")
        if stated.get("evidence_hash") not in (None, *shown_to_them.values()):
            yield entry.wrong("EVIDENCE_UNKNOWN", "it was signed on evidence of no such escalation", member)
        if "question" in stated and not _opens_to(pack, said["text_commitment"], stated["question"]):
            yield entry.wrong("STATEMENT_MISMATCH", "it asks another question than its entry", member)
        ran = _proposal(pack, stated.get("proposal_id"))
        if ran and stated.get("params") not in (None, ran.get("params")):
            yield entry.wrong("STATEMENT_MISMATCH", "other parameters were signed than ran", member)
        confirms = stated.get("confirms")
        first = pack.document(str(confirms)) or stated
        if confirms is not None and firsts.get(confirms) != said["escalation_id"]:
            yield entry.wrong("STATEMENT_MISMATCH", "it confirms no first decision of its escalation", member)
        elif first.get("choice") != stated.get("choice"):
            yield entry.wrong("STATEMENT_MISMATCH", "it confirms a decision that chose otherwise", member)
        if entry.kind == "escalation:first_decided":
            firsts[said["statement_digest"]] = said["escalation_id"]


def check_tasks(pack: Pack) -> Iterator[Finding]:
    """Each task is what its entry says; its answer is to what was shown, and is the receipt taken."""
    opened: dict[str, Entry] = {}
    for entry, said, shown_to_them in _documents(pack, TASK_OPENED, "task_hash"):
        names = ("task_id", "intent_id", "number", "step", "direction", "group")
        pairs = {name: (said.get(name), shown_to_them.get(name)) for name in names}
        pairs["dfid"] = (entry.stream, shown_to_them.get("dfid"))
        pairs["tenant"] = (entry.tenant, shown_to_them.get("tenant"))
        yield from _differences(entry, "TASK_MISMATCH", "task_hash", pairs)
    for entry in pack.of_kind(TASK_OPENED, TASK_ANSWERED):
        said = entry.payload
        if entry.kind == TASK_OPENED:
            opened[said["task_id"]] = entry
            continue
        task = opened.get(said["task_id"])
        if task is None or task.payload["task_hash"] != said["task_hash"]:
            yield entry.wrong("TASK_UNKNOWN", "no task with what it was signed on was opened before it")
        stated = pack.document(entry.digest_of("statement_digest"))
        if stated is None or task is None:
            continue
        of_task = ("step", "direction", "group")
        pairs = {name: (task.payload.get(name), stated.get(name)) for name in of_task}
        yield from _differences(entry, "STATEMENT_MISMATCH", "statement_digest", pairs)
        if not _opens_to(pack, said["receipt_commitment"], stated.get("answer")):
            detail = "another answer was signed than was taken as the receipt"
            yield entry.wrong("STATEMENT_MISMATCH", detail, OBJECTS + entry.digest_of("statement_digest"))


# --- Documents that say what their entries say --------------------------------------------------------------


def check_proposals(pack: Pack) -> Iterator[Finding]:
    """Each proposal is the one that its entry names: whose, of what kind, on which context, with what."""
    for entry, said, document in _documents(pack, "proposal:submitted", "proposal_digest"):
        names = ("proposal_id", "author", "policy_kind")
        pairs = {name: (said.get(name), document.get(name)) for name in names}
        pairs["tenant"] = (entry.tenant, document.get("tenant"))
        pairs["dfid"] = (entry.stream, document.get("dfid"))
        pairs["context_ref"] = (said["context_ref"], document.get("context_ref") or "")
        yield from _differences(entry, "PROPOSAL_MISMATCH", "proposal_digest", pairs)
        if not _opens_to(pack, said["params_commitment"], document.get("params")):
            detail = "its parameters are not those behind the commitment of its entry"
            yield entry.wrong("PROPOSAL_MISMATCH", detail, OBJECTS + entry.digest_of("proposal_digest"))


def check_verdicts(pack: Pack) -> Iterator[Finding]:
    """Each verdict is the one that its entry names, on that proposal, by those rules."""
    for entry, said, verdict in _documents(pack, "verdict:given", "verdict_digest"):
        against = [
            {"check": found["check"], "code": found["code"]}
            for outcome in ("FAIL", "REFER")
            for found in verdict.get("findings", ())
            if found["outcome"] == outcome
        ]
        pairs = {name: (said.get(name), verdict.get(name)) for name in ("gate_version", "impact")}
        pairs["verdict"] = (said["verdict"], verdict.get("decision"))
        pairs["reasons"] = (said["reasons"], against)
        yield from _differences(entry, "VERDICT_MISMATCH", "verdict_digest", pairs)
    for entry, said, judged in _documents(pack, "verdict:given", "input_digest"):
        proposals = {one.payload["proposal_id"]: one for one in pack.of_kind("proposal:submitted")}
        recorded = proposals[said["proposal_id"]].payload["proposal_digest"]
        pairs = {
            "proposal": (recorded, sha256(canonical(judged.get("proposal")))),
            "rules_digest": (said["policy_bundle_hash"], judged.get("rules_digest")),
        }
        yield from _differences(entry, "VERDICT_MISMATCH", "input_digest", pairs)


def check_evidence(pack: Pack) -> Iterator[Finding]:
    """The evidence that people were shown is of the escalation and the revision that its entry names."""
    for kind in _REVISIONS:
        for entry, said, evidence in _documents(pack, kind, "evidence_hash"):
            names = ("escalation_id", "revision", "family", "reason", "impact")
            told = [name for name in names if said.get(name) is not None]  # old entries tell less
            pairs = {name: (said[name], evidence.get(name)) for name in told}
            pairs["dfid"] = (entry.stream, evidence.get("dfid"))
            yield from _differences(entry, "EVIDENCE_MISMATCH", "evidence_hash", pairs)


def check_intents(pack: Pack) -> Iterator[Finding]:
    """The calls of each intent are the steps that its entry names."""
    for entry, said, requests in _documents(pack, "intent:created", "request_digest"):
        pairs = {"step_ids": (said["step_ids"], [step["step"] for step in requests.get("steps", ())])}
        yield from _differences(entry, "INTENT_MISMATCH", "request_digest", pairs)


def _documents(pack: Pack, kind: str, name: str) -> Iterator[tuple[Entry, dict[str, Any], dict[str, Any]]]:
    """The entries of a kind with their payloads, and the documents whose digest is in the field `name`."""
    for entry in pack.of_kind(kind):
        document = pack.document(entry.digest_of(name))
        if document is not None:
            yield entry, entry.payload, document


def _proposal(pack: Pack, proposal_id: object) -> dict[str, Any] | None:
    found = _documents(pack, "proposal:submitted", "proposal_digest")
    return next((document for _, said, document in found if said["proposal_id"] == proposal_id), None)


def _opens_to(pack: Pack, commitment: str, value: object) -> bool:
    """Whether the payload behind a commitment is this value; also where nobody can look at it."""
    opening = pack.payloads.get(commitment)
    return opening is None or opening[1] == canonical(value)


def _differences(
    entry: Entry, code: str, name: str, pairs: Mapping[str, tuple[object, object]], member: str = ""
) -> Iterator[Finding]:
    """A finding for each (recorded, stored) pair of unlike values; `name` is the field with the digest."""
    for what, (recorded, stored) in pairs.items():
        if canonical(recorded) != canonical(stored):  # in Python, 1 and True are equal
            detail = f"{what} is {shown(str(stored))}, but the entry says {shown(str(recorded))}"
            yield entry.wrong(code, detail, member or OBJECTS + entry.digest_of(name))


# --- Decision records ---------------------------------------------------------------------------------------

_CHECKPOINTS = {
    "verdict:given",
    "escalation:opened",
    "escalation:decided",
    "escalation:reopened",
    "information:requested",
    "record:scored",
}
_ENDED = ("CLOSED", "ABORTED")


def check_records(pack: Pack) -> Iterator[Finding]:
    """Each decision record is here as its entry names it, or is said to be absent, and is signed."""
    for member in sorted(name for name in pack.members if name.startswith(RECORDS)):
        if member not in map(_record_name, pack.emitted):
            yield Finding("RECORD_UNNAMED", "no entry emits it", member=member)
    for entry in pack.emitted:
        member, is_absent = _record_name(entry), entry.payload["record_hash"] in pack.absent
        if (member in pack.members) == is_absent:
            detail = "is said to be absent, and is here" if is_absent else "is not here"
            yield entry.wrong("RECORD_MISSING", f"its decision record {detail}", member)
        record = pack.records.get(entry.seq)
        if record is None:
            continue
        pairs = {"signatures[0].keyid": (entry.payload["key_id"], record.key_id)}
        pairs["signatures[0].sig"] = (entry.payload["signature"], record.signature.hex())
        yield from _differences(entry, "RECORD_MISMATCH", "record_hash", pairs, member)
        public_key = pack.public_keys.get(record.key_id)
        if public_key is None:
            yield entry.wrong("SIGNATURE_KEY", f"the pack has no key {shown(record.key_id)}", member)
        elif not is_signed(record.signed, record.signature, public_key):
            yield entry.wrong("RECORD_SIGNATURE", f"{record.key_id} has not signed it", member)


def check_record_chain(pack: Pack) -> Iterator[Finding]:
    """Each decision record has the hash that its entry names, and names the hash of the one before it."""
    before = "0" * 2 * HASH_BYTES
    for entry in pack.emitted:
        named, record = entry.payload, pack.records.get(entry.seq)
        if record is not None:
            said, audit = record.said, record.said["audit"]
            hashed = {name: audit[name] for name in audit if name not in ("record_hash", "signed_by")}
            pairs = {
                "its hash": (named["record_hash"], sha256(canonical({**said, "audit": hashed}))),
                "$.audit.record_hash": (named["record_hash"], audit["record_hash"]),
                "$.audit.prev_hash": (before, audit["prev_hash"]),
                "$.audit.signed_by": (named["key_id"], audit["signed_by"]),
                "$.schema_version": (named["fold_version"], said.get("schema_version")),
            }
            if named["fold_version"] in FOLD_VERSIONS:
                pairs["the members of $.audit"] = (sorted(_AUDIT), sorted(audit))
                pairs |= {f"$.{name}": (named[name], said.get(name)) for name in _NAMED_OF_RECORDS}
            yield from _differences(entry, "RECORD_MISMATCH", "record_hash", pairs, record.member)
        before = named["record_hash"]


def check_feedback(pack: Pack) -> Iterator[Finding]:
    """Feedback is about a decision record that was emitted before it."""
    emitted: set[tuple[Any, Any]] = set()
    for entry in pack.flow:
        if entry.kind == RECORD_EMITTED:
            emitted.add((entry.payload["record_id"], entry.payload["record_hash"]))
        elif entry.kind == FEEDBACK_GIVEN:
            named = entry.payload.get("record_id"), entry.payload.get("record_hash")
            if named not in emitted:
                yield entry.wrong("FEEDBACK_UNFOUNDED", "no record before it is the one that it is about")


_NAMED_OF_RECORDS = ("record_id", "status", "terminal")


def check_recorded(pack: Pack) -> Iterator[Finding]:
    """Each checkpoint since the first decision record has one; after the last, only later entries do."""
    waiting: list[Entry] = []
    has_ended = is_scored = is_changed = False
    # A flow goes on in the version of its first record.
    is_early = not pack.emitted or pack.emitted[0].payload["fold_version"] in _WITHOUT_ADVICE
    changing = _CHANGING if is_early else _CHANGING | _REFS_OF_ADVICE.keys()
    for entry in pack.flow:
        is_scored = is_scored or entry.kind == RECORD_SCORED
        is_change = entry.kind in changing
        is_changed = is_changed or is_change
        if entry.kind == RECORD_EMITTED:
            # A record is written with what it is about: by the same actor, at the same moment.
            for checkpoint in waiting:
                if any(checkpoint.content[name] != entry.content[name] for name in ("at", "actor")):
                    yield _unrecorded(checkpoint)
            waiting = []
            is_last = entry.payload["terminal"] is True
            if has_ended and not (is_last and is_changed):
                yield entry.wrong("RECORD_TERMINAL", "the flow has a last decision record already")
            has_ended, is_changed = has_ended or is_last, False
        elif entry.seq > pack.emitted[0].seq and (_is_checkpoint(entry) or (is_scored and is_change)):
            # Since its first scorecard, a flow has a record of whatever came after its end.
            waiting.append(entry)
    yield from map(_unrecorded, waiting)


def _is_checkpoint(entry: Entry) -> bool:
    return entry.kind in _CHECKPOINTS or (entry.kind == "flow:moved" and entry.payload["to_state"] in _ENDED)


def _unrecorded(entry: Entry) -> Finding:
    return entry.wrong("RECORD_MISSING", "a decision record follows such an entry, and none does")


def check_folds(pack: Pack) -> Iterator[Finding]:
    """Each decision record of a known version says what its entries come to, but for its subjects."""
    flow = Retold(pack)
    for entry in pack.flow:
        record = pack.records.get(entry.seq)
        if record is not None and entry.payload["fold_version"] == flow.version in FOLD_VERSIONS:
            told = {name: value for name, value in record.said.items() if name != "audit"}
            for path, expected, found in _unlike(flow.record(entry.seq - 1), told, "$"):
                detail = f"{path} is {_brief(found)}, but the entries come to {_brief(expected)}"
                yield entry.wrong("RECORD_DIFFERS", detail, record.member)
        flow.take(entry)


class Open:
    """A value that the pack does not give: the first record that has it says it, the others the same.

    `fits` says whether it is one that can be.
    """

    def __init__(self, fits: Callable[[Any], bool] = lambda found: True) -> None:
        self.fits = fits
        self.said: Any = _MISSING

    def __repr__(self) -> str:
        return "another" if self.said is _MISSING else repr(self.said)


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING = _Missing()


def _known(value: Any) -> Any:
    """The value, also where a record had to say it; an Open where none has yet."""
    return value.said if isinstance(value, Open) and value.said is not _MISSING else value


def _unlike(expected: Any, found: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ, with both; what is open becomes what is found."""
    expected = _known(expected)
    if isinstance(expected, Open):
        if found is not _MISSING and expected.fits(found):
            expected.said = found
        else:
            yield path, expected, found
    elif isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted(expected.keys() | found.keys()):
            yield from _unlike(expected.get(name, _MISSING), found.get(name, _MISSING), f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(found, list):
        for nth, (wanted, held) in enumerate(zip_longest(expected, found, fillvalue=_MISSING)):
            yield from _unlike(wanted, held, f"{path}[{nth}]")
    else:
        is_plain = not any(isinstance(each, (dict, list, _Missing)) for each in (expected, found))
        if not is_plain or canonical(expected) != canonical(found):
            yield path, expected, found


def _brief(value: Any) -> str:
    return repr(value) if isinstance(value, (Open, _Missing)) else shown(json.dumps(value, default=repr))


# --- What a flow comes to -----------------------------------------------------------------------------------

# Those of the first do not say what became of calls in doubt, nor what the kind declares about scores; those
# of the first two refer to no advice and no memory, and do not say for whom the agent claims to act.
FIRST_FOLD, FOLD_VERSIONS = "1", ("1", "2", "3")
_WITHOUT_ADVICE = ("1", "2")
# Who acts: an agent by its id, a person by a number.
_AGENT, _USER = "agent:", "user:"
# Whose consent something takes: `destructive` is a person's, for what cannot be undone.
_MODES = ("none", "person", "destructive", "two_persons")
_IN_FORCE = ("IN_EFFECT", "CONFIRMED")
_ALLOWED = {"ACCEPT": "allow", "ESCALATE": "require_approval", "REJECT": "deny"}
_OUTCOMES = {
    "DECIDED": "accepted",
    "IN_FLIGHT": "accepted",
    "REJECTED": "denied",
    "ESCALATED": "escalated",
    "DEFERRED": "deferred",
    "CLOSED": "retired",
}
# What is evidence: how an entry is referred to, and the field without which it is not.
_EVIDENCE = "evidence:{escalation_id}/{revision}#sha256:{evidence_hash}"
_REFS: Mapping[str, tuple[str, str]] = {
    "context:compiled": ("context:{context_ref}", "context_ref"),
    "verdict:given": ("verdict:{proposal_id}#sha256:{verdict_digest}", "verdict_digest"),
    **dict.fromkeys(_REVISIONS, (_EVIDENCE, "evidence_hash")),
    "information:answered": ("answer:{answer_commitment}", "answer_commitment"),
    "attempt:finished": ("receipt:{receipt_commitment}", "receipt_commitment"),
    "attempt:reported_late": ("receipt:{receipt_commitment}", "receipt_commitment"),
    "outcome:recorded": ("outcome:{intent_id}#sha256:{outcome_digest}", "outcome_digest"),
}
_REFS_OF_ADVICE: Mapping[str, tuple[str, str]] = {
    "memory:read": ("memory:{scope}/{key}@{version}#sha256:{digest}", "digest"),
    "rules:evaluated": ("rule_output:{rule_output_id}#sha256:{output_digest}", "output_digest"),
    "decision:recommended": ("decision_package:{decision_id}#sha256:{package_digest}", "package_digest"),
}
_TRANSCRIPT = {"attempt:started", "attempt:finished", "attempt:reported_late", "attempt:settled"}
_cost = _like(r"\d{1,12}(\.\d{1,12})?", "an amount")


class Retold:
    """A flow told again, entry by entry: `record` is what a decision record has to say after the last one.

    What needs the rules behind a verdict, or its document, is open where the pack has none.
    """

    def __init__(self, pack: Pack) -> None:
        self.pack, self.dfid = pack, str(pack.manifest["dfid"])
        # A flow goes on in the version of its first record.
        self.version = str(pack.emitted[0].payload["fold_version"]) if pack.emitted else FOLD_VERSIONS[-1]
        self.ended_at, self.last = "", None
        self.scorecard: dict[str, Any] = {}
        self.scoring: Any = None
        self.opened: Mapping[str, Any] = {}
        self.opened_at = self.at = ""
        self.state, self.reason, self.first = "CREATED", "", 1
        self.proposal: Mapping[str, Any] = {}
        self.context: str | None = None
        self.attachments: list[str] = []
        self.evidence: list[str] = []
        self.tokens = self.tool_calls = 0
        self.dollars = Decimal()
        self.policy_decisions: list[dict[str, Any]] = []
        self.verdict: str | None = None
        self.rules: dict[str, Any] = {
            "subjects": [],
            "unpinned": [],
            "refuse": [],
            "escalate": [],
            "redact": [],
        }
        self.lineage: dict[str, Any] = {}
        self.reversals: Any = {}
        self.mode: Any = "none"
        self.lone_mode: Any = "person"
        self.mode_before: Any = None
        self.people: Any = 1
        self.active_gates: list[Any] = []
        self.gates: dict[str, Any] = {}
        self.approvals: list[dict[str, Any]] = []
        self.action: str | None = None
        self.is_asked = False
        self.calls: list[dict[str, Any]] = []
        self.transcript: str | None = None
        self.outcome: dict[str, Any] | None = None
        self.named: dict[str, Any] | None = None

    def take(self, entry: Entry) -> None:
        """Go on by one entry."""
        said = entry.payload
        if entry.kind == RECORD_EMITTED:
            self.first, self.scorecard = entry.seq, {}
            self.last = None
            if self.state in _ENDED:
                self.ended_at, self.last = self.ended_at or self.at, said["record_id"]
        self.at = str(entry.content.get("at"))
        if entry.kind in _TAKEN:
            _TAKEN[entry.kind](self, entry, said)
        ref, needed = _REFS.get(entry.kind) or self._advised(entry.kind)
        if said.get(needed) and ref.format_map(said) not in self.evidence:
            self.evidence.append(ref.format_map(said))
        if entry.kind in _TRANSCRIPT:
            so_far = bytes.fromhex(self.transcript or "00" * HASH_BYTES)
            self.transcript = sha256(so_far + canonical({"kind": entry.kind, "payload": said}))

    def _advised(self, kind: str) -> tuple[str, str]:
        """How records of this version refer to advice and memory: the first versions do not."""
        return ("", "") if self.version in _WITHOUT_ADVICE else _REFS_OF_ADVICE.get(kind, ("", ""))

    # What each kind of entry changes.

    def _opens(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.opened, self.opened_at = said, self.at

    def _moves(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.state, self.reason = said["to_state"], said["reason"]

    def _steps(self, entry: Entry, said: Mapping[str, Any]) -> None:
        if said.get("payload_ref") and said["payload_ref"] not in self.attachments:
            self.attachments.append(said["payload_ref"])

    def _uses(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.tokens += _count(said["tokens"])
        self.tool_calls += _count(said.get("tool_calls") or 0)
        self.dollars += Decimal(_cost(said.get("cost_usd") or "0"))

    def _proposes(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.proposal, self.context = said, said["context_ref"] or self.context
        if self.delegate is None:  # another question of the agent, which nobody has answered
            self.mode, self.action = "none", None

    def _judges(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.verdict, self.outcome, self.named = said["verdict"], None, None
        self._read_rules(said)
        verdict = self.pack.document(entry.digest_of("verdict_digest"))
        codes = [*dict.fromkeys(reason["code"] for reason in said["reasons"])]
        crossed = [] if verdict is None or self.rules["is_unknown_kind"] else _crossed(verdict)
        self.policy_decisions.append(
            {
                "policy_decision_id": said["proposal_id"],
                "bundle_id": said["policy_bundle_hash"],
                "rule_ids": Open(lambda found: isinstance(found, list) and found[: len(codes)] == codes)
                if verdict is None
                else [*dict.fromkeys(codes + crossed)],
                "verdict": _ALLOWED[said["verdict"]],
            }
        )
        is_referred = said["verdict"] == "ESCALATE"
        self.lone_mode = self.rules["lone_mode"]
        if is_referred:
            self._ask(said["impact"], self.rules["people"])
        self.active_gates = [self.rules["gate"]] if is_referred or self.delegate else []
        self.reversals = Open() if verdict is None else _keys_of_reversals(verdict)

    def _read_rules(self, said: Mapping[str, Any]) -> None:
        """What the rules of a verdict say: of a bundle that is absent, nothing is known."""
        bundle = self.pack.document(said["policy_bundle_hash"])
        kind, manifest = (None, None) if bundle is None else (bundle["kind"] or {}, bundle["manifest"] or {})
        name, version = self.proposal.get("policy_kind"), self.proposal.get("policy_version")
        spec = f"{name}@{version}" if version else None
        templates = None if kind is None else kind.get("subjects", [])
        self.rules = {
            "is_unknown_kind": kind == {},
            "subjects": Open(lambda found: _are_subjects(found, templates)),
            "intent": Open() if kind is None else kind.get("category") or kind.get("kind"),
            "gate": Open() if kind is None else kind.get("gate_id") or name,
            "people": Open(lambda found: found in (1, 2)) if kind is None else _people(kind),
            "lone_mode": Open(_MODES.__contains__) if kind is None else _lone_mode(kind),
            "refuse": Open() if kind is None else _bounds(kind, "REJECT"),
            "escalate": Open() if kind is None else _bounds(kind, "ESCALATE"),
            "redact": Open() if kind is None else [each["id"] for each in kind.get("redact", ())],
        }
        self.scoring = Open() if kind is None else kind.get("scorecard")
        agent, version = self.opened.get("agent_id", ""), (manifest or {}).get("version")
        of_agent = [f"manifest:{agent}@{version}"] if version else []
        self.lineage = lineage = {
            "pack_version": f"bundle@sha256:{said['policy_bundle_hash']}",
            "policy_versions": Open() if manifest is None else ([spec] if spec else []) + of_agent,
            "decision_spec": spec,
            "kg_snapshot": self.context,
            "model_profile": Open() if manifest is None else manifest.get("model_profile"),
            "evaluator_suite": Open() if manifest is None else manifest.get("evaluator_suite"),
            "gate_version": said["gate_version"],
        }
        self.rules["unpinned"] = Open(lambda found: _are_unpinned(found, lineage, templates))

    def _asks_people(self, entry: Entry, said: Mapping[str, Any]) -> None:
        if said["family"] != "DECISION":  # no gate of the rules: something happened to a call, or to an agent
            self.active_gates, self.mode_before = [said["family"]], self.mode
        self._ask(said["impact"], said.get("approvals"))
        self.gates[said["escalation_id"]] = (self.active_gates or [said["family"]])[0]
        self.action = None

    def _revises(self, entry: Entry, said: Mapping[str, Any]) -> None:
        if said.get("impact") is not None:
            self._ask(said["impact"], said.get("approvals"))

    def _ask(self, impact: str, people: Any) -> None:
        """What it takes from now on: so many people as before where nothing is said of it."""
        self.people = self.people if people is None else people
        asked = _known(self.people)
        if impact == "CRITICAL" or (not isinstance(asked, Open) and asked > 1):
            self.mode = "two_persons"
        else:
            self.mode = Open(_MODES.__contains__) if isinstance(asked, Open) else self.lone_mode

    def _decides(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.action, self.is_asked = said.get("action"), self.is_asked and "action" not in said
        self.approvals.append(
            {
                "gate_id": self.gates.get(said["escalation_id"]),
                "approver": entry.content["actor"],
                "approval_mode_effective": self.mode,
                "evidence_snapshot_hash": said["evidence_hash"],
                "decided_at": self.at,
                "action": said.get("action"),
                "escalation_id": said["escalation_id"],
                "sequence": said.get("sequence", 1),
                "statement_digest": said["statement_digest"],
                "key_id": said["key_id"],
                "state": "AWAITING_SECOND" if entry.kind == "escalation:first_decided" else "IN_EFFECT",
            }
        )

    def _withdraws(self, entry: Entry, said: Mapping[str, Any]) -> None:
        if self.mode_before is not None:
            self.mode = self.mode_before

    def _ends_first(self, entry: Entry, said: Mapping[str, Any]) -> None:
        for given in self.approvals:
            is_same = all(given[name] == said[name] for name in ("escalation_id", "sequence"))
            if is_same and given["action"] is None:
                given["state"] = said["state"]

    def _takes_back(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.action = None
        for given in self.approvals:
            if given["escalation_id"] == said["escalation_id"] and given["state"] in _IN_FORCE:
                given["state"] = "TAKEN_BACK"

    def _asks_agent(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.is_asked = entry.kind == "information:requested"

    def _calls(self, entry: Entry, said: Mapping[str, Any]) -> None:
        undone_by = _known(self.reversals)
        self.calls.append(
            {
                "tool_call_id": f"{said['intent_id']}:{said['number']}",
                "tool_result_id": None,
                "approval_mode_effective": self.mode,
                "idempotency_key": said["target_key"],
                "reversal_token": None
                if said.get("direction") == "COMPENSATE"
                else Open()
                if isinstance(undone_by, Open)
                else undone_by.get(said["step"]),
                "step": said["step"],
                "direction": said.get("direction") or "FORWARD",
                "purpose": said.get("purpose") or "CALL",
                "result": None,
                **({} if self.version == FIRST_FOLD else {"settled": None}),
            }
        )

    def _settles(self, entry: Entry, said: Mapping[str, Any]) -> None:
        numbers = {f"{said['intent_id']}:{number}" for number in said["numbers"]}
        for call in self.calls:
            if "settled" in call and call["tool_call_id"] in numbers:
                call["settled"] = said["effect"]

    def _holds(self, entry: Entry, said: Mapping[str, Any]) -> None:
        """The newest call of the intent was not made, if it has no result yet."""
        of_intent = [call for call in self.calls if call["tool_call_id"].split(":")[0] == said["intent_id"]]
        if of_intent and "settled" in of_intent[-1] and of_intent[-1]["result"] is None:
            of_intent[-1]["result"] = "HELD"

    def _scores(self, entry: Entry, said: Mapping[str, Any]) -> None:
        self.scorecard = _scorecard(said)

    def _answers(self, entry: Entry, said: Mapping[str, Any]) -> None:
        for call in self.calls:
            if call["tool_call_id"] == f"{said['intent_id']}:{said['number']}":
                call["result"] = said["result"]
                call["tool_result_id"] = said.get("receipt_commitment") or call["tool_result_id"]

    def _comes_to(self, entry: Entry, said: Mapping[str, Any]) -> None:
        names = {"digest": "outcome_digest", "receipt": "receipt_commitment"}
        self.outcome = {name: said.get(of) for name, of in names.items()}
        self.outcome |= {"status": said["status"], "deviations": said.get("deviations", 0)}

    def _is_named(self, entry: Entry, said: Mapping[str, Any]) -> None:
        codes = dict.fromkeys(item["code"] for item in said["findings"])
        told = {"outcome": said["outcome"], "outputs": [*said["outputs"]], "findings": [*codes]}
        self.named = {**told, "commitment": said["outputs_commitment"]}

    # What a record says.

    @property
    def own_result(self) -> dict[str, Any]:
        """What the kind's own words say of the receipts; empty for a kind that has none."""
        return {} if self.named is None else {"result": self.named}

    @property
    def delegate(self) -> str | None:
        """The person whose proposal the last one is; None where it is the agent's own."""
        author = str(self.proposal.get("author", ""))
        return author if author.startswith(_USER) else None

    @property
    def claimed(self) -> dict[str, Any]:
        """For whom the agent says that it acts; empty in the versions that do not tell."""
        said = self.opened.get("delegated_user_id")
        return {} if self.version in _WITHOUT_ADVICE else {"delegated_user_claim": said}

    def _delegate_source(self) -> dict[str, Any]:
        """Whether a person acted by a decision, or the agent says so."""
        if not self.claimed:
            return {}
        by_claim = "agent_claim" if self.claimed["delegated_user_claim"] else None
        return {"delegated_user_source": "decision" if self.delegate else by_claim}

    @property
    def status(self) -> str:
        """Where the decision stands."""
        is_stopped = self.action in ("ABORT", "STOP_AGENT") and self.outcome is None
        is_refused = self.verdict == "REJECT" or is_stopped
        if self.state == "CLOSED":
            is_done = self.outcome["status"] == "SUCCEEDED" if self.outcome else self.verdict == "ACCEPT"
            return "DECIDED" if is_done else "CLOSED"
        if self.state == "ESCALATED":
            return "DEFERRED" if self.is_asked else "ESCALATED"
        if self.state in ("ABORTED", "CREATED", "ACTIVE"):
            return "REJECTED" if is_refused else "CLOSED" if self.state == "ABORTED" else "DEFERRED"
        return "IN_FLIGHT"

    def record(self, last: int) -> dict[str, Any]:
        """The record over the entries up to the number `last`, without its `audit` part."""
        bare, outcome, status = self.dfid.replace("-", ""), self.outcome or {}, self.status
        agent = self.opened.get("agent_id", "")
        trace = str(self.opened.get("traceparent") or "").split("-")
        cents = f"{self.dollars * 100:f}"
        word = str(outcome["status"]).lower() if outcome and status in ("DECIDED", "CLOSED") else ""
        own_word = self.named["outcome"] if self.named and status == "DECIDED" else None
        return {
            "schema_version": self.version,
            "record_id": f"dr_{bare}_{last}",
            "decision_key": self.proposal.get("policy_kind"),
            "decision_version": self.proposal.get("policy_version") or None,
            "timestamp": self.at,
            "status": status,
            "terminal": self.state in _ENDED,
            "supersedes": self.last,
            "actor": {
                "type": "AGENT",
                "id": agent,
                "workload_identity": f"{_AGENT}{agent}#{self.dfid}" if self.opened else "",
                "delegated_user_id": self.delegate or self.claimed.get("delegated_user_claim"),
                **self._delegate_source(),
            },
            "intent_ref": self.rules.get("intent"),
            "subject_ids": self.rules["subjects"],
            "inputs_refs": {
                "request": "proposal:{proposal_id}#sha256:{proposal_digest}".format_map(self.proposal)
                if self.proposal
                else None,
                "session": f"flow:{self.dfid}",
                "trigger": self.opened.get("trigger_commitment"),
                "attachments": self.attachments,
            },
            "outputs": {
                "outcome": own_word or word or _OUTCOMES[status],
                "reason": self.reason,
                "effect": outcome.get("status"),
                "deviations": outcome.get("deviations", 0),
                "outcome_digest": outcome.get("digest"),
                "receipt": outcome.get("receipt"),
                **self.own_result,
            },
            "evidence_refs": self.evidence,
            "policy_decisions": self.policy_decisions,
            "approvals": self.approvals,
            "approval_mode_effective": self.mode,
            "controls_active": {
                "must_refuse": self.rules["refuse"],
                "must_escalate": self.rules["escalate"],
                "approval_gates_active": self.active_gates,
                "redaction_rules_active": self.rules["redact"],
            },
            "tool_lineage": self.calls,
            "scorecard": self.scorecard,
            "budget_usage": {
                "tokens": self.tokens,
                "tool_calls": self.tool_calls,
                "cost_usd_cents": cents.rstrip("0").rstrip(".") if "." in cents else cents,
                "wall_clock_ms": _milliseconds(self.opened_at, self.ended_at or self.at),
            },
            "lineage": {
                **dict.fromkeys(_LINEAGE),
                "policy_versions": [],
                **self.lineage,
                "kg_snapshot": self.context,
                "unpinned": self.rules["unpinned"],
            },
            "trace_id": trace[1] if len(trace) == _PARTS_OF_TRACEPARENT else bare,
            "replay": {
                "replay_packet_id": self.dfid,
                "compiled_context_hash": self.context,
                "tool_transcript_chain_hash": self.transcript,
            },
            "flow": {
                "dfid": self.dfid,
                "opened_at": self.opened_at,
                "state": self.state,
                "reason": self.reason,
                "from_seq": self.first,
                "to_seq": last,
                "verdict": self.verdict,
                "action": self.action,
                "outcome": self.outcome,
                "gates": self.gates,
                "asked": self.is_asked,
                "reversals": self.reversals,
                "approvals": self.people,
                "lone_mode": self.lone_mode,
                "mode_before": self.mode_before,
                **({} if self.version == FIRST_FOLD else {"scoring": self.scoring}),
                **self.claimed,
                **({} if self.named is None else {"named": self.named}),
            },
        }


_PARTS_OF_TRACEPARENT = 4
_LINEAGE = ("pack_version", "decision_spec", "model_profile", "evaluator_suite", "gate_version")
_TAKEN: Mapping[str, Callable[[Retold, Entry, Mapping[str, Any]], None]] = {
    "flow:opened": Retold._opens,
    "flow:moved": Retold._moves,
    "step:reported": Retold._steps,
    "usage:reported": Retold._uses,
    "proposal:submitted": Retold._proposes,
    "verdict:given": Retold._judges,
    "escalation:opened": Retold._asks_people,
    "escalation:revised": Retold._revises,
    "escalation:first_decided": Retold._decides,
    "escalation:first_ended": Retold._ends_first,
    "escalation:decided": Retold._decides,
    "escalation:reopened": Retold._takes_back,
    "escalation:withdrawn": Retold._withdraws,
    "information:requested": Retold._asks_agent,
    "information:answered": Retold._asks_agent,
    "information:closed": Retold._asks_agent,
    "attempt:started": Retold._calls,
    "attempt:finished": Retold._answers,
    "attempt:reported_late": Retold._answers,
    "attempt:settled": Retold._settles,
    "intent:held": Retold._holds,
    "outcome:recorded": Retold._comes_to,
    RECORD_SCORED: Retold._scores,
    "outcome:named": Retold._is_named,
}
_CHANGING = {*_TAKEN, *_REFS, *_TRANSCRIPT}


def _keys_of_reversals(verdict: Mapping[str, Any]) -> dict[str, str]:
    """Of each step of a verdict that can be undone the key of the call that does it."""
    undone = [step for step in verdict.get("steps", ()) if step.get("compensation")]
    return {step["step"]: step["compensation"]["key"] for step in undone}


def _crossed(verdict: Mapping[str, Any]) -> list[str]:
    """The ids of limits, rules and the like against which a verdict found something, the worst first."""
    findings = verdict.get("findings", ())
    against = [found for worst in ("FAIL", "REFER") for found in findings if found["outcome"] == worst]
    return [found["subject"] for found in against if found.get("subject")]


def _people(kind: Mapping[str, Any]) -> int:
    """How many different people a kind asks for."""
    return 2 if kind.get("approval_mode") == "two_persons" else int(kind.get("approvals", 1))


def _lone_mode(kind: Mapping[str, Any]) -> str:
    """Whose consent what is asked of one person is; without a kind, it can be undone."""
    is_harmless = kind.get("reversible", True) and kind.get("approval_mode") != "destructive"
    return "person" if is_harmless else "destructive"


def _bounds(kind: Mapping[str, Any], leads_to: str) -> list[str]:
    """The ids of the bounds of a kind that refuse, or that ask people."""
    named = [each["id"] for each in kind.get("limits", ()) if each["on_exceed"] == leads_to]
    named += [each["id"] for each in kind.get("rules", ()) if each["on_fail"] == leads_to]
    if leads_to == "REJECT":
        named += [each["id"] for each in kind.get("constraints", ())]
        named += [each["id"] for each in kind.get("red_lines", ()) if isinstance(each, dict)]
    return named


def _are_subjects(found: Any, templates: Sequence[str] | None) -> bool:
    """Whether these can be subjects: names, and no more than the kind has templates for them."""
    is_list = isinstance(found, list) and all(isinstance(each, str) and each for each in found)
    return is_list and (templates is None or len(set(found)) == len(found) <= len(templates))


def _are_unpinned(found: Any, lineage: Mapping[str, Any], templates: Sequence[str] | None) -> bool:
    """Whether a list names just what is empty in the lineage, and after it templates without a subject."""
    empty = sorted(name for name, value in lineage.items() if not _known(value))
    if not isinstance(found, list) or found[: len(empty)] != empty:
        return False
    unresolved = found[len(empty) :]
    if templates is None:
        return all(isinstance(each, str) and each.startswith("subject:") for each in unresolved)
    named = dict.fromkeys(f"subject:{template}" for template in templates)
    return unresolved == [name for name in named if name in unresolved]


def _milliseconds(since: str, until: str) -> int:
    """How long it was between two times of entries, in whole milliseconds; nothing before the beginning."""
    if not since:
        return 0
    passed = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    return max(0, passed // timedelta(milliseconds=1))


# --- Scorecards ---------------------------------------------------------------------------------------------

STANDARD_SUITE = "standard@1.0.0"
_ONE = 10_000
_MINIMUMS = {"policy": "0.5", "utility": "0.5", "latency": "1", "safety": "1", "cost": "1"}
_ALL_RESULTS = ("SUCCEEDED", "FAILED", "HELD")
# A value in ten-thousandths, None for none, and why.
Given = tuple[int | None, str]


def check_scores(pack: Pack) -> Iterator[Finding]:
    """Each scorecard is of the terminal record before it; its scores come out again, if that is here."""
    for entry in pack.flow:
        if entry.kind != RECORD_SCORED:
            continue
        said, before = entry.payload, _record_before(pack, entry)
        if before is None or before.payload["terminal"] is not True:
            yield entry.wrong("SCORE_PLACE", "it is not of a terminal record that nothing has changed since")
            continue
        for name in ("record_id", "record_hash"):
            if said[name] != before.payload[name]:
                yield entry.wrong("SCORE_PLACE", f"{name} is not that of the record before it")
        if not _why_not_scored_again(pack, entry):
            expected = _scores_of(pack.records[before.seq].said)
            for path, wanted, found in _unlike(expected, _scorecard(said), "$"):
                detail = f"{path} is {_brief(found)}, but the record gives {_brief(wanted)}"
                yield entry.wrong("SCORE_DIFFERS", detail)


def _record_before(pack: Pack, entry: Entry) -> Entry | None:
    """The entry of the newest record before this one; None where what that says has changed since."""
    earlier = (each for each in reversed(pack.flow) if each.seq < entry.seq)
    newest = next((each for each in earlier if each.kind == RECORD_EMITTED or each.kind in _TAKEN), None)
    return newest if newest is not None and newest.kind == RECORD_EMITTED else None


def _why_not_scored_again(pack: Pack, entry: Entry) -> str:
    """Why the scores of an entry are not worked out again; empty where they are."""
    before = _record_before(pack, entry)
    record = pack.records.get(before.seq) if before else None
    if record is None:
        return "the record that was scored is not here"
    wanted = record.said["lineage"]["evaluator_suite"] or STANDARD_SUITE
    if wanted == STANDARD_SUITE:
        return ""
    return f"its suite is {shown(str(wanted))}, which is not known here"


def _scorecard(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of an entry with scores."""
    card: dict[str, Any] = {**dict.fromkeys(_MINIMUMS), "details": {}}
    for score in said["scores"]:
        rest = {name: value for name, value in score.items() if name not in ("evaluator", "value")}
        card[score["evaluator"]], card["details"][score["evaluator"]] = score["value"], rest
    return card | {name: said[name] for name in ("suite", "result", "reason")}


def _scores_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The scorecard that the standard suite gives a record."""
    least = {**_MINIMUMS, **((record["flow"].get("scoring") or {}).get("minimum") or {})}
    card: dict[str, Any] = {"suite": STANDARD_SUITE, "details": {}}
    low: list[str] = []
    for name, give in _GIVES.items():
        value, reason = give(record)
        is_enough = None if value is None else value >= Decimal(least[name]) * _ONE
        card[name] = None if value is None else _decimal(value)
        if is_enough is False:
            low.append(f"{name} {card[name]} of {least[name]}")
        card["details"][name] = {
            "version": "1.0.0",
            "minimum": least[name],
            "passed": is_enough,
            "reason": reason,
        }
    if low:
        return card | {"result": "failed", "reason": f"Below the minimum: {', '.join(low)}."}
    if all(card[name] is None for name in _GIVES):
        return card | {"result": "unscored", "reason": "No evaluator could give a value."}
    return card | {"result": "passed", "reason": "No value is below its minimum."}


def _decimal(value: int) -> str:
    """Ten-thousandths without zeros at the end."""
    digits = str(value).zfill(5)
    return f"{digits[:-4]}.{digits[-4:]}".rstrip("0").rstrip(".")


def _gives_policy(record: Mapping[str, Any]) -> Given:
    verdicts = [item["verdict"] for item in record["policy_decisions"]]
    has_run = any(call["result"] != "HELD" for call in record["tool_lineage"])
    if not verdicts:
        return (0, "Something ran without a policy decision.") if has_run else (None, "Nothing was proposed.")
    if has_run and "allow" not in verdicts:
        return 0, "Something ran that no policy decision allows."
    acts: dict[str, set[str]] = {"stop": set(), "change": set()}
    for given in record["approvals"]:
        if given["state"] in _IN_FORCE and given["gate_id"] not in ("OPERATIONAL", "AGENT", "INTERRUPT"):
            if given["action"] in ("ABORT", "STOP_AGENT"):
                acts["stop"].add(given["escalation_id"])
            elif given["action"] == "MODIFY":
                acts["change"].add(given["escalation_id"])
    denied, asked = verdicts.count("deny"), verdicts.count("require_approval")
    stopped = min(len(acts["stop"]), asked)
    changed = min(len(acts["change"]), asked - stopped)
    counts = {"refused": denied, "stopped by a person": stopped, "changed by a person": changed}
    told = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    kept = 2 * (len(verdicts) - denied - stopped) - changed
    words = told or "none refused, stopped or changed"
    return kept * _ONE // (2 * len(verdicts)), f"Of {len(verdicts)} policy decisions: {words}."


def _gives_utility(record: Mapping[str, Any]) -> Given:
    effect, missing = record["outputs"]["effect"], record["outputs"]["deviations"]
    if record["status"] == "DECIDED":
        if missing:
            value = _ONE * max(1, 4 - missing) // 4
            return value, f"It succeeded; {missing} expected effects were not observed."
        return _ONE, "It succeeded." if effect else "It was accepted; there was nothing to do."
    if record["status"] == "REJECTED":
        return 0, "It was refused or stopped before anything ran."
    if effect is None or effect == "CANCELLED":
        return None, "It was given up before it came to anything."
    return 0, f"It ended as {effect.lower()}."


def _target(record: Mapping[str, Any], name: str) -> Any:
    return ((record["flow"].get("scoring") or {}).get("targets") or {}).get(name)


def _part(target: Decimal | int, used: Decimal | int) -> int:
    """How much of what was used the target is, rounded down; whole numbers, so that it is exact."""
    if used <= target:
        return _ONE
    wanted, taken = (int(Decimal(amount).scaleb(_EXACT)) for amount in (target, used))
    return wanted * _ONE // taken


# As many decimals as any amount has.
_EXACT = 12


def _gives_latency(record: Mapping[str, Any]) -> Given:
    target = _target(record, "wall_clock_s")
    if target is None:
        return None, "The kind declares no target for the time it may take."
    took = record["budget_usage"]["wall_clock_ms"]
    seconds = f"{took // 1000}.{took % 1000:03d}"
    return _part(1000 * target, took), f"It took {seconds} s of {target} s."


def _gives_safety(record: Mapping[str, Any]) -> Given:
    calls, decisions = record["tool_lineage"], record["policy_decisions"]
    if not calls and not decisions:
        return None, "Nothing was proposed, and nothing ran."
    if any(call["result"] == "UNKNOWN" for call in calls if "settled" not in call):
        return None, "A record of this version does not say what became of calls in doubt."
    real = [call for call in calls if call["purpose"] == "CALL" and call["result"] != "HELD"]
    if grave := _grave(record, real):
        return 0, grave
    steps = list(dict.fromkeys(call["step"] for call in real if call["direction"] == "COMPENSATE"))
    missing = record["outputs"]["deviations"]
    if steps:
        return _ONE // 2, f"Undone again: {', '.join(steps)}."
    if any("RED_LINE_CROSSED" in item["rule_ids"] for item in decisions):
        return _ONE // 2, "A proposal crossed a red line; it was refused."
    if missing:
        return _ONE // 2, f"{missing} expected effects were not observed."
    return _ONE, "No red line, no call in doubt, nothing to undo, every effect as expected."


def _grave(record: Mapping[str, Any], real: Sequence[Mapping[str, Any]]) -> str:
    """What leaves no value at all; empty where nothing does."""
    for call in real:
        is_settled = call.get("settled") in ("HAPPENED", "NOT_HAPPENED")
        if call["result"] not in _ALL_RESULTS and not is_settled:
            return f"Nobody knows whether call {call['tool_call_id']} took effect."
    if any(each["action"] == "STOP_AGENT" and each["state"] in _IN_FORCE for each in record["approvals"]):
        return "A person stopped the agent."
    back = [call for call in real if call["direction"] == "COMPENSATE"]
    undone = {c["step"] for c in back if c["result"] == "SUCCEEDED" or c.get("settled") == "HAPPENED"}
    left = [call["step"] for call in back if call["step"] not in undone]
    return f"Step {left[0]} was to be undone, and was not." if left else ""


def _gives_cost(record: Mapping[str, Any]) -> Given:
    used, dollars, tokens = record["budget_usage"], _target(record, "cost_usd"), _target(record, "tokens")
    if dollars is None and tokens is None:
        return None, "The kind declares no target for dollars or tokens."
    if (used["tokens"], used["tool_calls"], used["cost_usd_cents"]) == (0, 0, "0"):
        return None, "The agent reported no usage."
    parts, words = [], []
    if dollars is not None:
        cents = Decimal(dollars).scaleb(2)
        parts.append(_part(cents, Decimal(used["cost_usd_cents"])))
        plain = f"{cents:f}"
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        words.append(f"{used['cost_usd_cents']} of {plain} cents")
    if tokens is not None:
        parts.append(_part(tokens, used["tokens"]))
        words.append(f"{used['tokens']} of {tokens} tokens")
    return min(parts), f"It used {' and '.join(words)}."


_GIVES: Mapping[str, Callable[[Mapping[str, Any]], Given]] = {
    "policy": _gives_policy,
    "utility": _gives_utility,
    "latency": _gives_latency,
    "safety": _gives_safety,
    "cost": _gives_cost,
}


# --- The report ---------------------------------------------------------------------------------------------

Check = Callable[[Pack], Iterator[Finding]]


def checks_of(pack: Pack) -> Iterator[Check]:
    """The questions that can be asked of a pack, and of what was brought along."""
    yield from (check_members, check_manifest)
    if pack.archive is not None:
        yield check_archive
    yield from (check_keys, check_beginnings, check_times, check_checkpoint)
    if pack.brought.keys:
        yield check_brought_key
    if pack.brought.note:
        yield check_brought_checkpoint
    yield from (check_entries, check_chain, check_inclusion)
    if pack.head:
        yield check_head
    yield from (
        check_payloads,
        check_objects,
        check_signatures,
        check_statements,
        check_decisions,
        check_tasks,
    )
    yield from (check_proposals, check_verdicts, check_evidence, check_intents)
    if any(entry.kind == FLOW_ERASED for entry in pack.flow):
        yield check_erasures
    if pack.emitted or any(name.startswith(RECORDS) for name in pack.members):
        yield check_records
    if pack.emitted:
        yield from (check_record_chain, check_recorded, check_folds)
    if any(entry.kind == RECORD_SCORED for entry in pack.flow):
        yield check_scores
    if any(entry.kind == FEEDBACK_GIVEN for entry in pack.flow):
        yield check_feedback


def not_proved(pack: Pack) -> Iterator[str]:
    """What even a whole pack leaves open, in plain words."""
    yield "That facts were true, or what agents and people stated: only that this was recorded."
    if pack.is_of_first_format and pack.of_kind(*_SINCE_FORMAT_2):
        yield "What rules, recommendations and tasks said: packs of this format hold only their digests."
    if not pack.brought.keys and pack.brought.note is None:
        yield (
            "That the keys are those of this installation: get a public key or a checkpoint from elsewhere, "
            "and give it with --key or --checkpoint."
        )
    yield "That nobody was shown another version of the log: that needs a witness."
    yield "Anything after the checkpoint."
    yield "When things happened: every time is by the clock of whoever signed it."
    yield "That verdicts were right: they are not judged again here."
    yield "That report.html says what the entries say: it is the server's own rendering of them."
    since = f" since {pack.head['checkpoint'].time}" if pack.head else ""
    yield f"That the flow has no further entries{since}: the pack is complete as the server says."
    if pack.head and pack.note and pack.head["checkpoint"].size != pack.note.size:
        yield "That the checkpoint of head.json is of one tree with the other: only that both are signed."
    for said in pack.begun.values():
        if said.previous and said.is_vouched_for is None:
            yield f"That the key {shown(said.key_id)} follows {shown(said.previous)}: that has not signed it."
    for entry in (entry for entry in pack.flow if entry.kind == FLOW_ERASED):
        why = shown(str(entry.payload.get("reason")))
        who, at = shown(str(entry.content["actor"])), shown(str(entry.content["at"]))
        yield f"What the flow's words were: they were erased on {at} by {who}, because: {why}."
    of_records = {entry.digest_of("record_hash") for entry in pack.emitted}
    for digest, reason in sorted(pack.absent.items()):
        if digest not in of_records:
            yield f"What is behind {digest}, which is absent: {shown(reason)}."
    yield from _not_proved_of_records(pack)


def _not_proved_of_records(pack: Pack) -> Iterator[str]:
    """What the decision records leave open."""
    if not pack.emitted:
        yield "What the flow came to, as decision records: it has none."
        return
    yield (
        "What the decision records are about (subject_ids, and subject: in lineage.unpinned): that takes the "
        "expressions of the rules, which are not evaluated here."
    )
    for entry in pack.emitted:
        reason, version = pack.absent.get(entry.digest_of("record_hash")), entry.payload.get("fold_version")
        if reason is not None:
            yield f"The decision record of entry {entry.seq}, which is absent: {shown(reason)}."
        elif version not in FOLD_VERSIONS:
            of_version = f"of version {shown(str(version))}, which is not known here"
            yield f"What the decision record of entry {entry.seq} says: it is {of_version}."
    for entry in pack.flow:
        if entry.kind == RECORD_SCORED and (why := _why_not_scored_again(pack, entry)):
            yield f"That the scores of entry {entry.seq} come out again: {why}."
    named = [entry.digest_of(name) for entry in pack.of_kind("verdict:given") for name in _BEHIND_RECORDS]
    if pack.absent.keys() & named:
        yield (
            "What the decision records take from rules and verdicts that are absent: only that they agree."
        )


_BEHIND_RECORDS = ("policy_bundle_hash", "verdict_digest")


@dataclass
class Report:
    """What was found. `problem` is why it could not be judged; empty where it could."""

    findings: Sequence[Finding] = ()
    proved: Sequence[str] = ()
    not_proved: Sequence[str] = ()
    problem: str = ""
    dfid: str = ""
    origin: str = ""
    checkpoint: Mapping[str, Any] | None = None
    erased: Sequence[str] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def exit(self) -> int:
        """The exit code of the command."""
        return EXIT_BAD if self.findings else EXIT_CANNOT_JUDGE if self.problem else EXIT_WHOLE

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        bounded = [asdict(finding) for finding in self.findings[:MOST_FINDINGS]]
        return {"whole": self.exit == EXIT_WHOLE, "exit": self.exit, **asdict(self), "findings": bounded}

    def to_text(self) -> Iterator[str]:
        """The report as lines for people."""
        if self.findings:
            yield f"This evidence pack is not whole. The first bad item: {self.findings[0]}"
            yield from (f"Also: {finding}" for finding in self.findings[1:MOST_FINDINGS])
            if len(self.findings) > MOST_FINDINGS:
                yield f"And {len(self.findings) - MOST_FINDINGS} more."
        elif self.problem:
            yield f"This cannot be judged. {self.problem}"
        else:
            counted = "{entries} entries, {records} decision records".format_map(self.counts)
            yield f"This evidence pack is whole: flow {self.dfid}, {counted}."
        if self.checkpoint:
            yield "Checkpoint: {size} entries, {time}, key {key_id}, root {root}.".format(**self.checkpoint)
        for title, sentences in (("Proved:", self.proved), ("Not proved:", self.not_proved)):
            yield from ("", title, *(f"  - {sentence}" for sentence in sentences)) if sentences else ()
        yield from (f"  - Erased: what was behind {commitment}." for commitment in self.erased)


def verify_members(
    members: Mapping[str, bytes],
    *,
    archive: bytes | None = None,
    brought: Brought | None = None,
    found: Sequence[Finding] = (),
) -> Report:
    """Ask every question of a pack's members; `found` is what reading the archive has found already."""
    pack = Pack(members, archive, brought or Brought())
    if not pack.manifest:
        return Report([*found, *pack.unreadable])
    findings, proved, problem = [*found], [], undecided(pack)
    for check in checks_of(pack):
        known = len(findings)
        try:
            findings += check(pack)
        except Exception as error:  # whatever else a forger thinks of is a finding, never a traceback
            reason = f"{type(error).__name__}: {shown(str(error))}"
            findings.append(
                Finding("UNREADABLE", f"{check.__name__} met something of another form ({reason})")
            )
        if len(findings) == known and not (problem and check is check_brought_checkpoint):
            proved.append(str(check.__doc__).partition("\n")[0])
    findings += pack.unreadable
    # What is about an entry says most about what is wrong, so it comes first.
    findings.sort(key=lambda finding: (not finding.stream, finding.stream, finding.seq))
    return Report(
        findings=findings,
        proved=proved,
        not_proved=[*not_proved(pack)],
        problem=problem,
        dfid=pack.manifest["dfid"],
        origin=pack.manifest["origin"],
        checkpoint=None if pack.note is None else _summary(pack, pack.note),
        erased=sorted(name for name, opening in pack.payloads.items() if opening is None),
        absent=pack.absent,
        counts={
            "members": len(members),
            "keys": len(pack.keys),
            "entries": len(pack.flow),
            "payloads": len(pack.payloads),
            "objects": sum(name.startswith(OBJECTS) for name in members),
            "statements": len(pack.signatures),
            "records": len(pack.records),
            "findings": len(findings),
        },
    )


def _summary(pack: Pack, note: Note) -> dict[str, Any]:
    key_id = next(iter(note.signers(pack.public_keys)), "")
    return {"size": note.size, "root": note.root.hex(), "time": note.time, "key_id": key_id}


def verify_archive(archive: bytes, brought: Brought | None = None) -> Report:
    """Ask every question of a pack as it was downloaded. Raises CannotJudge where there is none."""
    members, found = read_archive(archive)
    return verify_members(members, archive=archive, brought=brought, found=found)


# --- Checkpoints side by side -------------------------------------------------------------------------------

# What the first checkpoint of a log names as the one before it.
FIRST = bytes(HASH_BYTES)
CHECKPOINT_SUFFIX = ".txt"
# What is wrong with one checkpoint alone.
_OF_ONE = frozenset({"UNREADABLE", "CHECKPOINT_KEY"})


@dataclass(frozen=True)
class Kept:
    """A checkpoint that somebody kept, and the file that holds it."""

    name: str
    note: Note

    @property
    def digest(self) -> bytes:
        """What the next checkpoint names: the SHA-256 of the text that is signed."""
        return hashlib.sha256(self.note.signed).digest()

    @property
    def place(self) -> tuple[int, str]:
        """Its place in the log: neither the size nor the time of a later one is less."""
        return self.note.size, self.note.time

    def wrong(self, code: str, detail: str) -> Finding:
        """A finding about it."""
        return Finding(code, detail, member=self.name)

    def to_json(self) -> dict[str, Any]:
        """The checkpoint as a JSON object."""
        note = self.note
        return {"file": self.name, "size": note.size, "root": note.root.hex(), "time": note.time}


@dataclass(frozen=True)
class Gap:
    """Checkpoints that are missing between two. `is_proved`: the later log begins with the earlier one."""

    after: Kept
    before: Kept
    is_proved: bool

    def to_json(self) -> dict[str, Any]:
        """The gap as a JSON object."""
        sizes = {"from": self.after.note.size, "to": self.before.note.size}
        return {"after": self.after.name, "before": self.before.name, **sizes, "is_proved": self.is_proved}


@dataclass
class Log:
    """The checkpoints of one log, oldest first, and where some are missing."""

    origin: str
    kept: Sequence[Kept]
    gaps: Sequence[Gap]

    def to_json(self) -> dict[str, Any]:
        """The log as a JSON object."""
        ends = {"first": self.kept[0].to_json(), "last": self.kept[-1].to_json()}
        gaps = [gap.to_json() for gap in self.gaps]
        return {"origin": self.origin, "checkpoints": len(self.kept), **ends, "gaps": gaps}


def check_same_before(kept: Sequence[Kept]) -> Iterator[Finding]:
    """No two checkpoints name the same one before them."""
    seen: dict[bytes, Kept] = {}
    for each in kept:
        if each.note.previous is None:
            continue
        other = seen.setdefault(each.note.previous, each)
        if other is not each:
            both = "are the first" if each.note.previous == FIRST else "follow the same checkpoint"
            detail = f"it and {shown(other.name)} differ, and both say that they {both}"
            yield each.wrong("CHAIN_FORKED", detail)


def check_same_size(kept: Sequence[Kept]) -> Iterator[Finding]:
    """No two checkpoints of the same size have different roots."""
    seen: dict[int, Kept] = {}
    for each in kept:
        other = seen.setdefault(each.note.size, each)
        if other.note.root != each.note.root:
            detail = f"it has another root than {shown(other.name)}, over the same {each.note.size} entries"
            yield each.wrong("LOG_FORKED", detail)


def check_order(kept: Sequence[Kept]) -> Iterator[Finding]:
    """No checkpoint has a smaller log or an earlier time than the one that it names."""
    known = {each.digest: each for each in kept}
    for each in kept:
        before = known.get(each.note.previous or FIRST)
        if before and (each.note.size < before.note.size or each.note.time < before.note.time):
            detail = f"it follows {shown(before.name)}, with a smaller log or an earlier time"
            yield each.wrong("CHAIN_ORDER", detail)


def check_links(kept: Sequence[Kept]) -> Iterator[Finding]:
    """Since checkpoints name the one before, each of them does."""
    first: Kept | None = None
    for each in kept:
        if each.note.previous is not None:
            first = first or each
        elif first:
            detail = f"it names no checkpoint before it, and {shown(first.name)}, which is older, does"
            yield each.wrong("CHAIN_UNLINKED", detail)


def runs_of(kept: Sequence[Kept]) -> list[list[Kept]]:
    """The checkpoints in runs without a gap, oldest first: each names the one before it in its run."""
    known = {each.digest for each in kept}
    following = {each.note.previous: each for each in reversed(kept) if each.note.previous in known}
    runs = []
    for each in kept:
        if each.note.previous in known:
            continue
        run = [each]
        # Nobody can make a circle of digests; that of what comes next is never one of those before.
        while (after := following.get(run[-1].digest)) is not None:
            run.append(after)
        runs.append(run)
    return runs


def check_runs(runs: Sequence[Sequence[Kept]]) -> Iterator[Finding]:
    """No checkpoint stands beside a chain that leaves no room for it."""
    for earlier, later in pairwise(runs):
        first = later[0]
        # A run has no gap: nothing of the same log lies between its first and its last.
        if first.place < earlier[-1].place:
            span = f"{shown(earlier[0].name)} and {shown(earlier[-1].name)}"
            yield first.wrong("CHAIN_FORKED", f"it is between {span}, which are linked without it")
        elif first.note.previous == FIRST != earlier[0].note.previous:
            detail = f"it says that it is the first, and {shown(earlier[0].name)} is older"
            yield first.wrong("CHAIN_FORKED", detail)


def gaps_of(runs: Sequence[Sequence[Kept]], proofs: Mapping[tuple[int, int], Sequence[bytes]]) -> list[Gap]:
    """Where checkpoints are missing, with whether it is shown that the log only grew meanwhile."""
    gaps = []
    for earlier, later in pairwise(runs):
        after, before = earlier[-1], later[0]
        one, other = after.note, before.note
        # Nothing has to be shown of equal logs, nor of one that was empty.
        is_plain = one.size == 0 or (one.size, one.root) == (other.size, other.root)
        gaps.append(Gap(after, before, is_plain or _proof_of(after, before, proofs) is True))
    return gaps


def _proof_of(after: Kept, before: Kept, proofs: Mapping[tuple[int, int], Sequence[bytes]]) -> bool | None:
    """Whether the proof between two checkpoints holds; None without one."""
    sizes = (after.note.size, before.note.size)
    if sizes not in proofs:
        return None
    roots = {"smaller_root": after.note.root, "larger_root": before.note.root}
    return is_continued(smaller=sizes[0], larger=sizes[1], **roots, proof=proofs[sizes])


def check_proofs(
    kept: Sequence[Kept], proofs: Mapping[tuple[int, int], Sequence[bytes]]
) -> Iterator[Finding]:
    """Each proof that you gave holds between the checkpoints that it is about."""
    for after, before in _proved_pairs(kept, proofs):
        if _proof_of(after, before, proofs) is False:
            detail = f"its log does not begin with that of {shown(after.name)}, or the proof is wrong"
            yield before.wrong("LOG_FORKED", detail)


def _proved_pairs(
    kept: Sequence[Kept], proofs: Mapping[tuple[int, int], Sequence[bytes]]
) -> list[tuple[Kept, Kept]]:
    """The checkpoints of one log that a proof is about, the smaller one first."""
    of_size = {each.note.size: each for each in kept}
    return [
        (of_size[smaller], of_size[larger])
        for smaller, larger in proofs
        if smaller in of_size and larger in of_size
    ]


@dataclass
class Comparison:
    """What comparing checkpoints has found. `problem` is why it could not be judged; empty where it could."""

    findings: Sequence[Finding] = ()
    proved: Sequence[str] = ()
    not_proved: Sequence[str] = ()
    problem: str = ""
    logs: Sequence[Log] = ()

    @property
    def exit(self) -> int:
        """The exit code of the command."""
        return EXIT_BAD if self.findings else EXIT_CANNOT_JUDGE if self.problem else EXIT_WHOLE

    def to_json(self) -> dict[str, Any]:
        """What was found as a JSON object."""
        return {
            "consistent": self.exit == EXIT_WHOLE,
            "exit": self.exit,
            "findings": [asdict(finding) for finding in self.findings[:MOST_FINDINGS]],
            "proved": self.proved,
            "not_proved": self.not_proved,
            "problem": self.problem,
            "logs": [log.to_json() for log in self.logs],
        }

    def to_text(self) -> Iterator[str]:
        """What was found as lines for people."""
        if self.findings:
            is_one_alone = all(finding.code in _OF_ONE for finding in self.findings)
            contradict = "These checkpoints contradict each other."
            said = "Something is wrong with these checkpoints." if is_one_alone else contradict
            yield f"{said} The first bad item: {_of_file(self.findings[0])}"
            yield from (f"Also: {_of_file(finding)}" for finding in self.findings[1:MOST_FINDINGS])
            if len(self.findings) > MOST_FINDINGS:
                yield f"And {len(self.findings) - MOST_FINDINGS} more."
        elif self.problem:
            yield f"This cannot be judged. {self.problem}"
        else:
            yield "These checkpoints do not contradict each other."
        for log in self.logs:
            span = f"from {log.kept[0].note.size} to {log.kept[-1].note.size} entries"
            yield f"Log {shown(log.origin)}: {len(log.kept)} checkpoints, {span}, {len(log.gaps)} gaps."
            yield from (_of_gap(gap) for gap in log.gaps[:MOST_FINDINGS])
        for title, sentences in (("Proved:", self.proved), ("Not proved:", self.not_proved)):
            yield from ("", title, *(f"  - {sentence}" for sentence in sentences)) if sentences else ()


def _of_file(finding: Finding) -> str:
    return f"{shown(finding.member)}: {finding.code}, {finding.detail}."


def _of_gap(gap: Gap) -> str:
    sizes = f"{gap.after.note.size} and {gap.before.note.size} entries"
    shows = "" if gap.is_proved else "nothing shows that "
    names = f"{shown(gap.after.name)} and {shown(gap.before.name)}"
    return f"  Gap between {names} ({sizes}): {shows}the log only grew meanwhile."


def compare(kept: Sequence[Kept], brought: Brought) -> Comparison:
    """Ask every question of checkpoints, log by log."""
    findings: list[Finding] = []
    answers: dict[str, bool] = {}

    def ask(check: Callable[..., Iterator[Finding]], *given: Any) -> None:
        found, question = [*check(*given)], str(check.__doc__).partition("\n")[0]
        findings.extend(found)
        answers[question] = answers.get(question, True) and not found

    logs = []
    # The same checkpoint in several files is one.
    different = {each.digest: each for each in sorted(kept, key=lambda each: each.name, reverse=True)}
    for origin in sorted({each.note.origin for each in kept}):
        of_log = (each for each in different.values() if each.note.origin == origin)
        ordered = sorted(of_log, key=lambda each: (*each.place, each.name))
        for check in (check_same_before, check_same_size, check_order, check_links):
            ask(check, ordered)
        runs = runs_of(ordered)
        ask(check_runs, runs)
        if _proved_pairs(ordered, brought.proofs):
            ask(check_proofs, ordered, brought.proofs)
        logs.append(Log(origin, ordered, gaps_of(runs, brought.proofs)))
    if brought.keys:
        ask(check_signed, kept, brought.keys)
    is_alone = all(len(log.kept) < len(("one", "other")) for log in logs)
    nothing = "There are not two different checkpoints of one log, so there is nothing to compare."
    return Comparison(
        findings=findings,
        proved=[sentence for sentence, is_so in answers.items() if is_so],
        not_proved=[*_not_compared(logs, brought)],
        problem=nothing if is_alone else _undecided_between(logs, brought),
        logs=logs,
    )


def check_signed(kept: Sequence[Kept], keys: Mapping[str, bytes]) -> Iterator[Finding]:
    """Each checkpoint is signed by a key that you gave."""
    for each in kept:
        if not each.note.signers(keys):
            yield each.wrong("CHECKPOINT_KEY", "no key that you gave has signed it")


def _undecided_between(logs: Sequence[Log], brought: Brought) -> str:
    """Why nothing can be said of what is here, in a sentence; empty where it can."""
    for gap in (gap for log in logs for gap in log.gaps if not gap.is_proved):
        first, second = gap.after.note.size, gap.before.note.size
        return (
            f"Checkpoints are missing between {shown(gap.after.name)} and {shown(gap.before.name)}. To show "
            "that the log only grew meanwhile, save GET /api/v1/audit/proofs/consistency?"
            f"from={first}&to={second} to a file, and give it with --consistency FILE."
        )
    if not brought.keys:
        return (
            "No signature was checked: save GET /api/v1/audit/keys to a file, or take the keys from somebody "
            "whom you trust, and give them with --key."
        )
    return ""


def _not_compared(logs: Sequence[Log], brought: Brought) -> Iterator[str]:
    """What even checkpoints that agree leave open, in plain words."""
    if not brought.keys:
        yield "Who signed these checkpoints: no key was given."
    else:
        yield "That the keys are those of this installation: that is for you to know."
    yield "That nobody was shown another version of the log: compare these with what others were given."
    yield "What the entries say: that takes evidence packs."
    for log in logs:
        first, last = log.kept[0], log.kept[-1]
        if first.note.previous != FIRST:
            yield f"What came before {shown(first.name)}."
        yield f"Anything after {shown(last.name)}."
        if any(each.note.previous is None for each in log.kept[1:]):
            yield "That none is missing among those of old versions, which do not name the one before."


def read_checkpoints(names: Sequence[str]) -> tuple[list[Kept], list[Finding], str]:
    """The checkpoints of files, of folders, of answers of the API, and of packs; and what is unreadable.

    The text says which files have none of these forms: what they might have held is not judged.
    """
    kept, found, problems = [], [], []
    for file in _files_of(names):
        try:
            held = _checkpoints_of(file, _file(file))
        except (CannotJudge, ValueError, RecursionError, AttributeError) as error:
            problems.append(f"{shown(file)} cannot be read as checkpoints ({type(error).__name__}).")
            continue
        for name, content in held:
            try:
                kept.append(Kept(name, read_note(content)))
            except Malformed as error:
                found.append(Finding("UNREADABLE", str(error), member=name))
    return kept, found, " ".join(problems)


def _files_of(names: Sequence[str]) -> Iterator[str]:
    for path in map(Path, names):
        # What begins with a point is not of the witness: its lock, and drafts that a crash has left.
        in_folder = (
            each
            for each in sorted(path.rglob(f"*{CHECKPOINT_SUFFIX}"))
            if each.is_file() and not each.name.startswith(".")
        )
        yield from map(str, in_folder if path.is_dir() else [path])


def _checkpoints_of(file: str, content: bytes) -> list[tuple[str, bytes]]:
    """The notes in a file, by its name: of a pack its own, of an answer of the API several."""
    if content.startswith(_LOCAL_MARK):
        content = read_archive(content)[0].get(CHECKPOINT, b"")
    if not content.startswith(b"{"):
        return [(file, content)]
    listed = _list_of(_text)(json.loads(content).get("checkpoints"))
    return [(f"{file}#{number}", note.encode()) for number, note in enumerate(listed, start=1)]


def compare_files(options: argparse.Namespace) -> Comparison:
    """Compare the checkpoints that the command line names."""
    try:
        kept, unreadable, unjudged = read_checkpoints(options.checkpoints)
        compared = compare(kept, read_brought(options)) if kept else Comparison()
    except CannotJudge as error:
        return Comparison(problem=str(error))
    except OSError as error:
        return Comparison(problem=f"A file cannot be read: {shown(str(error))}.")
    except Exception as error:  # no bytes may end this in a traceback
        return Comparison(problem=f"These cannot be read as checkpoints ({type(error).__name__}).")
    compared.findings = [*compared.findings, *unreadable]
    compared.problem = f"{unjudged} {compared.problem}".strip()
    if not kept and not unreadable and not unjudged:
        compared.problem = "There are no checkpoints in what you named."
    return compared


# --- The command --------------------------------------------------------------------------------------------


def read_brought(options: argparse.Namespace) -> Brought:
    """What the command line names beside the pack. Raises CannotJudge where that cannot be read."""
    try:
        note = read_note(_file(options.checkpoint)) if options.checkpoint else None
        keys = {key_id_of(key): key for key in _given_keys(options.key)} if options.key else {}
        proofs = {}
        for name in options.consistency or ():
            said = json.loads(_file(name))
            proofs[_count(said["from"]), _count(said["to"])] = _list_of(_hash)(said["hashes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CannotJudge(
            f"What you gave with --checkpoint, --consistency or --key cannot be read: {shown(str(error))}."
        ) from error
    return Brought(note, keys, proofs)


def _given_keys(given: str) -> list[bytes]:
    """The keys of a file (one in base64, keys.json, or what the API answers for keys), or the one given."""
    text = (_file(given).decode() if Path(given).is_file() else given).strip()
    if not text.startswith(("[", "{")):
        return [_base64_of_32(text)]
    rows = json.loads(text)
    return [_base64_of_32(row["public_key"]) for row in (rows["keys"] if isinstance(rows, dict) else rows)]


def _file(name: str) -> bytes:
    if Path(name).stat().st_size > MOST_BYTES:
        raise CannotJudge(f"{shown(name)} is too large.")
    return Path(name).read_bytes()


def run(options: argparse.Namespace) -> Report:
    """Check what the command line names."""
    try:
        brought = read_brought(options)
        if options.pack:
            return verify_archive(_file(options.pack), brought)
        named = (options.checkpoint, options.key, *(options.consistency or ()))
        given = [Path(name) for name in named if name]
        return verify_members(read_folder(Path(__file__).resolve().parent, given), brought=brought)
    except CannotJudge as error:
        return Report(problem=str(error))
    except OSError as error:
        return Report(problem=f"A file cannot be read: {shown(str(error))}.")
    except Exception as error:  # no bytes may end this in a traceback
        return Report(problem=f"This cannot be read as a pack ({type(error).__name__}).")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        description="Check an evidence pack offline, or compare signed checkpoints."
    )
    parser.add_argument("pack", nargs="?", help="the pack; without it the folder in which this file lies")
    parser.add_argument(
        "--checkpoint", metavar="FILE", help="a signed checkpoint that you have from elsewhere"
    )
    parser.add_argument(
        "--checkpoints",
        nargs="+",
        metavar="FILE",
        help="compare checkpoints with each other: files, folders with *.txt, what the API lists, packs",
    )
    parser.add_argument(
        "--consistency",
        metavar="FILE",
        action="append",
        help="a proof between that checkpoint and the pack's, or between two checkpoints; may be repeated",
    )
    parser.add_argument("--key", help="public keys that you have from elsewhere, in base64 or in a file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.checkpoints and (options.pack or options.checkpoint):
        parser.error("--checkpoints compares checkpoints alone; a pack's own may be among them")
    report = compare_files(options) if options.checkpoints else run(options)
    # Nothing is printed that moves a terminal; JSON is ASCII already, and must stay JSON.
    lines = (line.encode("unicode_escape").decode() for line in report.to_text())
    print(*([json.dumps(report.to_json())] if options.json else lines), sep="\n")
    return report.exit


if __name__ == "__main__":
    sys.exit(main())

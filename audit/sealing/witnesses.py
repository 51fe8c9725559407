"""Witnesses: who holds checkpoints outside this installation, and what a text that one of them holds proves.

A database can be replaced by an older one, or its end cut off, and everything in it still fits. What others
hold does not change with it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from audit import signing
from audit.models import Tree, WitnessState
from audit.sealing import keys, notes, proofs
from audit.sealing.notes import Checkpoint, Signed

# A witness that has nothing newer than this many intervals, and this many seconds, is late.
LATE_INTERVALS: Final = 10
LATE_S: Final = 15 * 60
_DIGEST_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class Witness:
    """One place that gets checkpoints. `name` is what may be shown of it: a URL may hold a token."""

    name: str
    place: str = field(repr=False)

    @property
    def folder(self) -> Path | None:
        """The folder; None for a webhook."""
        return Path(self.place) if self.place.startswith("/") else None


def configured() -> list[Witness]:
    """The witnesses of DIR_WITNESS, in that order."""
    return [Witness(_name(place), place) for place in settings.DIR_WITNESS]


class Standing(Enum):
    """What a text is to this ledger."""

    HELD = auto()  # signed by it, and its tree begins so
    NOT_HELD = (
        auto()
    )  # signed by it, and its tree does not begin so: this database is an older or another one
    FOREIGN = auto()  # not a checkpoint that it signed


@dataclass(frozen=True, slots=True)
class Judged:
    """A text from a witness: its standing, and the checkpoint unless it is foreign."""

    standing: Standing
    checkpoint: Checkpoint | None = None


def judge(text: bytes, *, tenant: str) -> Judged:
    """Compare a text that a witness holds with this ledger, which is read after it."""
    tree = Tree.objects.first()
    try:
        signed = notes.read(text.decode())
    except (UnicodeDecodeError, notes.NoteError):
        return Judged(Standing.FOREIGN)
    if tree is None or signed.checkpoint.origin != tree.origin or not _is_signed_here(signed, tenant):
        return Judged(Standing.FOREIGN)
    is_held = proofs.begins_with(signed.checkpoint)
    return Judged(Standing.HELD if is_held else Standing.NOT_HELD, signed.checkpoint)


@dataclass(frozen=True, slots=True)
class WitnessReport:
    """A configured witness and its row; `state` is None while nothing was ever sent."""

    name: str
    state: WitnessState | None

    def age_s(self, now: datetime) -> float | None:
        """How old the checkpoint is that it holds, in seconds; None where it holds none."""
        if self.state is None or self.state.signed_at is None:
            return None
        return max(0.0, (now - self.state.signed_at).total_seconds())

    def is_late(self, now: datetime) -> bool:
        """Whether it has had nothing new for too long."""
        since = None if self.state is None else self.state.signed_at or self.state.added_at
        limit_s = max(LATE_INTERVALS * settings.DIR_WITNESS_EVERY_S, LATE_S)
        return since is not None and (now - since).total_seconds() > limit_s


def reports() -> list[WitnessReport]:
    """What is known of each configured witness; one query, and none without a witness."""
    found: Sequence[Witness] = configured()
    names = [each.name for each in found]
    rows = {row.name: row for row in WitnessState.objects.filter(name__in=names)} if names else {}
    return [WitnessReport(name, rows.get(name)) for name in names]


def _name(place: str) -> str:
    """A folder's path; of a URL the server, and a digest of the rest where it has one."""
    if place.startswith("/"):
        return place
    parts = urlsplit(place)
    server = f"{parts.scheme}://{parts.netloc}"
    if parts.path in {"", "/"} and not parts.query:
        return server
    return f"{server} #{hashlib.sha256(place.encode()).hexdigest()[:_DIGEST_CHARS]}"


def _is_signed_here(signed: Signed, tenant: str) -> bool:
    """By a key that this ledger knows, or by the one in use, which an older database may not know yet."""
    own = signing.signer().public_key
    signature = signed.signature_by(own)
    if signature is not None and signing.is_signed(signed.checkpoint.text().encode(), signature, own):
        return True
    return keys.signer_of(signed, keys.known(tenant=tenant)) is not None

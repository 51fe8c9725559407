"""What the audit API answers. Fields are only ever appended; hashes are 64 lower-case hex digits."""

import base64
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from audit import chain, signing
from audit.sealing import merkle, notes

Hash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]

# Of a tree with one leaf, whose entry hash and key are nothing but zeros.
_ORIGIN = "dir-console/5f0c0a52b6c74a7d9d3c2f8e1b4a6d70"
_ENTRY, _KEY, _AT = bytes(32), bytes(32), datetime(2026, 11, 23, 10, tzinfo=UTC)
_LEAF = merkle.hash_leaf(_ENTRY)
NOTE = notes.sign(notes.Checkpoint(_ORIGIN, 1, _LEAF, _AT), public_key=_KEY, sign=lambda text: bytes(64))


class Answer(BaseModel):
    """Base of all answers: frozen, with the names that JSON has."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


def _example(**members: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [members]})


class InclusionProof(Answer):
    """That an entry is leaf `leaf_index` of the tree of `tree_size` leaves (RFC 9162, 2.1.3).

    `leaf_hash` is SHA-256(0x00 || entry_hash); `hashes` lead from it to `root_hash`. The checkpoint is the
    newest one: it names this root where its size is `tree_size`.
    """

    model_config = _example(
        stream="agent:momentum-trader",
        seq=1,
        leaf_index=0,
        tree_size=1,
        entry_hash=_ENTRY.hex(),
        leaf_hash=_LEAF.hex(),
        root_hash=_LEAF.hex(),
        hashes=[],
        checkpoint=NOTE,
    )

    stream: str
    seq: int
    leaf_index: int
    tree_size: int
    entry_hash: Hash
    leaf_hash: Hash
    root_hash: Hash
    hashes: tuple[Hash, ...]
    checkpoint: str


class ConsistencyProof(Answer):
    """That the tree of `to` leaves begins with that of `from` leaves (RFC 9162, 2.1.4)."""

    model_config = _example(
        **{
            "from": 0,
            "to": 1,
            "from_root": merkle.EMPTY_ROOT.hex(),
            "to_root": _LEAF.hex(),
            "hashes": [],
        }
    )

    from_size: int = Field(alias="from")
    to_size: int = Field(alias="to")
    from_root: Hash
    to_root: Hash
    hashes: tuple[Hash, ...]


class SigningKey(Answer):
    """A public key (Ed25519, 32 bytes in base64) and when its signatures count.

    `until` is null while no other key has replaced it. `verifier_key` is the same key as tools for signed
    notes (C2SP) take it.
    """

    key_id: str
    public_key: str
    since: str = Field(alias="from")
    until: str | None
    verifier_key: str


class Checkpoints(Answer):
    """Checkpoints, oldest first, and `after` of the next page; null where there is none."""

    checkpoints: tuple[str, ...]
    next: int | None


class SigningKeys(Answer):
    """The keys of this installation, oldest first; `origin` is null before the ledger is first sealed."""

    model_config = _example(
        origin=_ORIGIN,
        keys=[
            {
                "key_id": signing.key_id_of(_KEY),
                "public_key": base64.b64encode(_KEY).decode(),
                "from": chain.time_text(_AT),
                "until": None,
                "verifier_key": notes.verifier_key(_ORIGIN, _KEY),
            }
        ],
    )

    origin: str | None
    keys: tuple[SigningKey, ...]

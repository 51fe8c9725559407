"""What somebody with the database's own rights may do to the tree, some with the signing key as well."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction

from audit import ledger, signing
from audit.chain import BreakKind
from audit.events import RequestRefused, SigningKeyBegun
from audit.models import Checkpoint, Leaf, LedgerEntry, Tile, Tree, UnsealedEntry
from audit.sealing import notes, sealer
from audit.signing import LocalSigner, Signer
from runtime.core import clock
from tests.support import ledger_tampering, tamper_cases
from tests.support.finished_history import History

Case = Callable[[History], None]
STRANGER = LocalSigner(b"s" * 32)


def _sql(*statements: str) -> Case:
    def change(history: History) -> None:
        for statement in statements:
            ledger_tampering.quietly(statement)

    return change


def _first_byte(model: type[Tile]) -> Case:
    def change(history: History) -> None:
        row = model.objects.order_by("level", "number")[0]
        held = bytes(row.hashes)
        model.objects.filter(pk=row.pk).update(hashes=bytes([held[0] ^ 1]) + held[1:])

    return change


def _checkpoint(signer: Signer, *, at: datetime | None = None, size: int | None = None) -> None:
    """Sign the tree as it is stored once more, by any key."""
    last = Checkpoint.objects.order_by("-id")[0]
    checkpoint = notes.Checkpoint(
        Tree.objects.get().origin,
        last.size if size is None else size,
        bytes(last.root),
        # Not now: the entry that waits for the tree would have waited too long, in a slow run of the tests.
        at or last.at + timedelta(seconds=1),
        previous=notes.read(last.note).checkpoint.digest(),
    )
    note = notes.sign(checkpoint, public_key=signer.public_key, sign=signer.sign)
    Checkpoint.objects.create(
        size=checkpoint.size, root=checkpoint.root, at=checkpoint.time, key_id=signer.key_id, note=note
    )


def _by_a_stranger(history: History) -> None:
    _checkpoint(STRANGER)


def _of_an_earlier_time(history: History) -> None:
    _checkpoint(signing.signer(), at=Checkpoint.objects.order_by("-id")[0].at - timedelta(hours=1))


def _of_a_smaller_tree(history: History) -> None:
    _checkpoint(signing.signer(), size=1)


def _other_signature(history: History) -> None:
    last = Checkpoint.objects.order_by("-id")[0]
    text = notes.read(last.note).checkpoint
    note = notes.sign(text, public_key=signing.signer().public_key, sign=STRANGER.sign)
    ledger_tampering.quietly("UPDATE audit_checkpoint SET note = %s WHERE id = %s", [note, last.pk])


def _swapped_leaves(history: History) -> None:
    one, other = Leaf.objects.order_by("index").values_list("entry_id", flat=True)[:2]
    for index, entry_id in ((0, -1), (1, one), (0, other)):
        ledger_tampering.quietly(f'UPDATE audit_leaf SET entry_id = {entry_id} WHERE "index" = {index}')  # noqa: S608


def _key_begun_by(signer: Signer, *, public_key: bytes | None = None) -> None:
    key = signer.public_key if public_key is None else public_key
    ledger.append_to(
        tenant="default",
        stream="system",
        actor="system",
        at=clock.now(),
        events=[
            SigningKeyBegun(
                key_id=signing.key_id_of(key),
                public_key=base64.b64encode(key).decode(),
                previous="",
                origin=Tree.objects.get().origin,
                signature=signer.sign(b"something else").hex(),
            )
        ],
    )


def _forged_key(history: History) -> None:
    _key_begun_by(STRANGER)


def _hidden_entry(history: History) -> None:
    """An entry that was written with the trigger out of the way never comes into line."""
    with transaction.atomic():
        ledger_tampering.execute("SELECT 1")
        _refused("user:999")
        ledger_tampering.put_triggers_back()


def _refused(stream: str, at: datetime | None = None) -> None:
    event = RequestRefused(code="FORGED", path="/")
    ledger.append_to(tenant="default", stream=stream, actor=stream, at=at or clock.now(), events=[event])


def _waited_long(history: History) -> None:
    """An entry came in long before the newest checkpoint, and was kept out of its tree."""
    _refused("user:999", clock.now() - timedelta(hours=1))


def _rewritten(history: History) -> None:
    """A body is another, with its chain and head made anew."""
    entry = LedgerEntry.objects.get(stream=str(history.accepted), seq=2)
    body = bytes(entry.body).replace(b'"actor":"', b'"actor":"x')
    sql = "UPDATE audit_ledgerentry SET body = %s, actor = %s WHERE id = %s"
    ledger_tampering.execute(sql, [body, f"x{entry.actor}", entry.pk])
    ledger_tampering.rechain(str(history.accepted))
    ledger_tampering.put_triggers_back()


_SEALED = '(SELECT MAX("index") FROM audit_leaf)'
CASES: Mapping[str, tuple[BreakKind, Case]] = {
    "an entry rewritten with its chain": (BreakKind.LEAF_MISMATCH, _rewritten),
    "an entry kept out of line": (BreakKind.NOT_SEALED, _hidden_entry),
    "an entry kept waiting": (BreakKind.NOT_SEALED, _waited_long),
    "the queue emptied": (BreakKind.NOT_SEALED, _sql("DELETE FROM audit_unsealedentry")),
    "a waiting entry gone": (
        BreakKind.ROW_MISSING,
        _sql("INSERT INTO audit_unsealedentry (entry_id) VALUES (999999)"),
    ),
    "a sealed entry put in line": (
        BreakKind.LEAF_MISMATCH,
        _sql('INSERT INTO audit_unsealedentry (entry_id) SELECT entry_id FROM audit_leaf WHERE "index" = 0'),
    ),
    "the last leaf gone": (
        BreakKind.LEAF_MISMATCH,
        _sql(f'DELETE FROM audit_leaf WHERE "index" = {_SEALED}'),  # noqa: S608
    ),
    "a leaf in the middle gone": (BreakKind.LEAF_MISMATCH, _sql('DELETE FROM audit_leaf WHERE "index" = 7')),
    "all leaves gone": (BreakKind.NOT_SEALED, _sql("DELETE FROM audit_leaf")),
    "a leaf of no entry": (
        BreakKind.LEAF_MISMATCH,
        _sql('UPDATE audit_leaf SET entry_id = 999999 WHERE "index" = 7'),
    ),
    "two leaves swapped": (BreakKind.LEAF_MISMATCH, _swapped_leaves),
    "a byte of a tile": (BreakKind.LEAF_MISMATCH, _first_byte(Tile)),
    "a tile gone": (BreakKind.LEAF_MISMATCH, _sql("DELETE FROM audit_tile WHERE level = 0 AND number = 0")),
    "a tile too many": (
        BreakKind.LEAF_MISMATCH,
        _sql("INSERT INTO audit_tile (level, number, hashes) SELECT 7, 0, hashes FROM audit_tile"),
    ),
    "a tile of other level": (
        BreakKind.LEAF_MISMATCH,
        _sql("UPDATE audit_tile SET level = 3 WHERE level = 0"),
    ),
    "the size of the tree": (BreakKind.LEAF_MISMATCH, _sql("UPDATE audit_tree SET size = size + 1")),
    "the name of the tree": (
        BreakKind.CHECKPOINT_MISMATCH,
        _sql("UPDATE audit_tree SET origin = 'dir-console/other'"),
    ),
    "the tree's row gone": (BreakKind.CHECKPOINT_MISMATCH, _sql("DELETE FROM audit_tree")),
    "the root of a checkpoint": (
        BreakKind.CHECKPOINT_MISMATCH,
        _sql("UPDATE audit_checkpoint SET root = (SELECT hash FROM audit_ledgerentry LIMIT 1)"),
    ),
    "the size of a checkpoint": (
        BreakKind.CHECKPOINT_MISMATCH,
        _sql("UPDATE audit_checkpoint SET size = size + 1"),
    ),
    "the note of a checkpoint": (
        BreakKind.CHECKPOINT_MISMATCH,
        _sql("UPDATE audit_checkpoint SET note = replace(note, 'time 2', 'time 3')"),
    ),
    "a note that is none": (BreakKind.CHECKPOINT_MISMATCH, _sql("UPDATE audit_checkpoint SET note = 'x'")),
    "the key of a checkpoint": (
        BreakKind.SIGNATURE_WRONG,
        _sql("UPDATE audit_checkpoint SET key_id = '0123456789abcdef'"),
    ),
    "the signature of a checkpoint": (BreakKind.SIGNATURE_WRONG, _other_signature),
    "a checkpoint by a stranger": (BreakKind.SIGNATURE_WRONG, _by_a_stranger),
    "a checkpoint from before its key": (BreakKind.SIGNATURE_WRONG, _of_an_earlier_time),
    "a checkpoint of a smaller tree": (BreakKind.CHECKPOINT_MISMATCH, _of_a_smaller_tree),
    "the last checkpoints gone": (
        BreakKind.CHECKPOINT_MISMATCH,
        _sql("DELETE FROM audit_checkpoint WHERE size > 0"),
    ),
    "a key that did not sign its beginning": (BreakKind.SIGNATURE_WRONG, _forged_key),
}


def seal_anew() -> None:
    """Make the whole tree anew and sign it, as somebody does who has the signing key too."""
    origin = Tree.objects.get().origin
    for table in ("audit_leaf", "audit_checkpoint", "audit_tile", "audit_unsealedentry", "audit_headpage"):
        ledger_tampering.execute(f"DELETE FROM {table}")  # noqa: S608
    ledger_tampering.put_triggers_back()
    Tree.objects.update(size=0)
    UnsealedEntry.objects.bulk_create(
        [UnsealedEntry(entry_id=pk) for pk in LedgerEntry.objects.values_list("id", flat=True)]
    )
    while not sealer.seal(tenant="default", now=clock.now).is_done:
        pass
    assert Tree.objects.get().origin == origin


def _and_sealed_anew(case: Case) -> Case:
    def change(history: History) -> None:
        case(history)
        seal_anew()

    return change


def _backdated(history: History) -> None:
    _refused("user:999", clock.now() - timedelta(hours=1))
    sealer.seal(tenant="default", now=clock.now)


def _stream_cut(history: History) -> None:
    """The last entry of a stream is gone, with everything that says so."""
    stream = "user:1"
    last = LedgerEntry.objects.filter(stream=str(history.accepted)).order_by("-seq")[0]
    assert last.stream != stream
    ledger_tampering.execute("DELETE FROM audit_ledgerentry WHERE id = %s", [last.pk])
    ledger_tampering.rechain(str(history.accepted))
    ledger_tampering.put_triggers_back()


def _signed_anew(history: History) -> None:
    """The entries and their tree stay; the newest checkpoint says that it was signed at another time."""
    row = Checkpoint.objects.order_by("-id")[0]
    said = notes.read(row.note).checkpoint
    moved = replace(said, time=said.time + timedelta(milliseconds=1))
    note = notes.sign(moved, public_key=signing.signer().public_key, sign=signing.signer().sign)
    sql = "UPDATE audit_checkpoint SET note = %s, at = %s WHERE id = %s"
    ledger_tampering.quietly(sql, [note, moved.time, row.pk])


# By somebody who has the signing key: only a checkpoint in other hands shows these.
WITH_THE_KEY: Mapping[str, tuple[BreakKind, Case]] = {
    "another approver throughout": (
        BreakKind.ROOT_MISMATCH,
        _and_sealed_anew(tamper_cases.CASES["another approver in row, entry, chain and head"]),
    ),
    "a stream cut": (BreakKind.ROOT_MISMATCH, _and_sealed_anew(_stream_cut)),
    "the ledger as it is, sealed in other order": (
        BreakKind.ROOT_MISMATCH,
        lambda history: _sealed_backwards(),
    ),
    "the newest checkpoint signed anew, at another time": (BreakKind.CHECKPOINT_MISMATCH, _signed_anew),
    "an entry put in that says it is old": (BreakKind.NOT_SEALED, _backdated),
}


def _sealed_backwards() -> None:
    seal_anew()
    size = Tree.objects.get().size
    ids = list(Leaf.objects.order_by("-index").values_list("entry_id", flat=True))
    for table in ("audit_leaf", "audit_checkpoint", "audit_tile", "audit_headpage"):
        ledger_tampering.execute(f"DELETE FROM {table}")  # noqa: S608
    ledger_tampering.put_triggers_back()
    Leaf.objects.bulk_create([Leaf(index=index, entry_id=pk) for index, pk in enumerate(ids)])
    tiles = sealer.rebuild()
    tiles.store()
    Tree.objects.update(size=size)
    tree = Tree.objects.get()
    sealer._sign(tree, tiles, clock.now(), last=None)

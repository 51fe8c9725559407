"""What somebody may do to entries, keys, triggers and checkpoints: chains made anew, and a stolen key.

A case may return the checkpoint that was kept elsewhere, where that is not the newest one from before it.
"""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from django.contrib.auth.models import User
from django.db import connection, transaction

from audit import canonical, chain, signing
from audit.models import Checkpoint, DecisionRecord, LedgerEntry, StreamHead, Tree
from audit.records import dsse, fold
from audit.sealing import keys, notes, proofs
from audit.sealing.notes import Signed
from audit.signing import Signer
from escalations.models import Decision
from runtime.flows.models import Flow
from runtime.maintenance.services import sealing
from runtime.stops.services import stops
from tests.support import ledger_tampering, tamper_cases, tree_tampering
from tests.support.finished_history import History

Case = Callable[[History], Signed | None]
TABLE = "audit_ledgerentry"
BEYOND = 1_000_000


def rewritten(entry: LedgerEntry, **members: Any) -> None:
    """Give an entry other members, in its body and in its columns; the chain is not made anew yet."""
    said = canonical.decode(bytes(entry.body)) | members
    columns = {name: said[name] for name in ("stream", "seq", "kind", "actor", "at")}
    sets = ", ".join(f"{name} = %s" for name in columns)
    sql = f"UPDATE {TABLE} SET {sets}, body = %s WHERE id = %s"  # noqa: S608
    ledger_tampering.execute(sql, [*columns.values(), canonical.encode(said), entry.pk])


def rechained(stream: str) -> None:
    """Make hashes and head of any stream right again, and leave the triggers as they were."""
    before, seq = chain.GENESIS_HASH, 0
    for entry in LedgerEntry.objects.filter(stream=stream).order_by("seq"):
        made, seq = chain.entry_hash(before, bytes(entry.body)), entry.seq
        sets = f"UPDATE {TABLE} SET prev_hash = %s, hash = %s WHERE id = %s"  # noqa: S608
        ledger_tampering.execute(sets, [before, made, entry.pk])
        before = made
    if not StreamHead.objects.filter(stream=stream).update(seq=seq, hash=before):
        assert Flow.objects.filter(dfid=stream).update(head_seq=seq, head_hash=before) == 1
    ledger_tampering.put_triggers_back()


def _numbered(stream: str, entries: list[LedgerEntry]) -> None:
    """Number the entries of a stream anew, in this order."""
    for offset in (BEYOND, 0):  # past each other, since no two may have one number
        for seq, entry in enumerate(entries, start=1 + offset):
            rewritten(entry, seq=seq)
    rechained(stream)


def _entries(stream: Any) -> list[LedgerEntry]:
    return list(LedgerEntry.objects.filter(stream=str(stream)).order_by("seq"))


def _one_taken_out(history: History) -> None:
    entries = _entries(history.accepted)
    gone = entries.pop(2)
    ledger_tampering.execute(f"DELETE FROM {TABLE} WHERE id = %s", [gone.pk])  # noqa: S608
    _numbered(str(history.accepted), entries)


def _one_put_in(history: History) -> None:
    entries = _entries(history.accepted)
    with transaction.atomic():
        forged = entries[2]
        forged.pk, forged.seq, forged.actor = None, BEYOND, "user:1"
        forged.save(force_insert=True)
    entries = _entries(history.accepted)
    _numbered(str(history.accepted), [*entries[:2], entries[-1], *entries[2:-1]])


def _two_swapped(history: History) -> None:
    entries = _entries(history.accepted)
    entries[1], entries[2] = entries[2], entries[1]
    _numbered(str(history.accepted), entries)


def _moved_to_another_flow(history: History) -> None:
    entries, others = _entries(history.accepted), _entries(history.overridden)
    moved = entries.pop(2)
    rewritten(moved, stream=str(history.overridden), seq=BEYOND)
    moved.stream = str(history.overridden)
    moved.body = LedgerEntry.objects.get(pk=moved.pk).body
    _numbered(str(history.accepted), entries)
    _numbered(str(history.overridden), [*others, moved])


def _words(history: History) -> None:
    """Other words in an entry of which no row repeats anything."""
    entry = LedgerEntry.objects.filter(stream="system", kind="system:stopped").latest("id")
    said = canonical.decode(bytes(entry.body))["payload"]
    rewritten(entry, payload=said | {"reason": "sabotage"})
    rechained("system")


def _kind_of_an_entry(history: History) -> None:
    entry = _entries(history.aborted)[-1]
    rewritten(entry, kind="flow:aborted")
    rechained(str(history.aborted))


def _key_began_earlier(history: History) -> None:
    entry = LedgerEntry.objects.get(kind="signing_key:begun")
    rewritten(entry, at="2020-01-01T00:00:00.000000Z")
    rechained(entry.stream)


def _key_never_began(history: History) -> None:
    entry = LedgerEntry.objects.get(kind="signing_key:begun")
    ledger_tampering.execute(f"DELETE FROM {TABLE} WHERE id = %s", [entry.pk])  # noqa: S608
    _numbered(entry.stream, _entries(entry.stream))


def _begun_in_its_place(signer: Signer) -> None:
    """The entry that began the ledger's key begins another key, signed by that."""
    entry = LedgerEntry.objects.get(kind="signing_key:begun")
    public_key, origin = base64.b64encode(signer.public_key).decode(), Tree.objects.get().origin
    signed = keys.statement(origin=origin, key_id=signer.key_id, public_key=public_key, previous="")
    begun = {"key_id": signer.key_id, "public_key": public_key, "signature": signer.sign(signed).hex()}
    rewritten(entry, payload=canonical.decode(bytes(entry.body))["payload"] | begun)
    rechained(entry.stream)


def _signed_by(signer: Signer) -> Callable[[History], None]:
    """The whole tree made anew and signed by a key."""

    def change(history: History) -> None:
        with mock.patch.object(signing, "signer", return_value=signer):
            tree_tampering.seal_anew()

    return change


def _anew_with_a_key_of_its_own(history: History) -> None:
    _begun_in_its_place(tree_tampering.STRANGER)
    _signed_by(tree_tampering.STRANGER)(history)


def _forged_checkpoint(history: History) -> None:
    """A signed statement that the log is another, beside the honest ones."""
    last = Checkpoint.objects.order_by("-id")[0]
    said = notes.Checkpoint(Tree.objects.get().origin, last.size, b"\x07" * 32, last.at)
    signer = signing.signer()
    note = notes.sign(said, public_key=signer.public_key, sign=signer.sign)
    Checkpoint.objects.create(size=said.size, root=said.root, at=said.time, key_id=signer.key_id, note=note)


def _one_checkpoint_gone(*, with_heads: bool) -> Case:
    def change(history: History) -> None:
        stops.stop_agent(tenant="default", agent_id="analyst", actor="user:1", reason="for now")
        sealing.seal_now(with_heads=with_heads)
        stops.stop_all(tenant="default", actor="user:1", reason="for now")
        sealing.seal_now()
        middle = Checkpoint.objects.order_by("-id")[1]
        ledger_tampering.quietly("DELETE FROM audit_checkpoint WHERE id = %s", [middle.pk])

    return change


def _all_but_the_newest_gone(history: History) -> None:
    stops.stop_all(tenant="default", actor="user:1", reason="for now")
    sealing.seal_now(with_heads=True)
    newest = Checkpoint.objects.order_by("-id")[0]
    ledger_tampering.quietly("DELETE FROM audit_checkpoint WHERE id <> %s", [newest.pk])


def _all_checkpoints_gone(history: History) -> None:
    ledger_tampering.quietly("DELETE FROM audit_checkpoint")


def _cut_after_its_end_was_signed(history: History) -> Signed | None:
    """The ends of all streams are signed, then the last entry of one is cut off with its head."""
    sealing.seal_now(with_heads=True)
    kept = proofs.latest()
    tamper_cases.CASES["last entry of a flow, and its head"](history)
    return kept


def _ends_forgotten(history: History) -> Signed | None:
    sealing.seal_now(with_heads=True)
    kept = proofs.latest()
    ledger_tampering.quietly("DELETE FROM audit_headpage")
    return kept


def _older_backup(history: History) -> Signed | None:
    """What was signed after a backup is gone with the restore; only the kept note has seen it."""
    before = transaction.savepoint()
    stops.stop_all(tenant="default", actor="user:1", reason="after the backup")
    sealing.seal_now()
    kept = proofs.latest()
    transaction.savepoint_rollback(before)
    return kept


def _older_note(history: History) -> Signed | None:
    """The kept checkpoint is from before; nothing was changed."""
    kept = proofs.latest()
    stops.stop_all(tenant="default", actor="user:1", reason="drill")
    sealing.seal_now()
    return kept


# --- Triggers -----------------------------------------------------------------------------------------------

_LITE = "audit_entry_no_delete"
_POST = "audit_entry_no_change"
_REFUSE = "BEGIN SELECT RAISE(ABORT, 'ledger entries are append only'); END"
_WAYS: Mapping[str, Mapping[str, list[str]]] = {
    "sqlite": {
        "dropped": [f"DROP TRIGGER {_LITE}"],
        "off": [
            f"DROP TRIGGER {_LITE}",
            f"CREATE TRIGGER {_LITE} BEFORE DELETE ON {TABLE} BEGIN SELECT 1; END",
        ],
        "some": [
            f"DROP TRIGGER {_LITE}",
            f"CREATE TRIGGER {_LITE} BEFORE DELETE ON {TABLE} WHEN OLD.id < 0 {_REFUSE}",
        ],
        "queue": [
            "DROP TRIGGER audit_entry_queued",
            f"CREATE TRIGGER audit_entry_queued AFTER INSERT ON {TABLE} BEGIN SELECT 1; END",
        ],
        "leaf": ["DROP TRIGGER audit_leaf_no_update"],
    },
    "postgresql": {
        "dropped": [f"DROP TRIGGER {_POST} ON {TABLE}"],
        "off": [f"ALTER TABLE {TABLE} DISABLE TRIGGER {_POST}"],
        "some": [
            f"CREATE OR REPLACE TRIGGER {_POST} BEFORE UPDATE OR DELETE ON {TABLE} "
            "FOR EACH ROW WHEN (OLD.id < 0) EXECUTE FUNCTION audit_refuse_change()"
        ],
        "queue": [
            "CREATE OR REPLACE FUNCTION audit_queue_entry() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN NULL; END $$"
        ],
        "leaf": ["DROP TRIGGER audit_leaf_no_change ON audit_leaf"],
    },
}


def _trigger(way: str) -> Callable[[History], None]:
    def change(history: History) -> None:
        with connection.cursor() as cursor:
            for statement in _WAYS[connection.vendor][way]:
                cursor.execute(statement)

    return change


# --- With the stolen key ------------------------------------------------------------------------------------


def _sealed_anew(*cases: Callable[[History], Any]) -> Callable[[History], None]:
    def change(history: History) -> None:
        for case in cases:
            case(history)
        tree_tampering.seal_anew()

    return change


def _another_approver_in_everything(history: History) -> None:
    """Decision, entries, records, chain and head say that somebody else decided, all of it signed."""
    old = f"user:{User.objects.get(username='olivia').pk}".encode()
    new = f"user:{User.objects.get(username='sam').pk}".encode()
    swaps = _decision_rewritten(history, old, new)
    head, has_decided = b"", False
    for entry in _entries(history.aborted):
        has_decided |= entry.kind == "escalation:decided"
        said = canonical.decode(bytes(entry.body))
        if has_decided:
            said = canonical.decode(_replaced(bytes(entry.body), swaps))
        if entry.kind == "record:emitted" and has_decided:
            row = DecisionRecord.objects.get(dfid=history.aborted, seq=entry.seq - 1)
            head, written = _record_rewritten(row, swaps, head)
            said["payload"] |= written
        elif entry.kind == "record:emitted":
            head = said["payload"]["record_hash"].encode()
        rewritten(entry, actor=said["actor"], payload=said["payload"])
    rechained(str(history.aborted))
    sql = (
        "UPDATE audit_recordterm SET value = %s WHERE value = %s AND record IN "
        "(SELECT id FROM audit_decisionrecord WHERE dfid = %s)"
    )
    key = history.aborted.hex if connection.vendor == "sqlite" else str(history.aborted)
    ledger_tampering.quietly(sql, [new.decode(), old.decode(), key])


def _decision_rewritten(history: History, old: bytes, new: bytes) -> dict[bytes, bytes]:
    row = Decision.objects.get(escalation__flow_id=history.aborted)
    before = bytes(row.statement)
    statement = before.replace(old, new)
    signature = signing.signer().sign(statement)
    approver = User.objects.get(username="sam")
    Decision.objects.filter(pk=row.pk).update(approver=approver, statement=statement, signature=signature)
    return {
        old: new,
        canonical.digest(before).encode(): canonical.digest(statement).encode(),
        bytes(row.signature).hex().encode(): signature.hex().encode(),
    }


def _record_rewritten(
    row: DecisionRecord, swaps: Mapping[bytes, bytes], prev_hash: bytes
) -> tuple[bytes, dict[str, str]]:
    record = canonical.decode(_replaced(bytes(row.body), swaps))
    record.pop("audit")
    signer = signing.signer()
    whole = fold.sealed(record, prev_hash=prev_hash.decode(), key_id=signer.key_id)
    body = canonical.encode(whole)
    signature, digest = signer.sign(dsse.statement(body)), whole["audit"]["record_hash"]
    ledger_tampering.execute(
        "UPDATE audit_decisionrecord SET body = %s, record_hash = %s, prev_hash = %s, signature = %s "
        "WHERE id = %s",
        [body, bytes.fromhex(digest), bytes.fromhex(prev_hash.decode()), signature, row.pk],
    )
    return digest.encode(), {"record_hash": digest, "signature": signature.hex()}


def _replaced(held: bytes, swaps: Mapping[bytes, bytes]) -> bytes:
    pattern = b"|".join(rb"\b" + re.escape(before) + rb"\b" for before in swaps)
    return re.sub(pattern, lambda found: swaps[found[0]], held)


CASES: Mapping[str, Case] = {
    "entry: one taken out, numbers, chain and head made anew": _one_taken_out,
    "entry: one put in, numbers, chain and head made anew": _one_put_in,
    "entry: two swapped, chain and head made anew": _two_swapped,
    "entry: moved to another flow, both chains made anew": _moved_to_another_flow,
    "entry: words that no row repeats, chain and head made anew": _words,
    "entry: kind, chain and head made anew": _kind_of_an_entry,
    "signing key: began earlier, chain and head made anew": _key_began_earlier,
    "signing key: its beginning taken out": _key_never_began,
    "tree: made anew, signed by a new key that nobody vouches for": _signed_by(tree_tampering.STRANGER),
    "tree: made anew, signed by a key that takes the place of the first": _anew_with_a_key_of_its_own,
    "checkpoint: over other entries, with the stolen key": _forged_checkpoint,
    "checkpoint: one of several gone": _one_checkpoint_gone(with_heads=False),
    "checkpoint: the one of the signed ends gone": _one_checkpoint_gone(with_heads=True),
    "checkpoint: all gone but the newest": _all_but_the_newest_gone,
    "checkpoint: all gone": _all_checkpoints_gone,
    "stream: cut after its end was signed": _cut_after_its_end_was_signed,
    "stream: the signed ends gone": _ends_forgotten,
    "backup: an older one restored": _older_backup,
    "kept checkpoint: an older one, nothing changed": _older_note,
    "trigger: dropped": _trigger("dropped"),
    "trigger: switched off": _trigger("off"),
    "trigger: lets some changes through": _trigger("some"),
    "trigger: puts nothing in line for the tree": _trigger("queue"),
    "trigger: of the leaves dropped": _trigger("leaf"),
    "stolen key: words of an entry, all made anew": _sealed_anew(_words),
    "stolen key: another approver in everything, all made anew": _sealed_anew(
        _another_approver_in_everything
    ),
}

"""The tree over the ledger: what is committed gets its leaf, and every checkpoint says what the tree is."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, connection, transaction

from audit import ledger
from audit.events import SystemResumed, SystemStopped
from audit.models import Checkpoint, Leaf, LedgerEntry, Tile, Tree, UnsealedEntry
from audit.sealing import keys, merkle, proofs, sealer
from audit.sealing.sealer import Refusal, Sealed
from audit.sealing.tiles import WIDTH, TileError, Tiles
from audit.signing import LocalSigner
from tests.audit.sealing.test_merkle import naive_root
from tests.support import ledger_tampering

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def append(stream: str = "drill", *, count: int = 1, at: datetime = AT) -> None:
    ledger.append_to(
        tenant="default",
        stream=stream,
        actor="system",
        at=at,
        events=[SystemStopped(reason=f"drill {number}") for number in range(count)],
    )


def seal(at: datetime = AT) -> Sealed:
    with transaction.atomic():
        return sealer.seal(tenant="default", now=lambda: at)


def seal_all(at: datetime = AT) -> int:
    leaves = 0
    while True:
        sealed = seal(at)
        leaves += sealed.leaves
        if sealed.is_done:
            return leaves


def signed_sizes() -> list[int]:
    """The sizes that were signed, but for the empty tree, which always is first."""
    sizes = list(Checkpoint.objects.order_by("id").values_list("size", flat=True))
    assert sizes[:1] == [0]
    return sizes[1:]


def hashes() -> Sequence[bytes]:
    """The hashes of all entries, in the order of their leaves."""
    by_id = {pk: bytes(entry_hash) for pk, entry_hash in LedgerEntry.objects.values_list("id", "hash")}
    return [by_id[pk] for pk in Leaf.objects.order_by("index").values_list("entry_id", flat=True)]


def test_every_entry_waits_for_the_tree_from_its_own_transaction_on() -> None:
    append(count=3)
    assert set(UnsealedEntry.objects.values_list("entry_id", flat=True)) == set(
        LedgerEntry.objects.values_list("id", flat=True)
    )
    with transaction.atomic():
        append(count=2)
        transaction.set_rollback(True)
    assert UnsealedEntry.objects.count() == LedgerEntry.objects.count() == 3


def test_sealing_gives_each_entry_one_leaf_and_signs_the_root_of_them_all() -> None:
    append(count=3)
    append("other", count=2)
    assert seal() == Sealed(leaves=6, is_done=True)  # and the entry that begins the key
    assert not UnsealedEntry.objects.exists()
    assert list(Leaf.objects.order_by("index").values_list("index", flat=True)) == list(range(6))
    signed = proofs.latest()
    assert signed is not None
    assert (signed.checkpoint.size, signed.checkpoint.root) == (6, naive_root(hashes()))
    assert signed.checkpoint.origin == Tree.objects.get().origin
    (key,) = keys.known(tenant="default")
    assert keys.signer_of(signed, [key]) == key


def test_a_stream_keeps_its_order_in_the_tree() -> None:
    for _ in range(3):
        append("one", count=2)
        append("two", count=2)
    seal_all()
    places = dict(Leaf.objects.values_list("entry_id", "index"))
    for stream in ("one", "two"):
        rows = LedgerEntry.objects.filter(stream=stream).order_by("seq").values_list("id", flat=True)
        in_order = [places[pk] for pk in rows]
        assert in_order == sorted(in_order)


@pytest.mark.parametrize("sizes", [(1, 2, 3), (WIDTH - 2, 1, 1, 1), (WIDTH + 3, WIDTH, 5)])
def test_the_tree_grows_over_its_tiles_as_the_definition_says(sizes: Sequence[int]) -> None:
    for number, size in enumerate(sizes):
        append(f"s{number}", count=size)
        seal_all()
        assert proofs.root_at(Tree.objects.get().size) == naive_root(hashes())
    for size in (1, sizes[0], sum(sizes)):
        assert proofs.root_at(size) == naive_root(hashes()[:size])


def test_many_entries_are_sealed_in_batches_and_signed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer, "BATCH", 4)
    append(count=10)
    assert seal() == Sealed(leaves=4, is_done=False)
    assert not signed_sizes()
    assert seal_all() == 7
    assert signed_sizes() == [11]


def test_what_is_added_unsigned_is_signed_by_the_next_call_that_signs() -> None:
    sealed: list[int] = []
    append(count=2)
    with transaction.atomic():
        added = sealer.seal(tenant="default", now=lambda: AT, is_signed=False, on_sealed=sealed.extend)
    assert (added.leaves, added.is_done, signed_sizes()) == (3, True, [])
    assert sealed == list(Leaf.objects.order_by("index").values_list("entry_id", flat=True))
    with transaction.atomic():
        assert sealer.seal(tenant="default", now=lambda: AT, is_signed=False) == Sealed()
    assert sealer.is_due(AT)
    assert seal() == Sealed()
    assert signed_sizes() == [3]
    assert not sealer.is_due(AT)


def test_an_idle_ledger_is_signed_again_only_after_a_heartbeat() -> None:
    append()
    seal()
    assert seal(AT + sealer.HEARTBEAT - timedelta(seconds=1)) == Sealed()
    assert signed_sizes() == [2]
    seal(AT + sealer.HEARTBEAT)
    assert signed_sizes() == [2, 2]
    assert Checkpoint.objects.latest("id").at == AT + sealer.HEARTBEAT


def test_a_clock_that_was_set_back_signs_no_earlier_time() -> None:
    append()
    seal()
    append()
    seal(AT - timedelta(hours=1))
    assert signed_sizes() == [2, 3]
    assert set(Checkpoint.objects.values_list("at", flat=True)) == {AT}


def test_every_entry_is_proved_under_the_root_that_was_signed() -> None:
    append(count=WIDTH + 5)
    seal_all()
    signed = proofs.latest()
    assert signed is not None
    for seq in (1, 2, WIDTH, WIDTH + 1, WIDTH + 5):
        proof = proofs.inclusion(tenant="default", stream="drill", seq=seq)
        assert proof is not None
        assert merkle.verify_inclusion(
            leaf_hash=merkle.hash_leaf(proof.entry_hash),
            index=proof.index,
            size=signed.checkpoint.size,
            proof=proof.hashes,
            root=signed.checkpoint.root,
        )
    append("late")
    assert proofs.inclusion(tenant="default", stream="late", seq=1) is None
    assert proofs.inclusion(tenant="default", stream="drill", seq=1, size=0) is None
    assert proofs.inclusion(tenant="default", stream="nowhere", seq=1) is None


def test_a_later_tree_is_proved_to_begin_with_an_earlier_one() -> None:
    roots = {}
    for number in range(3):
        append(f"s{number}", count=100 + number)
        seal_all()
        size = Tree.objects.get().size
        roots[size] = naive_root(hashes())
    first, second, third = roots
    for one, other in ((first, second), (first, third), (second, third), (third, third)):
        proof = proofs.consistency(from_size=one, to_size=other)
        assert proof is not None
        assert merkle.verify_consistency(
            from_size=one, to_size=other, from_root=roots[one], to_root=roots[other], proof=proof
        )
    assert proofs.consistency(from_size=second, to_size=first) is None
    assert proofs.consistency(from_size=first, to_size=third + 1000) is None
    assert proofs.root_at(third + 1000) is None
    assert proofs.root_at(-1) is None


def test_damaged_tiles_are_made_anew_from_the_entries() -> None:
    append(count=WIDTH + 3)
    seal_all()
    tile = Tile.objects.get(level=0, number=1)
    Tile.objects.filter(pk=tile.pk).update(hashes=bytes(len(bytes(tile.hashes))))
    Tile.objects.filter(level=1).delete()
    append("more")
    assert seal().leaves == 1
    assert proofs.root_at(Tree.objects.get().size) == naive_root(hashes())


def rewritten(entry: LedgerEntry) -> None:
    other = hashlib.sha256(bytes(entry.hash)).digest()
    ledger_tampering.quietly("UPDATE audit_ledgerentry SET hash = %s WHERE id = %s", [other, entry.pk])


def test_nothing_is_signed_over_entries_that_are_not_those_that_were_signed() -> None:
    append(count=3)
    seal()
    rewritten(LedgerEntry.objects.get(stream="drill", seq=2))
    Tile.objects.all().delete()
    append("more")
    assert seal() == Sealed(refusal=Refusal.TREE_DIFFERS)
    assert signed_sizes() == [4]
    assert UnsealedEntry.objects.count() == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_checkpoint SET root = %s",
        "UPDATE audit_checkpoint SET note = replace(note, 'time 2026', 'time 2027')",
        "DELETE FROM audit_checkpoint",
    ],
)
def test_nothing_is_signed_after_a_checkpoint_that_was_changed(statement: str) -> None:
    append(count=3)
    seal()
    ledger_tampering.quietly(statement, [bytes(32)] if "%s" in statement else [])
    append("more")
    assert seal() == Sealed(refusal=Refusal.TREE_DIFFERS)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_leaf SET entry_id = entry_id + 1000",
        "DELETE FROM audit_leaf",
        "UPDATE audit_checkpoint SET size = 0",
        "DELETE FROM audit_checkpoint",
    ],
)
def test_the_database_refuses_to_change_leaves_and_checkpoints(statement: str) -> None:
    append(count=3)
    seal()
    with (
        pytest.raises(DatabaseError, match="append only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


def test_the_first_key_begins_with_an_entry_that_it_signs_itself() -> None:
    seal()
    (key,) = keys.known(tenant="default")
    assert (key.since, key.until, key.is_vouched_for) == (AT, None, True)
    assert Leaf.objects.count() == LedgerEntry.objects.filter(kind="signing_key:begun").count() == 1


def test_a_key_that_was_rotated_to_is_vouched_for_and_ends_the_one_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seal()
    new = LocalSigner(b"n" * 32)
    with transaction.atomic():
        keys.rotate_to(new, tenant="default", origin=Tree.objects.get().origin, actor="system", at=AT)
    first, second = keys.known(tenant="default")
    assert (first.until, second.key_id, second.is_vouched_for) == (AT + keys.OVERLAP, new.key_id, True)
    # The old key still signs while processes are restarted, and then no longer.
    assert seal(AT + timedelta(hours=1)).refusal is None
    append()
    assert seal(AT + keys.OVERLAP).refusal == Refusal.KEY_ENDED
    monkeypatch.setattr("audit.signing.signer", lambda: new)
    assert seal(AT + keys.OVERLAP).refusal is None
    newest = proofs.latest()
    assert newest is not None
    assert keys.signer_of(newest, [first]) is None
    assert keys.signer_of(newest, [first, second]) == second


def test_a_key_that_nobody_vouches_for_is_known_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    seal()
    monkeypatch.setattr("audit.signing.signer", lambda: LocalSigner(b"x" * 32))
    append()
    assert seal(AT + timedelta(hours=1)).refusal is None
    first, second = keys.known(tenant="default")
    assert first.until == second.since + keys.OVERLAP
    assert (first.is_vouched_for, second.is_vouched_for) == (True, False)


def test_a_tile_that_is_missing_or_too_short_is_reported() -> None:
    append(count=3)
    seal()
    with pytest.raises(TileError, match="is missing"):
        Tiles().read(0, WIDTH)
    with pytest.raises(TileError, match="is too short"):
        Tiles().read(0, 100)
    ledger_tampering.quietly('DELETE FROM audit_leaf WHERE "index" = 0')
    with pytest.raises(TileError, match="is missing"):
        sealer.rebuild()


def test_what_is_due_is_known_without_a_lock() -> None:
    assert sealer.is_due(AT)
    seal()
    assert not sealer.is_due(AT)
    assert sealer.is_due(AT + sealer.HEARTBEAT)
    ledger.append_to(
        tenant="default", stream="system", actor="system", at=AT, events=[SystemResumed(reason="drill")]
    )
    assert sealer.is_due(AT)

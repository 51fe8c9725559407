"""The ends of all streams under a checkpoint: each is proved, and a stream that was cut is named."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from audit import canonical, ledger
from audit.events import SystemStopped
from audit.models import Checkpoint, HeadPage, LedgerEntry
from audit.sealing import heads, merkle, notes, proofs, sealer
from audit.verification import verify
from audit.verification.tree_check import TreeCheck
from tests.audit.sealing.test_merkle import naive_root
from tests.support import ledger_tampering

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def append(stream: str, *, count: int = 1) -> None:
    stopped = [SystemStopped(reason=f"drill {number}") for number in range(count)]
    ledger.append_to(tenant="default", stream=stream, actor="system", at=AT, events=stopped)


def seal(at: datetime = AT) -> notes.Checkpoint:
    """Seal everything, and commit to the ends of the streams."""
    with transaction.atomic():
        assert sealer.seal(tenant="default", now=lambda: at).is_done
        ends = heads.gather(verify.stored_heads())
        assert sealer.seal(tenant="default", now=lambda: at, ends=ends).is_done
    newest = proofs.latest()
    assert newest is not None
    return newest.checkpoint


def is_proved(proof: dict[str, Any]) -> bool:
    """What a stranger does with it."""
    said = notes.read(proof["checkpoint"]).checkpoint
    assert said.heads is not None
    return merkle.verify_inclusion(
        leaf_hash=merkle.hash_leaf(canonical.encode(proof["head"])),
        index=proof["index"],
        size=said.heads.count,
        proof=[bytes.fromhex(each) for each in proof["proof"]],
        root=said.heads.root,
    )


@pytest.mark.parametrize(
    "streams", [1, 2, heads.WIDTH - 1, heads.WIDTH, heads.WIDTH + 1, 2 * heads.WIDTH + 44]
)
def test_the_end_of_every_stream_is_proved(streams: int) -> None:
    names = [f"s{number:04}" for number in range(streams)]
    for number, name in enumerate(names):
        append(name, count=1 + number % 2)
    said = seal()
    assert said.heads is not None
    assert said.heads.count == streams + 1  # and the stream of the system, in which the key begins
    lines = [line for line, _ in heads.committed()]
    assert said.heads.root == naive_root(lines)
    for number in {0, 1, streams // 2, streams - 1} & set(range(streams)):
        proof = proofs.head(tenant="default", stream=names[number])
        assert proof is not None
        last = LedgerEntry.objects.filter(stream=names[number]).order_by("-seq")[0]
        assert (proof["head"]["seq"], proof["head"]["hash"]) == (last.seq, bytes(last.hash).hex())
        assert is_proved(proof)
        assert not is_proved({**proof, "head": {**proof["head"], "seq": last.seq - 1}})
    assert list(TreeCheck("default").run()) == []


def test_a_stream_that_came_later_has_no_proof_until_the_next_commitment() -> None:
    append("one")
    assert proofs.head(tenant="default", stream="one") is None
    seal()
    append("later")
    assert proofs.head(tenant="default", stream="later") is None
    assert proofs.head(tenant="another", stream="one") is None
    seal(AT + timedelta(hours=1))
    proof = proofs.head(tenant="default", stream="later")
    assert proof is not None
    assert is_proved(proof)


def test_a_commitment_is_due_once_an_hour() -> None:
    assert heads.are_due(AT)
    seal()
    assert not heads.are_due(AT + heads.EVERY - timedelta(seconds=1))
    assert heads.are_due(AT + heads.EVERY)


def test_a_stream_that_was_cut_after_the_commitment_is_named_with_its_missing_entry() -> None:
    append("cut", count=3)
    append("whole", count=3)
    seal()
    ledger_tampering.quietly("DELETE FROM audit_ledgerentry WHERE stream = 'cut' AND seq = 3")
    found = [item for item in TreeCheck("default").run() if item.fault == "TRUNCATED"]
    assert [(item.stream, item.seq) for item in found] == [("cut", 3)]


@pytest.mark.parametrize(
    "change",
    [
        lambda: HeadPage.objects.update(checkpoint_id=Checkpoint.objects.order_by("id")[0].pk),
        lambda: HeadPage.objects.update(checkpoint_id=999),
        lambda: HeadPage.objects.update(lines=b"{}"),
        lambda: HeadPage.objects.update(lines=b"nothing"),
        lambda: HeadPage.objects.filter(number=1).delete(),
        lambda: HeadPage.objects.filter(number=0).update(checkpoint_id=1),
    ],
)
def test_changed_pages_are_found_and_prove_nothing(change: Any) -> None:
    for number in range(heads.WIDTH + 4):
        append(f"s{number:04}")
    seal()
    change()
    assert "CHECKPOINT_MISMATCH" in {item.fault for item in TreeCheck("default").run()}
    proof = proofs.head(tenant="default", stream="s0000")
    assert proof is None or HeadPage.objects.count() == 2


def test_an_empty_ledger_has_no_ends() -> None:
    ends = heads.gather([("default", "empty", 0, bytes(32))])
    assert (ends.pages, ends.commitment) == ([], notes.Heads(0, merkle.EMPTY_ROOT))

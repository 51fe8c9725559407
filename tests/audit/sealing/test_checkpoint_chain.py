"""Each checkpoint names the one before it, and says why it comes late: so none is taken out unseen."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from audit import signing
from audit.models import Checkpoint
from audit.packs import verify
from audit.sealing import notes, sealer
from audit.sealing.notes import Resumed
from audit.verification import findings
from runtime.core import clock
from runtime.maintenance.services import sealing
from runtime.stops.services import stops
from tests.support import ledger_tampering

pytestmark = pytest.mark.django_db
MINUTES = timedelta(minutes=1)
Pass = Callable[[timedelta], None]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Pass:
    began = clock.now()
    return lambda after: monkeypatch.setattr(clock, "now", lambda: began + after)


def beats(passes: Pass, count: int) -> None:
    """A heartbeat a minute, as an idle server signs them."""
    for number in range(count):
        passes(number * MINUTES)
        sealing.seal_now()


def found() -> list[str]:
    return [item.detail for item in findings.verify_all().findings]


def of(signed: Checkpoint) -> notes.Checkpoint:
    return notes.read(signed.note).checkpoint


def test_each_names_the_one_before(passes: Pass) -> None:
    beats(passes, 4)
    rows = [of(row) for row in Checkpoint.objects.order_by("id")]
    assert len(rows) > 3
    assert [row.previous for row in rows] == [sealer.NO_CHECKPOINT, *(row.digest() for row in rows[:-1])]
    assert (found(), findings.verify_all().not_verified) == ([], ())


@pytest.mark.parametrize("keeps", [lambda ids: ids[-1:], lambda ids: [ids[0], *ids[3:]], lambda ids: ids[1:]])
def test_one_that_is_gone_is_found(passes: Pass, keeps: Callable[[list[int]], list[int]]) -> None:
    beats(passes, 6)
    kept = keeps(list(Checkpoint.objects.order_by("id").values_list("id", flat=True)))
    marks = ", ".join(["%s"] * len(kept))
    ledger_tampering.quietly(f"DELETE FROM audit_checkpoint WHERE id NOT IN ({marks})", kept)  # noqa: S608
    assert any("is missing, or is not the one that it names" in detail for detail in found())


def test_a_silence_is_found_unless_its_signer_says_why(passes: Pass, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was down says that it started, one that stalled is told, and no word is a finding."""
    beats(passes, 2)
    monkeypatch.setattr(sealer, "_signed_by", set())
    passes(60 * MINUTES)
    stops.stop_all(tenant="default", actor="user:1", reason="for now")
    sealing.seal_now()
    assert of(Checkpoint.objects.latest("id")).resumed is Resumed.START
    assert (found(), findings.verify_all().not_verified) == ([], ())
    passes(120 * MINUTES)
    sealing.seal_now()
    assert of(Checkpoint.objects.latest("id")).resumed is Resumed.STALL
    assert found() == []
    (told,) = findings.verify_all().not_verified
    assert told.startswith("the server was up and signed no checkpoint between ")
    passes(180 * MINUTES)
    monkeypatch.setattr(sealer, "SILENCE", timedelta(days=1))
    sealing.seal_now()
    monkeypatch.undo()
    (detail,) = found()
    assert detail.endswith("does not say why")


def test_checkpoints_of_older_versions_are_read_and_followed(passes: Pass) -> None:
    beats(passes, 3)
    for row in Checkpoint.objects.order_by("id"):
        old = of(row)
        plain = notes.Checkpoint(old.origin, old.size, old.root, old.time, old.heads)
        note = notes.sign(plain, public_key=signing.signer().public_key, sign=signing.signer().sign)
        ledger_tampering.quietly("UPDATE audit_checkpoint SET note = %s WHERE id = %s", [note, row.pk])
    assert found() == []
    passes(3 * MINUTES)
    sealing.seal_now()
    assert found() == []
    # From then on one without the line is a finding: nobody can go back.
    _, newest = Checkpoint.objects.order_by("id").reverse()[:2][::-1]
    said = of(newest)
    assert said.previous is not None
    later = notes.Checkpoint(said.origin, said.size, said.root, said.time)
    note = notes.sign(later, public_key=signing.signer().public_key, sign=signing.signer().sign)
    forged: dict[str, Any] = {
        "size": said.size,
        "root": said.root,
        "at": said.time,
        "key_id": newest.key_id,
        "note": note,
    }
    Checkpoint.objects.create(**forged)
    assert any("does not say which one came before it" in detail for detail in found())


def test_the_offline_verifier_reads_the_same_lines() -> None:
    for heads in (None, notes.Heads(3, bytes(32))):
        for previous, resumed in ((None, None), (bytes(range(32)), None), (bytes(32), Resumed.STALL)):
            made = notes.Checkpoint("dir-console/x", 5, bytes(32), clock.now(), heads, previous, resumed)
            note = notes.sign(made, public_key=signing.signer().public_key, sign=signing.signer().sign)
            assert notes.read(note).checkpoint == made
            assert verify.read_note(note.encode()).previous == previous
    broken = note.replace("resumed STALL", "resumed LATER")
    for read in (lambda: notes.read(broken), lambda: verify.read_note(broken.encode())):
        with pytest.raises(ValueError):  # noqa: PT011  # each has its own class
            read()

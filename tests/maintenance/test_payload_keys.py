"""`manage.py payload_keys`: rotating the keys of payloads and replacing the key that wraps them."""

import base64
import io
import secrets
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from audit import ledger
from audit.models import ClassKey, LedgerEntry, Payload
from audit.payload_cipher import State
from audit.verification.verify import Whole, verify_database
from runtime.maintenance.services import payload_rotation
from tests.support import racing

TENANT = "default"
WORDS = b'"only for the eyes of some"'


def run(*given: str) -> str:
    out = StringIO()
    call_command("payload_keys", *given, stdout=out, stderr=StringIO())
    return out.getvalue()


def commit(data_class: str = "people", count: int = 1) -> list[str]:
    with transaction.atomic():
        return ledger.commit_payloads(tenant=TENANT, data_class=data_class, bodies=[WORDS] * count)


def rewrap(old: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(old + "\n"))
    return run("rewrap", "--old-key-stdin")


def another_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def all_cells() -> bytes:
    with connection.cursor() as cursor:
        cursor.execute("SELECT content, salt, nonce FROM audit_payload")
        cells = [bytes(cell) for row in cursor.fetchall() for cell in row if cell is not None]
        cursor.execute("SELECT wrapped FROM audit_classkey")
        return b"".join([*cells, *(bytes(cell) for (cell,) in cursor.fetchall() if cell is not None)])


@pytest.mark.django_db
def test_a_rotation_moves_every_payload_of_its_class_and_leaves_commitments() -> None:
    kept, other = commit(count=3), commit("receipts")
    clear = commit("parameters")
    Payload.objects.filter(commitment__in=clear).update(key=None, nonce=None, content=WORDS)
    assert WORDS[1:-1] in all_cells()
    before = dict(Payload.objects.values_list("commitment", "salt"))
    first = ClassKey.objects.get(data_class="people")
    assert "3 payloads were encrypted anew" in run("rotate", "people")
    assert "in clear: 1 payloads" in run("list")
    rows = Payload.objects.filter(commitment__in=kept)
    (key,) = {row.key_id for row in rows}
    assert key != first.pk
    assert Payload.objects.get(commitment=other[0]).key_id == ClassKey.objects.get(data_class="receipts").pk
    entry = LedgerEntry.objects.get(kind="payload_key:rotated")
    assert entry.stream == "system"
    assert entry.payload == {
        "data_class": "people",
        "retired_key_id": str(first.pk),
        "key_id": str(key),
        "reason_commitment": None,
    }
    # New payloads are under the new key at once, and those from before encryption under `parameters`.
    assert Payload.objects.get(commitment=commit()[0]).key_id == key
    run("rotate", "--all")
    assert dict(Payload.objects.filter(commitment__in=before).values_list("commitment", "salt")) == before
    assert {row.body for row in Payload.objects.all()} == {WORDS}
    row = Payload.objects.get(commitment=clear[0])
    assert row.key is not None
    assert row.key.data_class == "parameters"
    assert WORDS[1:-1] not in all_cells()
    told = run("list")
    assert "in clear: 0 payloads" in told
    assert f"{first.pk}  retired" in told
    assert isinstance(verify_database(), Whole)


@pytest.mark.django_db
def test_what_does_not_open_stays_under_its_key() -> None:
    (kept,) = commit()
    Payload.objects.filter(commitment=kept).update(nonce=bytes(12))
    assert "1 payloads cannot be opened" in run("rotate", "people")
    row = Payload.objects.get(commitment=kept)
    assert row.key is not None
    assert row.key.retired_at is not None
    assert row.open().state is State.BROKEN


@pytest.mark.once
def test_after_a_rotation_the_file_itself_has_no_words(real_db: str) -> None:
    kept = commit("parameters", count=50)
    Payload.objects.filter(commitment__in=kept).update(key=None, nonce=None, content=WORDS)

    def files() -> bytes:
        return b"".join(path.read_bytes() for path in Path(real_db).parent.glob(f"{Path(real_db).name}*"))

    assert WORDS in files()
    assert "50 payloads were encrypted anew" in run("rotate", "parameters")
    assert WORDS not in files()
    assert {row.body for row in Payload.objects.all()} == {WORDS}


class KilledError(BaseException):
    """In place of the end of the process: no code between may catch it."""


def test_killed_in_the_middle_it_goes_on_where_it_stopped(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(count=5)
    monkeypatch.setattr(payload_rotation, "AT_ONCE", 2)

    def killed(done: payload_rotation.Moved) -> None:
        raise KilledError

    payload_rotation.begin(tenant=TENANT, data_class="people", actor="system")
    with pytest.raises(KilledError):
        payload_rotation.move(tenant=TENANT, classes=["people"], after=killed)
    assert Payload.objects.exclude(key__retired_at=None).count() == 3
    assert {row.body for row in Payload.objects.all()} == {WORDS}
    assert "3 payloads were encrypted anew" in run("rotate", "people", "--resume")
    assert ClassKey.objects.count() == 2
    assert "0 payloads were encrypted anew" in run("rotate", "people", "--resume")
    assert {row.body for row in Payload.objects.all()} == {WORDS}


def test_a_rotation_beside_readers_writers_and_an_erasure_loses_nothing(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = commit(count=40)
    gone = kept[::4]
    monkeypatch.setattr(payload_rotation, "AT_ONCE", 5)

    def rotate() -> list[str]:
        run("rotate", "people")
        return []

    def write() -> list[str]:
        return [racing.patiently(lambda: commit()[0]) for _ in range(10)]

    def read() -> list[str]:
        for _ in range(10):
            for row in Payload.objects.filter(commitment__in=kept):
                assert row.open().state in {State.HELD, State.ERASED}
        return []

    def erase() -> list[str]:
        for commitment in gone:
            racing.patiently(lambda name=commitment: call_command("erase_payload", name, "--reason", "x"))  # type: ignore[misc]
        return []

    answers = racing.all_at_once([rotate, write, read, erase, rotate])
    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    run("rotate", "people", "--resume")
    written = [name for answer in answers if isinstance(answer, list) for name in answer]
    assert len(written) == 10
    rows = {row.commitment: row.open() for row in Payload.objects.all()}
    assert {name for name, opened in rows.items() if opened.state is State.ERASED} == set(gone)
    assert {rows[name].body for name in {*kept, *written} - set(gone)} == {WORDS}
    assert ClassKey.objects.filter(retired_at=None).count() == 1
    assert not Payload.objects.filter(erased_at=None).exclude(key__retired_at=None).exists()
    assert isinstance(verify_database(), Whole)


@pytest.mark.django_db
def test_the_key_of_the_installation_is_replaced_without_touching_payloads(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(), commit("receipts")
    cells = list(Payload.objects.order_by("pk").values_list("key", "nonce", "content"))
    old, settings.DIR_PAYLOAD_KEY = settings.DIR_PAYLOAD_KEY, another_key()
    assert {row.open().state for row in Payload.objects.all()} == {State.SEALED}
    with pytest.raises(CommandError, match="the old key is not the one that wraps the key"):
        rewrap(another_key(), monkeypatch)
    with pytest.raises(CommandError, match="must be the base64 form of 32 bytes"):
        rewrap("", monkeypatch)
    assert not LedgerEntry.objects.filter(kind="payload_key:rewrapped").exists()
    assert rewrap(old, monkeypatch) == "2 keys are wrapped anew\n"
    assert {row.body for row in Payload.objects.all()} == {WORDS}
    assert list(Payload.objects.order_by("pk").values_list("key", "nonce", "content")) == cells
    assert LedgerEntry.objects.get(kind="payload_key:rewrapped").payload["keys"] == 2
    assert rewrap(old, monkeypatch) == "0 keys are wrapped anew\n"
    settings.DIR_PAYLOAD_KEY = old
    assert {row.open().state for row in Payload.objects.all()} == {State.SEALED}


@pytest.mark.django_db
@pytest.mark.once
def test_without_its_key_nothing_is_rotated(settings: Any) -> None:
    commit()
    settings.DIR_PAYLOAD_KEY = another_key()
    with pytest.raises(CommandError, match="DIR_PAYLOAD_KEY is not the key"):
        run("rotate", "people")
    assert ClassKey.objects.get().retired_at is None

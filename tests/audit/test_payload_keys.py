"""Payloads are stored encrypted, under the key of their class, and bound to their commitments."""

import base64
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction

from audit import ledger, payload_keys
from audit.events import Kind
from audit.models import ClassKey, LedgerEntry, Payload
from audit.payload_cipher import PayloadKeyError, State
from audit.verification import findings
from dir_console import env

AT = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = b'"only for the eyes of some"'


def _commit(body: bytes = WORDS, data_class: str = "people") -> Payload:
    commitment = ledger.commit_payload(tenant="default", data_class=data_class, body=body)
    return Payload.objects.get(commitment=commitment)


def _another_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


@pytest.mark.django_db
def test_a_payload_is_stored_encrypted_and_opens() -> None:
    row, other = _commit(), _commit(data_class="receipts")
    assert row.body == other.body == WORDS
    assert row.key != other.key
    assert row.nonce != _commit().nonce
    with connection.cursor() as cursor:
        cursor.execute("SELECT content, salt, nonce FROM audit_payload")
        cells = [bytes(cell) for cells in cursor.fetchall() for cell in cells]
        cursor.execute("SELECT wrapped FROM audit_classkey")
        cells += [bytes(cell) for cells in cursor.fetchall() for cell in cells]
    assert len(cells) == 11
    assert not any(b"eyes" in cell for cell in cells)


@pytest.mark.django_db
def test_no_cell_of_a_payload_can_be_changed_or_moved() -> None:
    row, other = _commit(), _commit(b'"other"')
    content = bytes(row.content or b"")
    changes = {
        "content": bytes([content[0] ^ 1]) + content[1:],
        "nonce": bytes(12),
        "key": _commit(data_class="receipts").key,
        "commitment": other.commitment,
    }
    for name, value in changes.items():
        changed = Payload.objects.get(pk=row.pk)
        setattr(changed, name, value)
        assert changed.open().state is State.BROKEN, name
    row.nonce, row.content = other.nonce, other.content
    assert row.open().state is State.BROKEN


@pytest.mark.django_db
def test_a_changed_wrapped_key_opens_nothing_and_is_not_written_with() -> None:
    row = _commit()
    wrapped = bytes(ClassKey.objects.get().wrapped or b"")
    ClassKey.objects.update(wrapped=wrapped[:-1] + bytes([wrapped[-1] ^ 1]))
    assert Payload.objects.get(pk=row.pk).open().state is State.BROKEN
    with pytest.raises(PayloadKeyError, match="was changed"):
        _commit()


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["none", _another_key()], ids=["without a key", "with another key"])
def test_without_its_key_a_payload_is_sealed_and_none_is_written(settings: Any, key: str) -> None:
    row = _commit()
    settings.DIR_PAYLOAD_KEY = key
    assert Payload.objects.get(pk=row.pk).open().state is State.SEALED
    with pytest.raises(PayloadKeyError, match="DIR_PAYLOAD_KEY"):
        _commit()


@pytest.mark.django_db
def test_a_payload_from_before_is_read_in_clear() -> None:
    row = _commit()
    Payload.objects.filter(pk=row.pk).update(key=None, nonce=None, content=WORDS)
    assert Payload.objects.get(pk=row.pk).body == WORDS


def test_the_key_in_use_is_asked_for_once(real_db: str, django_assert_num_queries: Any) -> None:
    with transaction.atomic():
        _commit()
        transaction.set_rollback(True)
    # The key went with the transaction that began it.
    assert not ClassKey.objects.exists()
    with transaction.atomic():
        kept = _commit()
    with transaction.atomic(), django_assert_num_queries(0):
        held = payload_keys.in_use(tenant="default", data_class="people", at=AT)
    assert held is not None
    assert held.key_id == kept.key_id


@pytest.mark.once
@pytest.mark.parametrize("given", ["short", base64.b64encode(b"x" * 31).decode(), "*" * 44])
def test_a_bad_key_stops_the_start(given: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DIR_PAYLOAD_KEY", given)
    with pytest.raises(ImproperlyConfigured, match="DIR_PAYLOAD_KEY must hold"):
        env.payload_key(tmp_path)


@pytest.mark.once
def test_production_makes_up_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DIR_PAYLOAD_KEY", "DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    made = env.payload_key(tmp_path)
    assert env.payload_key(tmp_path) == made
    monkeypatch.setenv("DATABASE_URL", "postgres://somebody@db/console")
    monkeypatch.setenv("REDIS_URL", "redis://redis")
    assert env.payload_key(tmp_path) == ""


@pytest.mark.django_db
def test_an_installation_that_was_given_no_key_goes_on_in_clear_and_is_warned(settings: Any) -> None:
    assert not payload_keys.check_given()
    settings.DIR_PAYLOAD_KEY = ""
    [warned] = payload_keys.check_given()
    assert "in clear" in warned.msg
    row = _commit()
    assert (row.key_id, bytes(row.content or b""), row.body) == (None, WORDS, WORDS)


@pytest.mark.django_db
@pytest.mark.parametrize("data_class", ["people", "findings"])
def test_an_installation_that_has_lost_its_key_does_not_go_on_in_clear(
    settings: Any, data_class: str
) -> None:
    _commit(data_class="people")
    settings.DIR_PAYLOAD_KEY = ""
    with pytest.raises(PayloadKeyError, match="DIR_PAYLOAD_KEY"):
        _commit(data_class=data_class)


def test_a_check_without_the_key_counts_what_it_does_not_open(real_db: str, settings: Any) -> None:
    assert not LedgerEntry.objects.filter(kind=Kind.PAYLOAD_ERASED).exists()
    with transaction.atomic():
        row = _commit()
    settings.DIR_PAYLOAD_KEY = "none"
    result = findings.verify_all()
    assert (result.payloads, result.sealed) == (0, 1)
    assert any("sealed, not opened" in words for words in result.not_verified)
    assert not any("cannot be opened" in found.detail for found in result.findings)
    settings.DIR_PAYLOAD_KEY = env.payload_key(settings.DATA_DIR)
    Payload.objects.filter(pk=row.pk).update(nonce=bytes(12))
    assert any("cannot be opened" in found.detail for found in findings.verify_all().findings)

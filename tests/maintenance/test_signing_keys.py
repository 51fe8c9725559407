"""Another signing key: vouched for by the one before it, which no longer counts some time later."""

import base64
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from audit import signing
from audit.models import LedgerEntry
from audit.sealing import keys, proofs
from audit.verification import findings
from dir_console import env
from runtime.epochs.services import epochs
from runtime.maintenance.services import sealing
from tests.support import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder whose key is the one in use, which no variable gives."""
    # Where production would be recognised, no key is made in a folder.
    for name in ("DIR_SIGNING_KEY", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(settings, "DATA_DIR", tmp_path)
    monkeypatch.setattr(settings, "DIR_SIGNING_KEY", env.signing_key(tmp_path))
    monkeypatch.setattr(signing, "signer", signing.signer.__wrapped__)
    return tmp_path


def rotate() -> str:
    printed = StringIO()
    call_command("rotate_signing_key", stdout=printed, stderr=StringIO())
    return printed.getvalue()


def restart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "DIR_SIGNING_KEY", env.signing_key(folder))


@pytest.fixture
def olivia() -> User:
    return factories.user("olivia")


def test_the_file_of_the_data_folder_is_replaced_and_stays_private(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signing.signer().key_id
    assert rotate() == ""
    place = folder / "signing_key"
    assert place.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["signing_key"]
    restart(folder, monkeypatch)
    first, second = keys.known(tenant="default")
    assert (first.key_id, second.key_id) == (before, signing.signer().key_id)
    assert second.is_vouched_for


def test_a_key_from_the_environment_is_printed_for_its_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIR_SIGNING_KEY", settings.DIR_SIGNING_KEY)
    seed = base64.b64decode(rotate().strip(), validate=True)
    assert keys.known(tenant="default")[-1].key_id == signing.LocalSigner(seed).key_id


def test_what_the_old_key_signed_is_still_verified(
    folder: Path, monkeypatch: pytest.MonkeyPatch, olivia: User
) -> None:
    desk = factories.desk()
    factories.decide(desk.escalate(), olivia)
    sealing.seal_now()
    rotate()
    restart(folder, monkeypatch)
    factories.decide(desk.escalate(), olivia)
    sealing.seal_now()
    newest = proofs.latest()
    assert newest is not None
    assert keys.signer_of(newest, keys.known(tenant="default")[1:]) is not None
    result = findings.verify_all()
    assert [item for item in result.findings if item.fault == "SIGNATURE_WRONG"] == []
    assert result.not_verified == ()


def test_a_key_that_has_ended_seals_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sealing.seal_now()
    rotate()
    monkeypatch.setattr(keys, "OVERLAP", timedelta(0))
    before = findings.verify_all().checkpoints
    assert sealing.seal_now() == 0
    assert findings.verify_all().checkpoints == before
    restart(folder, monkeypatch)
    assert sealing.seal_now() == 1


def test_a_decision_by_a_key_that_had_ended_is_a_finding(
    folder: Path, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = factories.desk()
    escalation = desk.escalate()
    rotate()
    monkeypatch.setattr(keys, "OVERLAP", timedelta(0))
    factories.decide(escalation, olivia)
    found = [item for item in findings.verify_all().findings if item.fault == "SIGNATURE_WRONG"]
    # The statement, and the record of what it came to.
    assert [item.stream for item in found] == [str(escalation.flow_id)] * 2


def test_a_key_that_was_changed_by_hand_is_said_to_be_vouched_for_by_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealing.seal_now()
    (folder / "signing_key").unlink()
    restart(folder, monkeypatch)
    factories.desk()
    sealing.seal_now()
    result = findings.verify_all()
    words = f"the key {signing.signer().key_id}: the key before it has not signed that it begins"
    assert words in result.not_verified
    assert not [item for item in result.findings if item.fault == "SIGNATURE_WRONG"]


def test_a_full_disk_begins_no_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: str) -> Path:
        raise OSError("No space left on device")

    monkeypatch.setattr(env, "draft_secret_file", full)
    with pytest.raises(CommandError, match="The key was not changed: No space left"):
        rotate()
    assert not LedgerEntry.objects.filter(kind="signing_key:begun").exists()


def test_no_key_begins_while_a_restored_backup_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "refuse_while_recovering", lambda: epochs.WAITING)
    with pytest.raises(CommandError, match="restored from a backup"):
        rotate()
    assert [path.name for path in folder.iterdir()] == ["signing_key"]

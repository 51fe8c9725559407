"""`manage.py payload_keys destroy`: what is under a retired key is erased with it, and checks say so."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from audit import erased_keys, ledger
from audit.models import ClassKey, LedgerEntry, Payload
from audit.verification import findings
from runtime.core import clock
from runtime.maintenance.models import LegalHold
from runtime.maintenance.services import payload_destruction
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import NotReplayable
from tests.support import finished_history, hold_story, key_story, worlds
from tests.support.finished_history import History

TENANT = "default"
history = worlds.opened(finished_history.opened)


def run(*given: str) -> str:
    out = StringIO()
    call_command("payload_keys", *given, stdout=out, stderr=StringIO())
    return out.getvalue()


def destroy(key: ClassKey, *more: str) -> str:
    return run("destroy", key.data_class, str(key.pk), "--reason", "nobody needs Kowalczyk", *more)


@pytest.mark.django_db
def test_after_a_destruction_every_check_says_erased(history: History) -> None:
    before = findings.verify_all()
    assert before.findings == []
    key = key_story.retired("parameters")
    under = list(Payload.objects.filter(key=key).values_list("commitment", flat=True))
    assert len(under) > 3
    assert f"{len(under)} payloads erased" in destroy(key, "--dry-run")
    assert Payload.objects.filter(key=key, erased_at=None).count() == len(under)
    assert f"{len(under)} payloads erased" in run("destroy", "parameters", "--retired", "--reason", "old")
    key.refresh_from_db()
    assert key.wrapped is None
    assert key.destroyed_at is not None
    rows = Payload.objects.filter(commitment__in=under)
    assert {(row.key_id, row.salt, row.content, row.nonce) for row in rows} == {(key.pk, None, None, None)}
    entry = LedgerEntry.objects.get(kind="payload_key:destroyed")
    assert entry.stream == "system"
    assert entry.payload["commitments_digest"] == erased_keys.digest_of(under)
    assert entry.payload["payloads"] == len(under)
    after = findings.verify_all()
    assert after.findings == []
    assert after.erased == before.erased + len(under)
    replayed = flow_replay.replay(tenant=TENANT, dfid=history.accepted)
    assert isinstance(replayed, NotReplayable), replayed
    assert (1, "trigger_commitment") in replayed.erased
    with pytest.raises(CommandError, match="was destroyed already"):
        destroy(key)


@pytest.mark.django_db
def test_the_reason_is_not_in_the_ledger() -> None:
    ledger.commit_payload(tenant=TENANT, data_class="receipts", body=b'"x"')
    destroy(key_story.retired("receipts"))
    entry = LedgerEntry.objects.get(kind="payload_key:destroyed")
    assert b"Kowalczyk" not in bytes(entry.body)
    assert (
        Payload.objects.get(commitment=entry.payload["reason_commitment"]).body == b'"nobody needs Kowalczyk"'
    )


@pytest.mark.django_db
def test_an_entry_covers_only_what_was_erased_with_the_key() -> None:
    other = ledger.commit_payload(tenant=TENANT, data_class="people", body=b'"other"')
    gone = ledger.commit_payload(tenant=TENANT, data_class="receipts", body=b'"x"')
    key = key_story.retired("receipts")

    def found() -> str:
        return " ".join(item.detail for item in findings.verify_all().findings)

    def covered(*, is_compared: bool = True) -> set[str]:
        return erased_keys.find_covered(tenant=TENANT, commitments=[other, gone], is_compared=is_compared)

    destroy(key)
    assert "erased" not in found()
    assert covered() == {gone}
    # Somebody empties another payload and says that it was under that key.
    Payload.objects.filter(commitment=other).update(
        key=key, nonce=None, salt=None, content=None, erased_at=clock.now()
    )
    assert f"other payloads were erased with the key {key.pk}" in found()
    assert covered() == set()
    assert covered(is_compared=False) == {gone, other}
    other_key = ClassKey.objects.get(data_class="people", retired_at=None)
    Payload.objects.filter(commitment=other).update(key=other_key)
    assert "erased without an erasure entry" in found()
    assert covered(is_compared=False) == {gone}
    ClassKey.objects.filter(pk=other_key.pk).update(
        wrapped=None, retired_at=clock.now(), destroyed_at=clock.now()
    )
    assert "the key was destroyed without an entry" in found()
    ClassKey.objects.filter(pk=key.pk).update(wrapped=bytes(60), destroyed_at=None)
    assert f"the key {key.pk} is there again" in found()


@pytest.mark.django_db
def test_a_key_that_may_still_be_written_with_is_kept() -> None:
    row = Payload.objects.get(
        commitment=ledger.commit_payload(tenant=TENANT, data_class="people", body=b'"x"')
    )
    assert row.key is not None
    with pytest.raises(CommandError, match="is in use: rotate the class people first"):
        destroy(row.key)
    key = key_story.retired("people", ago=payload_destruction.GRACE - timedelta(seconds=30))
    assert key.retired_at is not None
    may = f"{key.retired_at + payload_destruction.GRACE:%Y-%m-%d %H:%M:%S} UTC"
    with pytest.raises(CommandError, match=f"It can be destroyed from {may} on"):
        destroy(key)
    assert "retired" in run("rotate", "people", "--key-only")
    assert Payload.objects.get(pk=row.pk).key_id == key.pk
    with pytest.raises(CommandError, match="has no key"):
        run("destroy", "receipts", str(key.pk), "--reason", "x")
    with pytest.raises(CommandError, match="Give a reason"):
        run("destroy", "people", "--retired", "--reason", " ")
    assert Payload.objects.get(pk=row.pk).body == b'"x"'


@pytest.mark.django_db
def test_a_legal_hold_keeps_the_keys_of_its_payloads(history: History) -> None:
    hold_story.place(history.accepted)
    reasons = key_story.retired("people")
    key = key_story.retired("parameters")
    for held, words in ((key, f"A payload of the flow {history.accepted}"), (reasons, "legal hold")):
        with pytest.raises(CommandError, match=words):
            destroy(held)
    assert not Payload.objects.filter(key__in=[key, reasons]).exclude(erased_at=None).exists()
    # A rotation that is carried to its end takes them out from under the key, which then may go.
    run("rotate", "parameters", "--resume")
    assert "0 payloads erased" in destroy(key)
    for hold in LegalHold.objects.filter(released_at=None):
        hold_story.release(hold)
    assert "is destroyed" in destroy(reasons)
    assert findings.verify_all().findings == []

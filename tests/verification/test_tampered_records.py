"""Decision records: each way to change them in the database is found and named."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from audit.models import DecisionRecord, LedgerEntry
from audit.verification import findings
from tests.support import finished_history, ledger_tampering, worlds
from tests.support.finished_history import History

history = worlds.opened(finished_history.opened)


@pytest.fixture
def undone(history: History, django_db_blocker: Any) -> Iterator[History]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield history
        transaction.set_rollback(True)


def test_every_record_follows_from_its_entries(undone: History) -> None:
    assert findings.verify_all().findings == []
    emitted = LedgerEntry.objects.filter(kind="record:emitted").count()
    assert emitted == DecisionRecord.objects.count() > 10


def test_a_checkpoint_without_its_record_is_found(undone: History) -> None:
    """The last entry of a flow is that of its record, and both are gone; chain and head are made anew."""
    stream = str(undone.aborted)
    last = LedgerEntry.objects.filter(stream=stream).order_by("-seq")[0]
    assert last.kind == "record:emitted"
    ledger_tampering.execute("DELETE FROM audit_ledgerentry WHERE id = %s", [last.pk])
    ledger_tampering.execute("DELETE FROM audit_decisionrecord WHERE seq = %s", [last.seq - 1])
    ledger_tampering.rechain(stream)
    ledger_tampering.put_triggers_back()
    said = [item.detail for item in findings.verify_all().findings]
    assert f"the decision record after entry {last.seq - 1} is missing" in said

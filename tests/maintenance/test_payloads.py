"""Erasing what is kept beside the chain, from the command line."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from audit import ledger, queries
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.core import transactions

pytestmark = pytest.mark.django_db
TENANT = "default"


def erase(commitment: str, *, reason: str = "asked for") -> str:
    out = StringIO()
    call_command("erase_payload", commitment, "--reason", reason, stdout=out)
    return out.getvalue()


def test_what_is_erased_is_gone_and_the_ledger_says_why_and_stays_whole() -> None:
    gone = ledger.commit_payload(tenant=TENANT, data_class="people", body=b'"personal"')
    assert erase(gone, reason=" asked for ") == "erased\n"
    assert queries.list_texts(tenant=TENANT, commitments=[gone]) == {}
    entry = LedgerEntry.objects.get(kind="payload:erased")
    assert (entry.stream, entry.actor) == ("system", "system")
    assert entry.payload == {"commitment": gone, "reason": "asked for"}
    assert isinstance(verify_database(), Whole)


def test_nothing_is_erased_twice() -> None:
    gone = ledger.commit_payload(tenant=TENANT, data_class="people", body=b'"personal"')
    erase(gone)
    for commitment in (gone, "0" * 64):
        with pytest.raises(CommandError, match="No payload is stored under this commitment"):
            erase(commitment)
    assert LedgerEntry.objects.filter(kind="payload:erased").count() == 1


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "a\x00b"])
def test_a_reason_is_needed(reason: str) -> None:
    kept = ledger.commit_payload(tenant=TENANT, data_class="people", body=b'"personal"')
    with pytest.raises(CommandError, match="Give a reason"):
        erase(kept, reason=reason)
    assert queries.list_texts(tenant=TENANT, commitments=[kept]) == {kept: "personal"}


def test_a_busy_database_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(work: Any) -> None:
        raise transactions.BusyError

    monkeypatch.setattr(transactions, "retry_on_conflict", busy)
    with pytest.raises(CommandError, match="nothing was erased"):
        erase("0" * 64)

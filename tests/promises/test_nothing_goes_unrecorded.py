"""A change and its entry are one transaction; refusals are entries too, and no entry can be touched."""

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from audit import ledger
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.flows.models import Flow, Intent, Proposal
from tests.support.api_client import Caller
from tests.support.end_to_end import Console, hello

pytestmark = pytest.mark.django_db


def kinds(stream: str) -> list[str]:
    return list(LedgerEntry.objects.filter(stream=stream).order_by("seq").values_list("kind", flat=True))


def test_a_decision_is_in_the_stream_of_its_flow(desk: Console) -> None:
    verdict = desk.propose()
    desk.work()
    found = kinds(verdict["dfid"])
    for kind in ("flow:opened", "proposal:submitted", "verdict:given", "intent:created", "outcome:recorded"):
        assert kind in found
    assert isinstance(verify_database(), Whole)


def test_a_refusal_is_an_entry(desk: Console) -> None:
    assert desk.propose(quantity=90)["verdict"] == "REJECT"
    Caller(desk.key).post("/handshake", hello(agent_id="somebody-else")).problem(403, "UNAUTHORIZED")
    assert LedgerEntry.objects.filter(kind="request:refused").exists()


def test_what_cannot_be_written_to_the_ledger_does_not_happen(
    desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    dfid = desk.open()
    body, before = desk.body(dfid), Flow.objects.get(pk=dfid).version

    def fail(**named: object) -> None:
        raise OSError("the ledger cannot be written")

    monkeypatch.setattr(ledger, "append", fail)
    assert desk.send(dfid, body).status == 500
    assert (Proposal.objects.count(), Intent.objects.count()) == (0, 0)
    assert Flow.objects.get(pk=dfid).version == before


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_ledgerentry SET actor = 'me'", "DELETE FROM audit_ledgerentry"]
)
def test_an_entry_can_be_neither_changed_nor_removed(desk: Console, statement: str) -> None:
    desk.propose()
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert isinstance(verify_database(), Whole)

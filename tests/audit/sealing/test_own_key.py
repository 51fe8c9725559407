"""A process that was not restarted after a rotation signs for a day, and then nothing more."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import signing
from audit.models import DecisionRecord, LedgerEntry
from audit.sealing import keys, own_key
from audit.signing import LocalSigner
from audit.verification import findings
from escalations.contracts import Action
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.flows.models import Flow, Intent
from runtime.maintenance.services import sealing
from tests.support import api_client, factories, trading_desk

pytestmark = pytest.mark.django_db
NEW = LocalSigner(b"n" * 32)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[timedelta], None]]:
    """Lets time pass since a rotation by another process, which this one learns of."""
    sealing.seal_now()
    assert sealing.rotate_key(NEW, actor="user:1") is None
    own_key.forget()
    began: datetime = clock.now()
    yield lambda after: monkeypatch.setattr(clock, "now", lambda: began + after)
    own_key.forget()


def test_the_end_is_asked_for_once(passed: Callable[[timedelta], None]) -> None:
    at = clock.now()

    def ask() -> None:
        own_key.signer(tenant="default", at=at)

    ask()
    with CaptureQueriesContext(connection) as captured:
        ask()
    assert len(captured) == 0


def test_records_are_signed_until_the_end_and_not_after(passed: Callable[[timedelta], None]) -> None:
    """The whole action is refused, and stores nothing; the new key goes on."""
    api_client.load_pack()
    trader = api_client.session()
    passed(keys.OVERLAP - MINUTE)
    trader = api_client.session()
    dfid = trader.open_flow()
    trader.propose(dfid, api_client.proposal("unknown")).ok()
    passed(keys.OVERLAP + MINUTE)
    records, entries = DecisionRecord.objects.count(), LedgerEntry.objects.filter(stream=dfid).count()
    problem = trader.propose(dfid, api_client.proposal("unknown")).problem(503, "SIGNING_KEY_ENDED")
    assert "Restart the server" in problem["detail"]
    assert DecisionRecord.objects.count() == records
    assert LedgerEntry.objects.filter(stream=dfid).count() == entries
    assert findings.verify_all().findings == []
    signing.signer.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signing, "signer", lambda: NEW)
        trader.propose(dfid, api_client.proposal("unknown")).ok()
        assert DecisionRecord.objects.count() == records + 1
        assert findings.verify_all().findings == []


def test_no_decision_is_signed_and_no_call_begins(passed: Callable[[timedelta], None]) -> None:
    desk = factories.desk()
    escalation = desk.escalate()
    buyer = trading_desk.open_desk()
    intent = buyer.accept()
    passed(keys.OVERLAP - MINUTE)
    # Its result might come when nothing can be recorded any more.
    with pytest.raises(own_key.KeyEndedError):
        attempting.attempt(intent, owner="w")
    assert Intent.objects.get(pk=intent).attempts == 0
    passed(keys.OVERLAP)
    with pytest.raises(own_key.KeyEndedError, match="DIR_SIGNING_KEY"):
        factories.decide(escalation, factories.user("olivia"), Action.ABORT)
    assert Flow.objects.get(pk=escalation.flow_id).state == "ESCALATED"

"""verify_ledger on signed statements: rewritten ones are found, and those of an unknown key are named."""

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from audit import signing
from audit.verification import findings, row_checks
from escalations.contracts import Action
from escalations.models import EffectStatement, Escalation
from escalations.row_checks import EscalationRowCheck
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Effect
from tests.escalations.test_left_in_doubt import state
from tests.escalations.test_replacing import called
from tests.support import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def stated(olivia: User) -> Escalation:
    """A call that was aborted in doubt, and stated later."""
    escalation = called(factories.desk(), "UNKNOWN", Reason.IN_DOUBT)
    factories.decide(escalation, olivia, Action.ABORT)
    state(escalation, olivia, Effect.HAPPENED)
    return escalation


def found() -> list[str]:
    return [item.detail for item in findings.verify_all().findings if item.stream != "system"]


def of_statement() -> list[str]:
    return [detail for detail in found() if "effect" in detail or "signature" in detail]


def test_a_key_that_is_not_held_here_is_named(stated: Escalation, monkeypatch: pytest.MonkeyPatch) -> None:
    old = signing.signer()
    assert findings.verify_all().not_verified == ()
    monkeypatch.setattr(signing, "signer", lambda: signing.LocalSigner(b"7" * 32))
    assert of_statement() == []
    unknown = [
        f"{what}, key {old.key_id} unknown here" for what in ("4 decision records", "2 signed statements")
    ]
    assert list(findings.verify_all().not_verified) == unknown
    # A signature that was rewritten is a finding whoever holds the key: the entry has it too.
    EffectStatement.objects.update(signature=bytes(64))
    assert [detail.split(" is ")[0] for detail in of_statement()] == ["signature"]


def test_the_command_says_it(stated: Escalation, monkeypatch: pytest.MonkeyPatch) -> None:
    old = signing.signer()
    monkeypatch.setattr(signing, "signer", lambda: signing.LocalSigner(b"7" * 32))
    monkeypatch.setattr(row_checks, "all_checks", _only_escalations)
    printed = StringIO()
    call_command("verify_ledger", stdout=StringIO(), stderr=printed)
    assert f"Not verified: 2 signed statements, key {old.key_id} unknown here." in printed.getvalue()


def _only_escalations() -> list[Any]:
    return [EscalationRowCheck()]


def test_a_statement_of_the_effect_is_compared_both_ways(stated: Escalation, olivia: User) -> None:
    assert of_statement() == []
    row = EffectStatement.objects.get()
    EffectStatement.objects.update(effect="NOT_HAPPENED")
    assert of_statement() == ["effectstatement.effect is NOT_HAPPENED, but the ledger recorded HAPPENED"]
    EffectStatement.objects.update(effect="HAPPENED", approver=factories.user("mara"))
    assert [detail.split(" is ")[0] for detail in of_statement()] == ["effectstatement.approver"]
    EffectStatement.objects.update(approver=olivia)
    row.pk, row.sequence, row.statement = None, 2, b"{}"
    row.save(force_insert=True)
    assert of_statement() == [f"no entry records the statement of the effect on {stated.pk}"]
    EffectStatement.objects.all().delete()
    assert of_statement() == ["the statement of the effect is missing"]

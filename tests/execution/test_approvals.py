"""Obligations in the claim: what a person approved is called only while the signed decision proves it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from escalations.contracts import Action
from escalations.models import Decision
from runtime.contracts.problem import Problem
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent
from tests.support import api_client, factories, gate_cases, ledger_tampering, misbehaving_targets

pytestmark = pytest.mark.django_db
LESS = {**gate_cases.PARAMS, "quantity": 2, "notional_cents": 37_900}


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as running:
        yield running


def approved(target: misbehaving_targets.StandIn, action: Action = Action.OVERRIDE) -> Intent:
    """The intent that a person made of an escalated proposal."""
    factories.configure_target(base_url=target.base_url)
    params: dict[str, Any] = {"params": LESS} if action is Action.MODIFY else {}
    answer = factories.decide(factories.desk().escalate(), factories.user(), action, **params)
    assert not isinstance(answer, Problem), answer
    return Intent.objects.get()


def forge_signature() -> None:
    Decision.objects.update(signature=b"\x00" * 64)


def forge_words() -> None:
    row = Decision.objects.get()
    Decision.objects.update(statement=bytes(row.statement).replace(b"OVERRIDE", b"MODIFY"))


def forge_approver() -> None:
    Decision.objects.update(approver=factories.user("mallory"))


def remove_decision() -> None:
    Decision.objects.all().delete()


def remove_entry() -> None:
    ledger_tampering.execute("DELETE FROM audit_ledgerentry WHERE kind = 'escalation:decided'")


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY])
def test_what_a_person_signed_is_called(target: misbehaving_targets.StandIn, action: Action) -> None:
    intent = approved(target, action)
    assert attempting.attempt(intent.pk, owner="w").status is AttemptStatus.SUCCEEDED
    assert len(target.seen) == 1


@pytest.mark.parametrize(
    ("forge", "row"),
    [
        (forge_signature, "decision.signature"),
        (forge_words, "decision.statement"),
        (forge_approver, "decision.approver"),
        (remove_decision, "decision"),
        (remove_entry, "decision"),
    ],
)
def test_without_the_decision_as_it_was_signed_nothing_is_called(
    target: misbehaving_targets.StandIn, forge: Callable[[], None], row: str
) -> None:
    intent = approved(target)
    forge()
    done = attempting.attempt(intent.pk, owner="w")
    assert (done.status, done.detail) == (AttemptStatus.BLOCKED, "APPROVAL_UNPROVED")
    assert target.seen == []
    told = LedgerEntry.objects.get(kind="row:mismatched").payload
    assert told["row"] == row


def test_the_answer_and_the_contract_list_obligations_and_codes(target: misbehaving_targets.StandIn) -> None:
    intent = approved(target)
    given = LedgerEntry.objects.filter(kind="verdict:given", stream=str(intent.flow_id)).order_by("seq")
    first, second = (entry.payload for entry in given)
    assert (first["obligations"], first["allowed_by"]) == (["audit_log", "hitl_approval", "limit"], [])
    assert second["obligations"] == ["audit_log", "sign_action", "hitl_approval", "limit"]
    assert "LIMITS_LIFTED" in second["allowed_by"]
    examiner = api_client.Caller(api_client.auditor_key("examiner"))
    shown = examiner.get(f"/audit/contracts/policy_decision/{intent.flow_id}").ok()["result"]
    assert shown["decision"] == "allow"
    assert shown["reason_codes"] == second["allowed_by"]
    assert {item["type"]: item["required"] for item in shown["obligations"]} == {
        "audit_log": True,
        "sign_action": True,
        "hitl_approval": True,
        "redact": False,
        "limit": True,
    }

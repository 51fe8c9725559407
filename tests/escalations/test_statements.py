"""The signed statement: checkable offline with the public key, and by nothing else that was not signed."""

from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from audit import canonical, signing
from audit.models import LedgerEntry
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from runtime.flows.models import Intent
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db

CHANGED = {**gate_cases.PARAMS, "notional_cents": 120_000}


def decided(desk: factories.Desk, account: User, action: Action, **fields: Any) -> Decision:
    """The stored decision on a new escalation."""
    escalation = desk.escalate()
    factories.decide(escalation, account, action, **fields)
    return Decision.objects.get(escalation=escalation)


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.ABORT])
def test_every_decision_verifies_with_the_public_key(
    desk: factories.Desk, olivia: User, action: Action
) -> None:
    row = decided(desk, olivia, action, params=CHANGED)
    key = Ed25519PublicKey.from_public_bytes(signing.signer().public_key)
    key.verify(bytes(row.signature), bytes(row.statement))
    assert row.key_id == signing.signer().key_id
    forged = bytes(row.statement).replace(b'"solo":false', b'"solo":true')
    with pytest.raises(InvalidSignature):
        key.verify(bytes(row.signature), forged)


def test_the_statement_names_all_that_was_decided(desk: factories.Desk, olivia: User) -> None:
    row = decided(desk, olivia, Action.MODIFY, params=CHANGED, conditions=("1 == 1",))
    escalation, intent = Escalation.objects.get(), Intent.objects.get()
    said = canonical.decode(bytes(row.statement))
    nonce = said.pop("nonce")
    assert len(nonce) == 32
    assert said.pop("decided_at").endswith("Z")
    assert said.pop("valid_until").endswith("Z")
    assert said == {
        "type": "dir-console/decision/1",
        "tenant": "default",
        "escalation_id": str(escalation.pk),
        "dfid": str(escalation.flow_id),
        "revision": 1,
        "evidence_hash": escalation.evidence_hash,
        "impact": "LOW_IMPACT",
        "action": "MODIFY",
        "params": CHANGED,
        "conditions": ["1 == 1"],
        "justification": factories.JUSTIFICATION,
        "approver": f"user:{olivia.pk}",
        "solo": False,
        "proposal_id": str(intent.proposal_id),
    }


def test_the_ledger_holds_digest_and_signature_of_the_statement(desk: factories.Desk, olivia: User) -> None:
    row = decided(desk, olivia, Action.ABORT)
    entry = LedgerEntry.objects.get(kind="escalation:decided")
    payload = canonical.decode(bytes(entry.body))["payload"]
    assert entry.actor == f"user:{olivia.pk}"
    assert payload["statement_digest"] == canonical.digest(bytes(row.statement))
    assert payload["signature"] == bytes(row.signature).hex()
    assert payload["key_id"] == row.key_id


def test_two_decisions_never_share_a_statement(desk: factories.Desk, olivia: User) -> None:
    first, second = (decided(desk, olivia, Action.ABORT) for _ in range(2))
    nonces = {canonical.decode(bytes(row.statement))["nonce"] for row in (first, second)}
    assert len(nonces) == 2


def test_without_a_signer_nothing_is_decided(
    desk: factories.Desk, olivia: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = desk.escalate()
    before = decision_rows.state_of(escalation), decision_rows.recorded(escalation)
    settings.DIR_SIGNING_KEY = "gone"
    monkeypatch.setattr(signing, "signer", signing.signer.__wrapped__)
    with pytest.raises(ImproperlyConfigured):
        factories.decide(escalation, olivia)
    assert (decision_rows.state_of(escalation), decision_rows.recorded(escalation)) == before

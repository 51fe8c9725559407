"""The one shape of a proposal: what an agent sends, and what a person makes of it."""

from typing import Any

from audit import canonical
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.proposal import ProposalDocument

NOW_MS = 1_767_225_600_000
# Compared with the credential, the path and the key, or stored beside the document, where it can be erased.
NOT_JUDGED = {"agent_id", "dfid", "explain", "signature"}
SENT: dict[str, Any] = {
    "policy_kind": "ADJUST_POSITION",
    "params": {"symbol": "ACME", "notional_cents": 1},
    "execution_constraints": {"validity_window_sec": 1.5, "max_slippage_bps": 50},
    "policy_version": "1.0.0",
    "context_ref": "c" * 64,
    "confidence": 0.9,
    "explain": "Because.",
    "expected_effects": [{"fact": "position.ACME"}],
    "human_review_required": True,
    "decision_id": "019b7c00-0000-7000-8000-000000000004",
    "agent_id": "trader",
    "dfid": "019b7c00-0000-7000-8000-000000000001",
    "signature": "A" * 86 + "==",
}


def of_agent() -> ProposalDocument:
    return ProposalDocument.from_envelope(
        ProposalEnvelope.model_validate_json(canonical.encode(SENT)),
        proposal_id="p",
        intent_id="i",
        dfid="f",
        tenant="default",
        author="agent:trader",
        received_at_ms=NOW_MS,
        salt="5a17" * 8,
    )


def test_what_an_agent_sends_is_what_is_judged() -> None:
    assert SENT.keys() == ProposalEnvelope.model_fields.keys()
    judged = canonical.decode(of_agent().to_bytes())
    named = SENT.keys() - NOT_JUDGED
    assert {name: judged[name] for name in named} == {name: SENT[name] for name in named}
    assert judged["received_at_ms"] == NOW_MS
    assert judged["valid_until_ms"] == NOW_MS + 1_500
    assert (judged["by_person"], judged["conditions"]) == (False, [])


def test_a_person_keeps_the_action_and_takes_the_authorship() -> None:
    stored = of_agent()
    given: dict[str, Any] = {
        "proposal_id": "q",
        "intent_id": "j",
        "author": "user:7",
        "conditions": ("params.notional_cents < 5",),
        "received_at_ms": NOW_MS + 60_000,
        "salt": "0b5e" * 8,
    }
    of_person = ProposalDocument.from_person(stored, params=None, evidence_hash="e" * 64, **given)
    assert of_person == stored.model_copy(
        update={
            **given,
            "by_person": True,
            "policy_version": None,
            "context_ref": "e" * 64,
            "confidence": None,
            "human_review_required": False,
            "decision_id": None,  # it was the package of the agent
            "valid_until_ms": NOW_MS + 61_500,
        }
    )
    changed = ProposalDocument.from_person(stored, params={"notional_cents": 2}, evidence_hash="", **given)
    assert changed.params == {"notional_cents": 2}

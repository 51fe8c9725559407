"""What is signed of a proposal: all of the call, and of an explanation its digest."""

import hashlib
import json

import pytest

from runtime.contracts import signed_proposal

PROPOSAL = {"policy_kind": "BUY", "params": {"n": 1.0}, "explain": "Naïve.", "signature": "given"}


def signed(**changes: object) -> bytes:
    call = {"agent_id": "trader", "idempotency_key": "k-1", "path": "/api/v1/proposals", "proposal": PROPOSAL}
    return signed_proposal.signed_bytes(**{**call, **changes})  # type: ignore[arg-type]


def test_the_whole_call_is_signed_in_its_canonical_form() -> None:
    digest = hashlib.sha256("Naïve.".encode()).hexdigest()
    said = {"explain_sha256": digest, "params": {"n": 1}, "policy_kind": "BUY"}
    whole = {"agent_id": "trader", "idempotency_key": "k-1", "path": "/api/v1/proposals", "proposal": said}
    assert signed() == json.dumps(whole, separators=(",", ":"), sort_keys=True).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"agent_id": "other"},
        {"idempotency_key": "k-2"},
        {"path": "/api/v1/proposals/batch/0"},
        {"proposal": {**PROPOSAL, "explain": "Other."}},
        {"proposal": {**PROPOSAL, "params": {}}},
        {"proposal": {**PROPOSAL, "confidence": 1}},
    ],
)
def test_another_call_is_other_bytes(changes: dict[str, object]) -> None:
    assert signed(**changes) != signed()


def test_the_signature_itself_is_not_signed() -> None:
    assert signed(proposal={**PROPOSAL, "signature": "another"}) == signed()


def test_without_an_explanation_there_is_no_digest_of_one() -> None:
    assert b"explain" not in signed(proposal={**PROPOSAL, "explain": None})


def test_what_is_kept_is_taken_apart_again() -> None:
    assert signed_proposal.taken_apart(signed_proposal.kept(signed(), "c2ln")) == (signed(), "c2ln")


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"signature":1}', b"{", b"\xff"])
def test_other_bytes_are_no_signed_proposal(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        signed_proposal.taken_apart(body)

"""Proposals where the manifest has a `proposal_key`: taken with a signature by it, and for that call only."""

import base64
import secrets
from typing import Any

import pytest
from dir_console_client.signatures import SigningKey

from audit import canonical, ledger, presenters
from audit.models import LedgerEntry, Payload
from audit.verification import findings
from runtime.contracts import signed_proposal
from runtime.core import agent_signatures, clock
from runtime.flows.models import Flow, Proposal
from runtime.proposals.services import proposal_signatures
from runtime.registry.models import Agent, Manifest
from tests.support import api_client, talking, worlds
from tests.support.api_client import TRADER, Caller

pytestmark = pytest.mark.django_db
_loaded = worlds.shared(api_client.load_pack)
PATH = "/api/v1/proposals"
AT_ONCE: dict[str, Any] = {
    "trigger": "a price moved",
    "context": "current",
    "seen": {"price.AAPL": 1, "market.state": 1},
}


def new_key() -> SigningKey:
    return SigningKey(base64.b64encode(secrets.token_bytes(32)).decode())


@pytest.fixture
def key(_loaded: None, db: None) -> SigningKey:
    key = new_key()
    talking.allow(proposal_key=key.public)
    return key


@pytest.fixture
def trader(key: SigningKey) -> Caller:
    return api_client.session(TRADER)


def signed(key: SigningKey, body: dict[str, Any], *, path: str = PATH, name: str = "k-1") -> dict[str, Any]:
    signature = key.sign(agent_id=TRADER, idempotency_key=name, path=path, proposal=body)
    return {**body, "signature": signature}


def send(trader: Caller, body: dict[str, Any], *, name: str = "k-1") -> Any:
    return trader.post("/proposals", body, {"Idempotency-Key": name})


def at_once(**changes: Any) -> dict[str, Any]:
    return api_client.proposal(**AT_ONCE, **{"explain": "The trend is clear.", **changes})


def entry_of(dfid: str) -> LedgerEntry:
    return LedgerEntry.objects.get(stream=dfid, kind="proposal:submitted")


def test_a_signed_proposal_is_judged_and_its_signature_kept(trader: Caller, key: SigningKey) -> None:
    body = signed(key, at_once())
    verdict = send(trader, body).ok()
    assert verdict["verdict"] == "ACCEPT"
    entry = entry_of(verdict["dfid"])
    assert entry.payload["signed_by"] == agent_signatures.key_id_of(key.public)
    kept = Payload.objects.get(commitment=entry.payload["signature_commitment"])
    said = canonical.decode(bytes(kept.body or b""))
    assert (said["signature"], said["idempotency_key"]) == (body["signature"], "k-1")
    # Parts of an explanation may be replaced before it is stored.
    assert b"The trend" not in bytes(kept.body or b"")
    sentence = presenters.present(entry.kind).sentence(entry.payload)
    assert sentence.endswith(f"signed with its key {entry.payload['signed_by']}.")
    assert send(trader, body).ok() == verdict
    assert findings.verify_all().findings == []


def test_one_in_a_flow_is_signed_for_its_path(trader: Caller, key: SigningKey) -> None:
    dfid = trader.open_flow()
    body = api_client.proposal(trader.context(dfid))
    path = f"/api/v1/flows/{dfid}/proposals"
    trader.propose(dfid, signed(key, body), "k-1").problem(403, "UNAUTHORIZED")
    assert trader.propose(dfid, signed(key, body, path=path), "k-1").ok()["verdict"] == "ACCEPT"


def test_each_of_a_batch_is_signed_for_its_place(trader: Caller, key: SigningKey) -> None:
    bodies = [signed(key, at_once(), path=f"{PATH}/batch/{number}") for number in (0, 1, 1)]
    answers = trader.post("/proposals/batch", {"proposals": bodies}, {"Idempotency-Key": "k-1"}).ok()[
        "answers"
    ]
    assert [answer["status"] for answer in answers] == [200, 200, 403]


@pytest.mark.parametrize(
    "changes",
    [
        {"params": {"symbol": "AAPL", "action": "BUY", "quantity": 9, "notional_cents": 18950}},
        {"confidence": 1},
        {"explain": "A person said yes."},
        {"signature": None},
        {"signature": "A" * 86 + "=="},
        {"delegated_user_id": "usr_1"},
    ],
)
def test_what_was_not_signed_is_refused_and_costs_nothing(
    trader: Caller, key: SigningKey, changes: dict[str, Any]
) -> None:
    sent = {**signed(key, at_once()), **changes}
    refused = send(trader, {name: value for name, value in sent.items() if value is not None})
    assert "proposal_key" in refused.problem(403, "UNAUTHORIZED")["detail"]
    assert not Flow.objects.exists()
    # Nothing was decided under this key, so the right one is.
    assert send(trader, signed(key, at_once())).ok()["verdict"] == "ACCEPT"


def test_a_signature_serves_no_other_call(trader: Caller, key: SigningKey) -> None:
    body = signed(key, at_once())
    send(trader, body).ok()
    send(trader, body, name="k-2").problem(403, "UNAUTHORIZED")
    trader.post("/proposals/batch", {"proposals": [body]}, {"Idempotency-Key": "k-1"}).ok()
    assert Proposal.objects.count() == 1


def test_another_key_signs_nothing(trader: Caller, key: SigningKey) -> None:
    send(trader, signed(new_key(), at_once())).problem(403, "UNAUTHORIZED")


def test_a_signature_of_another_form_is_no_proposal(trader: Caller) -> None:
    send(trader, {**at_once(), "signature": "mine"}).problem(422, "INVALID_REQUEST")


def test_without_a_key_in_the_manifest_a_signature_counts_for_nothing(
    trader: Caller, key: SigningKey
) -> None:
    talking.allow(proposal_key=None)
    verdict = send(trader, signed(new_key(), at_once())).ok()
    assert "signed_by" not in entry_of(verdict["dfid"]).payload


# what `verify_ledger` says of it


def test_a_signature_that_was_let_in_wrongly_is_found(
    trader: Caller, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            agent_signatures,
            "signing_key_of",
            lambda *_, public_key: agent_signatures.key_id_of(public_key),
        )
        send(trader, signed(new_key(), at_once())).ok()
    (found,) = findings.verify_all().findings
    assert "not signed by the key that is named" in found.detail


def test_a_key_that_no_manifest_has_is_found(trader: Caller, key: SigningKey) -> None:
    send(trader, signed(key, at_once())).ok()
    row = Agent.objects.get(agent_id=TRADER).active_manifest
    assert row is not None
    body = canonical.decode(bytes(row.body))
    body["proposal_key"] = new_key().public
    Manifest.objects.filter(pk=row.pk).update(body=canonical.encode(body))
    assert any("no manifest of the agent has" in found.detail for found in findings.verify_all().findings)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"proposal_key":7}'])
def test_a_manifest_that_cannot_be_read_has_no_key_and_its_row_is_named(
    trader: Caller, key: SigningKey, body: bytes
) -> None:
    send(trader, signed(key, at_once())).ok()
    Manifest.objects.filter(agent__agent_id=TRADER).update(body=body)
    details = [found.detail for found in findings.verify_all().findings]
    assert any("no manifest of the agent has" in detail for detail in details)
    assert any("manifest.body" in detail for detail in details)


@pytest.mark.parametrize("body", [b"{", b"[]"])
def test_a_proposal_that_cannot_be_read_is_named_as_such(
    trader: Caller, key: SigningKey, body: bytes
) -> None:
    send(trader, signed(key, at_once())).ok()
    Proposal.objects.update(body=body)
    assert any("proposal.body" in found.detail for found in findings.verify_all().findings)


def test_a_signature_of_another_proposal_is_found(
    trader: Caller, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = signed(key, at_once(params={"symbol": "MSFT"}))

    def verified(**given: Any) -> proposal_signatures.Signed:
        call: dict[str, Any] = {"agent_id": TRADER, "idempotency_key": "k-1", "path": PATH, "proposal": other}
        kept = signed_proposal.kept(signed_proposal.signed_bytes(**call), other["signature"])
        return proposal_signatures.Signed(key_id=agent_signatures.key_id_of(key.public), body=kept)

    with monkeypatch.context() as patch:
        patch.setattr(proposal_signatures, "verify", verified)
        send(trader, at_once()).ok()
    (found,) = findings.verify_all().findings
    assert "a signature of another proposal" in found.detail


def test_bytes_that_are_no_signed_proposal_are_found(
    trader: Caller, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = proposal_signatures.Signed(key_id="0" * 16, body=b'{"signature":"x"}')
    with monkeypatch.context() as patch:
        patch.setattr(proposal_signatures, "verify", lambda **_: odd)
        send(trader, at_once()).ok()
    (found,) = findings.verify_all().findings
    assert "no signed proposal" in found.detail


def test_what_was_erased_is_not_looked_at(trader: Caller, key: SigningKey) -> None:
    dfid = send(trader, signed(key, at_once())).ok()["dfid"]
    commitment = entry_of(dfid).payload["signature_commitment"]
    erased = ledger.erase_payload(
        tenant="default", commitment=commitment, actor="user:1", at=clock.now(), reason="asked"
    )
    assert erased
    assert findings.verify_all().findings == []

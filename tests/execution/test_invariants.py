"""Invariants from a pack to the call: pinned when it is loaded, asked at the gate and before each call."""

from uuid import UUID

import pytest
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contracts.states import IntentState
from runtime.flows.models import Verdict
from runtime.packs.services import packs
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import ReplayEqual
from runtime.registry.models import PolicyKind
from tests.support import api_client, fake_target, markup, trading_desk
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db
PLAIN = trading_desk.pack(base_url="http://127.0.0.1:1", executor="simulated")
INVARIANTS = """
invariants:
  - {invariant_id: few, require: "with.count <= with.most", message: Not so many, AT}
  - {invariant_id: calm, require: "context.facts.price.ABC < 1000", severity: LOW}
"""
ASSERTED = """
    safety_assertions:
      - {invariant_id: few, with: {count: params.quantity, most: 5}}
      - {invariant_id: calm}
    impact:"""


def text_with(at: str = "at: [GATE, CLAIM]", asserted: str = ASSERTED) -> str:
    text = PLAIN.replace("\n    impact:", asserted, 1)
    return text + INVARIANTS.replace("AT", at)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> trading_desk.Desk:
    text = text_with()
    monkeypatch.setattr(trading_desk, "pack", lambda **_: text)
    return trading_desk.open_desk()


def said(intent_id: UUID, kind: str) -> list[dict[str, object]]:
    """The payloads of the flow's entries of a kind."""
    rows = LedgerEntry.objects.filter(stream=str(trading_desk.intent(intent_id).flow_id), kind=kind)
    return [canonical.decode(bytes(row.body))["payload"] for row in rows.order_by("seq")]


def test_a_loaded_kind_has_its_invariants_pinned(desk: trading_desk.Desk) -> None:
    body = canonical.decode(bytes(PolicyKind.objects.get(kind=trading_desk.KIND).body))
    assert [each["pinned"]["require"] for each in body["safety_assertions"]] == [
        "(params.quantity) <= (5)",
        "context.facts.price.ABC < 1000",
    ]
    again = packs.load(text=text_with(), source="trial.yaml", activate=True, actor="system")
    assert isinstance(again, packs.Loaded)
    assert not again.changed


def test_a_changed_invariant_needs_a_new_version_of_its_kinds(desk: trading_desk.Desk) -> None:
    changed = text_with().replace("with.count <= with.most", "with.count < with.most")
    found = packs.load(text=changed, source="trial.yaml", activate=True, actor="system")
    assert isinstance(found, packs.PackRefused)
    assert "is registered with other content" in found.problems[0]


def test_the_gate_refuses_what_violates_one(desk: trading_desk.Desk) -> None:
    verdict = trading_desk.propose(desk, quantity=6)
    assert verdict["verdict"] == "REJECT"
    [reason] = verdict["reasons"]
    assert (reason["check"], reason["code"]) == ("invariants", "INVARIANT_VIOLATED")
    assert reason["message"] == "few (HIGH): Not so many"


def test_a_call_is_not_made_when_one_is_violated_by_then(desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    trading_desk.write_fact("price.ABC", 5_000)
    done = fake_target.attempt(intent_id)
    assert (done.called, done.detail) == (False, "INVARIANT_VIOLATED")
    assert trading_desk.intent(intent_id).state == IntentState.FAILED
    assert said(intent_id, "attempt:started") == []
    [blocked] = said(intent_id, "intent:blocked")
    assert (blocked["code"], blocked["subject"]) == ("INVARIANT_VIOLATED", "calm")
    assert validations(intent_id) == [("few", "pass"), ("calm", "pass"), ("calm", "fail")]


def test_what_was_asked_is_in_the_outcome_and_replays_equal(desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    assert fake_target.attempt(intent_id).called
    assert validations(intent_id) == [
        ("few", "pass"),
        ("calm", "pass"),
        ("PRE_CALL_CHECK", "pass"),
        ("few", "pass"),
        ("calm", "pass"),
    ]
    flow = trading_desk.intent(intent_id).flow
    assert isinstance(flow_replay.replay(tenant=flow.tenant, dfid=flow.pk), ReplayEqual)
    assert b"safety_assertions" in bytes(Verdict.objects.get(proposal__flow=flow).bundle.body)


def validations(intent_id: UUID) -> list[tuple[str, str]]:
    """What the outcome's contract says of the checks."""
    caller = api_client.Caller(api_client.auditor_key())
    dfid = trading_desk.intent(intent_id).flow_id
    shown = caller.get(f"/audit/contracts/execution_outcome_package/{dfid}").ok()
    return [(each["invariant_id"], each["pass_fail"]) for each in shown["safety_validation_results"]]


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        ("{invariant_id: calm}", "{invariant_id: clam}", "the pack has no invariant clam"),
        (", most: 5}", "}", "few needs with.most"),
        (", most: 5}", ", most: 5, mist: 4}", "few does not read with.mist"),
        (
            "params.quantity, most",
            "params.nothing, most",
            "params.nothing is not a field of the params schema",
        ),
        ("at: [GATE, CLAIM]", "at: [BETWEEN]", "invariants[0].at[0]"),
        ("at: [GATE, CLAIM]", "at: []", "invariants[0].at"),
    ],
)
def test_a_pack_that_would_ask_nothing_is_refused(was: str, becomes: str, words: str) -> None:
    text = text_with()
    assert was in text
    found = packs.load(text=text.replace(was, becomes), source="trial.yaml", activate=True, actor="system")
    assert isinstance(found, packs.PackRefused)
    assert any(words in problem for problem in found.problems), found.problems


def test_the_page_of_the_kind_shows_what_is_pinned(desk: trading_desk.Desk) -> None:
    client: Client = sign_in(Role.AUDITOR)
    page = markup.words(client.get(f"/kinds/{trading_desk.KIND}/").content.decode())
    assert "Not so many invariant, high asked at gate and claim (params.quantity) <= (5)" in page

"""Red lines and required evidence, everywhere: nobody overrides what crosses one, and the page says so."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from audit.access.roles import Role
from escalations.models import Escalation
from escalations.services import drift_scan
from runtime.contracts.states import FlowState, IntentState
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent
from runtime.packs.services import packs
from tests.support import factories, gate_cases, trading_desk
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
LINE = {"id": "L_NEVER", "forbid": "params.notional_cents > 100000", "message": "Never that much at once"}
NEED = {"step": "self_check"}
SPECS = pytest.mark.parametrize(
    ("spec", "code", "name", "words"),
    [
        ({"red_lines": [LINE]}, "RED_LINE_CROSSED", "L_NEVER", "Never that much at once"),
        (
            {"required_evidence": [NEED]},
            "INVALID_EVIDENCE",
            "step:self_check",
            "The step self_check is missing.",
        ),
    ],
)


def post(client: Client, escalation: Escalation) -> Any:
    row = Escalation.objects.get(pk=escalation.pk)
    sent = {
        "action": "OVERRIDE",
        "evidence_hash": row.evidence_hash,
        "version": str(row.version),
        "impact": row.impact,
        "justification": factories.JUSTIFICATION,
        "typed_again": factories.read_shown(row).type_again,
    }
    return client.post(f"/escalations/{row.pk}/decision/", sent)


@SPECS
def test_the_gate_refuses_it(spec: dict[str, Any], code: str, name: str, words: str) -> None:
    made = factories.desk(kind=gate_cases.kind(**spec))
    refused = made.propose(made.open(), params=factories.OVER_LIMIT)
    assert refused["verdict"] == "REJECT"
    assert code in [reason["code"] for reason in refused["reasons"]]
    assert not Escalation.objects.exists()


@SPECS
def test_the_page_says_so_and_nobody_overrides_it(
    spec: dict[str, Any], code: str, name: str, words: str
) -> None:
    escalation = factories.desk().escalate()
    factories.policy_kind(gate_cases.kind(version="1.9.0", **spec))
    assert drift_scan.revise_open() == 1
    client = sign_in(Role.OPERATOR)
    page = text_of(client, f"/escalations/{escalation.pk}/")
    for said in (code, name, words, "cannot be overridden", "This cannot be overridden"):
        assert said in page, said
    answer = post(client, escalation)
    assert answer.status_code == 409
    assert words in answer.content.decode()
    assert not Intent.objects.exists()


def activate(spec: str) -> None:
    text = trading_desk.pack(base_url="http://127.0.0.1:1")
    text = text.replace("version: 1.0.0\n    title", "version: 1.1.0\n    title")
    text = text.replace("\n    impact:", f"\n    {spec}\n    impact:", 1)
    loaded = packs.load(text=text, source="trial.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ('red_lines: [{id: L_NEVER, forbid: "params.quantity > 1"}]', "RED_LINE_CROSSED"),
        ("required_evidence: [{step: self_check}]", "INVALID_EVIDENCE"),
    ],
)
def test_one_that_comes_into_force_stops_what_was_accepted_before_its_call(spec: str, code: str) -> None:
    intent_id = trading_desk.open_desk().accept()
    activate(spec)
    found = attempting.attempt(intent_id, owner=trading_desk.OWNER)
    assert (found.status, found.called, found.detail) == (AttemptStatus.BLOCKED, False, code)
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (
            "red_lines: [{id: L_LATE, forbid: \"context.facts.market.state != 'OPEN'\"}]",
            "RED_LINE_CROSSED",
        ),
        ("required_evidence: [{fact: price.ABC, max_age_s: 1}]", "INVALID_EVIDENCE"),
    ],
)
def test_one_that_was_kept_at_the_gate_is_asked_again_before_the_call(
    spec: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = trading_desk.PACK.replace("\n    impact:", f"\n    {spec}\n    impact:", 1)
    kind = kind.replace(
        """    constraints: [{id: C_MARKET_OPEN, require: "context.facts.market.state == 'OPEN'"}]\n""", ""
    )
    monkeypatch.setattr(trading_desk, "PACK", kind)
    intent_id = trading_desk.open_desk().accept()
    if code == "RED_LINE_CROSSED":
        trading_desk.write_fact("market.state", "SHUT")
    else:
        later = clock.now() + timedelta(seconds=5)
        monkeypatch.setattr(clock, "now", lambda: later)
    found = attempting.attempt(intent_id, owner=trading_desk.OWNER)
    assert (found.status, found.called, found.detail) == (AttemptStatus.BLOCKED, False, code)

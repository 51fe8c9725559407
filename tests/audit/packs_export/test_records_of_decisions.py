"""Decision records in packs of flows that were refused, decided by two people, or had words erased."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit.packs import sources
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import taking_back
from runtime.contracts.problem import Problem
from tests.audit.packs_export.test_what_is_absent import erase
from tests.support import exported_packs, factories, gate_cases

pytestmark = pytest.mark.django_db


def test_a_refused_proposal_has_a_record_that_follows(db: None, tmp_path: Path) -> None:
    desk = factories.desk()
    flow = desk.open()
    for _ in range(3):
        desk.propose(flow, params={"symbol": "AAPL"})
    pack = exported_packs.make(flow.dfid)
    assert {record["status"] for record in pack.records().values()} == {"REJECTED"}
    assert exported_packs.verified(pack, tmp_path)[0] == 0


def decided_by_two(impact: str = "'LOW_IMPACT'", **kind: Any) -> UUID:
    """A flow that two people let run, after one of them had chosen otherwise."""
    escalation = factories.desk(kind=gate_cases.kind(impact=impact, **kind)).escalate()
    olivia, mara = factories.user("olivia"), factories.user("mara", "senior")
    smaller = {**factories.OVER_LIMIT, "notional_cents": 120_000}
    answers = [
        factories.decide(escalation, olivia, Action.MODIFY, params=smaller),
        factories.decide(escalation, mara),
        factories.decide(escalation, olivia),
    ]
    assert not any(isinstance(answer, Problem) for answer in answers), answers
    return escalation.flow_id


@pytest.mark.parametrize(
    "kind", [{"impact": "'CRITICAL'"}, {"approvals": 2}, {"approvals": 2, "reversible": False}]
)
def test_what_two_people_decided_follows(db: None, tmp_path: Path, kind: dict[str, Any]) -> None:
    pack = exported_packs.make(decided_by_two(**kind))
    *_, record = pack.records().values()
    assert record["approval_mode_effective"] == "two_persons"
    assert [item["state"] for item in record["approvals"]] == ["SUPERSEDED", "CONFIRMED", "IN_EFFECT"]
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])


def test_a_decision_that_was_taken_back_follows(db: None, tmp_path: Path, settings: Settings) -> None:
    settings.DIR_UNDO_MAX_S = 300
    kind = gate_cases.kind(approvals=2, undo_s=120)
    escalation, olivia = factories.desk(kind=kind).escalate(), factories.user("olivia")
    for person in (olivia, factories.user("mara", "senior")):
        assert not isinstance(factories.decide(escalation, person), Problem)
    who = factories.person(olivia)
    taken = taking_back.take_back(tenant=factories.TENANT, escalation_id=escalation.pk, person=who)
    assert not isinstance(taken, Problem), taken
    assert not isinstance(factories.decide(escalation, olivia, Action.ABORT), Problem)
    pack = exported_packs.make(escalation.flow_id)
    *_, reopened, ended = pack.records().values()
    assert (reopened["status"], ended["status"]) == ("ESCALATED", "REJECTED")
    assert {item["state"] for item in reopened["approvals"]} == {"TAKEN_BACK"}
    assert [item["action"] for item in ended["approvals"]] == [None, "OVERRIDE", "ABORT"]
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])


SUBJECTS = ["symbol:${params.symbol}", "trigger:${flow.trigger.type}"]


@pytest.mark.parametrize(
    ("kind", "field", "words"),
    [
        ("proposal:submitted", "params_commitment", "symbol:AAPL"),
        ("flow:opened", "trigger_commitment", "trigger:tick"),
    ],
)
def test_erased_words_are_in_no_record(db: None, tmp_path: Path, kind: str, field: str, words: str) -> None:
    escalation = factories.desk(kind=gate_cases.kind(subjects=SUBJECTS)).escalate()
    pack = exported_packs.make(escalation.flow_id)
    assert {tuple(record["subject_ids"]) for record in pack.records().values()} == {
        ("symbol:AAPL", "trigger:tick")
    }
    hashes = {record["audit"]["record_hash"] for record in pack.records().values()}
    erase(pack.entries(kind)[0]["payload"][field])
    pack = exported_packs.make(escalation.flow_id)
    assert pack.records() == {}
    assert pack.absent().items() >= dict.fromkeys(hashes, sources.ERASED).items()
    assert words not in "".join(map(str, pack.members.values()))
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"], answer["counts"]["records"]) == (0, [], 0)


def test_an_open_first_decision_shows_no_choice_in_records(db: None) -> None:
    escalation = factories.desk(kind=gate_cases.kind(impact="'CRITICAL'")).escalate()
    factories.decide(escalation, factories.user("olivia"), Action.OVERRIDE)
    person = factories.user("mara", "senior")
    answer = factories.decide(escalation, person, Action.REQUEST_INFO, justification="Which signals?")
    assert not isinstance(answer, Problem), answer
    records = exported_packs.make(escalation.flow_id).records()
    *_, newest = records.values()
    assert [item["action"] for item in newest["approvals"]] == [None]
    assert "OVERRIDE" not in json.dumps([*records.values()])
    assert Escalation.objects.get().state == "OPEN"

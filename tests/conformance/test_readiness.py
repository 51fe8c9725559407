"""ContextOS's six readiness answers, on a whole history and on one that was damaged."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from audit import canonical
from audit.events import StrategyRuleProposed
from audit.models import DecisionRecord, LedgerEntry, Payload
from audit.records import evaluators, fold
from audit.records import queries as records
from dir_console.conformance import privacy, query_plans, readiness
from dir_console.conformance.items import Answer
from dir_console.conformance.sample import Sample
from escalations.models import Evidence
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Verdict
from runtime.flows.services import flows
from runtime.maintenance.services import payloads, scoring
from runtime.stops.services import stops
from tests.support import factories, gate_cases, ledger_tampering
from tests.support.conformance_items import ask
from tests.support.finished_history import History

Damage = Callable[[History], object]
PINNED = gate_cases.manifest(model_profile="model-7", evaluator_suite="suite-3")
SECRET = "The account of Johanna Musterfrau is overdrawn."


def ended_flow(**changes: Any) -> factories.Opened:
    """A flow of an agent whose manifest names model and evaluator, accepted and then withdrawn."""
    desk = factories.desk(agent_id="pinned", manifest=PINNED)
    flow = desk.open()
    desk.propose(flow, **changes)
    ended = flows.cancel(agent=desk.again(), dfid=flow.dfid, reason="no longer wanted")
    assert not isinstance(ended, Problem), ended
    return flow


def without_records(history: History) -> None:
    ledger_tampering.quietly("DELETE FROM audit_decisionrecord")


def in_a_reason(history: History) -> None:
    """A person copies an agent's words into a reason, which is recorded as it is."""
    ended_flow(explain=SECRET)
    stopped = stops.stop_agent(
        tenant="default", agent_id="pinned", actor="user:1", reason=f"He says: {SECRET}"
    )
    assert not isinstance(stopped, Problem)


def emptied(history: History) -> None:
    Payload.objects.update(content=None, nonce=None, salt=None, erased_at="2026-01-01T00:00:00Z")


DAMAGED: dict[str, tuple[str, Damage, str]] = {
    "records that are gone": ("readiness-1", without_records, "is no longer stored"),
    "records that were changed": (
        "readiness-1",
        lambda _: ledger_tampering.quietly("UPDATE audit_decisionrecord SET status = 'REJECTED'"),
        "is not what its ledger entry recorded",
    ),
    "rules that were changed": (
        "readiness-2",
        lambda history: Verdict.objects.filter(proposal__flow=history.accepted).update(body=b"{}"),
        "tamper_detected",
    ),
    "words in an entry": ("readiness-4", in_a_reason, "A text of 47 characters, of a proposal, is in entry"),
    "payloads without an erasure": ("readiness-5", emptied, "emptied, and no entry says"),
    "evidence that is gone": ("readiness-5", lambda _: Evidence.objects.all().delete(), "no longer stored"),
    "a record that is gone": ("readiness-6", without_records, "is no longer stored"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_history_is_a_no(damaged: History, name: str) -> None:
    check_id, damage, why = DAMAGED[name]
    damage(damaged)
    found = ask(check_id)
    assert found.answer is Answer.NO
    assert why in found.why


@pytest.mark.parametrize("check_id", ["readiness-2", "readiness-5"])
def test_a_whole_history_is_a_yes(damaged: History, check_id: str) -> None:
    found = ask(check_id)
    assert (found.answer, found.why) == (Answer.YES, "")


@pytest.mark.django_db
@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_an_empty_console_has_nothing_to_try(number: int) -> None:
    found = ask(f"readiness-{number}")
    assert (found.answer, bool(found.why)) == (Answer.NOT_APPLICABLE, True)


# 1: the record alone explains the decision


@pytest.mark.django_db
def test_a_record_with_everything_pinned_is_a_yes() -> None:
    ended_flow()
    found = ask("readiness-1")
    assert (found.answer, found.why) == (Answer.YES, "")
    assert found.seen == "1 of 1 record complete; lacking: nothing; lineage.unpinned: nothing."


def test_what_is_unpinned_is_named_and_is_not_ready(damaged: History) -> None:
    found = ask("readiness-1")
    assert found.answer is Answer.PARTLY
    assert found.why.startswith("Not ready: ")
    assert "evaluator_suite in 3, model_profile in 3" in found.why


LACKING: dict[str, tuple[str, Any, str]] = {
    "outcome": ("outputs", {}, "an outcome"),
    "evidence": ("evidence_refs", [], "evidence"),
    "policy": ("policy_decisions", [], "a policy decision"),
    "rules": ("policy_decisions", [{"bundle_id": "", "verdict": "allow", "rule_ids": []}], "the rules of"),
    "approvals": ("approval_mode_effective", "two_persons", "approval"),
    "controls": ("controls_active", {"approval_gates_active": []}, "controls"),
    "lineage": ("lineage", {"pack_version": None, "gate_version": None, "unpinned": []}, "lineage"),
}


@pytest.mark.parametrize("part", LACKING)
def test_a_record_that_lacks_a_part_is_a_no(
    damaged: History, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    name, value, lacking = LACKING[part]
    newest, _ = readiness._newest_records(Sample(tenant="default"))
    decided = next(record for record in newest if record.document["status"] == "DECIDED")
    changed = replace(decided, document={**decided.document, name: value})
    monkeypatch.setattr(readiness, "_newest_records", lambda _: ([changed], []))
    found = ask("readiness-1")
    assert found.answer is Answer.NO
    assert f"lacks {lacking}" in found.why
    assert found.seen.startswith("0 of 1 record complete")


def test_a_flow_that_never_had_a_record_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sample, "records", {damaged.accepted: None})
    assert f"Flow {damaged.accepted} has no decision record." in ask("readiness-1").why


# 2: replay brings it out again


def test_records_that_come_out_otherwise_are_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = readiness._folded_again

    def otherwise(*given: Any) -> Any:
        return ((name, body + b" ") for name, body in honest(*given))

    monkeypatch.setattr(readiness, "_folded_again", otherwise)
    found = ask("readiness-2")
    assert found.answer is Answer.NO
    assert "its entries come to another one" in found.why


def test_records_of_another_version_are_left_out(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "VERSIONS", ("0",))
    found = ask("readiness-2")
    assert found.answer is Answer.PARTLY
    assert "0 of 7 records made again" in found.seen


# 3: auditors can query it


def test_each_filter_has_its_index(damaged: History) -> None:
    found = ask("readiness-3")
    assert (found.answer, found.why) == (Answer.YES, "")


@pytest.mark.parametrize(
    ("indexes", "filters"),
    [
        # Both begin with the decision key; SQLite takes the second for no search that is in order.
        ("record_by_decision record_counts", ["decision key"]),
        ("record_by_mode", ["approval mode"]),
        ("record_by_trace", ["trace"]),
        ("term_by_value", ["subjects", "policy ids", "approver"]),
    ],
)
def test_an_index_that_is_gone_is_named_by_its_filters(
    damaged: History, indexes: str, filters: list[str]
) -> None:
    with connection.cursor() as cursor:
        for index in indexes.split()[: None if connection.vendor == "postgresql" else 1]:
            cursor.execute(f"DROP INDEX {index}")
    found = ask("readiness-3")
    assert found.answer is Answer.NO
    assert [name for name in readiness._LISTED if f"The search by {name} does not" in found.why] == filters


@pytest.mark.parametrize(
    ("scanned", "conditions", "is_by"),
    [
        ([], ["(tenant=? AND value=?)"], True),
        ([], ["(tenant=?)"], False),
        # All records of the tenant, and the term of each.
        ([], ["(tenant=?)", "(record=? AND name=? AND value=?)"], False),
        (
            [],
            ["((tenant)::text = 'value'::text)", "((value = 'x'::character varying) AND (record = r.id))"],
            False,
        ),
        (
            [],
            ["(((name)::text = 'a'::text) AND (value = 'b'::text))", "(id = audit_recordterm.record)"],
            True,
        ),
        (["SCAN audit_recordterm"], ["(value=?)"], False),
        ([], [], False),
    ],
)
def test_a_plan_that_reads_all_of_a_tenant_is_by_no_column(
    scanned: list[str], conditions: list[str], is_by: bool
) -> None:
    assert query_plans.Plan(scanned, conditions).is_by("value") is is_by


def test_a_filter_that_the_paper_does_not_list_makes_it_partly(damaged: History) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX record_by_agent")
    found = ask("readiness-3")
    assert found.answer is Answer.PARTLY
    assert "The search by agent does not use an index over agent_id" in found.why


# 4: privacy


def test_words_are_where_they_can_be_erased(damaged: History, settings: Settings) -> None:
    settings.DIR_RETENTION_DAYS = 30
    ended_flow(explain=SECRET)
    found = ask("readiness-4")
    assert found.answer is Answer.YES, found
    assert found.seen.startswith("0 places in entries and records; 2 of 2 texts in the payloads")
    assert re.search(r"Payloads by class: .*parameters [0-9]+", found.seen)


def test_words_without_a_time_or_a_class_are_named(damaged: History) -> None:
    ended_flow(explain=SECRET)
    found = ask("readiness-4")
    assert found.answer is Answer.PARTLY
    assert "Words are kept permanently: ADJUST_POSITION 2" in found.why
    assert "in no class" not in found.why
    said = LedgerEntry.objects.filter(kind="proposal:submitted").latest("id")
    commitment = canonical.decode(bytes(said.body))["payload"]["explain_commitment"]
    row = Payload.objects.get(commitment=commitment)
    Payload.objects.filter(pk=row.pk).update(content=row.body, key=None, nonce=None)
    assert "In clear, in no class: 1 payload" in ask("readiness-4").why


def test_words_that_were_erased_are_no_longer_there(damaged: History) -> None:
    flow = ended_flow(explain=SECRET)
    said = next(
        entry.payload
        for entry in Sample(tenant="default").entries[flow.dfid]
        if entry.kind == "proposal:submitted"
    )
    payloads.erase(tenant="default", commitment=said["explain_commitment"], reason="asked", actor="user:1")
    assert "1 of 2 texts in the payloads" in ask("readiness-4").seen


def test_words_of_the_rules_are_no_words_of_a_proposal(damaged: History) -> None:
    assert "SYMBOLIC" not in privacy._texts(Sample(tenant="default"))
    ended_flow(explain="ADJUST_POSITION")
    assert "ADJUST_POSITION" not in privacy._texts(Sample(tenant="default"))


def test_texts_are_found_at_every_depth() -> None:
    params = {"a": "short", "b": ["deep enough", {"c": "deeper still"}], "d": 7}
    assert list(privacy._strings(params)) == ["deep enough", "deeper still"]


@pytest.mark.django_db
def test_a_subject_that_repeats_a_value_is_counted_and_is_what_the_kind_says() -> None:
    kind = gate_cases.kind(subjects=["text:${params.symbol}"], params_schema={"type": "object"})
    desk = factories.desk(kind=kind)
    flow = desk.open()
    desk.propose(flow, params={**gate_cases.PARAMS, "symbol": "Johanna Musterfrau"})
    ended = flows.cancel(agent=desk.again(), dfid=flow.dfid, reason="no longer wanted")
    assert not isinstance(ended, Problem), ended
    assert DecisionRecord.objects.filter(dfid=flow.dfid).exists()
    found = ask("readiness-4")
    assert found.answer is Answer.PARTLY
    assert "2 records whose subjects repeat one" in found.seen


# 5: incidents


@pytest.mark.django_db
def test_an_incident_that_no_checkpoint_covers_is_partly() -> None:
    ended_flow()
    found = ask("readiness-5")
    assert found.answer is Answer.PARTLY
    assert "is in no checkpoint yet" in found.why


def test_an_erased_payload_is_no_loss(damaged: History) -> None:
    for entry in Sample(tenant="default").entries[damaged.undone]:
        if commitment := entry.payload.get("trigger_commitment"):
            payloads.erase(tenant="default", commitment=commitment, reason="asked", actor="user:1")
    assert ask("readiness-5").answer is Answer.YES


# 6: improvement


def test_scorecards_and_feedback_refer_to_records(damaged: History) -> None:
    found = ask("readiness-6")
    assert found.answer is Answer.PARTLY
    assert found.seen.startswith("7 of 7 found;")
    assert "1 of 1 feedback entries are about a record of their flow;" in found.seen
    assert "No rule was drafted from precedents yet." in found.why
    assert "0 of 3 last records scored" in found.seen
    assert "3 records of an end not scored yet." in found.why


def test_a_scorecard_that_does_not_come_out_again_is_a_no(
    damaged: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring.score_due()
    found = ask("readiness-6")
    assert found.answer is Answer.PARTLY
    assert "3 of 3 last records scored" in found.seen
    monkeypatch.setattr(evaluators, "evaluate", lambda record: evaluators.Scored("x", "passed", "So."))
    found = ask("readiness-6")
    assert found.answer is Answer.NO
    assert "its evaluators give another scorecard" in found.why


def drafted(*record_ids: str) -> None:
    said = {"change": "RAISE_LIMIT", "decision_key": "BUY", "finding": "max", "document": "policy_kind"}
    event = StrategyRuleProposed(
        **said,
        rule_id="r1",
        name="BUY",
        version="2.0.0",
        value_before="1",
        value_after="2",
        cases=1,
        people=2,
        record_ids=record_ids,
        digest="0" * 64,
    )
    factories.record("system", event, actor="user:1", at=clock.now())


def test_with_rules_that_rest_on_records_it_is_a_yes_and_on_lost_ones_a_no(damaged: History) -> None:
    scoring.score_due()
    drafted(DecisionRecord.objects.latest("pk").record_id)
    found = ask("readiness-6")
    assert (found.answer, found.why) == (Answer.YES, "")
    drafted("dr_gone")
    found = ask("readiness-6")
    assert found.answer is Answer.NO
    assert "rests on dr_gone, which is not there" in found.why


def test_feedback_about_no_record_of_its_flow_is_a_no(damaged: History) -> None:
    entry = LedgerEntry.objects.get(kind="record:feedback_given")
    body = bytes(entry.body).replace(b'"record_id":"dr_', b'"record_id":"dx_')
    ledger_tampering.execute("UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [body, entry.pk])
    found = ask("readiness-6")
    assert found.answer is Answer.NO
    assert "which its flow did not emit" in found.why


def test_a_record_that_no_id_leads_to_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "get", lambda **_: None)
    found = ask("readiness-6")
    assert found.answer is Answer.NO
    assert ": there is none of this id." in found.why

"""Flows that follow a workflow: checks, steps, what routers demand, and the proposal at the end."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from audit.models import LedgerEntry
from runtime.core import clock
from runtime.flows.models import Verdict
from runtime.kernel import step_history
from runtime.kernel.gate import pipeline
from runtime.maintenance.services import payloads
from runtime.packs.services import packs
from runtime.packs.services.packs import Loaded, PackRefused
from runtime.registry.models import Workflow
from runtime.workflows.models import WorkflowPosition
from runtime.workflows.services import instructions
from tests.support import api_client, followed_workflow
from tests.support.followed_workflow import load
from tests.support.workflow_story import RESEARCH, SEQUENCE

RATE = {"id": "slowly", "checker": "rate", "on": "VERIFY", "times": 3, "per_s": 600}
ROUTER = {
    "id": "unsure",
    "router": "threshold",
    "on": "VERIFY",
    "key": "output.confidence",
    "below": 0.5,
    "to": "GENERATE",
    "on_missing": "go_on",
}


BOUNDED = {**RESEARCH["instructions"], "GENERATE": {"core": "COGNITIVE", "cost": 5, "max_visits": 9}}


def step(caller: api_client.Caller, dfid: str, instruction: str, **more: Any) -> Any:
    return caller.post(f"/flows/{dfid}/steps", {"instruction": instruction, **more})


def check(caller: api_client.Caller, dfid: str, instruction: str, **more: Any) -> Any:
    return caller.post(f"/flows/{dfid}/steps/check", {"instruction": instruction, **more}).ok()


def subjects(answer: dict[str, Any]) -> list[str]:
    return [finding["policy"] for finding in answer["findings"]]


def test_a_step_is_taken_and_moves_the_flow(trader: api_client.Caller) -> None:
    assert isinstance(load(routers=[ROUTER], instructions=BOUNDED), Loaded)
    dfid = trader.open_flow()
    assert trader.get(f"/flows/{dfid}").ok()["workflow"]["position"] is None
    assert step(trader, dfid, "GENERATE").ok(201) == {"seq": 2, "next": None}
    taken = step(trader, dfid, "VERIFY", output={"confidence": 0.1}).ok(201)
    assert taken["next"]["instruction"] == "GENERATE"
    shown = trader.get(f"/flows/{dfid}").ok()["workflow"]
    assert (shown["position"], shown["next"]["policy"]) == ("VERIFY", "unsure")
    refused = step(trader, dfid, "VERIFY").ok(200)
    assert subjects(refused) == ["next"]
    assert "seq" not in refused
    assert trader.get(f"/flows/{dfid}").ok()["workflow"] == shown
    kinds = LedgerEntry.objects.filter(stream=dfid).order_by("seq").values_list("kind", flat=True)
    assert list(kinds) == ["flow:opened", "step:taken", "step:taken", "step:refused"]


def test_a_check_is_used_once_for_its_step(trader: api_client.Caller) -> None:
    load(checkers=[{**RATE, "on": "GENERATE", "times": 1}])
    dfid = trader.open_flow()
    allowed = check(trader, dfid, "GENERATE", input={"a": 1})
    assert (allowed["allowed"], allowed["findings"]) == (True, [])
    denied = check(trader, dfid, "GENERATE")
    assert (denied["allowed"], denied["check_id"], subjects(denied)) == (False, None, ["slowly"])
    assert denied["findings"][0]["code"] == "RATE_LIMITED"
    used = {"check_id": allowed["check_id"]}
    assert "check_id" in subjects(step(trader, dfid, "GENERATE", input={"a": 2}, **used).ok(200))
    step(trader, dfid, "GENERATE", input={"a": 1}, **used).ok(201)
    assert "check_id" in subjects(step(trader, dfid, "GENERATE", input={"a": 1}, **used).ok(200))
    assert "check_id" in subjects(step(trader, dfid, "VERIFY", check_id=str(uuid.uuid4())).ok(200))


def test_a_proposal_is_judged_from_the_position_before_it(trader: api_client.Caller) -> None:
    load()
    dfid = trader.open_flow()
    body = api_client.proposal(trader.context(dfid))
    first = trader.propose(dfid, body).ok()
    assert first["verdict"] == "REJECT"
    assert [reason["check"] for reason in first["reasons"]] == ["workflow"]
    assert trader.get(f"/flows/{dfid}").ok()["workflow"]["position"] is None
    for name in ("GENERATE", "VERIFY"):
        step(trader, dfid, name).ok(201)
    assert trader.propose(dfid, body).ok()["verdict"] == "ACCEPT"
    assert trader.get(f"/flows/{dfid}").ok()["workflow"]["position"] == "PROPOSE"
    for row in Verdict.objects.filter(proposal__flow__dfid=dfid).select_related("bundle"):
        assert pipeline.judge_bytes(bytes(row.input), bytes(row.bundle.body)) == bytes(row.body)
    call_command("verify_ledger")
    call_command("replay", dfid)


def test_the_same_step_under_one_key_is_taken_once(trader: api_client.Caller) -> None:
    load()
    dfid = trader.open_flow()
    path, body, key = f"/flows/{dfid}/steps", {"instruction": "GENERATE"}, {"Idempotency-Key": "k"}
    first = trader.post(path, body, headers=key).ok(201)
    assert trader.post(path, body, headers=key).ok(201) == first
    trader.post(path, {"instruction": "VERIFY"}, headers=key).problem(422, "IDEMPOTENCY_KEY_REUSED")
    assert LedgerEntry.objects.filter(stream=dfid, kind="step:taken").count() == 1


def test_a_changed_workflow_needs_a_new_version_and_a_flow_keeps_its_own(trader: api_client.Caller) -> None:
    load()
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").ok(201)
    assert isinstance(load(reliability={"start": 5}), PackRefused)
    assert isinstance(load("9.1.0", start="VERIFY"), Loaded | PackRefused)
    assert WorkflowPosition.objects.get(flow__dfid=dfid).workflow.version == "9.0.0"
    step(trader, dfid, "VERIFY").ok(201)


def test_a_flow_without_a_workflow_takes_no_instruction(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").problem(409, "NO_WORKFLOW")
    assert "workflow" not in trader.get(f"/flows/{dfid}").ok()


def test_a_workflow_that_nobody_registered_grants_nothing(trader: api_client.Caller) -> None:
    load()
    dfid = trader.open_flow()
    Workflow.objects.update(body=b"{}")
    step(trader, dfid, "GENERATE").problem(409, "NO_WORKFLOW")
    verdict = trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    assert [reason["code"] for reason in verdict["reasons"]] == ["UNAUTHORIZED"]


def test_an_unknown_workflow_is_not_loaded(trader: api_client.Caller) -> None:
    pack = yaml.safe_load(api_client.PACK)
    pack["agents"][0]["manifest"] |= {"workflow": "nothing@1.0.0", "version": "9.0.0"}
    refused = packs.load(text=yaml.safe_dump(pack), source="p.yaml", activate=True, actor="user:1")
    assert isinstance(refused, PackRefused)
    assert "nothing@1.0.0" in refused.problems[0]


def test_an_old_check_allows_nothing(trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    dfid = trader.open_flow()
    found = check(trader, dfid, "GENERATE")["check_id"]
    later = clock.now() + instructions.CHECK_LASTS + timedelta(seconds=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert subjects(step(trader, dfid, "GENERATE", check_id=found).ok(200)) == ["check_id"]
    step(trader, dfid, "GENERATE").ok(201)


BUDGET = {"checker": "budget", "on": "VERIFY", "of": "reliability"}
STATE = {"checker": "state", "on": "VERIFY", "require": "input.ready"}


@pytest.mark.parametrize(
    ("checker", "given", "refused"),
    [
        (STATE, {"ready": False}, True),
        (STATE, {"ready": True}, False),
        ({**BUDGET, "above": 0.95}, {}, True),
        ({**BUDGET, "above": 0.94}, {}, False),
        ({**BUDGET, "of": "escalations", "above": 1}, {}, True),
        ({**BUDGET, "of": "tool_calls", "above": 1}, {}, False),
        ({"checker": "precedes", "on": "VERIFY", "by": "TOOL_CALL"}, {}, True),
        ({"checker": "rate", "on": "VERIFY", "times": 1, "per_s": 60}, {}, False),
    ],
)
def test_each_checker_decides_a_step(
    trader: api_client.Caller, checker: dict[str, Any], given: dict[str, Any], refused: bool
) -> None:
    assert isinstance(load(checkers=[{"id": "c", **checker}]), Loaded)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").ok(201)
    answer = step(trader, dfid, "VERIFY", input=given)
    assert (subjects(answer.ok(200)) == ["c"]) if refused else answer.ok(201)


@pytest.mark.parametrize(
    ("router", "output", "then"),
    [
        ({"router": "threshold", "key": "output.x", "above": 1, "to": "TOOL_CALL"}, {"x": 2}, "TOOL_CALL"),
        ({"router": "threshold", "key": "output.x", "above": 1, "to": "TOOL_CALL"}, {"x": 1}, None),
        ({"router": "value", "key": "output.x", "equals": "F", "to": "TOOL_CALL"}, {"x": "F"}, "TOOL_CALL"),
        ({"router": "value", "key": "output.x", "equals": "F", "to": "TOOL_CALL"}, {}, "TOOL_CALL"),
        ({"router": "validate", "by": "TOOL_CALL"}, {}, "TOOL_CALL"),
    ],
)
def test_each_router_demands_what_comes_next(
    trader: api_client.Caller, router: dict[str, Any], output: dict[str, Any], then: str | None
) -> None:
    assert isinstance(load(routers=[{"id": "r", "on": "GENERATE", **router}], instructions=BOUNDED), Loaded)
    taken = step(trader, trader.open_flow(), "GENERATE", output=output).ok(201)
    assert (taken["next"] and taken["next"]["instruction"]) == then


def test_a_sequence_holds_between_steps(trader: api_client.Caller) -> None:
    assert isinstance(load(checkers=[SEQUENCE]), Loaded)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").ok(201)
    step(trader, dfid, "VERIFY", output={"result": "FAIL"}).ok(201)
    assert subjects(step(trader, dfid, "TOOL_CALL").ok(200)) == ["think_then_verify"]


def test_a_proposal_in_one_call_has_taken_no_step(trader: api_client.Caller) -> None:
    load()
    body = {**api_client.proposal("x"), "context": "current", "seen": {"price.AAPL": 1, "market.state": 1}}
    del body["context_ref"]
    said = trader.post("/proposals", body, {"Idempotency-Key": "one"}).ok()
    assert "workflow" in [reason["check"] for reason in said["reasons"]]


def test_a_position_that_was_changed_grants_nothing(trader: api_client.Caller) -> None:
    load()
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").ok(201)
    row = WorkflowPosition.objects.get()
    WorkflowPosition.objects.update(fold=bytes(row.fold).replace(b"GENERATE", b"VERIFY"))
    step(trader, dfid, "PROPOSE").problem(409, "NO_WORKFLOW")
    verdict = trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    assert [reason["code"] for reason in verdict["reasons"]] == ["UNAUTHORIZED"]
    assert LedgerEntry.objects.get(kind="row:mismatched").payload["row"] == "workflowposition.fold"


def test_a_changed_position_is_found(trader: api_client.Caller) -> None:
    load()
    dfid = trader.open_flow()
    check(trader, dfid, "GENERATE")
    call_command("verify_ledger")
    step(trader, dfid, "GENERATE").ok(201)
    WorkflowPosition.objects.update(fold=b"{}")
    with pytest.raises(CommandError):
        call_command("verify_ledger")


def with_rule(require: str, **changes: Any) -> None:
    """The pack with the workflow, and a kind whose rule asks this of the steps."""
    pack = followed_workflow.pack_with(**changes)
    (kind,) = [item for item in pack["policy_kinds"] if item["kind"] == api_client.KIND]
    kind |= {"version": "7.0.0", "rules": [{"id": "R_STEPS", "require": require}]}
    loaded = packs.load(text=yaml.safe_dump(pack), source="p.yaml", activate=True, actor="user:999")
    assert isinstance(loaded, Loaded), loaded


DECLARED = {
    **RESEARCH["instructions"],
    "VERIFY": {
        "core": "NORMATIVE",
        "output_schema": {"type": "object", "properties": {"score": {"type": "number"}}},
    },
}


@pytest.mark.parametrize(("score", "verdict"), [(0.9, "ACCEPT"), (0.1, "REJECT")])
def test_a_rule_reads_the_steps_of_the_flow(trader: api_client.Caller, score: float, verdict: str) -> None:
    with_rule("history.steps.exists(s, has(s.output.score) && s.output.score > 0.5)", instructions=DECLARED)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE", output={"score": 0.9}).ok(201)
    step(trader, dfid, "VERIFY", output={"score": score, "name": "Kowalczyk"}).ok(201)
    assert trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()["verdict"] == verdict
    row = Verdict.objects.get(proposal__flow__dfid=dfid)
    # What is not declared is not stored with the verdict; the fold has the last report as it is.
    known = pipeline.Judgement.from_bytes(bytes(row.input)).facts.steps
    assert known is not None
    assert [one.output for one in known.steps] == [{}, {"score": score}]
    assert pipeline.judge_bytes(bytes(row.input), bytes(row.bundle.body)) == bytes(row.body)
    call_command("verify_ledger")
    call_command("replay", dfid)


def test_steps_are_loaded_only_where_they_are_read(trader: api_client.Caller) -> None:
    load()
    dfid = trader.open_flow()
    for name in ("GENERATE", "VERIFY"):
        step(trader, dfid, name).ok(201)
    trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    row = Verdict.objects.get(proposal__flow__dfid=dfid)
    assert pipeline.Judgement.from_bytes(bytes(row.input)).facts.steps is None


def test_only_the_newest_steps_are_read(trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_history, "MOST_STEPS", 1)
    with_rule("history.truncated && history.last.instruction == 'VERIFY'")
    dfid = trader.open_flow()
    for name in ("GENERATE", "VERIFY"):
        step(trader, dfid, name).ok(201)
    assert trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()["verdict"] == "ACCEPT"


def test_an_erased_report_keeps_its_place(trader: api_client.Caller) -> None:
    with_rule("history.steps.size() == 2 && !has(history.last.output.score)", instructions=DECLARED)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").ok(201)
    step(trader, dfid, "VERIFY", output={"score": 1}).ok(201)
    said = LedgerEntry.objects.filter(stream=dfid, kind="step:taken").order_by("seq").last()
    assert said is not None
    commitment = said.payload["report_commitment"]
    payloads.erase(tenant="default", commitment=commitment, reason="asked", actor="user:1")
    assert trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()["verdict"] == "ACCEPT"

"""Workflows that call a person: a router, a deadlock of policies, and what the person decides."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from audit import canonical
from audit.access.roles import Role
from audit.models import LedgerEntry
from escalations.contracts import Action
from escalations.evidence_contracts import InterruptEvidence
from escalations.models import Escalation
from escalations.services import bulk_deciding, deadlines, deciding
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.kernel.workflows import steps
from runtime.packs.services.packs import Loaded
from runtime.registry.models import Agent
from runtime.registry.services import users
from runtime.workflows.models import WorkflowPosition
from tests.support import api_client, factories
from tests.support.followed_workflow import load
from tests.support.interrupted_flow import CALLS
from tests.support.workflow_story import RESEARCH

BOUNDED = {**RESEARCH["instructions"], "GENERATE": {"core": "COGNITIVE", "max_visits": 9}}
# What the router demands is refused by a checker.
DEMANDS = {**CALLS, "to": "VERIFY"}
REFUSES = {"id": "ready", "checker": "state", "on": "VERIFY", "require": "input.ready"}
# Leaves what it refuses to a person.
ASKS = {**REFUSES, "on_fail": "ESCALATE"}


@pytest.fixture
def olivia(trader: api_client.Caller) -> User:
    added = users.add(
        tenant="default", name="olivia", password="a long passphrase", roles=[Role.OPERATOR], actor="system"
    )
    assert isinstance(added, User)
    return added


def step(caller: api_client.Caller, dfid: str, instruction: str, **more: Any) -> Any:
    return caller.post(f"/flows/{dfid}/steps", {"instruction": instruction, **more})


def interrupted(caller: api_client.Caller, **changes: Any) -> Escalation:
    """A flow whose router has called a person; its escalation."""
    loaded = load(**{"routers": [CALLS], "instructions": BOUNDED, **changes})
    assert isinstance(loaded, Loaded), loaded
    dfid = caller.open_flow()
    taken = step(caller, dfid, "GENERATE", output={"confidence": 0.1}).ok(201)
    assert taken["next"]["instruction"] == "INTERRUPT"
    return Escalation.objects.get(pk=taken["escalation_id"])


def deadlocked(caller: api_client.Caller) -> Escalation:
    """A flow that may take one step alone, which is refused; its escalation."""
    assert isinstance(load(routers=[DEMANDS], checkers=[REFUSES]), Loaded)
    dfid = caller.open_flow()
    assert (
        step(caller, dfid, "GENERATE", output={"confidence": 0.1}).ok(201)["next"]["instruction"] == "VERIFY"
    )
    refused = step(caller, dfid, "VERIFY", input={"ready": False}).ok(200)
    assert [finding["policy"] for finding in refused["findings"]] == ["ready"]
    return Escalation.objects.get(pk=refused["escalation_id"])


def kinds(row: Escalation) -> list[str]:
    entries = LedgerEntry.objects.filter(stream=str(row.flow_id)).order_by("seq")
    return [kind for kind in entries.values_list("kind", flat=True) if not kind.startswith("record:")]


def taken(answer: Any) -> deciding.DecisionResult:
    assert isinstance(answer, deciding.DecisionResult), answer
    return answer


def test_a_router_calls_a_person(trader: api_client.Caller) -> None:
    row = interrupted(trader)
    assert (row.family, row.reason, row.impact) == ("INTERRUPT", "WORKFLOW_INTERRUPTED", "HIGH_IMPACT")
    assert (row.proposal, row.intent, row.rule) == (None, None, "unsure")
    assert row.deadline_at is not None
    assert row.effect == (
        "momentum does not continue in research 9.0.0 after GENERATE: unsure calls a person: "
        "output.confidence is below 0.5"
    ).replace("momentum", api_client.TRADER)
    flow = Flow.objects.get(pk=row.flow_id)
    assert (flow.state, flow.reason) == ("ESCALATED", "WORKFLOW_INTERRUPTED")
    assert kinds(row) == ["flow:opened", "step:taken", "flow:moved", "escalation:opened", "budget:spent"]
    shown = factories.read_shown(row)
    assert isinstance(shown, InterruptEvidence)
    assert (shown.cause.policy, shown.cause.demands) == ("unsure", "INTERRUPT")
    assert shown.fold.last is not None
    assert shown.fold.last.output == {"confidence": 0.1}
    told = trader.get(f"/flows/{flow.pk}/feedback").ok()["events"][-1]
    assert told["event_type"] == "ESCALATION_REQUIRED"
    assert told["data"]["status"] == "AWAITING_HUMAN_INPUT"
    call_command("verify_ledger")


def test_the_workflow_says_how_weighty_it_is_and_how_long_it_waits(trader: api_client.Caller) -> None:
    row = interrupted(trader, sla_s=60, impact="LOW_IMPACT")
    assert row.impact == "LOW_IMPACT"
    assert row.deadline_at == row.opened_at + timedelta(seconds=60)


def test_nothing_is_allowed_meanwhile(trader: api_client.Caller) -> None:
    dfid = str(interrupted(trader).flow_id)
    answer = trader.post(f"/flows/{dfid}/steps/check", {"instruction": "VERIFY"}).ok()
    assert (answer["allowed"], answer["check_id"]) == (False, None)
    assert [finding["code"] for finding in answer["findings"]] == ["AWAITING_HUMAN_INPUT"]
    refused = step(trader, dfid, "VERIFY").ok(200)
    assert [finding["code"] for finding in refused["findings"]] == ["AWAITING_HUMAN_INPUT"]
    assert "escalation_id" not in refused
    body = api_client.proposal("x")
    trader.propose(dfid, body).problem(409, "FLOW_NOT_OPEN")
    assert Escalation.objects.count() == 1


def test_a_person_resumes_it(trader: api_client.Caller, olivia: User) -> None:
    row = interrupted(trader)
    taken(factories.decide(row, olivia, Action.RESUME, justification="The news is old, go on."))
    dfid = str(row.flow_id)
    view = trader.get(f"/flows/{dfid}").ok()
    assert (view["state"], view["workflow"]["next"]) == ("ACTIVE", None)
    told = trader.get(f"/flows/{dfid}/feedback").ok()["events"][-1]
    assert (told["event_type"], told["data"]["action"]) == ("ESCALATION_RESOLVED", "RESUME")
    step(trader, dfid, "VERIFY").ok(201)
    assert trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()["verdict"] == "ACCEPT"
    call_command("verify_ledger")
    call_command("replay", dfid)


def test_a_person_redirects_it_and_checkers_are_asked(trader: api_client.Caller, olivia: User) -> None:
    limit = {"id": "once", "checker": "precedes", "on": "TOOL_CALL", "by": "VERIFY"}
    row = interrupted(trader, checkers=[limit])
    dfid = str(row.flow_id)
    for wrong in ("", "DREAM", "INTERRUPT"):
        refused = factories.decide(
            row, olivia, Action.REDIRECT, instruction=wrong, justification="Take another path, please."
        )
        assert isinstance(refused, Problem)
        assert refused.code == "INSTRUCTION_UNKNOWN"
    row.refresh_from_db()
    taken(
        factories.decide(
            row, olivia, Action.REDIRECT, instruction="TOOL_CALL", justification="Take another path, please."
        )
    )
    told = trader.get(f"/flows/{dfid}/feedback").ok()["events"][-1]
    assert told["data"]["instruction"] == "TOOL_CALL"
    view = trader.get(f"/flows/{dfid}").ok()["workflow"]
    assert view["next"] == {"instruction": "TOOL_CALL", "policy": "unsure", "reason": "A person chose it."}
    call_command("verify_ledger")
    refused = step(trader, dfid, "TOOL_CALL").ok(200)
    assert Escalation.objects.get(pk=refused["escalation_id"]).reason == "POLICY_DEADLOCK"
    call_command("replay", dfid)


def test_a_person_aborts_it(trader: api_client.Caller, olivia: User) -> None:
    row = interrupted(trader)
    taken(factories.decide(row, olivia, Action.ABORT))
    flow = Flow.objects.get(pk=row.flow_id)
    assert (flow.state, flow.reason) == ("ABORTED", "ABORTED_BY_PERSON")
    call_command("verify_ledger")


def test_the_deadline_aborts_it(trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    row = interrupted(trader, sla_s=60)
    later = clock.now() + timedelta(seconds=61)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert deadlines.sweep() == 1
    flow = Flow.objects.get(pk=row.flow_id)
    assert (flow.state, flow.reason) == ("ABORTED", "DEADLINE_PASSED")


def test_a_person_asks_the_agent_first(trader: api_client.Caller, olivia: User) -> None:
    row = interrupted(trader)
    before = row.deadline_at
    taken(factories.decide(row, olivia, Action.REQUEST_INFO, justification="Which signals disagree?"))
    row.refresh_from_db()
    assert before is not None
    assert row.deadline_at is not None
    assert row.deadline_at > before
    trader.post(f"/flows/{row.flow_id}/answers", {"text": "Two of three."}).ok()
    row.refresh_from_db()
    assert row.revision == 2
    shown = factories.read_shown(row)
    assert isinstance(shown, InterruptEvidence)
    assert [item.answer for item in shown.questions] == ["Two of three."]
    call_command("verify_ledger")
    taken(factories.decide(row, olivia, Action.RESUME, justification="That is a good answer."))


def test_no_other_action_is_offered(trader: api_client.Caller, olivia: User) -> None:
    row = interrupted(trader)
    for action in (Action.OVERRIDE, Action.MODIFY, Action.MARK_DONE, Action.ACKNOWLEDGE):
        refused = factories.decide(row, olivia, action, justification="Because it has to be so.")
        assert isinstance(refused, Problem)
        assert refused.code == "ACTION_UNKNOWN"


def test_several_are_not_resumed_at_once(trader: api_client.Caller, olivia: User) -> None:
    refused = bulk_deciding.resume_refusal(row=interrupted(trader))
    assert refused is not None
    assert refused.code == "SETTLE_ALONE"


def test_what_is_demanded_and_refused_calls_a_person(trader: api_client.Caller, olivia: User) -> None:
    row = deadlocked(trader)
    assert (row.family, row.reason) == ("INTERRUPT", "POLICY_DEADLOCK")
    assert row.effect.endswith("unsure demands VERIFY, which is refused by ready")
    shown = factories.read_shown(row)
    assert isinstance(shown, InterruptEvidence)
    assert [one.policy for one in shown.cause.refused_by] == ["ready"]
    dfid = str(row.flow_id)
    answer = trader.post(f"/flows/{dfid}/steps/check", {"instruction": "VERIFY"}).ok()
    assert [finding["code"] for finding in answer["findings"]] == ["AWAITING_HUMAN_INPUT"]
    taken(factories.decide(row, olivia, Action.RESUME, justification="Let it take any edge."))
    assert trader.get(f"/flows/{dfid}").ok()["workflow"]["next"] is None
    # Nothing is demanded any more, so that what is refused is only refused.
    assert "escalation_id" not in step(trader, dfid, "VERIFY", input={"ready": False}).ok(200)
    call_command("verify_ledger")


def test_a_check_of_what_is_demanded_calls_a_person_too(trader: api_client.Caller) -> None:
    assert isinstance(load(routers=[DEMANDS], checkers=[REFUSES]), Loaded)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE", output={"confidence": 0.1}).ok(201)
    # Another instruction is refused by the demand alone, and waiting is no deadlock.
    assert "escalation_id" not in step(trader, dfid, "TOOL_CALL").ok(200)
    answer = trader.post(f"/flows/{dfid}/steps/check", {"instruction": "VERIFY", "input": {}}).ok()
    assert Escalation.objects.get(pk=answer["escalation_id"]).reason == "POLICY_DEADLOCK"


def refused_step(caller: api_client.Caller, **changes: Any) -> Escalation:
    """A flow whose step VERIFY a checker leaves to a person; its escalation."""
    loaded = load(**{"checkers": [ASKS], "instructions": BOUNDED, **changes})
    assert isinstance(loaded, Loaded), loaded
    dfid = caller.open_flow()
    step(caller, dfid, "GENERATE").ok(201)
    refused = step(caller, dfid, "VERIFY", input={"ready": False}).ok(200)
    assert [finding["policy"] for finding in refused["findings"]] == ["ready"]
    return Escalation.objects.get(pk=refused["escalation_id"])


def test_a_checker_leaves_a_step_to_a_person(trader: api_client.Caller) -> None:
    row = refused_step(trader)
    assert (row.family, row.reason, row.rule) == ("INTERRUPT", "WORKFLOW_INTERRUPTED", "ready")
    assert row.effect.endswith("after GENERATE: VERIFY needs a person, by ready")
    shown = factories.read_shown(row)
    assert isinstance(shown, InterruptEvidence)
    assert shown.cause.refused is not None
    assert (shown.cause.refused.instruction, shown.cause.refused.input) == ("VERIFY", {"ready": False})
    assert kinds(row)[-4:] == ["step:refused", "flow:moved", "escalation:opened", "budget:spent"]
    # Nothing moves meanwhile, and asking again asks nobody else.
    again = step(trader, str(row.flow_id), "VERIFY", input={"ready": True}).ok(200)
    assert [finding["code"] for finding in again["findings"]] == ["AWAITING_HUMAN_INPUT"]
    assert Escalation.objects.count() == 1
    call_command("verify_ledger")


def test_a_person_allows_just_the_step_that_was_shown(trader: api_client.Caller, olivia: User) -> None:
    row = refused_step(trader)
    taken(factories.decide(row, olivia, Action.RESUME, justification="Unready is fine this time."))
    dfid = str(row.flow_id)
    call_command("verify_ledger")
    assert trader.get(f"/flows/{dfid}").ok()["workflow"]["position"] == "GENERATE"
    # Its check is allowed, as its report is.
    asked = {"instruction": "VERIFY", "input": {"ready": False}}
    check = trader.post(f"/flows/{dfid}/steps/check", asked).ok()
    assert check["allowed"] is True
    trader.post(f"/flows/{dfid}/steps", {**asked, "check_id": check["check_id"]}).ok(201)
    assert trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()["verdict"] == "ACCEPT"
    call_command("verify_ledger")
    call_command("replay", dfid)


def test_a_permit_is_for_that_input_and_ends_with_the_next_step(
    trader: api_client.Caller, olivia: User
) -> None:
    loops = [*RESEARCH["edges"], ["VERIFY", "GENERATE"]]
    row = refused_step(trader, edges=loops)
    taken(factories.decide(row, olivia, Action.RESUME, justification="Unready is fine this time."))
    dfid = str(row.flow_id)
    step(trader, dfid, "VERIFY", input={"ready": False}).ok(201)
    step(trader, dfid, "GENERATE").ok(201)
    refused = step(trader, dfid, "VERIFY", input={"ready": False}).ok(200)
    second = Escalation.objects.get(pk=refused["escalation_id"])
    taken(factories.decide(second, olivia, Action.RESUME, justification="And once more, please."))
    refused = step(trader, dfid, "VERIFY", input={"ready": False, "force": True}).ok(200)
    assert Escalation.objects.get(pk=refused["escalation_id"]).state == "OPEN"
    call_command("verify_ledger")


def test_a_check_calls_a_person_too_and_a_check_of_a_proposal_nobody(trader: api_client.Caller) -> None:
    unready = {**ASKS, "id": "settled", "on": "PROPOSE"}
    assert isinstance(load(checkers=[ASKS, unready]), Loaded)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").ok(201)
    step(trader, dfid, "VERIFY", input={"ready": True}).ok(201)
    path = f"/flows/{dfid}/steps/check"
    assert "escalation_id" not in trader.post(path, {"instruction": "PROPOSE", "input": {}}).ok()
    other = trader.open_flow()
    step(trader, other, "GENERATE").ok(201)
    asked = {"instruction": "VERIFY", "input": {"ready": False}}
    answer = trader.post(f"/flows/{other}/steps/check", asked).ok()
    assert (answer["allowed"], answer["check_id"]) == (False, None)
    assert Escalation.objects.get(pk=answer["escalation_id"]).reason == "WORKFLOW_INTERRUPTED"


def test_one_objection_that_rejects_is_enough(trader: api_client.Caller) -> None:
    assert isinstance(load(checkers=[ASKS, {**REFUSES, "id": "strict"}]), Loaded)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").ok(201)
    assert "escalation_id" not in step(trader, dfid, "VERIFY", input={"ready": False}).ok(200)
    # No edge leads there either.
    assert "escalation_id" not in step(trader, dfid, "PROPOSE").ok(200)
    assert not Escalation.objects.exists()


def test_the_demanded_step_is_allowed_and_stays_demanded(trader: api_client.Caller, olivia: User) -> None:
    row = refused_step(trader, routers=[{**DEMANDS, "on_missing": "to"}])
    taken(factories.decide(row, olivia, Action.RESUME, justification="Unready is fine this time."))
    dfid = str(row.flow_id)
    assert trader.get(f"/flows/{dfid}").ok()["workflow"]["next"]["instruction"] == "VERIFY"
    step(trader, dfid, "VERIFY", input={"ready": False}).ok(201)


def test_what_is_decided_before_the_first_step_is_of_the_workflow_of_then(
    trader: api_client.Caller, olivia: User
) -> None:
    asks = {**ASKS, "on": "GENERATE"}
    assert isinstance(load(checkers=[asks]), Loaded)
    dfid = trader.open_flow()
    refused = step(trader, dfid, "GENERATE", input={"ready": False}).ok(200)
    row = Escalation.objects.get(pk=refused["escalation_id"])
    assert isinstance(load("9.1.0", checkers=[{**asks, "require": "input.sure"}]), Loaded)
    taken(factories.decide(row, olivia, Action.RESUME, justification="Unready is fine this time."))
    assert WorkflowPosition.objects.get(flow=row.flow_id).workflow.version == "9.0.0"
    step(trader, dfid, "GENERATE", input={"ready": False}).ok(201)
    call_command("verify_ledger")


def test_a_permit_that_nobody_gave_is_not_followed(trader: api_client.Caller, olivia: User) -> None:
    row = refused_step(trader)
    taken(factories.decide(row, olivia, Action.RESUME, justification="Unready is fine this time."))
    position = WorkflowPosition.objects.get(flow=row.flow_id)
    forged = canonical.decode(bytes(position.fold))
    forged["allowed"]["input_digest"] = steps.input_digest({"ready": "never shown"})
    WorkflowPosition.objects.update(fold=canonical.encode(forged))
    step(trader, str(row.flow_id), "VERIFY", input={"ready": "never shown"}).problem(409, "NO_WORKFLOW")
    with pytest.raises(CommandError):
        call_command("verify_ledger")


def test_a_rate_only_makes_it_wait(trader: api_client.Caller) -> None:
    slowly = {"id": "slowly", "checker": "rate", "on": "VERIFY", "times": 1, "per_s": 600}
    assert isinstance(load(routers=[DEMANDS], checkers=[slowly]), Loaded)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE", output={"confidence": 0.1}).ok(201)
    trader.post(f"/flows/{dfid}/steps/check", {"instruction": "VERIFY"}).ok()
    refused = step(trader, dfid, "VERIFY").ok(200)
    assert [finding["code"] for finding in refused["findings"]] == ["RATE_LIMITED"]
    assert not Escalation.objects.exists()


def test_a_demanded_proposal_that_the_workflow_refuses_calls_a_person(trader: api_client.Caller) -> None:
    demands = {**CALLS, "to": "PROPOSE"}
    refuses = {"id": "verified", "checker": "precedes", "on": "PROPOSE", "by": "VERIFY"}
    assert isinstance(load(routers=[demands], checkers=[refuses]), Loaded)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE", output={"confidence": 0.1}).ok(201)
    answer = trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    assert (answer["verdict"], answer["state"]) == ("REJECT", "ESCALATED")
    row = Escalation.objects.get(pk=answer["escalation_id"])
    assert (row.reason, row.proposal) == ("POLICY_DEADLOCK", None)
    call_command("verify_ledger")
    call_command("replay", dfid)


def test_an_empty_bucket_aborts_the_flow(trader: api_client.Caller) -> None:
    assert isinstance(load(routers=[CALLS], instructions=BOUNDED), Loaded)
    Agent.objects.filter(agent_id=api_client.TRADER).update(escalation_millitokens=0, bucket_at=clock.now())
    dfid = trader.open_flow()
    said = step(trader, dfid, "GENERATE", output={"confidence": 0.1}).ok(201)
    assert "escalation_id" not in said
    flow, agent = Flow.objects.get(pk=UUID(dfid)), Agent.objects.get(agent_id=api_client.TRADER)
    assert (flow.state, flow.reason) == ("ABORTED", "ESCALATION_BUDGET_EXHAUSTED")
    assert (agent.status, agent.status_reason) == (AgentStatus.PASSIVE, "ESCALATION_BUDGET_EXHAUSTED")
    assert not Escalation.objects.exists()


def test_routers_act_before_the_proposal_only(trader: api_client.Caller) -> None:
    after = {**CALLS, "on": "PROPOSE", "key": "input.quantity", "below": 10**6}
    assert isinstance(load(routers=[after]), Loaded)
    dfid = trader.open_flow()
    for name in ("GENERATE", "VERIFY"):
        step(trader, dfid, name).ok(201)
    assert trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()["verdict"] == "ACCEPT"
    assert trader.get(f"/flows/{dfid}").ok()["workflow"]["next"] is None


def test_a_repeated_step_opens_nothing_more(trader: api_client.Caller) -> None:
    assert isinstance(load(routers=[CALLS], instructions=BOUNDED), Loaded)
    dfid = trader.open_flow()
    body = {"instruction": "GENERATE", "output": {"confidence": 0.1}}
    path, key = f"/flows/{dfid}/steps", {"Idempotency-Key": "k"}
    first = trader.post(path, body, headers=key).ok(201)
    assert trader.post(path, body, headers=key).ok(201) == first
    assert Escalation.objects.count() == 1


def test_a_failed_validation_calls_a_person(trader: api_client.Caller) -> None:
    router = {"id": "bounds", "router": "validate", "on": "GENERATE", "by": "VERIFY"}
    bounded = {**BOUNDED, "VERIFY": {"core": "NORMATIVE", "max_visits": 9}}
    assert isinstance(load(routers=[router], instructions=bounded), Loaded)
    dfid = trader.open_flow()
    step(trader, dfid, "GENERATE").ok(201)
    said = step(trader, dfid, "VERIFY", output={"result": "FAIL"}).ok(201)
    assert said["next"] == {
        "instruction": "INTERRUPT",
        "policy": "bounds",
        "reason": "VERIFY reported FAIL.",
    }
    assert Escalation.objects.get(pk=said["escalation_id"]).rule == "bounds"


def test_a_position_changed_after_a_person_decided_is_found(trader: api_client.Caller, olivia: User) -> None:
    row = interrupted(trader)
    taken(factories.decide(row, olivia, Action.RESUME, justification="The news is old, go on."))
    call_command("verify_ledger")
    WorkflowPosition.objects.update(fold=b'{"reliability":1}')
    with pytest.raises(CommandError):
        call_command("verify_ledger")

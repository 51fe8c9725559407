"""A flow that follows a workflow, asks rules and is given a recommendation, written by the services."""

from uuid import UUID

import yaml

from runtime.advice.services import advising
from runtime.contracts import api_schemas
from runtime.contracts.advice import DecideRequest, RulesRequest
from runtime.contracts.problem import Problem
from runtime.contracts.ruleset import RuleOutputDocument
from runtime.flows.services import flows
from runtime.packs.services import packs
from runtime.registry.models import Agent
from runtime.workflows.services import instructions
from tests.support import underwriting
from tests.support.workflow_story import RESEARCH

AGENT = "credit-clerk"
SLOWLY = {"id": "slowly", "checker": "rate", "on": "VERIFY", "times": 3, "per_s": 600}
CLERK = {
    "agent_id": AGENT,
    "role": "EXECUTOR",
    "owner": "credit",
    "mission": "Ask the rules before anything else.",
    "manifest": {"version": "1.0.0", "policy_kinds": [], "workflow": "credit-check@1.0.0"},
}


def write() -> UUID:
    """The flow: one step checked and taken, one rule output, one decision package built on it."""
    pack = yaml.safe_load(underwriting.CREDIT)
    pack["workflows"] = [{**RESEARCH, "workflow": "credit-check", "checkers": [SLOWLY]}]
    pack["agents"] = [CLERK]
    loaded = packs.load(text=yaml.safe_dump(pack), source="credit.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded
    agent = Agent.objects.select_related("active_manifest").get(agent_id=AGENT)
    opened = flows.open_flow(agent=agent, trigger={"type": "tick"})
    assert not isinstance(opened, Problem), opened
    dfid = UUID(opened.dfid)
    for name in ("GENERATE", "VERIFY"):
        checked = instructions.check(
            agent=agent, dfid=dfid, asked=api_schemas.InstructionCheck(instruction=name)
        )
        assert isinstance(checked, api_schemas.CheckAnswer), checked
        step = api_schemas.InstructionRequest(instruction=name, check_id=checked.check_id)
        taken = instructions.report(agent=agent, dfid=dfid, asked=step)
        assert isinstance(taken, api_schemas.StepTakenAnswer), taken
    asked = RulesRequest(ruleset="credit-desk", features={"score": 720, "balance": 5, "region": "south"})
    output = advising.ask_rules(agent=agent, dfid=dfid, asked=asked)
    assert isinstance(output, RuleOutputDocument), output
    wanted = DecideRequest(objectives=(), rule_output_id=output.rule_output_id)
    package = advising.decide(agent=agent, dfid=dfid, asked=wanted)
    assert not isinstance(package, Problem), package
    return dfid

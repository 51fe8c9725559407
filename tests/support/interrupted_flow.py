"""An agent whose flows follow a workflow with a router that calls a person."""

from typing import Any

import yaml
from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.packs.services import packs
from runtime.workflows.services import instructions
from tests.support import factories, gate_cases
from tests.support.workflow_story import RESEARCH

# Calls a person after a step that says that it is not sure.
CALLS = {
    "id": "unsure",
    "router": "threshold",
    "on": "GENERATE",
    "key": "output.confidence",
    "below": 0.5,
    "to": "INTERRUPT",
    "on_missing": "go_on",
}
UNSURE = {"confidence": 0.1}


def register(**changes: Any) -> None:
    """Register the workflow `research` 1.0.0 with that router, or with `changes`."""
    text = yaml.safe_dump(
        {"pack": "flows", "version": "1.0.0", "workflows": [{**RESEARCH, "routers": [CALLS], **changes}]}
    )
    loaded = packs.load(text=text, source="flows.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded


def desk(agent_id: str = "researcher", **manifest: Any) -> factories.Desk:
    """An agent that follows the registered workflow."""
    contract = gate_cases.manifest(workflow="research@1.0.0", **manifest)
    return factories.desk(agent_id=agent_id, manifest=contract)


def step(desk: factories.Desk, dfid: Any, instruction: str, **reported: Any) -> Any:
    """The answer to a step that the agent reports."""
    asked = api_schemas.InstructionRequest(instruction=instruction, **reported)
    return instructions.report(agent=desk.again(), dfid=dfid, asked=asked)


def interrupted(desk: factories.Desk, **output: Any) -> Escalation:
    """The open escalation of a flow that has just reported that it is not sure."""
    dfid = desk.open().dfid
    answer = step(desk, dfid, "GENERATE", output=output or UNSURE)
    assert isinstance(answer, api_schemas.StepTakenAnswer), answer
    assert answer.escalation_id is not None
    return Escalation.objects.get(escalation_id=answer.escalation_id)


def tell(person: User) -> None:
    """One that `person` lets continue after a question that the agent answered, and one that waits."""
    register()
    made = desk(escalations_per_hour=9)
    row = interrupted(made)
    asked = factories.decide(row, person, Action.REQUEST_INFO, justification="Which signals?")
    answered = factories.answer(made, row)
    redirected = factories.decide(row, person, Action.REDIRECT, instruction="TOOL_CALL")
    for answer in (asked, answered, redirected):
        assert not isinstance(answer, Problem), answer
    interrupted(made)

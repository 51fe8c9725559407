"""The evidence pack of a flow whose workflow called a person, and the erasure of its words."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Escalation, Evidence
from runtime.flows.models import Flow
from runtime.maintenance.services import erasure
from runtime.workflows.models import WorkflowPosition
from tests.support import exported_packs, factories, interrupted_flow, ledger_tampering

pytestmark = pytest.mark.django_db
SECRET = "a word that only the agent knows"


@pytest.fixture
def interrupted(db: None) -> Escalation:
    interrupted_flow.register()
    return interrupted_flow.interrupted(interrupted_flow.desk(), confidence=0.1, note=SECRET)


@pytest.fixture
def olivia(db: None) -> User:
    return factories.user("olivia")


def test_a_pack_proves_what_the_person_was_shown_and_chose(
    interrupted: Escalation, olivia: User, tmp_path: Path
) -> None:
    waiting = exported_packs.make(interrupted.flow_id)
    assert exported_packs.verified(waiting, tmp_path)[0] == 0
    factories.decide(interrupted, olivia, Action.REDIRECT, instruction="TOOL_CALL")
    pack = exported_packs.make(interrupted.flow_id)
    assert pack.absent() == {}
    assert pack.objects()[interrupted.evidence_hash]
    assert [body["payload"]["next"] for body in pack.entries("flow:continued")] == ["TOOL_CALL"]
    assert exported_packs.verified(pack, tmp_path)[0] == 0


def test_erasing_the_flow_erases_what_its_agent_reported(interrupted: Escalation, olivia: User) -> None:
    factories.decide(interrupted, olivia, Action.ABORT)
    assert Flow.objects.get(pk=interrupted.flow_id).state == "ABORTED"
    answer = erasure.erase(tenant="default", dfids=[interrupted.flow_id], reason="asked for", actor="system")
    assert isinstance(answer, erasure.Erased)
    assert len(answer.flows) == 1
    assert [bytes(row.body) for row in Evidence.objects.filter(escalation=interrupted)] == [b""]
    assert bytes(WorkflowPosition.objects.get(flow=interrupted.flow_id).fold) == b""
    assert ledger_tampering.differences() == []

"""Calibration maps under races: one is active, and none outlives the version of the kind it was made for."""

import pytest

from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.proposals.queries import gate_facts
from runtime.registry.models import PolicyKind, Target
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.services import calibration_maps, document_writing, kinds
from tests.support import calibration_story, factories, gate_cases, racing

pytestmark = pytest.mark.usefixtures("real_db")
KIND, AGENT = "ADJUST_POSITION", "trader"


@pytest.fixture
def desk() -> factories.Desk:
    """An agent that asks for calibrated confidence, with two drafts, and another version of its kind."""
    desk = factories.desk(agent_id=AGENT, manifest=gate_cases.manifest(confidence="calibrated"))
    Target.objects.create(
        tenant=factories.TENANT, name="broker", base_url="http://127.0.0.1:1", configured_at=clock.now()
    )
    text = document_writing.as_yaml(gate_cases.kind(version="1.3.0", title="Another"))
    row = kinds.draft(tenant=factories.TENANT, text=text, actor="user:1")
    assert isinstance(row, PolicyKind), row
    for _ in range(2):
        calibration_story.draft(AGENT)
    return desk


def activate(version: int) -> CalibrationMap | Problem:
    return calibration_maps.activate(
        tenant=factories.TENANT,
        agent_id=AGENT,
        version=str(version),
        seen_active="",
        reason="Race.",
        actor="user:2",
    )


def test_of_two_maps_activated_at_once_one_is_active(desk: factories.Desk) -> None:
    answers = racing.race(2, lambda number: activate(number + 1))
    (done,) = [answer for answer in answers if isinstance(answer, CalibrationMap)]
    (refused,) = [answer for answer in answers if isinstance(answer, Problem)]
    assert refused.code == "CALIBRATION_MOVED"
    assert CalibrationMap.objects.get(active=True).version == done.version


def test_a_map_that_races_another_version_of_its_kind_never_counts_for_it(desk: factories.Desk) -> None:
    def one(number: int) -> object:
        if number:
            return activate(1)
        return kinds.activate(
            tenant=factories.TENANT,
            kind=KIND,
            version="1.3.0",
            seen_active="1.2.0",
            reason="Race.",
            actor="user:2",
        )

    changed, _ = racing.race(2, one)
    assert isinstance(changed, PolicyKind), changed
    asked = gate_cases.case(rules=gate_facts.get_rules(agent=desk.again(), kind_name=KIND))
    assert asked.rules.kind is not None
    assert asked.rules.kind.version == "1.3.0"
    assert asked.calibrated is None
    # Whatever came first: back at the earlier version, the map stays retired or is retired now.
    back = kinds.activate(
        tenant=factories.TENANT,
        kind=KIND,
        version="1.2.0",
        seen_active="1.3.0",
        reason="Back.",
        actor="user:3",
    )
    assert isinstance(back, PolicyKind), back
    assert not CalibrationMap.objects.filter(active=True).exists()

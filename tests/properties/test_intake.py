"""Intake on anything an agent can send: it is answered and stored, and judged again to the same bytes."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit import canonical
from escalations import evidence_contracts
from escalations.models import Evidence
from runtime.contracts.states import AgentStatus
from runtime.flows.models import Proposal, Verdict
from runtime.proposals.queries import verdict_replay
from runtime.registry.models import Agent
from tests.support import factories, gate_cases, hostile_values

pytestmark = pytest.mark.django_db

stored = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
bodies = st.fixed_dictionaries(
    {
        "params": st.one_of(hostile_values.open_params, hostile_values.params),
        "execution_constraints": hostile_values.constraints.map(
            lambda found: {**found, "validity_window_sec": 0.001 + 5 * bool(found)}
        ),
        "confidence": st.sampled_from([None, 0, 0.1, 1, 1.0]),
        "explain": hostile_values.texts,
        "expected_effects": st.one_of(st.none(), hostile_values.objects),
    }
)


@pytest.fixture(params=["open", "loose"])
def desk(request: pytest.FixtureRequest) -> factories.Desk:
    kind = {"open": hostile_values.OPEN, "loose": hostile_values.LOOSE}[request.param]
    return factories.desk(kind=kind, manifest=gate_cases.manifest(escalations_per_hour=3600))


@stored
@given(body=bodies)
def test_whatever_is_sent_is_answered_and_replayed(desk: factories.Desk, body: dict[str, Any]) -> None:
    Agent.objects.update(status=AgentStatus.ACTIVE)
    flow = desk.open()
    answer = desk.propose(flow, **body)
    assert answer["verdict"] in {"ACCEPT", "REJECT", "ESCALATE"}
    assert canonical.encode(answer)
    assert verdict_replay.replay(dfid=flow.dfid) == verdict_replay.Equal(1)
    kept = canonical.decode(bytes(Proposal.objects.get(flow_id=flow.dfid).body))
    assert canonical.encode(kept["params"]) == canonical.encode(body["params"])
    for row in Evidence.objects.filter(escalation__flow_id=flow.dfid):
        assert canonical.digest(bytes(row.body)) == row.hash
        assert evidence_contracts.read_evidence(bytes(row.body)).to_bytes() == bytes(row.body)
    assert Verdict.objects.filter(proposal__flow_id=flow.dfid).count() == 1

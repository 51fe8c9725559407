"""A rate of a workflow holds however many threads ask at once: every check is under its flow's lock."""

from uuid import UUID

from runtime.contracts import api_schemas
from runtime.flows.services import flows
from runtime.registry.models import Agent
from runtime.workflows.services import instructions
from tests.support import api_client, followed_workflow, racing

RACERS, TIMES = 20, 3
RATE = {"id": "slowly", "checker": "rate", "on": "GENERATE", "times": TIMES, "per_s": 600}


def test_twenty_checks_at_once_get_three_permits(real_db: str) -> None:
    api_client.load_pack()
    followed_workflow.load(checkers=[RATE])
    agent = Agent.objects.get(agent_id=api_client.TRADER)
    opened = flows.open_flow(agent=agent, trigger="race")
    assert isinstance(opened, api_schemas.FlowState)
    asked = api_schemas.InstructionCheck(instruction="GENERATE")

    def ask(_: int) -> bool:
        answer = instructions.check(agent=Agent.objects.get(pk=agent.pk), dfid=UUID(opened.dfid), asked=asked)
        assert isinstance(answer, api_schemas.CheckAnswer)
        return answer.allowed

    assert sorted(racing.race(RACERS, ask)) == [False] * (RACERS - TIMES) + [True] * TIMES

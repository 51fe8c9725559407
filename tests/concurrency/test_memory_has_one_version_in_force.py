"""Writers of one key race: every write is a version of its own, and one of them is in force."""

from runtime.contracts import api_schemas
from runtime.state.models import MemoryItem
from runtime.state.services import memory
from tests.support import factories, gate_cases, racing

RACERS = 16
SCOPES = [{"scope": "desk", "access": "READ_WRITE"}]


def test_sixteen_writers_of_one_key_leave_one_in_force(real_db: str) -> None:
    manifest = gate_cases.manifest(memory_scopes=SCOPES)
    first, second = factories.desk(manifest=manifest), factories.desk(manifest=manifest, agent_id="other")

    def work(number: int) -> object:
        agent = (first if number % 2 else second).agent
        return memory.write(agent=agent, scope="desk", key="k", value=number, source="agent", ttl_s=None)

    answers = racing.race(RACERS, work)
    assert all(isinstance(answer, api_schemas.MemoryAnswer) for answer in answers)
    versions = MemoryItem.objects.order_by("version").values_list("version", flat=True)
    assert list(versions) == list(range(1, RACERS + 1))
    assert MemoryItem.objects.get(current=True).version == RACERS

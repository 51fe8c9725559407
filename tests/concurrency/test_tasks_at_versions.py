"""Tasks at versions of the world, beside many writers and a sealer that crashes: read as they were served."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.verification import findings
from runtime.contracts import task_schemas
from runtime.contracts.problem import Problem
from runtime.flows.models import Flow
from runtime.flows.services.flows import FlowClaims
from runtime.maintenance.services import sealing
from runtime.registry.models import Agent
from runtime.state.models import WorldVersion
from runtime.state.queries import tasks, world
from runtime.state.queries.tasks import TaskContext
from runtime.state.services import facts, world_writes
from runtime.state.services import tasks as services
from runtime.state.services.tasks import TaskCall
from tests.support import factories, racing, trading_desk

WRITERS = 3


class CrashError(Exception):
    """The process dies here, before the commit."""


def open_tasks(agent: Agent) -> list[Flow]:
    """A task for each writer, and one that nobody changes."""
    found = []
    for number in range(WRITERS + 1):
        opened = services.open_task(
            agent=agent,
            asked=task_schemas.TaskRequest(trigger="x"),
            trigger="x",
            seed={"n": -1, "of": number},
            traceparent="",
            claims=FlowClaims(),
            repeatable=None,
        )
        assert not isinstance(opened, Problem), opened
        found.append(Flow.objects.get(dfid=opened.task_id))
    return found


def crashes_at_times(work: Callable[[Sequence[int]], None]) -> Callable[[Sequence[int]], None]:
    """The sealer's numbering, which dies in every second round that has something to number."""
    rounds = [0]

    def numbering(entry_ids: Sequence[int]) -> None:
        work(entry_ids)
        rounds[0] += 1
        if rounds[0] % 2:
            raise CrashError

    return numbering


def seal() -> None:
    """Seal, as the worker does that comes after one that died."""
    try:
        sealing.seal_now()
    except CrashError:
        return


def patch(agent: Agent, flow: Flow, context: dict[str, Any]) -> None:
    """A merge patch of a task's context."""
    call = TaskCall(agent=agent, dfid=flow.dfid)
    changed = racing.patiently(lambda: services.change(call, patch=context))
    assert not isinstance(changed, Problem), changed


def write(path: str, value: object) -> str:
    """A fact; the id of its write."""
    written = racing.patiently(
        lambda: facts.write(
            tenant=factories.TENANT, path=path, value=value, writer=f"feed:{path}", expected_version=None
        )
    )
    assert not isinstance(written, Problem), written
    return written.write_id


def served(flows: Sequence[Flow], version: int) -> list[Any]:
    """Every task at a version of the world."""
    return [tasks.read_at(flow, version=version) for flow in flows]


@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(plans=st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=WRITERS, max_size=WRITERS))
def test_a_task_at_a_version_is_what_was_served_then(
    real_db: str, monkeypatch: pytest.MonkeyPatch, plans: list[list[bool]]
) -> None:
    agent = Agent.objects.filter(tenant=factories.TENANT).first() or trading_desk.open_desk().agent
    flows = open_tasks(agent)
    seen = defaultdict[int, list[Any]](list)
    expected: dict[str, tuple[int, dict[str, Any]]] = {}

    def work(number: int) -> None:
        if number == WRITERS:
            while working:
                racing.patiently(seal)
                version = world.last_version(factories.TENANT)
                if version:
                    seen[version].append(served(flows, version))
            return
        known = {"n": -1, "of": number}
        for at, changes in enumerate(plans[number]):
            if changes:
                patch(agent, flows[number], {"n": at})
                known = {**known, "n": at}
            expected[write(f"task.t{number}", at)] = (number, known)
        working.discard(number)

    working = set(range(WRITERS))
    with monkeypatch.context() as patched:
        patched.setattr(world_writes, "number_sealed", crashes_at_times(world_writes.number_sealed))
        racing.race(WRITERS + 1, work)
    while sealing.seal_now():
        pass
    for write_id, (number, context) in expected.items():
        version = WorldVersion.objects.get(write_id=write_id).version
        assert version is not None
        then = tasks.read_at(flows[number], version=version)
        assert isinstance(then, TaskContext), then
        assert then.document == context
    for version, answers in seen.items():
        assert all(answer == served(flows, version) for answer in answers)
    assert findings.verify_all().findings == []


def test_a_change_that_was_not_committed_was_never_there(real_db: str) -> None:
    agent = trading_desk.open_desk().agent
    flow = open_tasks(agent)[0]

    def dies() -> None:
        with transaction.atomic():
            patch(agent, flow, {"n": 1})
            raise CrashError

    with pytest.raises(CrashError):
        dies()
    write("task.t0", 1)
    sealing.seal_now()
    then = tasks.read_at(flow, version=world.last_version(factories.TENANT))
    assert isinstance(then, TaskContext)
    assert (then.version, then.document) == (1, {"n": -1, "of": 0})
    patch(agent, flow, {"n": 2})
    now = tasks.read(flow)
    assert isinstance(now, TaskContext)
    assert (now.version, now.document) == (2, {"n": 2, "of": 0})
    assert findings.verify_all().findings == []


def test_of_many_that_expect_the_same_version_one_changes_it(real_db: str) -> None:
    agent = trading_desk.open_desk().agent
    flow = open_tasks(agent)[0]
    call = TaskCall(agent=agent, dfid=flow.dfid, expected_versions=frozenset({1}))

    def work(number: int) -> task_schemas.TaskChanged | Problem:
        return services.change(call, patch={"n": number})

    answers = racing.race(6, work)
    changed = [answer for answer in answers if not isinstance(answer, Problem)]
    assert [answer.context_version for answer in changed] == [2]
    refused = {answer.code for answer in answers if isinstance(answer, Problem)}
    assert refused == {"VERSION_MISMATCH"}

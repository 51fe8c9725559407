"""People and writers race over one item of memory: it is decided once, and one version is active."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.guards.models import Review
from runtime.guards.services import memory_reviews
from runtime.state.models import MemoryItem
from runtime.state.services import memory
from tests.support import poisoned_memory, racing

RACERS = 8


def codes(answers: Sequence[object]) -> Counter[str]:
    return Counter(answer.code if isinstance(answer, Problem) else "done" for answer in answers)


def both(works: Sequence[Callable[[], object]]) -> list[object]:
    return racing.race(len(works), lambda number: works[number]())


def kinds() -> Counter[str]:
    return Counter(LedgerEntry.objects.values_list("kind", flat=True))


def test_one_of_many_releases_and_discards_counts(real_db: str) -> None:
    item = poisoned_memory.write(poisoned_memory.desk("web-reader", "WRITE"))

    def work(number: int) -> object:
        act = memory.release if number % 2 else memory.discard
        return act(
            tenant="default", pk=item.pk, digest=item.digest, reason="Seen.", actor=f"user:{number + 1}"
        )

    answers = racing.race(RACERS, work)
    assert codes(answers) == {"done": 1, "NOT_FOUND": RACERS - 1}
    written = kinds()
    assert written["memory:released"] + written["memory:discarded"] == 1
    item.refresh_from_db()
    assert item.current == bool(written["memory:released"])
    assert findings.verify_all().findings == []


def test_two_versions_that_are_released_at_once_leave_the_later_one_active(real_db: str) -> None:
    desk = poisoned_memory.desk("web-reader", "WRITE")
    for _ in range(12):
        MemoryItem.objects.filter(quarantined=True).delete()
        items = [poisoned_memory.write(desk), poisoned_memory.write(desk)]
        answers = both([partial(poisoned_memory.release, item) for item in items])
        active = MemoryItem.objects.get(current=True)
        assert active.version == items[1].version
        assert codes(answers) in ({"done": 2}, {"done": 1, "VERSION_MISMATCH": 1})


def test_a_release_never_replaces_a_newer_write(real_db: str) -> None:
    reader, writer = poisoned_memory.desk("web-reader", "WRITE"), poisoned_memory.desk("other", "WRITE")
    for number in range(20):
        key = f"k{number}"
        item = poisoned_memory.write(reader, key=key)
        write = partial(poisoned_memory.write, writer, "plain advice", source="agent", key=key)
        released, _ = both([partial(poisoned_memory.release, item), write])
        active = MemoryItem.objects.get(key=key, current=True)
        assert (active.version, bytes(active.value)) == (2, b'"plain advice"')
        if isinstance(released, Problem):
            assert released.code == "VERSION_MISMATCH"
            assert MemoryItem.objects.get(key=key, version=1).quarantined
    assert findings.verify_all().findings == []


def test_flows_that_are_marked_at_once_are_marked_once(real_db: str) -> None:
    story = poisoned_memory.tell()
    answers = racing.race(RACERS, lambda _: poisoned_memory.mark(story.item))
    assert all(isinstance(answer, memory_reviews.Marked) for answer in answers)
    assert sum(answer.marked for answer in answers if isinstance(answer, memory_reviews.Marked)) == 2
    assert Review.objects.count() == 2
    assert kinds()["review:requested"] == 2
    assert findings.verify_all().findings == []


def test_an_agent_that_writes_in_many_threads_is_counted_exactly(real_db: str) -> None:
    desk = poisoned_memory.desk("web-reader", "WRITE", writes_per_minute=5)

    def work(number: int) -> object:
        return poisoned_memory.write(desk, number, source="agent", key=f"k{number}")

    racing.race(RACERS, work)
    held = MemoryItem.objects.filter(quarantined=True)
    assert held.count() == RACERS - 5
    assert {bytes(row.reasons)[:13] for row in held} == {b'["MASS_WRITE:'}


def test_denied_writes_of_many_threads_leave_a_few_entries(real_db: str) -> None:
    desk = poisoned_memory.desk("web-reader")

    def work(number: int) -> object:
        answers = [
            memory.write(agent=desk.again(), scope="tips", key="k", value=1, source="agent", ttl_s=None)
            for _ in range(3)
        ]
        return {answer.code for answer in answers if isinstance(answer, Problem)}

    assert racing.race(RACERS, work) == [{"UNAUTHORIZED"}] * RACERS
    assert kinds()["memory:refused"] == memory.REFUSALS_PER_MINUTE

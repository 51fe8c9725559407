"""Which flows received an item of memory, and how they are marked for review."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contexts.models import Snapshot
from runtime.contexts.services import contexts
from runtime.contracts.guard import ReviewOrigin, ReviewResult, ReviewState
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.guards.models import Review
from runtime.guards.queries import memory_reach, review_list
from runtime.guards.services import memory_reviews, reviews
from runtime.registry.models import Agent
from runtime.state.models import MemoryItem
from runtime.state.services import memory_reads
from tests.support import factories, poisoned_memory

pytestmark = pytest.mark.django_db


def reached(item: MemoryItem, **how: Any) -> set[UUID]:
    return {found.flow.pk for found in memory_reach.find(item=item, **how).flows}


def entries(dfid: UUID) -> list[dict[str, Any]]:
    rows = LedgerEntry.objects.filter(stream=str(dfid), kind="review:requested").order_by("seq")
    return [row.payload for row in rows]


def test_finds_the_flows_whose_contexts_hold_the_version() -> None:
    story = poisoned_memory.tell()
    item = story.again()
    assert reached(item) == {flow.dfid for flow in story.flows}
    newer = poisoned_memory.write(poisoned_memory.desk("owner", "WRITE"), "plain advice", source="agent")
    later = story.desks[0].open()
    assert reached(item) == {flow.dfid for flow in story.flows}
    assert reached(newer) == {later.dfid}


def test_an_item_that_was_never_active_has_reached_nobody() -> None:
    story = poisoned_memory.tell()
    waiting = poisoned_memory.write(poisoned_memory.desk("other", "WRITE"))
    story.desks[0].open()
    assert waiting.quarantined
    assert memory_reach.find(item=waiting) == memory_reach.Reach()
    other = poisoned_memory.write(poisoned_memory.desk("third", "WRITE"), "plain", source="agent", key="b")
    assert reached(other) == set()


def test_finds_reads_for_a_flow_and_names_readers_outside_of_one() -> None:
    story = poisoned_memory.tell()
    reader = poisoned_memory.desk("late-reader")
    opened = flows.open_flow(agent=reader.again(), trigger={"type": "tick"})
    assert not isinstance(opened, Problem)
    named: dict[str, Any] = {"scope": poisoned_memory.SCOPE, "key": poisoned_memory.KEY}
    for dfid in (UUID(opened.dfid), None, None):
        assert isinstance(memory_reads.read(agent=reader.again(), dfid=dfid, **named), MemoryItem)
    reach = memory_reach.find(item=story.again())
    found = {one.flow.pk: one.served for one in reach.flows}
    served = found[UUID(opened.dfid)]
    assert (served.reads, served.contexts) == (1, [])
    assert [(one.agent_id, one.reads) for one in reach.readers] == [("late-reader", 2)]


def test_says_what_became_of_each_flow() -> None:
    story = poisoned_memory.tell()
    answer = story.desks[0].propose(story.flows[0])
    assert answer["verdict"] == "ACCEPT"
    found = {one.flow.pk: one for one in memory_reach.find(item=story.again()).flows}
    bought, idle = (found[flow.dfid] for flow in story.flows)
    assert (bought.verdict, bought.intent, bought.outcome) == ("ACCEPT", "PENDING", "")
    assert (idle.verdict, idle.intent, idle.outcome) == ("", "", "")


def test_flows_that_a_reached_flow_opens_afterwards_are_reached_too() -> None:
    story = poisoned_memory.tell()
    parent = story.flows[0].row()
    child = Flow.objects.create(
        agent=story.desks[1].agent,
        parent=parent,
        root=parent,
        depth=1,
        opened_at=clock.now(),
        updated_at=clock.now(),
        trigger=b"{}",
    )
    earlier = Flow.objects.create(
        agent=story.desks[1].agent,
        parent=parent,
        root=parent,
        depth=1,
        opened_at=parent.opened_at - timedelta(seconds=9),
        updated_at=clock.now(),
        trigger=b"{}",
    )
    found = {one.flow.pk: one.served for one in memory_reach.find(item=story.again()).flows}
    assert found[child.pk].is_child
    assert earlier.pk not in found


def test_lists_what_was_remembered_from_the_flows() -> None:
    story = poisoned_memory.tell()
    factories.change_manifest("buyer", memory_scopes=[{"scope": "tips", "access": "READ_WRITE"}])
    source = f"flow:{story.flows[0].dfid}"
    derived = poisoned_memory.write(story.desks[0], {"type": "tick"}, source=source, key="derived")
    assert not derived.quarantined
    assert list(memory_reach.find(item=story.again()).derived) == [derived]


def test_goes_on_with_older_contexts_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_reach, "SEARCHED", 1)
    story = poisoned_memory.tell()
    item = story.again()
    found: set[UUID] = set()
    before = None
    for _ in range(4):
        reach = memory_reach.find(item=item, before=before)
        found |= {one.flow.pk for one in reach.flows}
        before = reach.older
        if before is None:
            break
    assert found == {flow.dfid for flow in story.flows}
    assert before is None


def test_a_context_that_cannot_be_read_reaches_nobody() -> None:
    story = poisoned_memory.tell()
    Snapshot.objects.filter(flow_id=story.flows[0].dfid).update(body=b'{"key":"acme","scope":"tips"')
    assert reached(story.again()) == {story.flows[1].dfid}


def test_marks_each_flow_once_with_an_entry_in_its_stream() -> None:
    story = poisoned_memory.tell()
    first = poisoned_memory.mark(story.item)
    assert isinstance(first, memory_reviews.Marked)
    assert (first.marked, first.left) == (2, 0)
    for flow in story.flows:
        (said,) = entries(flow.dfid)
        assert (said["scope"], said["key"], said["version"]) == ("tips", "acme", 1)
        assert (said["digest"], said["reason"]) == (story.item.digest, poisoned_memory.MARKED)
    assert {row.origin for row in Review.objects.all()} == {ReviewOrigin.MEMORY}
    assert review_list.flows_in_review(dfids=[flow.dfid for flow in story.flows])
    later = story.desks[0].open()
    again = poisoned_memory.mark(story.item, reason="Once more.")
    assert isinstance(again, memory_reviews.Marked)
    assert (again.marked, again.left) == (1, 2)
    assert [len(entries(flow.dfid)) for flow in (*story.flows, later)] == [1, 1, 1]
    assert findings.verify_all().findings == []


def test_many_flows_are_marked_in_several_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_reach, "MOST_FLOWS", 1)
    story = poisoned_memory.tell()
    assert not memory_reach.find(item=story.again()).is_whole
    for _ in range(2):
        assert poisoned_memory.mark(story.item) == memory_reviews.Marked(item=story.again(), marked=1, left=0)
    assert Review.objects.count() == 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"reason": " "}, "REASON_MISSING"),
        ({"reason": "x" * 501}, "REASON_MISSING"),
        ({"digest": "0" * 64}, "VERSION_MISMATCH"),
        ({"tenant": "other"}, "NOT_FOUND"),
    ],
)
def test_marks_nothing_for_a_wrong_request(changes: dict[str, Any], code: str) -> None:
    story = poisoned_memory.tell()
    answer = poisoned_memory.mark(story.item, **changes)
    assert isinstance(answer, Problem)
    assert answer.code == code
    assert not Review.objects.exists()


def test_marks_nothing_for_a_value_that_the_ledger_does_not_have() -> None:
    story = poisoned_memory.tell()
    MemoryItem.objects.update(value=b'"harmless"')
    answer = poisoned_memory.mark(story.item)
    assert isinstance(answer, Problem)
    assert answer.code == "TAMPERED"


def test_a_flow_whose_words_are_erased_is_left_out() -> None:
    story = poisoned_memory.tell()
    gone = story.flows[0]
    assert not isinstance(flows.cancel(agent=story.desks[0].again(), dfid=gone.dfid, reason="x"), Problem)
    Flow.objects.filter(dfid=gone.dfid).update(erased_at=clock.now())
    reach = memory_reach.find(item=story.again())
    assert (len(reach.flows), reach.unmarked) == (2, 1)
    marked = poisoned_memory.mark(story.item)
    assert isinstance(marked, memory_reviews.Marked)
    assert (marked.marked, marked.left) == (1, 1)


def test_a_requested_review_is_closed_like_any_other() -> None:
    story = poisoned_memory.tell_marked()
    review = Review.objects.get(flow_id=story.flows[0].dfid)
    closed = reviews.close(
        tenant="default",
        review_id=review.pk,
        result=ReviewResult.CONFIRMED,
        note="It bought.",
        actor="user:7",
    )
    assert isinstance(closed, Review)
    assert closed.state == ReviewState.REVIEWED
    (said,) = [row.payload for row in LedgerEntry.objects.filter(kind="review:closed")]
    assert (said["guard_id"], said["result"]) == ("", "CONFIRMED")
    assert findings.verify_all().findings == []
    again = poisoned_memory.mark(story.item)
    assert isinstance(again, memory_reviews.Marked)
    assert again.marked == 0


@pytest.mark.parametrize(
    "change",
    [
        {"request_reason": "nothing"},
        {"requested_by": "user:9"},
        {"findings": b"[1]"},
        {"confidence_bps": 1},
        {"memory": 2},
    ],
)
def test_a_changed_request_is_found(change: dict[str, Any]) -> None:
    story = poisoned_memory.tell_marked()
    other = poisoned_memory.write(poisoned_memory.desk("other", "WRITE"), "b", source="agent", key="b")
    if "memory" in change:
        change = {"memory": other}
    assert findings.verify_all().findings == []
    Review.objects.filter(flow_id=story.flows[0].dfid).update(**change)
    (found,) = findings.verify_all().findings
    assert found.detail.startswith(f"review.{next(iter(change))}")


def test_a_deleted_mark_and_one_that_nobody_requested_are_found() -> None:
    story = poisoned_memory.tell_marked()
    kept, gone = Review.objects.order_by("pk")
    Review.objects.filter(pk=gone.pk).delete()
    assert [found.detail for found in findings.verify_all().findings] == [f"the review {gone.pk} is missing"]
    Review.objects.filter(pk=kept.pk).update(flow=kept.flow_id, memory=story.item)
    extra = Review.objects.get(pk=kept.pk)
    extra.pk = None
    extra.flow = story.desks[0].open().row()
    extra.save(force_insert=True)
    assert len(findings.verify_all().findings) == 2


def test_the_reading_agents_stay_as_they_are() -> None:
    story = poisoned_memory.tell_marked()
    assert set(Agent.objects.values_list("status", flat=True)) == {"ACTIVE"}
    frozen = contexts.compile_context(agent=story.desks[0].again(), dfid=story.flows[0].dfid)
    assert not isinstance(frozen, Problem)

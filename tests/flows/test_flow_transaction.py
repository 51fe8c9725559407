"""The journal of a transaction: moves by the table, entries in order, one compare-and-swap."""

from datetime import timedelta

import pytest

from audit import canonical, events
from audit.models import LedgerEntry
from runtime.contracts.states import FeedbackType, FlowState
from runtime.core import clock, transactions
from runtime.flows.models import Feedback, Flow
from runtime.flows.services.flow_transaction import Journal
from tests.support import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def flow() -> Flow:
    return factories.desk().open().row()


def journal(flow: Flow) -> Journal:
    """A journal of `flow`, now."""
    return Journal(flow=flow, actor="system", at=clock.now())


def test_a_move_a_word_to_the_agent_and_an_entry_are_written_together(flow: Flow) -> None:
    made = journal(flow)
    made.transition(FlowState.ABORTED, reason="IDLE_TOO_LONG")
    made.notify_agent(FeedbackType.FLOW_ABORTED, {"reason": "IDLE_TOO_LONG"})
    assert Flow.objects.get().state == "ACTIVE"
    made.write()
    row = Flow.objects.get()
    assert (row.state, row.reason, row.ended_at) == ("ABORTED", "IDLE_TOO_LONG", made.at)
    *_, moved, last = LedgerEntry.objects.filter(stream=str(flow.dfid)).order_by("seq")
    assert (moved.kind, last.kind) == ("flow:moved", "record:emitted")
    assert (last.seq, bytes(last.hash)) == (row.head_seq, bytes(row.head_hash))
    told = Feedback.objects.get()
    assert (told.seq, canonical.decode(bytes(told.body))) == (1, {"reason": "IDLE_TOO_LONG"})


@pytest.mark.parametrize("to", [FlowState.EXECUTING, FlowState.CREATED])
def test_a_move_that_the_table_forbids_is_a_bug(flow: Flow, to: FlowState) -> None:
    with pytest.raises(ValueError, match="may not move from ACTIVE"):
        journal(flow).transition(to)


def test_nothing_follows_an_end(flow: Flow) -> None:
    made = journal(flow)
    made.transition(FlowState.CLOSED)
    with pytest.raises(ValueError, match="may not move from CLOSED"):
        made.transition(FlowState.ACTIVE)


def test_the_second_of_two_journals_on_one_reading_loses(flow: Flow) -> None:
    first, second = journal(flow), journal(Flow.objects.get())
    first.transition(FlowState.CLOSED)
    first.write()
    with pytest.raises(transactions.ConcurrentUpdateError):
        second.write()


def test_two_journals_of_one_flow_follow_each_other(flow: Flow) -> None:
    journal(flow).write()
    journal(flow).write()
    assert Flow.objects.get().version == flow.version


def test_time_never_runs_back_in_a_flow(flow: Flow) -> None:
    made = Journal(flow=flow, actor="system", at=flow.updated_at - timedelta(hours=1))
    assert made.at == flow.updated_at
    made.add(events.FlowMoved(from_state="A", to_state="B", reason=""))
    made.write()
    times = list(
        LedgerEntry.objects.filter(stream=str(flow.dfid)).order_by("seq").values_list("at", flat=True)
    )
    assert times == sorted(times)

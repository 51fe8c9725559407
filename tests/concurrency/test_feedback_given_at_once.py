"""Feedback under real threads: a form sent many times at once is one, and newer ones are counted in turn."""

from functools import partial
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from audit.models import LedgerEntry, RecordFeedback
from audit.records import feedback, queries
from audit.records.queries import Record
from audit.verification.verify import Whole, verify_database
from runtime.flows.services import record_feedback
from tests.support import factories, racing

AT_ONCE = 4


@pytest.fixture
def record(real_db: str) -> Record:
    escalation = factories.desk().escalate()
    found = queries.list_of_flow(tenant="default", dfid=escalation.flow_id)
    assert found is not None
    return found.records[-1]


@pytest.fixture
def olivia(real_db: str) -> User:
    return factories.user("olivia")


def test_one_form_sent_at_once_is_one_piece_of_feedback(record: Record, olivia: User) -> None:
    send = partial(
        record_feedback.give,
        tenant="default",
        record=record,
        author=olivia,
        form_id=uuid4(),
        assessment="WRONG",
        reason="No.",
    )
    answers = racing.race(AT_ONCE, lambda number: send())
    assert {getattr(answer, "pk", None) for answer in answers} == {RecordFeedback.objects.get().pk}
    assert LedgerEntry.objects.filter(kind="record:feedback_given").count() == 1


def test_of_several_at_once_each_has_its_turn_and_one_counts(record: Record, olivia: User) -> None:
    def send(number: int) -> None:
        record_feedback.give(
            tenant="default", record=record, author=olivia, form_id=uuid4(), assessment="RIGHT"
        )

    racing.race(AT_ONCE, send)
    assert sorted(RecordFeedback.objects.values_list("number", flat=True)) == [1, 2, 3, 4]
    given = feedback.list_of_record(tenant="default", record=record)
    assert [item.counts for item in given] == [True, False, False, False]
    assert isinstance(verify_database(), Whole)

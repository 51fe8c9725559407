"""Feedback on records: recorded beside them, whatever the flow came to; it changes nothing."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, connection, transaction

from audit import assessments
from audit.assessments import Assessment
from audit.models import DecisionRecord, LedgerEntry, Payload, RecordFeedback
from audit.records import feedback, queries
from audit.records.feedback import FeedbackShown
from audit.records.queries import Record, RecordFilter
from audit.verification import findings
from escalations.contracts import Action
from runtime.contracts.problem import Problem
from runtime.flows.models import Flow
from runtime.flows.services import record_feedback
from runtime.maintenance.services import payloads
from tests.support import factories, ledger_tampering

pytestmark = pytest.mark.django_db
WHY = "The trend had turned."


@pytest.fixture
def olivia() -> User:
    return factories.user("olivia")


@pytest.fixture
def aborted(olivia: User) -> Record:
    """The terminal record of a flow that olivia has aborted."""
    escalation = factories.desk().escalate()
    assert not isinstance(factories.decide(escalation, olivia, Action.ABORT), Problem)
    found = queries.list_of_flow(tenant="default", dfid=escalation.flow_id)
    assert found is not None
    return found.records[-1]


def give(record: Record, author: User, **said: Any) -> RecordFeedback | Problem:
    known = {"form_id": uuid4(), "assessment": "WRONG", "reason": WHY}
    return record_feedback.give(tenant="default", record=record, author=author, **{**known, **said})


def shown(record: Record) -> list[FeedbackShown]:
    return feedback.list_of_record(tenant="default", record=record)


def wrong() -> list[str]:
    found = findings.verify_all().findings
    return [item.detail for item in found if item.stream.partition(":")[0] != "user"]


def found_by(assessment: str) -> list[str]:
    wanted = RecordFilter(feedback=assessment)
    return [row.record_id for row in queries.search(tenant="default", wanted=wanted).rows]


def test_it_is_recorded_after_the_end_and_changes_nothing(aborted: Record, olivia: User) -> None:
    before = Flow.objects.get(dfid=aborted.dfid)
    records = list(DecisionRecord.objects.values_list("record_hash", flat=True))
    row = give(aborted, olivia, correction="ALLOW")
    assert isinstance(row, RecordFeedback)
    after = Flow.objects.get(dfid=aborted.dfid)
    assert (after.state, after.reason, after.feedback_seq) == (
        before.state,
        before.reason,
        before.feedback_seq,
    )
    assert list(DecisionRecord.objects.values_list("record_hash", flat=True)) == records
    entry = LedgerEntry.objects.filter(stream=aborted.dfid).latest("seq")
    assert (entry.kind, entry.actor, entry.at) == ("record:feedback_given", f"user:{olivia.pk}", row.at)
    assert WHY.encode() not in bytes(entry.body)
    assert entry.payload["record_hash"] == aborted.document["audit"]["record_hash"]
    (item,) = shown(aborted)
    assert (item.assessment, item.correction, item.reason) == ("WRONG", "ALLOW", WHY)
    # Olivia has decided it herself, which is said.
    assert (item.has_decided, item.counts, item.is_untrusted) == (True, True, False)
    assert wrong() == []


def test_the_newest_of_each_person_counts(aborted: Record, olivia: User) -> None:
    sam = factories.user("sam")
    give(aborted, olivia)
    give(aborted, sam, assessment="UNSAFE")
    give(aborted, olivia, assessment="RIGHT", reason="")
    assert [(item.assessment, item.counts, item.has_decided) for item in shown(aborted)] == [
        ("RIGHT", True, True),
        ("UNSAFE", True, False),
        ("WRONG", False, True),
    ]
    assert (found_by("WRONG"), found_by("UNSAFE"), found_by("RIGHT")) == (
        [],
        [aborted.record_id],
        [aborted.record_id],
    )
    said = feedback.list_against(tenant="default", flows=[aborted.dfid])
    assert sorted(said[aborted.dfid]) == [Assessment.RIGHT, Assessment.UNSAFE]
    assert wrong() == []


def test_a_form_sent_twice_is_one(aborted: Record, olivia: User) -> None:
    form = uuid4()
    first, again = (give(aborted, olivia, form_id=form) for _ in range(2))
    assert first == again
    assert (
        RecordFeedback.objects.count()
        == [row.body for row in Payload.objects.all()].count(b'"The trend had turned."')
        == 1
    )
    for other in (
        give(aborted, olivia, form_id=form, assessment="UNSAFE"),
        give(aborted, olivia, form_id=form, reason="Another"),
        give(aborted, factories.user("sam"), form_id=form),
    ):
        assert isinstance(other, Problem)
        assert (other.code, other.status) == ("FEEDBACK_SENT_BEFORE", 409)
    assert RecordFeedback.objects.count() == 1


@pytest.mark.parametrize(
    "said",
    [
        {"assessment": "MAYBE"},
        {"assessment": ""},
        {"correction": "EXPLODE"},
        {"reason": " \r\n"},
        {"assessment": "UNNECESSARY_ESCALATION", "reason": ""},
        {"assessment": "RIGHT", "correction": "REFUSE"},
        {"reason": "x" * (assessments.LONGEST + 1)},
        {"reason": "a\x00b"},
        {"form_id": None},
    ],
)
def test_what_breaks_a_rule_is_refused_whole(aborted: Record, olivia: User, said: dict[str, Any]) -> None:
    kept = Payload.objects.count(), LedgerEntry.objects.count()
    refused = give(aborted, olivia, **said)
    assert isinstance(refused, Problem)
    assert (refused.code, refused.status) == ("FEEDBACK_UNSOUND", 422)
    assert (Payload.objects.count(), LedgerEntry.objects.count()) == kept
    assert not RecordFeedback.objects.exists()


def test_the_database_keeps_the_rules_too(aborted: Record, olivia: User) -> None:
    give(aborted, olivia)
    stored: dict[str, Any] = dict(RecordFeedback.objects.values().get())
    row = {name: value for name, value in stored.items() if name != "id"}
    for changed in (
        {"assessment": "MAYBE"},
        {"correction": "EXPLODE"},
        {"assessment": "RIGHT", "correction": "REFUSE"},
        {"commitment": ""},
        {"commitment": "ab"},
        {"number": 0},
        {"number": 1},
        {"number": 2, "feedback_id": row["feedback_id"]},
    ):
        fresh = {**row, "feedback_id": uuid4(), "number": 2, **changed}
        with pytest.raises(IntegrityError), transaction.atomic():
            RecordFeedback.objects.create(**fresh)


def test_ordinary_sql_changes_and_removes_none(aborted: Record, olivia: User) -> None:
    give(aborted, olivia)
    for sql in (
        "UPDATE audit_recordfeedback SET assessment = 'RIGHT'",
        "DELETE FROM audit_recordfeedback",
    ):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)


def test_an_erased_reason_leaves_the_assessment(aborted: Record, olivia: User) -> None:
    give(aborted, olivia)
    commitment = RecordFeedback.objects.get().commitment
    assert payloads.erase(tenant="default", commitment=commitment, actor="user:1", reason="asked for it")
    (item,) = shown(aborted)
    assert (item.assessment, item.reason, item.is_untrusted) == ("WRONG", None, False)
    assert wrong() == []


def test_a_changed_row_is_found_and_named(aborted: Record, olivia: User) -> None:
    give(aborted, olivia)
    ledger_tampering.quietly("UPDATE audit_recordfeedback SET assessment = 'RIGHT', number = 3")
    (item,) = shown(aborted)
    assert (item.assessment, item.is_untrusted) == ("WRONG", True)
    assert {detail.split(" is ")[0] for detail in wrong()} == {"feedback.assessment", "feedback.number"}


def test_a_row_without_an_entry_and_an_entry_without_a_row_are_found(aborted: Record, olivia: User) -> None:
    give(aborted, olivia)
    ledger_tampering.quietly("DELETE FROM audit_recordfeedback")
    assert wrong() == [f"feedback {shown(aborted)[0].feedback_id} is missing"]
    forged = {
        "tenant": "default",
        "author": f"user:{olivia.pk}",
        "assessment": "RIGHT",
        "at": shown(aborted)[0].at,
    }
    for dfid in (UUID(aborted.dfid), uuid4()):
        RecordFeedback.objects.create(
            feedback_id=dfid,
            dfid=dfid,
            record=dfid.int % 1000,
            record_id=aborted.record_id,
            number=1,
            has_decided=False,
            **forged,
        )
        assert f"no entry records feedback {dfid}" in wrong()

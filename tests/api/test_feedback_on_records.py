"""`/api/v1/audit/records/{id}/feedback` and `?feedback=`: what people said, as the ledger recorded it."""

from typing import Any
from uuid import uuid4

import jsonschema_rs
import pytest
from django.contrib.auth.models import User

from audit.api import record_schema
from audit.records import queries
from audit.records.queries import Record
from runtime.flows.services import record_feedback
from tests.support import api_client, ledger_tampering, recorded_flows, worlds
from tests.support.recorded_flows import Recorded

world = worlds.shared(recorded_flows.build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]


@pytest.fixture
def auditor(db: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


def give(world: Recorded, name: str, by: str, assessment: str, **said: Any) -> Record:
    record = queries.get(tenant="default", record_id=world.row(name).record_id)
    assert isinstance(record, Record)
    record_feedback.give(
        tenant="default",
        record=record,
        author=User.objects.get(username=by),
        form_id=uuid4(),
        assessment=assessment,
        **said,
    )
    return record


def test_answers_what_people_said_newest_first(world: Recorded, auditor: api_client.Caller) -> None:
    give(world, "overridden 2", "olivia", "RIGHT")
    record = give(world, "overridden 2", "otto", "WRONG", reason="No.", correction="REFUSE")
    answer = auditor.get(f"/audit/records/{record.record_id}/feedback").ok()
    assert jsonschema_rs.is_valid(record_schema.FEEDBACK, answer)
    names = ("assessment", "correction", "reason", "has_decided", "counts", "mismatch")
    assert [tuple(item[name] for name in names) for item in answer["feedback"]] == [
        ("WRONG", "REFUSE", "No.", False, True, False),
        ("RIGHT", "", "", True, True, False),
    ]
    ledger_tampering.quietly("UPDATE audit_recordfeedback SET number = number + 5")
    answer = auditor.get(f"/audit/records/{record.record_id}/feedback").ok()
    assert [item["mismatch"] for item in answer["feedback"]] == [True, True]


def test_records_are_found_by_it(world: Recorded, auditor: api_client.Caller) -> None:
    record = give(world, "aborted 2", "olivia", "UNNECESSARY_ESCALATION", reason="It is usual.")
    give(world, "aborted 1", "olivia", "UNSAFE", reason="No.")
    for asked, found in (
        ("feedback=UNNECESSARY_ESCALATION", [record.record_id]),
        ("feedback=UNNECESSARY_ESCALATION&approver=otto", [record.record_id]),
        ("feedback=UNSAFE&approver=otto", []),
        ("feedback=RIGHT", []),
    ):
        answer = auditor.get(f"/audit/records?{asked}").ok()
        assert [item["record_id"] for item in answer["records"]] == found
    auditor.get("/audit/records?feedback=NONSENSE").problem(422, "INVALID_REQUEST")


def test_there_is_no_feedback_on_what_is_not_there(auditor: api_client.Caller) -> None:
    auditor.get("/audit/records/dr_00/feedback").problem(404, "NOT_FOUND")


def test_nobody_gives_it_by_the_api(world: Recorded, auditor: api_client.Caller) -> None:
    record_id = world.row("accepted 1").record_id
    for caller in (auditor, api_client.session()):
        answer = caller.post(f"/audit/records/{record_id}/feedback", {"assessment": "RIGHT"})
        assert answer.status in (401, 404, 405)

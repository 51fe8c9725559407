"""What came of a decision, on the page of decisions and on its record."""

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from escalations.contracts import Action
from runtime.contracts.problem import Problem
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Outcome
from tests.support import demo_scenes, factories, misbehaving_targets, trading_desk
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.AUDITOR, name="aud")


def test_the_receipt_of_what_ran_and_the_row_that_was_changed(reader: Client, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    receipt = misbehaving_targets.answer(200, b'{"order_id":"ord_77aa","status":"FILLED"}')
    with misbehaving_targets.stand_in(receipt) as target:
        desk = factories.desk()
        factories.configure_target(base_url=target.base_url)
        escalation = desk.escalate()
        assert not isinstance(factories.decide(escalation, factories.user("olga")), Problem)
        assert "Under way" in text_of(reader, "/decisions/")
        intent = escalation.flow.intents.get()
        ended = attempting.attempt(intent.pk, owner=trading_desk.OWNER)
    assert ended.status is AttemptStatus.SUCCEEDED
    assert "Succeeded" in text_of(reader, "/decisions/")
    assert reader.get("/decisions/?format=json").json()["decisions"][0]["outcome"] == "SUCCEEDED"
    record = text_of(reader, f"/decisions/{escalation.pk}/")
    for part in ("Succeeded", "ord_77aa", str(intent.pk)):
        assert part in record, part
    Outcome.objects.filter(intent=intent).update(receipt=b'{"order_id":"other"}')
    changed = text_of(reader, f"/decisions/{escalation.pk}/")
    assert "outcome.receipt" in changed
    assert "other" not in changed.split("What ran")[1].split("Proof")[0]


def test_a_call_in_doubt_that_was_aborted(reader: Client) -> None:
    demo_scenes.leave_in_doubt()
    (row,) = reader.get("/decisions/?format=json").json()["decisions"]
    assert (row["action"], row["outcome"]) == (Action.ABORT, "FAILED")
    assert row["intent_id"]
    assert "Effect not known" in text_of(reader, f"/decisions/{row['escalation_id']}/")


def test_an_empty_console_says_so(reader: Client) -> None:
    assert "No decisions yet" in text_of(reader, "/decisions/")
    assert "No results" in text_of(reader, "/decisions/?person=olga")

"""Evidence whose row is gone, or stands under another hash, decides nothing; it can still be aborted."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Decision, Escalation, Evidence
from escalations.services import comparing, deciding, drift_scan
from runtime.contracts.problem import Problem
from tests.support import decision_rows, factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
BANNER = "This row does not match the ledger."


def delete_in_force(escalation: Escalation) -> None:
    Evidence.objects.filter(escalation=escalation, revision=escalation.revision).delete()


def delete_all(escalation: Escalation) -> None:
    Evidence.objects.filter(escalation=escalation).delete()


def rename(escalation: Escalation) -> None:
    """Let the row stand under a hash that is not its own."""
    rows = Evidence.objects.filter(escalation=escalation, revision=escalation.revision)
    assert rows.update(hash="0" * 64) == 1


CHANGES = pytest.mark.parametrize("change", [delete_in_force, delete_all, rename])


@pytest.fixture
def revised(desk: factories.Desk) -> Escalation:
    """An escalation with two revisions of its evidence."""
    escalation = desk.escalate()
    factories.write("price.AAPL", 99_999)
    assert drift_scan.revise_open() == 1
    return Escalation.objects.get(pk=escalation.pk)


def decide(escalation: Escalation, olivia: User, request: Any) -> deciding.DecisionResult | Problem:
    person = factories.person(olivia)
    return deciding.decide(
        tenant="default", escalation_id=escalation.pk, person=person, user=olivia, request=request
    )


def post(client: Client, escalation: Escalation, action: Action) -> int:
    sent = {
        "action": action.value,
        "evidence_hash": escalation.evidence_hash,
        "version": str(escalation.version),
        "impact": escalation.impact,
        "justification": factories.JUSTIFICATION,
    }
    return client.post(f"/escalations/{escalation.pk}/decision/", sent).status_code


@CHANGES
def test_the_page_says_so_and_offers_abort_alone(revised: Escalation, change: Any) -> None:
    change(revised)
    client = sign_in(Role.OPERATOR)
    page = text_of(client, f"/escalations/{revised.pk}/")
    assert BANNER in page
    assert page.count("This evidence does not match the ledger") == 3  # every action but Abort
    assert post(client, revised, Action.OVERRIDE) == 409
    assert post(client, revised, Action.ABORT) == 302


@CHANGES
def test_nothing_is_decided_on_it(revised: Escalation, olivia: User, change: Any) -> None:
    request = factories.decision_request(revised)
    change(revised)
    assert decision_rows.refused(decide(revised, olivia, request)) == (409, "TAMPERED")
    assert ("row:mismatched", f"user:{olivia.pk}") in decision_rows.recorded(revised)


@CHANGES
def test_it_can_be_aborted_and_the_recorded_evidence_is_signed(
    revised: Escalation, olivia: User, change: Any
) -> None:
    request = factories.decision_request(revised, Action.ABORT)
    change(revised)
    assert isinstance(decide(revised, olivia, request), deciding.DecisionResult)
    made = Decision.objects.get()
    assert (made.revision, made.evidence_hash) == (2, revised.evidence_hash)


def test_an_older_revision_that_is_gone_can_be_signed_to_abort(revised: Escalation, olivia: User) -> None:
    first = Evidence.objects.get(escalation=revised, revision=1)
    request = replace(factories.decision_request(revised, Action.ABORT), evidence_hash=first.hash, version=1)
    first.delete()
    assert comparing.check_basis(revised).mismatches == []
    assert isinstance(decide(revised, olivia, request), deciding.DecisionResult)
    assert Decision.objects.get().revision == 1


def test_revisions_that_nobody_recorded_hide_none(revised: Escalation) -> None:
    """However many stand above it, the page shows the revision that is in force."""
    last = Evidence.objects.get(escalation=revised, revision=2)
    for number in range(3, 14):
        Evidence.objects.create(
            escalation=revised, revision=number, body=b"{}", hash="0" * 64, created_at=last.created_at
        )
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{revised.pk}/")
    assert "What will happen" in page
    assert "99,999" in page


def test_no_other_revision_is_taken_for_the_one_before(revised: Escalation) -> None:
    path = f"/escalations/{revised.pk}/"
    factories.write("price.AAPL", 18_950)
    assert drift_scan.revise_open() == 1
    changes = 'aria-labelledby="changed"'
    client = sign_in(Role.OPERATOR)
    assert changes in text_of(client, path)
    Evidence.objects.filter(escalation=revised, revision=2).update(body=b"no json")
    assert changes not in text_of(client, path)

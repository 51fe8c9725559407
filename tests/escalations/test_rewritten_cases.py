"""A rewritten case gets no new revision, and stops neither the search for drift nor its agent's answer."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from escalations import evidence_contracts
from escalations.contracts import Action
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Escalation, Evidence, Question
from escalations.services import deciding, drift_scan
from runtime.contracts.problem import Problem
from tests.support import decision_rows, factories

pytestmark = pytest.mark.django_db


def replace_evidence(escalation: Escalation) -> None:
    """Other bytes, with every digest in the tables made right."""
    digest = canonical.digest(b"{}")
    Evidence.objects.filter(escalation=escalation).update(body=b"{}", hash=digest)
    Escalation.objects.filter(pk=escalation.pk).update(evidence_hash=digest)


def lower_impact(escalation: Escalation) -> None:
    Escalation.objects.filter(pk=escalation.pk).update(impact="NONE")


@pytest.mark.parametrize("change", [replace_evidence, lower_impact])
def test_drift_is_found_beside_a_rewritten_case_which_gets_no_revision(
    desk: factories.Desk, change: Any
) -> None:
    poisoned, sound = desk.escalate(), desk.escalate()
    change(poisoned)
    factories.write("price.AAPL", 99_999)
    assert drift_scan.revise_open() == 1
    assert Evidence.objects.filter(escalation=sound).count() == 2
    assert Evidence.objects.filter(escalation=poisoned).count() == 1


def test_drift_is_found_beside_evidence_of_a_form_that_nobody_reads(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, sound = desk.escalate(), desk.escalate()
    read = evidence_contracts.read_evidence

    def read_some(body: bytes) -> AnyEvidence:
        return read(b"{}" if str(odd.pk).encode() in body else body)

    monkeypatch.setattr(evidence_contracts, "read_evidence", read_some)
    factories.write("price.AAPL", 99_999)
    assert drift_scan.revise_open() == 1
    assert Evidence.objects.filter(escalation=sound).count() == 2


@pytest.mark.parametrize("body", [b"{}", b"no json", None])
def test_an_answer_is_taken_and_no_rewritten_evidence_is_made_anew(
    desk: factories.Desk, olivia: User, body: bytes | None
) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, olivia, Action.REQUEST_INFO, justification="Which signals?")
    request = factories.decision_request(escalation, Action.ABORT)
    rows = Evidence.objects.filter(escalation=escalation)
    rows.delete() if body is None else rows.update(body=body)
    assert not isinstance(factories.answer(desk, escalation), Problem)
    assert Question.objects.get().answer == "The short average."
    assert Escalation.objects.get().revision == 1
    assert "row:mismatched" in [kind for kind, _ in decision_rows.recorded(escalation)]
    answer = deciding.decide(
        tenant="default",
        escalation_id=escalation.pk,
        person=factories.person(olivia),
        user=olivia,
        request=request,
    )
    assert isinstance(answer, deciding.DecisionResult)

"""Evidence, proposals and decisions that were rewritten in the database decide nothing, and pages say so."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from audit import canonical
from audit.access.roles import Role
from audit.models import LedgerEntry
from escalations.contracts import Action
from escalations.models import Decision, Escalation, Evidence
from escalations.services import comparing, deciding, drift_scan, dry_running
from runtime.contracts.problem import Problem
from runtime.flows.models import Intent, Proposal
from tests.support import decision_rows, factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
BANNER = "This row does not match the ledger."


def rewrite_evidence(escalation: Escalation) -> None:
    """Show a smaller amount, with every digest in the tables made right."""
    row = Evidence.objects.get(escalation=escalation)
    body = bytes(row.body).replace(b"150000", b"100001")
    assert body != bytes(row.body)
    digest = canonical.digest(body)
    Evidence.objects.filter(pk=row.pk).update(body=body, hash=digest)
    Escalation.objects.filter(pk=escalation.pk).update(evidence_hash=digest)


def rewrite_proposal(escalation: Escalation) -> None:
    """Let OVERRIDE run something else than was shown."""
    row = Proposal.objects.get(flow=escalation.flow_id)
    body = bytes(row.body).replace(b"150000", b"149999")
    assert body != bytes(row.body)
    Proposal.objects.filter(pk=row.pk).update(body=body, digest=canonical.digest(body))


@pytest.mark.parametrize("rewrite", [rewrite_evidence, rewrite_proposal])
@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.REQUEST_INFO])
def test_nothing_is_decided_on_a_rewritten_case(
    desk: factories.Desk, olivia: User, rewrite: Any, action: Action
) -> None:
    escalation = desk.escalate()
    rewrite(escalation)
    answer = factories.decide(escalation, olivia, action, params=factories.OVER_LIMIT)
    assert decision_rows.refused(answer) == (409, "TAMPERED")
    assert not Intent.objects.exists()
    assert [kind for kind, _ in decision_rows.recorded(escalation)][-1] == "escalation:refused"
    assert ("row:mismatched", f"user:{olivia.pk}") in decision_rows.recorded(escalation)


def test_a_rewritten_case_can_be_aborted(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    rewrite_evidence(escalation)
    assert not isinstance(factories.decide(escalation, olivia, Action.ABORT), Problem)
    kinds = [kind for kind, _ in decision_rows.recorded(escalation)]
    assert kinds[-2:] == ["flow:moved", "record:emitted"]


def test_a_rewritten_case_is_not_tried_out(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    request = factories.decision_request(escalation)
    rewrite_proposal(escalation)
    answer = dry_running.dry_run(
        tenant="default", escalation_id=escalation.pk, person=factories.person(olivia), request=request
    )
    assert isinstance(answer, Problem)
    assert answer.code == "TAMPERED"


def test_the_page_shows_no_rewritten_evidence(desk: factories.Desk) -> None:
    escalation = desk.escalate(explain="The trend is clear.")
    client = sign_in(Role.OPERATOR)
    assert BANNER not in text_of(client, f"/escalations/{escalation.pk}/")
    rewrite_evidence(escalation)
    page = text_of(client, f"/escalations/{escalation.pk}/")
    assert BANNER in page
    assert "evidence.body" in page
    assert "The trend is clear." not in page
    assert page.count("This evidence does not match the ledger") == 3  # every action but Abort


def test_the_page_of_evidence_that_cannot_be_read_is_a_page(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    Evidence.objects.update(body=b"no json")
    client = sign_in(Role.OPERATOR)
    assert BANNER in text_of(client, f"/escalations/{escalation.pk}/")
    sent = {"action": "OVERRIDE", "evidence_hash": escalation.evidence_hash, "version": "1", "impact": "x"}
    answer = client.post(f"/escalations/{escalation.pk}/decision/", sent)
    assert answer.status_code == 409
    assert "TAMPERED" in answer.content.decode()


def test_one_rewritten_case_does_not_stop_the_search_for_drift(desk: factories.Desk) -> None:
    poisoned, sound = desk.escalate(), desk.escalate()
    Evidence.objects.filter(escalation=poisoned).update(body=b"no json")
    factories.write("price.AAPL", 99_999)
    assert drift_scan.revise_open() == 1
    assert Evidence.objects.filter(escalation=sound).count() == 2


def decided(desk: factories.Desk, olivia: User) -> Decision:
    escalation = desk.escalate()
    answer = factories.decide(escalation, olivia, Action.ABORT, justification="It is too much.")
    assert not isinstance(answer, Problem)
    return Decision.objects.get(escalation=escalation)


def test_a_decision_that_was_made_matches(desk: factories.Desk, olivia: User) -> None:
    row = decided(desk, olivia)
    assert comparing.compare_decision(comparing.of(row.escalation), row) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("justification", "I was told to."),
        ("action", "OVERRIDE"),
        ("revision", 2),
        ("evidence_hash", "0" * 64),
        ("solo", True),
        ("signature", bytes(64)),
        ("key_id", "0" * 16),
        ("statement", b"{}"),
        ("statement", b"no json"),
    ],
)
def test_a_rewritten_decision_is_not_shown_as_one(
    desk: factories.Desk, olivia: User, column: str, value: Any
) -> None:
    row = decided(desk, olivia)
    Decision.objects.update(**{column: value})
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{row.escalation_id}/")
    assert BANNER in page
    assert "It is too much." not in page


def test_another_approver_in_the_table_is_not_shown(desk: factories.Desk, olivia: User) -> None:
    row = decided(desk, olivia)
    Decision.objects.update(approver=factories.user("mallory"))
    assert BANNER in text_of(sign_in(Role.OPERATOR), f"/escalations/{row.escalation_id}/")


def test_a_decision_that_was_deleted_is_missed(desk: factories.Desk, olivia: User) -> None:
    row = decided(desk, olivia)
    assert LedgerEntry.objects.filter(kind="escalation:decided").count() == 1
    Decision.objects.all().delete()
    assert BANNER in text_of(sign_in(Role.OPERATOR), f"/escalations/{row.escalation_id}/")


@pytest.mark.parametrize("body", ["no bytes", b"[]", b"xx", b"{}"])
def test_evidence_that_is_no_evidence_can_be_aborted(desk: factories.Desk, olivia: User, body: Any) -> None:
    escalation = desk.escalate()
    request = factories.decision_request(escalation, Action.ABORT)
    put_cell("escalations_evidence", "body", body)
    assert isinstance(factories.send(escalation, olivia, request), deciding.DecisionResult)
    assert Escalation.objects.get().state == "RESOLVED"


@pytest.mark.parametrize("column", ["evidence_hash", "impact"])
def test_whatever_the_row_says_it_can_be_aborted(desk: factories.Desk, olivia: User, column: str) -> None:
    """The page sends back what the row holds, and the evidence that was recorded is signed."""
    escalation = desk.escalate()
    recorded = escalation.evidence_hash
    request = factories.decision_request(escalation, Action.ABORT)
    forged: dict[str, Any] = {column: {"evidence_hash": "0" * 64, "impact": "NONE"}[column]}
    Escalation.objects.update(**forged)
    assert isinstance(factories.send(escalation, olivia, replace(request, **forged)), deciding.DecisionResult)
    assert Decision.objects.get().evidence_hash == recorded


def test_a_hash_that_was_never_shown_aborts_nothing(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    request = replace(factories.decision_request(escalation, Action.ABORT), evidence_hash="1" * 64)
    Escalation.objects.update(evidence_hash="0" * 64)
    assert decision_rows.refused(factories.send(escalation, olivia, request)) == (409, "EVIDENCE_CHANGED")


def test_a_smaller_impact_in_the_row_asks_no_less_of_a_person(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate(params=factories.HIGH_IMPACT)
    Escalation.objects.update(impact="LOW_IMPACT", impact_rank=0)
    answer = factories.decide(escalation, olivia)
    assert decision_rows.refused(answer) == (409, "TAMPERED")
    assert decision_rows.recorded(escalation)[-2][0] == "row:mismatched"


@pytest.mark.parametrize("asks", [False, True])
def test_a_deadline_that_was_put_off_lets_nobody_decide(
    desk: factories.Desk, olivia: User, asks: bool
) -> None:
    escalation = desk.escalate()
    if asks:
        factories.decide(escalation, olivia, Action.REQUEST_INFO, justification="Which signals?")
        factories.answer(desk, escalation)
    row = Escalation.objects.get()
    assert comparing.check_basis(row).mismatches == []
    assert row.deadline_at is not None
    Escalation.objects.update(deadline_at=row.deadline_at + timedelta(microseconds=1))
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "TAMPERED")


def test_a_deadline_that_was_taken_away_lets_nobody_decide(desk: factories.Desk) -> None:
    row = desk.escalate()
    row.deadline_at = None
    assert [item.row for item in comparing.check_basis(row).mismatches] == ["escalation.deadline_at"]


def test_a_signature_that_is_a_text_is_not_shown(desk: factories.Desk, olivia: User) -> None:
    row = decided(desk, olivia)
    put_cell("escalations_decision", "signature", "abc")
    assert BANNER in text_of(sign_in(Role.OPERATOR), f"/escalations/{row.escalation_id}/")


def put_cell(table: str, column: str, value: Any) -> None:
    """Put any value into a column; where the database refuses a text there, bytes that are nothing."""
    if connection.vendor == "postgresql" and isinstance(value, str):
        value = value.encode()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {column} = %s", [value])  # noqa: S608

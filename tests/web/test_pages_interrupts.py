"""The page of an interrupted workflow: why it does not continue, where it stands, and what may be decided."""

from typing import Any

import pytest

from audit.access.roles import Role
from escalations.models import Escalation
from runtime.flows.models import Flow
from runtime.workflows.models import WorkflowPosition
from tests.support import factories, interrupted_flow
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> factories.Desk:
    interrupted_flow.register(impact="LOW_IMPACT")
    return interrupted_flow.desk()


@pytest.fixture
def escalation(desk: factories.Desk) -> Escalation:
    return interrupted_flow.interrupted(desk, confidence=0.1, note="<b>buy</b>")


def form(row: Escalation, **fields: Any) -> dict[str, Any]:
    return {
        "evidence_hash": row.evidence_hash,
        "version": row.version,
        "impact": row.impact,
        "justification": "The news is old.",
        **fields,
    }


def test_the_page_says_why_it_does_not_continue(escalation: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/")
    assert "does not continue in research 1.0.0 after GENERATE: unsure calls a person" in page
    assert "output.confidence is below 0.5." in page
    assert "Unverified report of its last step" in page
    # What the agent reported is escaped, and stands folded.
    assert "&lt;b&gt;buy&lt;/b&gt;" in page
    assert "<b>buy</b>" not in page


def test_its_own_actions_are_offered(escalation: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/")
    for action in ("RESUME", "REDIRECT", "REQUEST_INFO", "ABORT"):
        assert f'name="action" value="{action}"' in page
    for action in ("OVERRIDE", "MODIFY", "MARK_DONE", "ACKNOWLEDGE", "STOP_AGENT"):
        assert f'name="action" value="{action}"' not in page
    for name in ("GENERATE", "VERIFY", "TOOL_CALL", "PROPOSE"):
        assert f'<option value="{name}">' in page
    for field in ("params", "receipt", "typed_again", "conditions"):
        assert f'name="{field}"' not in page
    assert "continues by any edge of its workflow" in page


def test_the_queue_lists_it_with_its_deadline(escalation: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    for address in ("/escalations/", "/escalations/?family=INTERRUPT"):
        page = text_of(client, address)
        assert f'data-row="{escalation.pk}"' in page
        assert "no deadline" not in page
    assert f'data-row="{escalation.pk}"' not in text_of(client, "/escalations/?family=DECISION")


def test_a_post_redirects_it_and_the_page_says_who_did(escalation: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    sent = form(escalation, action="REDIRECT", instruction="TOOL_CALL")
    answer = client.post(f"/escalations/{escalation.pk}/decision/", sent, follow=True)
    assert "Redirected. The agent continues with the instruction you chose." in answer.content.decode()
    assert Flow.objects.get(pk=escalation.flow_id).state == "ACTIVE"
    page = text_of(client, f"/escalations/{escalation.pk}/")
    assert "Redirected" in page
    assert "operator" in page
    timeline = text_of(client, f"/flows/{escalation.flow_id}/")
    assert "Flow continued" in timeline
    assert "with TOOL_CALL" in timeline


def test_a_redirect_to_nothing_keeps_what_was_entered(escalation: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    sent = form(escalation, action="REDIRECT", instruction="DREAM")
    answer = client.post(f"/escalations/{escalation.pk}/decision/", sent)
    assert answer.status_code == 400
    page = answer.content.decode()
    assert "Choose the instruction that comes next" in page
    assert "The news is old." in page
    too_long = form(escalation, action="REDIRECT", instruction="X" * 65)
    assert client.post(f"/escalations/{escalation.pk}/decision/", too_long).status_code == 400


def test_a_workflow_that_was_changed_lets_nothing_continue(escalation: Escalation) -> None:
    WorkflowPosition.objects.select_related("workflow").get().workflow.__class__.objects.update(body=b"{}")
    sent = form(escalation, action="RESUME")
    answer = sign_in(Role.OPERATOR).post(f"/escalations/{escalation.pk}/decision/", sent)
    assert answer.status_code == 409
    assert "does not match the ledger" in answer.content.decode()
    assert Flow.objects.get(pk=escalation.flow_id).state == "ESCALATED"


def test_several_interrupts_are_not_resumed_at_once(desk: factories.Desk, escalation: Escalation) -> None:
    other = interrupted_flow.interrupted(desk)
    client = sign_in(Role.OPERATOR)
    address = f"/escalations/bulk/?action=RESUME&escalation={escalation.pk}&escalation={other.pk}"
    assert text_of(client, address).count("leads is decided on its own page") == 2


def test_the_dry_run_has_nothing_to_judge(escalation: Escalation) -> None:
    sent = {"action": "MODIFY", "version": 1, "params": "{}"}
    answer = sign_in(Role.OPERATOR).post(f"/escalations/{escalation.pk}/dry-run/", sent)
    assert answer.status_code == 400


def test_the_page_of_a_refused_step_says_what_it_allows() -> None:
    ready = {
        "id": "ready",
        "checker": "state",
        "on": "VERIFY",
        "require": "input.ready",
        "on_fail": "ESCALATE",
    }
    interrupted_flow.register(impact="LOW_IMPACT", routers=[], checkers=[ready])
    desk = interrupted_flow.desk()
    dfid = desk.open().dfid
    interrupted_flow.step(desk, dfid, "GENERATE")
    answer = interrupted_flow.step(desk, dfid, "VERIFY", input={"ready": False, "note": "<b>now</b>"})
    row = Escalation.objects.get(escalation_id=answer.escalation_id)
    client = sign_in(Role.OPERATOR)
    page = text_of(client, f"/escalations/{row.pk}/")
    assert "VERIFY needs a person, by ready" in page
    assert 'workflow calls a person. <span class="code">WORKFLOW_INTERRUPTED</span>' in page
    assert "&lt;b&gt;now&lt;/b&gt;" in page
    assert "The agent may take VERIFY once, with the input that is shown" in page
    assert "Allow VERIFY once" in page
    assert "continues by any edge of its workflow" not in page
    client.post(f"/escalations/{row.pk}/decision/", form(row, action="RESUME"))
    assert Flow.objects.get(pk=dfid).state == "ACTIVE"
    assert "and allowed VERIFY once" in text_of(client, f"/flows/{dfid}/")

"""Operational escalations: what was tried, and the actions of their own family only."""

import pytest

from audit.access.roles import Role
from escalations.models import Escalation
from runtime.contracts import states
from runtime.flows.models import Attempt, Intent
from tests.support import demo_scenes
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def in_doubt() -> Escalation:
    """A call whose answer never came."""
    return demo_scenes.put_in_doubt()


def test_the_page_shows_what_was_tried_and_its_own_actions(in_doubt: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{in_doubt.pk}/")
    assert "It is not known whether the call took effect." in page
    assert demo_scenes.UNANSWERED in page
    assert Attempt.objects.get().target_key in page
    for action in ("RESUME", "MARK_DONE", "MODIFY", "ABORT"):
        assert f'name="action" value="{action}"' in page
    for action in ("OVERRIDE", "REQUEST_INFO"):
        assert f'name="action" value="{action}"' not in page
    assert "Operational</span>" in page
    assert "The earlier intent ends, its reservations are released" in page
    assert 'name="receipt"' in page
    assert 'name="typed_again"' not in page
    assert "aborted unless decided" not in page


def test_the_queue_puts_what_has_no_deadline_first_and_says_so(in_doubt: Escalation) -> None:
    demo_scenes.propose(
        demo_scenes.session_of("ambitious-trader"),
        "ADJUST_POSITION",
        demo_scenes.order("BUY", 40, "NVDA", 485600),
    )
    page = text_of(sign_in(Role.OPERATOR), "/escalations/")
    assert page.index(str(in_doubt.pk)) < page.index("High impact</span>")
    assert "never closed automatically" in page
    assert (
        text_of(sign_in(Role.SENIOR, name="other"), "/escalations/?family=DECISION").count("data-row=") == 1
    )


def form(case: Escalation, **fields: str) -> dict[str, str]:
    """MODIFY to a smaller order, by the typed fields, as the page holds them."""
    row = Escalation.objects.get(pk=case.pk)
    bound = {"evidence_hash": row.evidence_hash, "version": str(row.version), "impact": row.impact}
    typed = {
        "param:symbol": "AAPL",
        "param:action": "BUY",
        "param:quantity": "2",
        "param:notional_cents": "37900",
    }
    return {"action": "MODIFY", "justification": "Half of it is enough.", **bound, **typed, **fields}


def test_something_else_runs_in_its_place_once_a_person_states_that_the_call_had_no_effect(
    in_doubt: Escalation,
) -> None:
    client, at = sign_in(Role.OPERATOR), f"/escalations/{in_doubt.pk}/decision/"
    page = text_of(client, f"/escalations/{in_doubt.pk}/")
    assert 'name="effect" value="UNKNOWN" checked' in page
    assert "It did not and will not take effect: I verified this at broker" in page
    refused = client.post(at, form(in_doubt))
    assert refused.status_code == 400
    assert "STATEMENT_MISSING" in refused.content.decode()
    taken = client.post(at, form(in_doubt, effect="NOT_HAPPENED"))
    assert (taken.status_code, taken["Location"]) == (302, "/escalations/")  # no other is open
    assert sorted(Intent.objects.values_list("state", flat=True)) == ["CANCELLED", "PENDING"]
    timeline = text_of(client, f"/flows/{in_doubt.flow_id}/")
    assert "Intent superseded" in timeline
    assert "A person stated that it had no effect." in timeline


def test_what_has_taken_effect_is_not_replaced_and_the_page_says_why(in_doubt: Escalation) -> None:
    Attempt.objects.update(state=states.AttemptState.SUCCEEDED)
    Intent.objects.update(state=states.IntentState.WITH_PERSON)
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{in_doubt.pk}/")
    assert "A step has already taken effect, so nothing else can run in its place." in page
    assert 'name="effect"' not in page

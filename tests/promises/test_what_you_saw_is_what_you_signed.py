"""A decision names the evidence that was shown, and is taken by a person in a browser session only."""

import pytest
from django.test import Client

from escalations.models import Decision, Escalation
from runtime.state.services import facts
from tests.support import end_to_end, factories
from tests.support.end_to_end import Console, Person

pytestmark = pytest.mark.django_db


@pytest.fixture
def escalation_id(desk: Console) -> str:
    return str(desk.propose(quantity=60)["escalation_id"])


def write_price(value: int) -> None:
    facts.write(
        tenant=factories.TENANT, path="price.ABC", value=value, writer="feed:x", expected_version=None
    )


def test_evidence_that_moved_must_be_seen_again(escalation_id: str, olivia: Person) -> None:
    shown = Escalation.objects.get().evidence_hash
    write_price(500)
    assert olivia.decide(escalation_id, "OVERRIDE", evidence_hash=shown) == 409
    assert not Decision.objects.exists()
    assert olivia.decide(escalation_id, "OVERRIDE") == 302
    assert Decision.objects.get().evidence_hash != shown


@pytest.mark.parametrize("evidence_hash", ["", "0" * 64, "short"])
def test_another_hash_signs_nothing(escalation_id: str, olivia: Person, evidence_hash: str) -> None:
    assert olivia.decide(escalation_id, "OVERRIDE", evidence_hash=evidence_hash) in {400, 409}
    assert not Decision.objects.exists()


def test_no_key_no_token_and_no_link_decides(desk: Console, escalation_id: str, olivia: Person) -> None:
    path, row = f"/escalations/{escalation_id}/decision/", Escalation.objects.get()
    form = {"action": "OVERRIDE", "evidence_hash": row.evidence_hash, "version": str(row.version)}
    for token in (desk.key, desk.agent.token):
        assert Client().post(path, form, headers={"Authorization": f"Bearer {token}"}).status_code in {
            302,
            403,
        }
    assert olivia.browser.get(path, form).status_code == 405
    assert end_to_end.person("reader", "auditor").browser.post(path, form).status_code == 403
    assert not Decision.objects.exists()


def test_a_decision_counts_once(escalation_id: str, olivia: Person) -> None:
    row = Escalation.objects.get()
    seen = {"evidence_hash": row.evidence_hash, "version": str(row.version), "impact": row.impact}
    assert olivia.decide(escalation_id, "OVERRIDE") == 302
    form = {**seen, "action": "ABORT", "justification": factories.JUSTIFICATION}
    assert olivia.browser.post(f"/escalations/{escalation_id}/decision/", form).status_code == 409
    assert Decision.objects.get().action == "OVERRIDE"

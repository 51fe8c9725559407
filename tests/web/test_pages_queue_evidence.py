"""The queue, the overview and the lists beside them show evidence that the ledger recorded, or none."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import canonical
from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Escalation, Evidence
from runtime.registry.models import Agent
from tests.support import demo_scenes, factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGES = ("/escalations/", "/")
NOTICE = "This row does not match the ledger"
SMALL = [{"text": "BUY 1 SAFE", "value": False}]


@pytest.fixture
def desk(db: None) -> factories.Desk:
    return factories.desk()


def rewrite(escalation: Escalation, **fields: Any) -> None:
    """Change the evidence in force, with every digest in the tables made right."""
    row = Evidence.objects.get(escalation=escalation)
    body = canonical.encode({**json.loads(bytes(row.body)), **fields})
    Evidence.objects.filter(pk=row.pk).update(body=body, hash=canonical.digest(body))
    Escalation.objects.filter(pk=escalation.pk).update(evidence_hash=canonical.digest(body))


@pytest.mark.parametrize("page", PAGES)
def test_evidence_that_cannot_be_read_leaves_the_others_on_the_page(desk: factories.Desk, page: str) -> None:
    rewritten, sound = desk.escalate(), desk.escalate()
    Evidence.objects.filter(escalation=rewritten).update(body=b"no json")
    shown = text_of(sign_in(Role.OPERATOR), page)
    assert shown.count(NOTICE) == 1
    for escalation in (rewritten, sound):
        assert f'href="/escalations/{escalation.pk}/"' in shown


@pytest.mark.parametrize("page", PAGES)
def test_rewritten_evidence_is_not_shown_as_what_would_happen(desk: factories.Desk, page: str) -> None:
    escalation = desk.escalate()
    rewrite(escalation, effect=SMALL)
    shown = text_of(sign_in(Role.OPERATOR), page)
    assert NOTICE in shown
    assert "BUY 1 SAFE" not in shown


@pytest.mark.parametrize("page", PAGES)
def test_columns_beside_the_evidence_are_not_shown(desk: factories.Desk, page: str) -> None:
    escalation = desk.escalate()
    Escalation.objects.update(
        effect="BUY 1 SAFE",
        proposed_value="7",
        limit="8",
        impact="UNHEARD",
        agent_id="nobody-known",
        policy_kind="NO_SUCH_KIND",
        reason="NO_SUCH_REASON",
    )
    client = sign_in(Role.OPERATOR)
    shown = text_of(client, page)
    for forged in ("BUY 1 SAFE", "<b>7</b>", "UNHEARD", "nobody-known", "NO_SUCH_KIND", "NO_SUCH_REASON"):
        assert forged not in shown
    assert escalation.agent_id in shown
    assert NOTICE not in shown


def test_a_run_of_similar_rows_leaves_out_the_one_that_does_not_match(desk: factories.Desk) -> None:
    rows = [desk.escalate(), desk.escalate(), desk.escalate()]
    Agent.objects.update(escalation_millitokens=3000)
    desk.escalate()
    rewrite(rows[0], proposal={"params": {"forged": 1}})
    shown = text_of(sign_in(Role.OPERATOR), "/escalations/")
    assert shown.count(NOTICE) == 1
    assert "3 similar, with the same parameters" in shown
    assert "forged" not in shown


def test_a_deleted_revision_shows_no_earlier_one(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    Evidence.objects.filter(escalation=escalation).delete()
    assert NOTICE in text_of(sign_in(Role.OPERATOR), "/escalations/")


def test_a_longer_queue_costs_no_more_queries(desk: factories.Desk) -> None:
    client, counted = sign_in(Role.OPERATOR), []
    for _ in range(2):
        desk.escalate()
        with CaptureQueriesContext(connection) as captured:
            client.get("/escalations/", headers={"HX-Request": "true"})
        counted.append(len(captured))
    assert counted[0] == counted[1]


def test_the_list_of_calls_in_doubt_shows_no_rewritten_effect() -> None:
    left = demo_scenes.leave_in_doubt()
    Escalation.objects.update(effect="BUY 1 SAFE")
    client = sign_in(Role.OPERATOR)
    page = text_of(client, "/escalations/in-doubt/")
    assert "BUY 1 SAFE" not in page
    rewrite(left, effect=SMALL)
    page = text_of(client, "/escalations/in-doubt/")
    assert "BUY 1 SAFE" not in page
    assert "Its escalation does not match the ledger" in page


def test_the_history_of_an_agent_shows_no_rewritten_effect(desk: factories.Desk) -> None:
    olivia = factories.user("olivia")
    closed, last = desk.escalate(), desk.escalate()
    factories.decide(closed, olivia, Action.ABORT)
    rewrite(closed, effect=SMALL)
    Escalation.objects.filter(pk=closed.pk).update(effect="BUY 1 SAFE")
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{last.pk}/")
    assert "BUY 1 SAFE" not in page
    assert "does not match the ledger" in page

"""Erasing on the page of a flow, and every page that shows something of an erased flow."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from audit.access.roles import Role
from audit.models import DecisionRecord, LedgerEntry
from audit.verification import findings
from escalations.models import Escalation
from runtime.contexts.models import Snapshot
from runtime.flows.models import Flow
from runtime.maintenance.services import erasure
from runtime.registry.services import users
from tests.support import api_client, demo_scenes, erased_story
from tests.support.erased_story import WORD, Story
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
NOTICE = "does not match the ledger"
BY = re.compile(r"<b>Erased</b> on .*? by\s+<bdi>(.*?)</bdi>, because:\s+<bdi>(.*?)</bdi>", re.DOTALL)


@pytest.fixture
def story(db: None) -> Story:
    return erased_story.told()


@pytest.fixture
def erased(story: Story) -> Story:
    answer = erasure.erase(tenant="default", dfids=[story.dfid], reason="asked for", actor="system")
    assert isinstance(answer, erasure.Erased)
    return story


def admin(*, fresh: bool = True) -> Client:
    """An admin who has just given the password, or has not."""
    made = users.add(
        tenant="default", name="ada", password=demo_scenes.PASSWORD, roles=[Role.ADMIN], actor="system"
    )
    assert isinstance(made, User), made
    client = Client()
    client.post("/accounts/login/", {"login": "ada", "password": demo_scenes.PASSWORD})
    if not fresh:
        session = client.session
        session["account_authentication_methods"][0]["at"] -= 301
        session.save()
    return client


def path_of(story: Story) -> str:
    return reverse("erase-flow", args=[story.dfid])


def test_an_admin_erases_a_flow_from_its_page(story: Story) -> None:
    client = admin()
    assert path_of(story) in text_of(client, reverse("flow", args=[story.dfid]))
    shown = text_of(client, path_of(story))
    assert "proposal.explain" in shown
    assert "have no salt" in shown
    answer = client.post(path_of(story), {"reason": "Asked for by the person."})
    assert answer["Location"] == reverse("flow", args=[story.dfid])
    page = text_of(client, answer["Location"])
    assert "cells are empty now" in page
    found = BY.search(page)
    assert found is not None
    assert found.groups() == ("ada", "Asked for by the person.")
    assert WORD not in page
    assert "nothing left to erase" in text_of(client, path_of(story))
    assert findings.verify_all().findings == []


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501])
def test_without_a_reason_nothing_is_erased(story: Story, reason: str) -> None:
    answer = admin().post(path_of(story), {"reason": reason})
    assert answer.status_code == 400
    assert b"Nothing was erased." in answer.content
    assert Flow.objects.get().erased_at is None


def test_an_old_password_erases_nothing_and_the_reason_is_kept(story: Story) -> None:
    client = admin(fresh=False)
    assert "Confirm your password first" in text_of(client, path_of(story))
    answer = client.post(path_of(story), {"reason": "asked for"})
    assert (answer.status_code, b'data-code="STEP_UP"' in answer.content) == (401, True)
    assert b"asked for</textarea>" in answer.content
    assert Flow.objects.get().erased_at is None
    client.post("/accounts/reauthenticate/", {"password": demo_scenes.PASSWORD, "next": path_of(story)})
    assert client.post(path_of(story), {"reason": "asked for"}).status_code == 302
    assert Flow.objects.get().erased_at is not None


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.AUDITOR])
def test_nobody_else_erases_anything(story: Story, role: Role) -> None:
    client = sign_in(role)
    assert client.get(path_of(story)).status_code == 403
    assert client.post(path_of(story), {"reason": "asked for"}).status_code == 403
    assert path_of(story) not in text_of(client, reverse("flow", args=[story.dfid]))
    assert Flow.objects.get().erased_at is None


def test_a_flow_that_has_not_ended_says_so(story: Story) -> None:
    live = erased_story.propose(story.caller, number=2)
    client, path = admin(), reverse("erase-flow", args=[live])
    assert path not in text_of(client, reverse("flow", args=[live]))
    page = text_of(client, path)
    assert "The flow has not ended." in page
    assert "erase-reason" not in page
    answer = client.post(path, {"reason": "asked for"})
    assert (answer.status_code, b'data-code="FLOW_KEPT"' in answer.content) == (409, True)


def test_an_unknown_flow_has_no_page() -> None:
    unknown = reverse("erase-flow", args=["01890000-0000-7000-8000-000000000000"])
    assert admin().get(unknown).status_code == 404


def pages_of(story: Story) -> list[str]:
    escalation = Escalation.objects.get(flow=story.dfid)
    snapshot = Snapshot.objects.get(flow=story.dfid)
    context = reverse("flow-context", args=[story.dfid, snapshot.context_ref])
    return [
        reverse("flow", args=[story.dfid]),
        reverse("escalation", args=[escalation.pk]),
        reverse("recorded-decision", args=[escalation.pk]),
        context,
        f"{context}?raw=1",
    ]


def test_each_page_says_who_erased_it_and_why(erased: Story) -> None:
    client = sign_in(Role.AUDITOR)
    for path in pages_of(erased):
        page = text_of(client, path)
        found = BY.search(page)
        assert found is not None, path
        assert found[2] == "asked for", path
        assert NOTICE not in page, path
        assert WORD not in page, path


def test_the_page_of_an_escalation_still_says_who_decided_what(erased: Story) -> None:
    page = text_of(sign_in(Role.AUDITOR), reverse("escalation", args=[erased.escalation_id]))
    entry = LedgerEntry.objects.get(kind="escalation:decided")
    assert "olivia" in page
    assert entry.payload["statement_digest"] in page
    assert "Valid when the statement was erased" in page


LISTS = (
    "/",
    "/inbox/",
    "/flows/",
    "/escalations/?show=closed",
    "/decisions/",
    "/decisions/?rule=RISK_LIMIT_EXCEEDED",
    "/decisions/?format=json",
    "/decisions/?format=csv",
    "/agents/",
    "/agents/trader/",
    "/records/",
    "/records/reports/most_denials/",
    "/reviews/",
    "/reviews/?show=closed",
    "/shift/",
    "/tasks/",
    "/noise/",
    "/ledger/",
    "/budgets/",
    f"/kinds/{api_client.KIND}/",
    "/conformance/",
)


def test_no_list_stumbles_over_an_erased_flow(erased: Story) -> None:
    client, saying = sign_in(Role.AUDITOR), set[str]()
    for path in LISTS:
        answer = client.get(path, follow=True)
        assert answer.status_code == 200, path
        text = answer.content.decode()
        assert NOTICE not in text, path
        assert WORD not in text, path
        if "Words erased" in text:
            saying.add(path)
    assert saying >= {"/flows/", "/decisions/", "/escalations/?show=closed"}


def test_an_open_escalation_is_not_held_up_by_erased_ones(erased: Story) -> None:
    live = erased_story.propose(erased.caller, number=2)
    page = text_of(sign_in(Role.OPERATOR), reverse("escalation", args=[Escalation.objects.get(flow=live).pk]))
    assert NOTICE not in page


def test_the_audit_api_answers_without_the_words(erased: Story) -> None:
    auditor = api_client.Caller(api_client.auditor_key())
    for name in (
        f"flows/{erased.dfid}/records",
        f"flows/{erased.dfid}/replay",
        *(f"contracts/{name}/{erased.dfid}" for name in CONTRACTS),
    ):
        heard = auditor.get(f"/audit/{name}")
        # A contract that is made of erased bytes says that they are erased.
        assert heard.status == 200 or "erased" in heard.body["detail"], (name, heard.body)
        assert WORD.encode() not in heard.content, name
    record = DecisionRecord.objects.filter(dfid=erased.dfid).latest("pk")
    assert "erased" in auditor.get(f"/audit/records/{record.record_id}").problem(404, "NOT_FOUND")["detail"]


CONTRACTS = (
    "structured_context",
    "rule_engine_output",
    "decision_package",
    "reasoning_trace",
    "tool_request",
    "policy_decision",
    "replay_trace",
    "hitl_decision",
)

"""The page of retention and legal holds."""

import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.events import Kind
from audit.models import LedgerEntry, Payload
from runtime.contracts.retention import WORDS, KeptBecause, read_fact_classes
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.maintenance.models import LegalHold
from runtime.maintenance.services import erasure, fact_pruning
from runtime.maintenance.views import retention_page
from tests.support import erased_story, factories, hold_story, retention_story
from tests.support.erased_story import SUBJECT, Story
from tests.web.test_pages import sign_in, text_of
from tests.web.test_pages_erased import admin

pytestmark = pytest.mark.django_db
PAGE = "/retention/"
PLACE = "/retention/holds/"


@pytest.fixture
def story(db: None) -> Story:
    return erased_story.told()


def given(story: Story, **changes: str) -> dict[str, str]:
    return {
        "name": hold_story.NAME,
        "target": "FLOW",
        "ref": str(story.dfid),
        "reason": hold_story.REASON,
        **changes,
    }


def test_an_admin_places_a_hold_and_releases_it(story: Story) -> None:
    client = admin()
    assert "No live hold" in text_of(client, PAGE)
    link = f"{PAGE}?target=FLOW&amp;ref={story.dfid}"
    assert link in text_of(client, reverse("erase-flow", args=[story.dfid]))
    assert f'value="{story.dfid}"' in text_of(client, link.replace("&amp;", "&"))
    assert client.post(PLACE, given(story))["Location"] == PAGE
    page = text_of(client, PAGE)
    assert f"The hold {hold_story.NAME} is placed." in page
    assert hold_story.REASON in page
    assert reverse("flow", args=[story.dfid]) in page
    refused = client.post(reverse("erase-flow", args=[story.dfid]), {"reason": "asked for"})
    assert (refused.status_code, b'data-code="FLOW_KEPT"' in refused.content) == (409, True)
    hold = LegalHold.objects.get()
    release = reverse("release-hold", args=[hold.pk])
    assert client.post(release, {"reason": "They settled."})["Location"] == PAGE
    page = text_of(client, PAGE)
    assert "Released holds" in page
    assert "They settled." in page
    assert client.post(release, {"reason": "again"}).status_code == 409


def test_a_hold_on_a_subject_says_whether_a_record_names_it(story: Story) -> None:
    client = admin()
    client.post(PLACE, given(story, target="SUBJECT", ref=SUBJECT))
    assert "keeps nothing yet" not in text_of(client, PAGE)
    client.post(PLACE, given(story, target="SUBJECT", ref="order:0"))
    page = text_of(client, PAGE)
    assert "keeps nothing yet" in page
    assert "order:0" in page


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "two words"}, "INVALID_REQUEST"),
        ({"name": ""}, "INVALID_REQUEST"),
        ({"ref": "no-id"}, "INVALID_REQUEST"),
        ({"target": "x"}, "INVALID_REQUEST"),
        ({"reason": ""}, "INVALID_REQUEST"),
        ({"ref": "01890000-0000-7000-8000-000000000000"}, "NOT_FOUND"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_entered_is_kept(
    story: Story, changes: dict[str, str], code: str
) -> None:
    answer = admin().post(PLACE, given(story, **changes))
    assert 400 <= answer.status_code < 500
    assert f'data-code="{code}"'.encode() in answer.content
    assert ("reason" in changes) or f"{hold_story.REASON}</textarea>".encode() in answer.content
    assert not LegalHold.objects.exists()


def test_an_old_password_changes_nothing(story: Story) -> None:
    hold = hold_story.place(story.dfid, name="first")
    client = admin(fresh=False)
    assert "Confirm your password first" in text_of(client, PAGE)
    assert client.post(PLACE, given(story)).status_code == 401
    assert client.post(reverse("release-hold", args=[hold.pk]), {"reason": "x"}).status_code == 401
    assert not LegalHold.objects.get().released_at


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.AUDITOR])
def test_others_read_and_change_nothing(story: Story, role: Role) -> None:
    hold = hold_story.place(story.dfid)
    client = sign_in(role)
    page = text_of(client, PAGE)
    assert hold_story.NAME in page
    assert "Place a hold" not in page
    assert client.post(PLACE, given(story, name="other")).status_code == 403
    assert client.post(reverse("release-hold", args=[hold.pk]), {"reason": "x"}).status_code == 403
    assert LegalHold.objects.get().released_at is None


def test_nobody_reads_it_without_signing_in(story: Story) -> None:
    assert Client().get(PAGE).status_code == 302


def test_a_reason_that_was_erased_or_changed_is_said(story: Story) -> None:
    hold_story.place(story.dfid)
    told = LedgerEntry.objects.get(kind=Kind.HOLD_PLACED).payload
    Payload.objects.filter(commitment=told["text_commitment"]).update(content=b'"another"')
    assert "It differs from what was recorded." in text_of(admin(), PAGE)


def test_the_page_says_what_is_kept_for_how_long_and_what_comes_next(
    story: Story, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    client = admin()
    assert "Words are kept permanently" in text_of(client, PAGE)
    settings.DIR_RETENTION_DAYS = 30
    later = clock.now() + timedelta(days=31)
    monkeypatch.setattr(retention_page, "clock", SimpleNamespace(now=lambda: later))
    page = text_of(client, PAGE)
    kind = Flow.objects.get().policy_kind
    assert reverse("kind", args=[kind]) in page
    assert "30 days" in page
    assert "no policy kind" in page
    assert "<b>0</b> would be erased" in page
    assert WORDS[KeptBecause.ESCALATED] in page
    hold_story.release(hold_story.place(story.dfid))
    answer = erasure.erase(tenant="default", dfids=[story.dfid], reason="over <b>time</b>", actor="system")
    assert isinstance(answer, erasure.Erased)
    page = text_of(client, PAGE)
    assert "Erased lately" in page
    assert "over &lt;b&gt;time&lt;/b&gt;" in page
    assert "What the round comes to next" not in page


def test_the_page_says_how_long_versions_of_facts_are_kept_and_which_went(
    story: Story, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    client = admin()
    assert "All versions are kept permanently" in text_of(client, PAGE)
    settings.DIR_FACT_RETENTION = read_fact_classes(["price.=1", "market.=0", "*=30"])
    page = text_of(client, PAGE)
    assert re.search(r"1 day\s*</td>", page)
    assert "permanently" in page
    assert "every other fact" in page
    retention_story.later(monkeypatch, days=2, of=fact_pruning)
    for cents in (1, 2, 3):
        factories.write("price.NEW", cents)
    assert fact_pruning.prune_due(tenant="default")
    assert "2 versions of 1 fact (DIR_FACT_RETENTION: price.=1)." in text_of(client, PAGE)
    monkeypatch.setattr(LedgerEntry, "payload", {})
    assert "It differs from what was recorded." in text_of(client, PAGE)


def test_the_page_asks_a_bounded_number_of_questions(story: Story, settings: Settings) -> None:
    settings.DIR_RETENTION_DAYS = 30
    client = admin()
    text_of(client, PAGE)
    with CaptureQueriesContext(connection) as one:
        text_of(client, PAGE)
    for number in range(5):
        hold_story.place(story.dfid, name=f"case-{number}")
    with CaptureQueriesContext(connection) as many:
        text_of(client, PAGE)
    assert len(many) <= len(one) + 4

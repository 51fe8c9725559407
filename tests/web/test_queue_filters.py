"""The filters, orders and saved views of the queue: what they find, and that every way through it agrees."""

import re
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.access.roles import Role
from audit.verification import findings
from escalations import queries, queue_filter
from escalations.models import Escalation, SavedView
from escalations.models.saved_view import MOST_VIEWS
from escalations.queue_filter import QueueFilter, Sort
from runtime.core import clock
from runtime.registry.models import Agent
from tests.support import demo_scenes, factories, worlds
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
SWAPPED = {"HX-Request": "true"}
scene = worlds.shared(demo_scenes.build)


def found(client: Client, query: str) -> list[str]:
    """The ids of the rows, in the order of the page."""
    return re.findall(r'data-row="([^"]+)"', text_of(client, f"/escalations/?{query}", **SWAPPED))


def ids(**columns: object) -> set[str]:
    return {str(pk) for pk in Escalation.objects.filter(**columns).values_list("pk", flat=True)}


def test_every_column_filters_and_the_selects_list_what_is_open(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    page = text_of(client, "/escalations/")
    some = Escalation.objects.exclude(rule="").order_by("-impact_rank").first()
    assert some is not None
    for name, column in (
        ("agent", "agent_id"),
        ("kind", "policy_kind"),
        ("reason", "reason"),
        ("rule", "rule"),
    ):
        value = str(getattr(some, column))
        wanted = ids(**{column: value})
        assert set(found(client, f"{name}={quote(value)}")) == wanted
        assert f'<option value="{value}">{value} ({len(wanted)})</option>' in page
    assert found(client, "rule=no-such-rule") == []
    assert "1 of 5 open escalations match" in text_of(client, "/escalations/?kind=TRANSFER_FUNDS")
    assert "5 open escalations." in page


def test_a_rule_is_named_by_the_finding_that_referred_it(scene: demo_scenes.Scene) -> None:
    rules = set(Escalation.objects.values_list("rule", flat=True))
    assert rules == {"max_notional", "confidence", "max_transfer"}
    shown = queries.get_evidence(tenant="default", escalations=list(Escalation.objects.all()))
    for row in Escalation.objects.all():
        assert (row.rule, row.incident) == (shown[row.pk].rule, shown[row.pk].incident)


def test_verification_names_a_rewritten_rule(scene: demo_scenes.Scene) -> None:
    assert findings.verify_all().findings == []
    for column in ("rule", "incident"):
        with transaction.atomic():
            Escalation.objects.filter(pk=scene.escalations[0]).update(**{column: "forged"})
            assert any(column in str(finding) for finding in findings.verify_all().findings)
            transaction.set_rollback(True)


def test_holder_age_and_mine_follow_live_claims(scene: demo_scenes.Scene) -> None:
    client, now = sign_in(Role.OPERATOR, name="olga"), clock.now()
    olga = User.objects.get(username="olga")
    held, lapsed, *_ = scene.escalations
    rows = Escalation.objects.filter(pk=held)
    rows.update(
        claimed_by=olga, claimed_until=now + timedelta(minutes=5), opened_at=now - timedelta(minutes=20)
    )
    Escalation.objects.filter(pk=lapsed).update(claimed_by=olga, claimed_until=now - timedelta(minutes=5))
    assert found(client, f"holder={olga.pk}") == found(client, "mine=1") == [held]
    assert set(found(client, "holder=nobody")) == set(scene.escalations) - {held}
    assert found(client, "age=15") == [held]
    assert found(client, "age=60") == []
    page = text_of(client, "/escalations/")
    assert f'<option value="{olga.pk}">olga (1)</option>' in page
    assert f'<option value="nobody">Nobody ({len(scene.escalations) - 1})</option>' in page


@pytest.mark.parametrize("sort", list(Sort))
def test_pages_rows_and_the_way_from_item_to_item_agree_in_every_order(
    scene: demo_scenes.Scene, monkeypatch: pytest.MonkeyPatch, sort: Sort
) -> None:
    now = clock.now()
    for number, pk in enumerate(scene.escalations):
        Escalation.objects.filter(pk=pk).update(
            opened_at=now - timedelta(minutes=number % 3), deadline_at=now + timedelta(minutes=9 - number % 2)
        )
    key = {
        Sort.DEADLINE: lambda row: (row.deadline_at, -row.impact_rank, row.pk),
        Sort.IMPACT: lambda row: (-row.impact_rank, row.deadline_at, row.pk),
        Sort.AGE: lambda row: (row.opened_at, row.pk),
    }[sort]
    ordered = [str(row.pk) for row in sorted(Escalation.objects.all(), key=key)]
    monkeypatch.setattr("escalations.queries.list_decisions.__kwdefaults__", {"size": 2, "keeps": None})
    client, path, seen = sign_in(Role.OPERATOR), f"/escalations/?sort={sort}", []
    while path:
        page = text_of(client, path)
        seen += re.findall(r'data-row="([^"]+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = f"/escalations/{following[1].replace('&amp;', '&')}" if following else ""
    assert seen == ordered
    with CaptureQueriesContext(connection) as captured:
        walked = queries.list_ids(tenant="default", wanted=QueueFilter(sort=sort))
    assert [str(pk) for pk in walked] == ordered
    # No clock is asked: nothing here depends on the time.
    assert len(captured) == 2


def test_a_cursor_of_another_order_begins_again(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    for after in ("2026-01-01T00:00:00Z_1", "x_y_z", "%ff", "1_2_3", "9" * 400):
        for sort in Sort:
            assert set(found(client, f"sort={sort}&after={after}")) == set(scene.escalations), (sort, after)


def test_rows_carry_the_queue_along_and_the_filter_reads_it_back(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    page = text_of(client, "/escalations/?impact=LOW_IMPACT&sort=age&decidable=1&q=b%26y")
    assert "from=" not in text_of(client, "/escalations/", **SWAPPED)
    plain = text_of(client, "/escalations/?impact=LOW_IMPACT&sort=age", **SWAPPED)
    carried = re.search(r'href="/escalations/[^"?]+\?from=([^"]+)"', plain)
    assert carried
    assert carried[1] == quote("impact=LOW_IMPACT&sort=age", safe="")
    wanted = QueueFilter(
        impact="LOW_IMPACT", agent="a b", rule="r&s", holder="7", age=15, decidable=True, authority=True,
        sort=Sort.AGE, text="ü=?", mine=3,
    )  # fmt: skip
    assert queue_filter.read_from(queue_filter.to_query(wanted), user_pk=3) == wanted
    assert "match" in page


def test_what_asks_nothing_leaves_the_address(scene: demo_scenes.Scene) -> None:
    answer = sign_in(Role.OPERATOR).get("/escalations/?q=&agent=&kind=TRANSFER_FUNDS&sort=")
    assert (answer.status_code, answer["Location"]) == (302, "/escalations/?kind=TRANSFER_FUNDS")


def test_decidable_and_authority_ask_what_the_decision_would_answer(scene: demo_scenes.Scene) -> None:
    client, everything = sign_in(Role.OPERATOR, name="olga"), set(scene.escalations)
    sign_in(Role.OPERATOR, name="bob")  # so that olga is not alone
    assert set(found(client, "decidable=1")) == everything
    assert set(found(client, "authority=1")) == everything
    # The password step does not count, and an auditor decides nothing.
    assert found(sign_in(Role.AUDITOR, name="audrey"), "decidable=1") == []
    Agent.objects.filter(agent_id="unsure-analyst").update(owner="olga")
    others = everything - ids(agent_id="unsure-analyst")
    assert set(found(client, "decidable=1")) == set(found(client, "authority=1")) == others
    asked = sorted(others)[0]
    Escalation.objects.filter(pk=asked).update(waiting_until=clock.now() + timedelta(minutes=5))
    assert set(found(client, "decidable=1")) == others - {asked}
    assert set(found(client, "authority=1")) == others


def test_what_nobody_can_override_is_not_decidable_but_within_authority() -> None:
    desk = factories.desk()
    escalation = desk.escalate()
    factories.write("market.state", "CLOSED")
    olivia = factories.user("olivia")
    factories.decide(escalation, olivia)  # finds the drift, and makes the new revision
    row = Escalation.objects.get(pk=escalation.pk)
    assert row.revision == 2
    assert row.incident == "R_MARKET_OPEN"
    client = sign_in(Role.OPERATOR)
    assert found(client, "decidable=1&agent=trader") == []
    assert found(client, "authority=1&agent=trader") == [str(row.pk)]


def test_the_rows_bring_what_the_tabs_and_the_sidebar_count(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    asked = "/escalations/?impact=HIGH_IMPACT&sort=age"
    page = text_of(client, asked)
    brought = text_of(client, f"{asked}&have={scene.escalations[0]}", **SWAPPED)
    for part, address in (("views", f"{asked}&part=views"), ("count", "/escalations/count/")):
        assert f'data-live-part="{part}"' in page
        alone = text_of(client, address, **SWAPPED)
        inside = brought.partition(f'<template data-live-part="{part}">')[2].partition("</template>")[0]
        assert inside.strip() == alone.strip() != ""
    assert "<template" not in page.partition("<main")[2]


def test_a_filter_that_is_too_long_once_it_is_written_is_not_saved(scene: demo_scenes.Scene) -> None:
    answer = sign_in(Role.OPERATOR).post(
        "/escalations/views/", {"name": "Faces", "query": "rule=" + "\U0001f600" * 200}
    )
    assert answer.status_code == 400
    assert "This filter is too long to be saved." in answer.content.decode()
    assert not SavedView.objects.exists()


def test_counts_of_saved_views_cost_one_query_however_many_there_are(scene: demo_scenes.Scene) -> None:
    client, counted = sign_in(Role.OPERATOR), []
    user = User.objects.get(username="somebody")
    for number in (1, 2, 3):
        SavedView.objects.create(user=user, position=number, name=f"v{number}", query=f"q={number}")
        with CaptureQueriesContext(connection) as captured:
            client.get("/escalations/?part=views", headers=SWAPPED)
        counted.append(len(captured))
    assert len(set(counted)) == 1


def test_a_view_is_saved_listed_replaced_and_deleted_by_its_owner_alone(scene: demo_scenes.Scene) -> None:
    client, other = sign_in(Role.OPERATOR), sign_in(Role.SENIOR, name="other")
    saved = client.post(
        "/escalations/views/", {"name": " Big  ones ", "query": "impact=HIGH_IMPACT&evil=1&q="}
    )
    assert (saved.status_code, saved["Location"]) == (302, "/escalations/?impact=HIGH_IMPACT")
    client.post("/escalations/views/", {"name": "Big ones", "query": "impact=HIGH_IMPACT&sort=age"})
    view = SavedView.objects.get()
    assert (view.name, view.query) == ("Big ones", "impact=HIGH_IMPACT&sort=age")
    page = text_of(client, "/escalations/?impact=HIGH_IMPACT&sort=age")
    high = ids(impact__in=["HIGH_IMPACT", "CRITICAL"])
    tab = f'<bdi>Big ones</bdi> <span class="n">{len(high)}</span>'
    assert tab in page
    assert f"/escalations/views/{view.pk}/delete/" in page
    assert "Big ones" not in text_of(other, "/escalations/")
    other.post(f"/escalations/views/{view.pk}/delete/")
    assert SavedView.objects.count() == 1
    client.post(f"/escalations/views/{view.pk}/delete/")
    assert not SavedView.objects.exists()


def test_hostile_names_and_more_than_the_most_are_refused(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    query = "impact=HIGH_IMPACT"
    for name in ("", "x" * 41, "a\x00b"):
        assert client.post("/escalations/views/", {"name": name, "query": query}).status_code == 400, name
    assert client.post("/escalations/views/", {"name": "all", "query": "nothing=1"}).status_code == 400
    client.post("/escalations/views/", {"name": "<b>\u202ex", "query": query})
    page = text_of(client, "/escalations/")
    assert "&lt;b&gt;⟨U+202E⟩x" in page
    user = User.objects.get(username="somebody")
    for number in range(2, MOST_VIEWS + 1):
        SavedView.objects.create(user=user, position=number, name=str(number), query=query)
    assert client.post("/escalations/views/", {"name": "one more", "query": query}).status_code == 400
    for position in (0, MOST_VIEWS + 1):
        with pytest.raises(IntegrityError), transaction.atomic():
            SavedView.objects.create(user=user, position=position, name="y", query=query)


def test_nothing_an_address_says_becomes_markup(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    for value in (demo_scenes.HOSTILE, "\u202e\ud7ff", "x" * 5000, "1e999", "-1", "' OR 1=1 --"):
        for name in ("q", "agent", "kind", "reason", "rule", "holder", "age", "sort", "after", "from"):
            answer = client.get("/escalations/", {name: value})
            assert answer.status_code in {200, 302}, (name, value)
            assert b"<script>alert" not in answer.content

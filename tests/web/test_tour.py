"""The tour on the overview: its counts, where it leads, and that each person puts it away for themselves."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit.access.roles import Role
from escalations.models import Escalation
from runtime.contracts.states import Decision, Impact, OutcomeStatus
from runtime.flows.models import Outcome, Verdict
from runtime.flows.queries import activity
from runtime.registry.models import HiddenTour
from tests.support import demo_scenes, worlds
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
TITLE = "What you are looking at"
scene = worlds.shared(demo_scenes.build)


def test_counts_what_the_database_holds(scene: demo_scenes.Scene) -> None:
    page = text_of(sign_in(Role.OPERATOR), "/")
    for decision in Decision.values():
        number = Verdict.objects.filter(decision=decision).count()
        assert f"<b>{number}</b> {decision}" in page
    assert f"<b>{Escalation.objects.filter(state='OPEN').count()}</b> open" in page
    done = Outcome.objects.filter(status=OutcomeStatus.SUCCEEDED, receipt__isnull=False).count()
    assert f"<b>{done}</b> executed with receipt" in page


def test_leads_to_an_open_escalation_of_high_impact(scene: demo_scenes.Scene) -> None:
    page = text_of(sign_in(Role.OPERATOR), "/")
    found = re.search(r'href="/escalations/([0-9a-f-]{36})/"[^>]*>(?:(?!</a>).)*Decide your first one', page)
    assert found
    chosen = Escalation.objects.get(pk=found[1])
    assert (chosen.state, chosen.impact) == ("OPEN", Impact.HIGH_IMPACT)


def test_is_put_away_by_each_person_alone_and_can_be_shown_again(scene: demo_scenes.Scene) -> None:
    ann, bob = sign_in(Role.OPERATOR, name="ann"), sign_in(Role.AUDITOR, name="bob")
    assert TITLE in text_of(ann, "/")
    for _ in range(2):
        assert ann.post("/tour/hide/").status_code == 302
    assert HiddenTour.objects.count() == 1
    assert TITLE not in text_of(ann, "/")
    assert TITLE not in text_of(ann, "/", **{"HX-Request": "true"})
    assert TITLE in text_of(bob, "/")
    again = Client()
    again.force_login(User.objects.get(username="ann"))
    assert TITLE not in text_of(again, "/"), "not a matter of the session"
    assert 'action="/tour/show/"' in text_of(ann, "/help/")
    assert 'action="/tour/show/"' not in text_of(bob, "/help/")
    assert ann.post("/tour/show/").status_code == 302
    assert TITLE in text_of(ann, "/")


@pytest.mark.parametrize("address", ["/tour/hide/", "/tour/show/"])
def test_following_a_link_changes_nothing(address: str) -> None:
    assert sign_in(Role.OPERATOR).get(address).status_code == 405
    assert not HiddenTour.objects.exists()


def test_a_busy_day_is_counted_up_to_a_bound(
    scene: demo_scenes.Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "MOST_COUNTED", 3)
    page = text_of(sign_in(Role.OPERATOR), "/")
    numbers = re.findall(rf"<b>(\d+)\+</b> (?:{'|'.join(Decision.values())})", page)
    assert sum(map(int, numbers)) == 3

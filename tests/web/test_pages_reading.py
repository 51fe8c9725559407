"""The page says when it was shown, and asks who decides too fast."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from escalations.models import Decision, Escalation
from tests.support import factories, gate_cases
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return sign_in(Role.OPERATOR, name="olivia")


def form_of(client: Client, escalation: Escalation) -> dict[str, str]:
    page = client.get(f"/escalations/{escalation.pk}/").content.decode()
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
    return {**fields, "action": "OVERRIDE", "justification": "The desk has agreed to this position."}


def test_the_form_of_the_page_is_measured(client: Client) -> None:
    escalation = factories.desk().escalate()
    form = form_of(client, escalation) | {"client_reported": '{"visible_s": 3, "panes": ["facts", "x"]}'}
    assert client.post(f"/escalations/{escalation.pk}/decision/", form).status_code == 302
    stated = canonical.decode(bytes(Decision.objects.get().statement))["reading"]
    assert stated["client_reported"] == {"visible_s": 3, "panes": ["facts"]}
    assert stated["shown_ms"] >= 0


@pytest.mark.parametrize("said", ["", "{", "[]", '{"visible_s": -1}', '{"visible_s": true, "panes": 7}'])
def test_what_a_browser_says_blocks_nothing(client: Client, said: str) -> None:
    escalation = factories.desk().escalate()
    form = form_of(client, escalation) | {"client_reported": said}
    assert client.post(f"/escalations/{escalation.pk}/decision/", form).status_code == 302


def test_a_time_of_another_page_does_not_count(client: Client) -> None:
    desk = factories.desk()
    one, other = desk.escalate(), desk.escalate()
    form = form_of(client, one) | {"shown": form_of(client, other)["shown"]}
    assert client.post(f"/escalations/{one.pk}/decision/", form).status_code == 302
    assert Decision.objects.get().shown_ms is None


def test_the_question_is_asked_on_the_page_and_nothing_is_lost(client: Client) -> None:
    desk = factories.desk()
    first, second = desk.escalate(), desk.escalate()
    client.post(f"/escalations/{first.pk}/decision/", form_of(client, first))
    form, path = form_of(client, second), f"/escalations/{second.pk}/decision/"
    answer = client.post(path, form)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert "What did you check this time?" in page
    assert re.search(r"<div [^>]*data-checked>", page)
    # The time of the first page counts on.
    assert f'name="shown" value="{form["shown"]}"' in page
    assert form["justification"] in page
    assert client.post(path, form | {"checked": "Both prices, against yesterday."}).status_code == 302


def test_the_pause_is_shown_and_ends_by_a_post(client: Client) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=50))
    olivia = User.objects.get(username="olivia")
    escalations = [desk.escalate() for _ in range(11)]
    for escalation in escalations[:10]:
        factories.decide(escalation, olivia)
    last = escalations[10]
    path = f"/escalations/{last.pk}/"
    page = client.get(f"{path}?from=agent%3Dtrader").content.decode()
    assert "You have overridden 10 in a row" in page
    assert f'name="next" value="{path}?from=agent%3Dtrader"' in page
    assert client.post(f"{path}decision/", form_of(client, last)).status_code == 409
    assert (
        client.post("/escalations/pause/", {"next": "https://elsewhere.example/"})["Location"]
        == "/escalations/"
    )
    assert "in a row" not in client.get(path).content.decode()
    assert client.get("/escalations/pause/").status_code == 405

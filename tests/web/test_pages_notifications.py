"""The page of notification routes: who manages them, what it shows, and what it never shows."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations.models import Notice, NotificationRoute
from escalations.services.notices import routes, sending
from tests.support import factories, incident_story, markup, notice_receivers
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/notifications/"
TOKEN = notice_receivers.TOKEN
URL = f"https://hooks.example.com/services/{TOKEN}?key={TOKEN}"
SLACK = f"slack://T1JJ3T3L2/A1BRTD4JD/{TOKEN}abcdefghij/general"


@pytest.fixture(autouse=True)
def _whole() -> Iterator[None]:
    yield
    assert isinstance(verify_database(), Whole)


@pytest.fixture
def ada() -> Client:
    return sign_in(Role.ADMIN, name="ada")


def add(client: Client, url: str = URL, **fields: Any) -> Any:
    return client.post(PAGE, {"url": url, **fields})


def kinds() -> list[str]:
    rows = LedgerEntry.objects.filter(kind__startswith="notification_route:").order_by("pk")
    return [kind.partition(":")[2] for kind in rows.values_list("kind", flat=True)]


def test_an_admin_adds_switches_tests_and_deletes_a_route(ada: Client) -> None:
    shown = add(ada, name="desk chat", audience="night desk")
    assert shown.status_code == 200
    assert shown["Cache-Control"] == "no-store"
    assert re.search(r"whsec_[A-Za-z0-9+/=]{40,}", shown.content.decode())
    row = NotificationRoute.objects.get()
    page = text_of(ada, PAGE)
    for words in ("desk chat", "https://hooks.example.com/…", "night desk", "never", "0 waiting, 0 failed"):
        assert words in page
    place = f"{PAGE}{row.pk}/"
    assert ada.post(f"{place}test/").status_code == 302
    assert Notice.objects.get().occasion == "TEST"
    assert ada.post(f"{place}off/").status_code == 302
    assert ada.post(f"{place}off/").status_code == 302
    assert ada.post(f"{place}test/").status_code == 409
    assert "Switch on" in text_of(ada, PAGE)
    assert ada.post(f"{place}on/").status_code == 302
    assert ada.post(f"{place}delete/").status_code == 302
    assert ada.post(f"{place}on/").status_code == 404
    assert kinds() == ["added", "tested", "switched", "switched", "deleted"]
    assert "No notification route yet" in text_of(ada, PAGE)
    assert "desk chat" in text_of(ada, PAGE), "its notices keep its name"


def test_the_url_alone_is_enough(ada: Client) -> None:
    assert add(ada).status_code == 200
    row = NotificationRoute.objects.get()
    assert (row.name, row.occasions, len(row.families)) == ("hooks.example.com", ("OPENED",), 4)
    assert add(ada).status_code == 409, "another one needs a name"


def test_the_whole_form_is_kept(ada: Client) -> None:
    factories.desk()
    sent: dict[str, Any] = {
        "name": "seniors",
        "occasions": ["HALF_TIME", "HANDED_UP"],
        "families": ["DECISION"],
        "least_impact": "HIGH_IMPACT",
        "agent_id": "trader",
        "policy_kind": "ADJUST_POSITION",
        "quiet_from": "22:00",
        "quiet_to": "07:00",
        "quiet_zone": "Europe/Berlin",
        "quiet_exempt": "HIGH_IMPACT",
    }
    assert add(ada, **sent).status_code == 200
    words = markup.words(text_of(ada, PAGE))
    for shown in (
        "half time, handed up",
        "decisions; at least high impact; agent trader; kind ADJUST_POSITION",
        "22:00 to 07:00 Europe/Berlin, except from high impact",
    ):
        assert shown in words


def test_incidents_are_chosen_apart_and_listed_with_a_link(ada: Client) -> None:
    sent: dict[str, Any] = {
        "name": "on call",
        "occasions": ["INCIDENT_OPENED", "INCIDENT_RAISED"],
        "least_severity": "SEV2",
        "quiet_from": "22:00",
        "quiet_to": "07:00",
        "quiet_zone": "UTC",
        "quiet_exempt_severity": "SEV1",
    }
    assert add(ada, **sent).status_code == 200
    incident = incident_story.open_by(factories.user("olivia").pk, title="<b>Orders</b> to nobody")
    page = text_of(ada, PAGE)
    words = markup.words(page)
    for shown in (
        "incidents: SEV2 and worse incident opened, severity raised",
        "22:00 to 07:00 UTC, except incidents of SEV1",
        "SEV2 <b>Orders</b> to nobody",
    ):
        assert shown in words
    assert "<b>Orders" not in page
    assert f'href="/incidents/{incident.pk}/"' in page
    assert "escalations: " not in words[words.index("on call") : words.index("Newest notices")]
    edited = text_of(ada, f"{PAGE}{NotificationRoute.objects.get().pk}/")
    for name, value in (("least_severity", "SEV2"), ("quiet_exempt_severity", "SEV1")):
        select = edited[edited.index(f'<select id="{name}"') :]
        assert f'value="{value}" selected' in select[: select.index("</select>")]
    assert len(re.findall(r'name="occasions" value="INCIDENT_\w+"\s+checked', edited)) == 2
    refused = add(ada, name="other", least_severity="SEV0")
    assert refused.status_code == 422
    assert "SEV0 is not one of the available choices" in markup.words(refused.content.decode())
    assert NotificationRoute.objects.count() == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "Enter the URL"),
        ("hooks.example.com", "with its scheme"),
        ("https://", "not a valid http or https URL"),
        ("https://exa mple.com/", "without spaces"),
        ("https://[::1/", "with its scheme"),
        ("https://user:password@hooks.example.com/", "must not hold a user name or password"),
        ("http://127.0.0.1:9/hook", "DIR_EGRESS_ALLOW"),
        ("http://[::1]/hook", "DIR_EGRESS_ALLOW"),
        ("http://localhost/hook", "DIR_EGRESS_ALLOW"),
        ("ftp://example.com/x", "cannot be sent to ftp://"),
        ("json://example.com/x", "cannot be sent to json://"),
        ("file:///etc/passwd", "cannot be sent to file://"),
        ("slack://tooshort", "missing or has a wrong form"),
        ("mailto://user:password@example.com?pgppub=/etc/passwd", "The option pgppub is not supported"),
        ("https://example.com/" + "a" * 2000, "at most 2000"),
    ],
)
def test_a_bad_url_is_refused_with_what_to_do(ada: Client, settings: Settings, url: str, words: str) -> None:
    settings.DIR_EGRESS_ALLOW = []
    refused = add(ada, url, name="kept name")
    assert refused.status_code == 422
    page = markup.words(refused.content.decode())
    assert words in page
    assert 'value="kept name"' in refused.content.decode()
    assert not NotificationRoute.objects.exists()
    assert kinds() == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com:8443/x", "https://hooks.example.com:8443/…"),
        ("tgram://123456789:abcdefg_hijklmnop/lead2gold", "tgram:///…"),
        (SLACK, "slack:///…"),
        ("mailto://user:12:34@example.com?to=desk@example.com", "mailto://example.com/…"),
        ("mailtos://user:word@example.com:587?to=desk@example.com", "mailtos://example.com:587/…"),
    ],
)
def test_services_are_accepted_and_masked(ada: Client, url: str, shown: str) -> None:
    assert add(ada, url, name="route").status_code in {200, 302}
    assert shown in text_of(ada, PAGE)


def test_a_slip_elsewhere_keeps_the_rest_of_the_form_but_not_the_url(ada: Client) -> None:
    refused = add(ada, name="desk", quiet_from="22:00", occasions=["CLOSED"])
    page = refused.content.decode()
    assert refused.status_code == 422
    assert "Enter both times, or neither." in page
    assert re.search(r'value="CLOSED"\s+checked', page)
    assert not re.search(r'value="OPENED"\s+checked', page)
    assert TOKEN not in page


@pytest.mark.parametrize("url", [URL, SLACK, f"mailto://user:{TOKEN}@example.com?to=desk@example.com"])
def test_no_secret_is_shown_or_recorded(ada: Client, url: str) -> None:
    answer = add(ada, url)
    assert answer.status_code in {200, 302}
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", answer.content.decode())
    bodies = b"".join(bytes(body) for body in LedgerEntry.objects.values_list("body", flat=True)).decode()
    for text in (text_of(ada, PAGE), text_of(ada, "/ledger/"), bodies):
        assert TOKEN not in text
        assert "T1JJ3T3L2" not in text
        assert secret is None or secret[0] not in text


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.AUDITOR])
def test_everybody_reads_and_only_admins_manage(ada: Client, role: Role) -> None:
    add(ada, name="desk chat")
    row, client = NotificationRoute.objects.get(), sign_in(role)
    page = text_of(client, PAGE)
    assert "desk chat" in page
    assert "<form" not in page[page.index("<main") : page.index("</main>")]
    for path in (PAGE, *(f"{PAGE}{row.pk}/{act}" for act in ("", "on/", "off/", "test/", "delete/"))):
        assert client.post(path, {"url": URL, "name": "other"}).status_code == 403, path
    assert NotificationRoute.objects.count() == 1
    assert kinds() == ["added"]


def test_failures_are_shown(ada: Client, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    desk = factories.desk()
    with notice_receivers.receiver() as receiver:
        receiver.status = 503
        notice_receivers.add(receiver.url, name="<b>night</b>")
        row = desk.escalate()
        sending.send_due()
        page = text_of(ada, PAGE)
    words = markup.words(page)
    for shown in ("Retrying", "next try", "the receiver answered 503", "1 waiting, 0 failed", "opened"):
        assert shown in words
    assert f'href="/escalations/{row.pk}/"' in page
    assert "<b>night" not in page
    assert code_in(page) == []
    lists = text_of(ada, PAGE, **{"HX-Request": "true"})
    assert "<html" not in lists
    assert "answered 503" in lists


def test_says_when_notices_have_no_link(ada: Client, settings: Settings) -> None:
    settings.DIR_PUBLIC_URL = ""
    assert "DIR_PUBLIC_URL" in text_of(ada, PAGE)
    settings.DIR_PUBLIC_URL = "https://console.example"
    assert "DIR_PUBLIC_URL" not in text_of(ada, PAGE)


def test_the_record_of_a_decision_names_who_was_told_of_it(ada: Client) -> None:
    desk = factories.desk()
    assert "Nobody was notified" in text_of(ada, f"/decisions/{desk.escalate().pk}/")
    add(ada, name="desk chat")
    page = text_of(ada, f"/decisions/{desk.escalate().pk}/")
    assert re.search(r"<bdi>desk chat</bdi> <span[^>]*>opened</span>.*Waiting", page, re.DOTALL)
    assert "Nobody was notified" not in page


QUIET_WRONG = {"quiet_from": "22:00", "quiet_to": "07:00"}
QUIET = {"quiet_from": "22:00", "quiet_to": "07:00", "quiet_zone": "Europe/Berlin", "quiet_exempt": ""}


def test_a_route_is_changed_and_keeps_its_address(ada: Client) -> None:
    factories.desk()
    add(ada, name="desk chat", audience="night desk", agent_id="trader", occasions=["CLOSED"], **QUIET)
    before = NotificationRoute.objects.get()
    page = text_of(ada, f"{PAGE}{before.pk}/")
    assert TOKEN not in page
    chosen = {
        "name": "desk chat",
        "audience": "night desk",
        "quiet_from": "22:00",
        "quiet_to": "07:00",
        "quiet_zone": "Europe/Berlin",
    }
    for field, value in chosen.items():
        assert re.search(rf'name="{field}"[^>]* value="{value}"', page), field
    assert re.search(r'value="CLOSED"\s+checked', page)
    assert re.search(r'value="trader" selected', page)
    sent = {**chosen, "name": "day chat", "occasions": ["OPENED"], "agent_id": "", "policy_kind": ""}
    assert ada.post(f"{PAGE}{before.pk}/", sent).status_code == 302
    row = NotificationRoute.objects.get()
    assert (row.name, row.occasions, row.agent_id, row.quiet_zone) == (
        "day chat",
        ("OPENED",),
        "",
        "Europe/Berlin",
    )
    assert (bytes(row.address), row.url_digest) == (bytes(before.address), before.url_digest)
    assert kinds() == ["added", "changed"]


def test_saving_an_unchanged_form_changes_nothing_but_the_time(ada: Client) -> None:
    chosen = {"least_impact": "HIGH_IMPACT", "least_severity": "SEV3", "quiet_exempt_severity": "SEV2"}
    occasions = ["HALF_TIME", "INCIDENT_CLOSED"]
    add(ada, name="desk", families=["OPERATIONAL"], occasions=occasions, **chosen, **QUIET)
    before = dict(NotificationRoute.objects.values().get())
    page = ada.get(f"{PAGE}{before['route_id']}/")
    form = page.context["form"]
    sent = {name: form[name].value() or "" for name in form.fields}
    assert ada.post(f"{PAGE}{before['route_id']}/", sent).status_code == 302
    after = dict(NotificationRoute.objects.values().get())
    assert after.pop("enabled_at") != before.pop("enabled_at")
    assert after == before


def test_a_new_url_gets_a_new_secret_shown_once(ada: Client) -> None:
    first = re.search(r"whsec_[A-Za-z0-9+/=]+", add(ada, name="desk").content.decode())
    row = NotificationRoute.objects.get()
    shown = ada.post(f"{PAGE}{row.pk}/", {"name": "desk", "url": "https://other.example.com/hook"})
    assert (shown.status_code, shown["Cache-Control"]) == (200, "no-store")
    second = re.search(r"whsec_[A-Za-z0-9+/=]+", shown.content.decode())
    assert first is not None
    assert second is not None
    assert first[0] != second[0]
    assert "https://other.example.com/…" in text_of(ada, PAGE)
    to_slack = ada.post(f"{PAGE}{row.pk}/", {"name": "desk", "url": SLACK})
    assert to_slack.status_code == 302, "a chat has no secret"


def test_a_refused_change_keeps_what_was_entered_and_the_route(ada: Client) -> None:
    add(ada, name="other")
    add(ada, name="desk")
    row = NotificationRoute.objects.get(name="desk")
    before = NotificationRoute.objects.values().get(pk=row.pk)
    taken = ada.post(f"{PAGE}{row.pk}/", {"name": "other", "audience": "kept", "occasions": ["CLOSED"]})
    assert taken.status_code == 409
    page = taken.content.decode()
    assert "Another route has the name other." in page
    assert 'value="kept"' in page
    for fields in (
        {"url": "ftp://example.com/x"},
        {"quiet_from": "22:00"},
        {"quiet_zone": "Mars", **QUIET_WRONG},
    ):
        assert ada.post(f"{PAGE}{row.pk}/", {"name": "desk", **fields}).status_code == 422
    assert NotificationRoute.objects.values().get(pk=row.pk) == before
    assert kinds() == ["added", "added"]


def test_a_deleted_or_unknown_route_cannot_be_changed(ada: Client) -> None:
    add(ada, name="desk")
    row = NotificationRoute.objects.get()
    ada.post(f"{PAGE}{row.pk}/delete/")
    for path in (f"{PAGE}{row.pk}/", f"{PAGE}{row.pk.hex[::-1]}/"):
        assert ada.get(path).status_code == 404
        assert ada.post(path, {"name": "again", "url": URL}).status_code == 404
    assert kinds() == ["added", "deleted"]


def test_there_is_a_limit_to_the_number_of_routes(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MOST_ROUTES", 1)
    add(ada)
    refused = add(ada, name="another")
    assert refused.status_code == 409
    assert "1 routes already" in refused.content.decode()

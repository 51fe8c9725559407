"""Every page: who may see it, what it says, and that nothing an agent wrote gets out of its place."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit.access.roles import Role
from escalations.models import Escalation
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.flows.queries import flow_search
from runtime.maintenance.services import sealing, watchdog
from runtime.registry.queries import people
from tests.support import demo_scenes, markup, worlds

pytestmark = pytest.mark.django_db

PAGES = [
    "/",
    "/escalations/",
    "/escalations/?show=closed",
    "/escalations/count/",
    "/shift/",
    "/tasks/",
    "/notes/agent/ambitious-trader/",
    "/flows/",
    "/agents/",
    "/agents/ambitious-trader/",
    "/agents/ambitious-trader/manifests/1.1.0/",
    "/agents/ambitious-trader/manifests/1.1.0/?trial=1",
    "/budgets/",
    "/memory/",
    "/reviews/",
    "/incidents/",
    "/incidents/rules/",
    "/outward/",
    "/kinds/",
    "/kinds/ADJUST_POSITION/",
    "/budgets/reservations/",
    "/notifications/",
    "/noise/",
    "/people/",
    "/retention/",
    "/payload-keys/",
    "/account/",
    "/inbox/",
    "/ledger/",
    "/conformance/",
    "/records/",
    "/replay/",
    "/records/reports/high_value_outcomes/",
    "/records/reports/most_denials/",
    "/records/reports/replay_health/",
    "/decisions/",
    "/search/",
    "/glossary/",
    "/help/",
    "/help/escalations/",
]


class Reader(HTMLParser):
    """Collects what a strict content policy would have to block."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"script", "iframe", "object", "embed", "style"} and "src" not in given:
            self.found.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style" or (value or "").startswith(("javascript:", "data:")):
                self.found.append(f"{tag} {name}={value}")


def code_in(page: str) -> list[str]:
    reader = Reader()
    reader.feed(page)
    return reader.found


def sign_in(*roles: Role, name: str = "somebody") -> Client:
    client = Client()
    client.force_login(
        demo_scenes.add_user(name, *roles), backend="allauth.account.auth_backends.AuthenticationBackend"
    )
    return client


def text_of(client: Client, path: str, **headers: Any) -> str:
    answer = client.get(path, headers=headers or None)
    assert answer.status_code == 200, (path, answer.status_code)
    return markup.tight(answer.content.decode())


scene = worlds.shared(demo_scenes.build)


@pytest.mark.parametrize("role", list(Role))
def test_each_role_reads_every_page(role: Role, scene: demo_scenes.Scene) -> None:
    client = sign_in(role)
    for path in [*PAGES, f"/escalations/{scene.escalations[0]}/", f"/flows/{scene.flows[0]}/"]:
        assert "</" in text_of(client, path) or path.endswith("/count/")


def test_sends_strangers_to_sign_in_and_back(scene: demo_scenes.Scene) -> None:
    for path in [*PAGES, f"/escalations/{scene.escalations[0]}/"]:
        answer = Client().get(path)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/login/?next=")


def test_tells_a_swapped_request_to_sign_in_as_a_whole_page() -> None:
    answer = Client().get("/escalations/", headers={"HX-Request": "true"})
    assert answer.status_code == 401
    assert answer["HX-Redirect"].startswith("/accounts/login/")


def test_refuses_people_without_a_role() -> None:
    answer = sign_in().get("/")
    assert answer.status_code == 403
    assert b"Your roles do not allow this" in answer.content


def test_the_queue_names_every_open_id_and_decides_nothing(scene: demo_scenes.Scene) -> None:
    page = text_of(sign_in(Role.OPERATOR), "/escalations/")
    for escalation_id in scene.escalations:
        assert escalation_id in page
    assert "/decision/" not in page
    assert "/bulk/decide/" not in page
    assert page.count('value="ABORT"') == 1  # leads to a page that lists what was selected
    for action in ("OVERRIDE", "MODIFY", "RESUME"):
        assert f'value="{action}"' not in page


def test_impact_is_an_icon_and_a_word(scene: demo_scenes.Scene) -> None:
    page = text_of(sign_in(Role.OPERATOR), "/escalations/?impact=HIGH_IMPACT")
    assert 'data-impact="HIGH_IMPACT"' in page
    assert "#high" in page
    assert "High impact" in page
    assert "Low impact</div>" not in page


def test_near_identical_items_are_told_once_what_they_share(scene: demo_scenes.Scene) -> None:
    session = demo_scenes.session_of("unsure-analyst")
    for quantity in (1, 2, 3):
        demo_scenes.propose(
            session,
            "ADJUST_POSITION",
            demo_scenes.order("BUY", quantity, "GOOG", quantity * 17235),
            confidence=0.5,
        )
    client = sign_in(Role.OPERATOR)
    page = text_of(client, "/escalations/?agent=unsure-analyst")
    assert "5 similar, differing in action, notional_cents, quantity, symbol" in page
    assert page.count("data-row=") == 5


def test_filters_live_in_the_address(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    low = text_of(client, "/escalations/?impact=LOW_IMPACT", **{"HX-Request": "true"})
    assert 'data-impact="HIGH_IMPACT"' not in low
    assert low.count("data-row=") == 3
    assert text_of(client, "/escalations/?q=reserve", **{"HX-Request": "true"}).count("data-row=") == 1
    assert "No results" in text_of(client, "/escalations/?q=unheard-of")


def test_a_live_update_is_the_pages_own_fragment(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.AUDITOR)
    paths = ["/", "/escalations/", "/flows/", "/agents/", "/budgets/", "/ledger/", "/agents/momentum-trader/"]
    for path in [*paths, f"/flows/{scene.flows[0]}/", f"/flows/{scene.flows[0]}/?part=side"]:
        fragment = text_of(client, path, **{"HX-Request": "true"})
        assert "<html" not in fragment
        assert fragment.strip()


def test_closed_rows_are_told_to_a_page_that_still_shows_them(scene: demo_scenes.Scene) -> None:
    row = Escalation.objects.get(pk=scene.escalations[0])
    row.state, row.resolved_at, row.resolution = "WITHDRAWN", row.opened_at, "WITHDRAWN"
    row.save()
    fragment = text_of(sign_in(Role.OPERATOR), f"/escalations/?have={row.pk}", **{"HX-Request": "true"})
    assert 'class="q gone"' in fragment
    assert "Withdrawn" in fragment


def test_pages_of_the_queue_meet_without_gap_or_repeat(
    scene: demo_scenes.Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("escalations.queries.list_decisions.__kwdefaults__", {"size": 2})
    client, path, seen = sign_in(Role.OPERATOR), "/escalations/", []
    while path:
        page = text_of(client, path)
        seen += re.findall(r'data-row="([^"]+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = f"/escalations/{following[1].replace('&amp;', '&')}" if following else ""
    assert sorted(seen) == sorted(scene.escalations)


def test_pages_of_flows_meet_without_gap_or_repeat(
    scene: demo_scenes.Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.flows.queries.flow_search.PAGE", 4)
    client, path, seen = sign_in(Role.AUDITOR), "/flows/", []
    while path:
        page = text_of(client, path)
        seen += re.findall(r'data-row="([^"]+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = f"/flows/{following[1]}" if following else ""
    assert seen == sorted(scene.flows, reverse=True)


def test_a_flow_is_found_by_id_agent_kind_state_and_time(
    scene: demo_scenes.Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, dfid = sign_in(Role.AUDITOR), scene.flows[4]
    assert client.get(f"/flows/?dfid={dfid}")["Location"] == f"/flows/{dfid}/"
    swapped = {"HX-Request": "true"}
    assert text_of(client, f"/flows/?dfid={dfid[:13]}", **swapped).count("data-row") >= 1
    assert text_of(client, f"/flows/?dfid={dfid[-12:]}", **swapped).count("data-row") == 1
    for end in (dfid[-14:], dfid[-13:], dfid[-18:].replace("-", ""), dfid[-30:], dfid[-31:].replace("-", "")):
        assert text_of(client, f"/flows/?dfid={end}", **swapped).count("data-row") == 1, end
    Flow.objects.filter(dfid=dfid).update(reason="noNight")
    # Among few different reasons, and among more than are looked through one by one.
    for most in (flow_search.MOST_REASONS, 0):
        monkeypatch.setattr(flow_search, "MOST_REASONS", most)
        for typed, rows in (("noNight", 1), ("NONIGHT", 1), ("night", 1), ("nightly", 0)):
            assert text_of(client, f"/flows/?reason={typed}", **swapped).count("data-row") == rows, typed
    assert text_of(client, "/flows/?agent=AMBITIOUS", **swapped).count("data-row") >= 1
    assert text_of(client, "/flows/?kind=adjust_position", **swapped).count("data-row") >= 1
    assert text_of(client, "/flows/?kind=TRANSFER_FUNDS", **swapped).count("data-row") == 1
    assert text_of(client, "/flows/?agent=unsure-analyst&state=ESCALATED", **swapped).count("data-row") == 2
    assert text_of(client, "/flows/?until=2020-01-01T00:00", **swapped).count("data-row") == 0
    assert text_of(client, "/flows/?since=2020-01-01T00:00", **swapped).count("data-row") == 9


def test_wrong_addresses_ask_nothing_and_never_fail(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    for path in (
        "/flows/?before=x&since=never&dfid=%00&state=NO",
        "/flows/?dfid=" + "f" * 400,
        "/flows/?since=9999-99-99T99:99",
        "/escalations/?after=2026-01-01_99999999999999999999_x&have=a,b&mine=2&impact=X",
        "/escalations/?q=%00%ff",
        "/ledger/?before=-1&kind=none&stream=%00",
        "/records/?after=-1&status=NO&dfid=x&from=%00&subject=%00",
        "/records/reports/high_value_outcomes/?over=%00&param=&from=never",
        "/agents/?status=NONE&after=%00",
        "/kinds/ADJUST_POSITION/?version=1.5.0",
    ):
        assert client.get(path).status_code == 200, path
    for path in (
        "/kinds/NONE/",
        "/kinds/ADJUST_POSITION/?version=9",
        "/agents/nobody/",
        "/agents/%00/",
        "/nothing/",
    ):
        assert client.get(path).status_code == 404, path


def test_nothing_an_agent_wrote_becomes_markup_or_turns_the_text(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.OPERATOR)
    hostile = next(
        row
        for row in Escalation.objects.select_related("proposal")
        if row.proposal and "script" in row.proposal.explain
    )
    for path in (f"/escalations/{hostile.pk}/", f"/flows/{hostile.flow_id}/", "/escalations/", "/"):
        page = text_of(client, path)
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "\u202e" not in page
        assert code_in(page) == [], path
    page = text_of(client, f"/escalations/{hostile.pk}/")
    assert "⟨U+202E⟩" in page
    assert "Unverified claim by the agent" in page


def test_the_overview_counts_what_the_queue_lists(scene: demo_scenes.Scene) -> None:
    page = text_of(sign_in(Role.SENIOR), "/")
    assert f'<span class="value" data-tone="danger">{len(scene.escalations)}</span>' in page
    assert "R_ENOUGH_SHARES" in page
    assert text_of(sign_in(Role.SENIOR, name="other"), "/escalations/count/").startswith(
        '<span class="count"'
    )


def test_monitors_get_their_answers_without_signing_in() -> None:
    watchdog.keep_round(at=clock.now())
    sealing.seal_now()
    assert Client().get("/livez").json() == {"status": "ok"}
    assert Client().get("/readyz").json() == {"status": "ok"}


def test_a_person_is_found_in_the_ledger_by_name(scene: demo_scenes.Scene) -> None:
    client = sign_in(Role.ADMIN, name="olga")
    client.post("/accounts/logout/")
    client = sign_in(Role.AUDITOR, name="reader")
    found = text_of(client, "/ledger/?stream=user:OLGA")
    assert 'value="user:OLGA"' in found
    assert people.actor_of_name("user:OLGA") == f"user:{User.objects.get(username='olga').pk}"
    assert [people.actor_of_name(text) for text in ("user:7", "user:nobody", "system")] == [
        "user:7",
        "user:nobody",
        "system",
    ]

"""The page of demo scenarios: absent without a demo, for admins with one, and recorded."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from django.test import Client
from django.utils.html import escape
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from demo.scenarios import LASTS_S, Scenario
from dir_console.demo_words import SCENARIOS, SCENES
from runtime.packs.services import packs
from tests.demo.paper import ThreadBroker
from tests.support import demo_scenes
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
TOKEN = "a-token-of-this-test"
HOUSE = Path(__file__).parents[2] / "demo" / "house-rules.yaml"


@pytest.fixture
def demo(tmp_path: Path, settings: Settings) -> Iterator[ThreadBroker]:
    """A broker that takes scenarios, as `manage.py up --demo` starts one."""
    broker = ThreadBroker(db=tmp_path / "broker.sqlite3")
    broker.exchange.control_token = TOKEN
    settings.DIR_DEMO_URL, settings.DIR_DEMO_TOKEN = broker.base_url, TOKEN
    yield broker
    broker.stop()
    assert isinstance(verify_database(), Whole)


def recorded() -> list[str]:
    return list(
        LedgerEntry.objects.filter(kind__startswith="demo:").order_by("pk").values_list("kind", flat=True)
    )


@pytest.mark.parametrize("role", list(Role))
def test_without_a_demo_nothing_of_it_is_there(role: Role) -> None:
    client = sign_in(role)
    assert client.get("/demo/").status_code == 404
    for scenario in Scenario:
        for act in ("start", "end"):
            status = client.post(f"/demo/{scenario}/{act}/").status_code
            assert status == (404 if role is Role.ADMIN else 403)
    for page in ("/help/", "/search/?q=demo"):
        assert 'href="/demo/' not in text_of(client, page)
    assert recorded() == []


def test_the_page_has_words_for_every_scenario_and_links_that_lead_somewhere(demo: ThreadBroker) -> None:
    assert list(SCENARIOS) == list(Scenario)
    client = sign_in(Role.ADMIN)
    page = text_of(client, "/demo/")
    assert code_in(page) == []
    for scenario, words in SCENARIOS.items():
        assert f'action="/demo/{scenario}/start/"' in page
        for link in words.links:
            # no agent is registered here
            assert client.get(link.url).status_code == (404 if link.of else 200), link.url
    assert 'href="/demo/"' in text_of(client, "/help/")


def test_the_page_tells_nine_scenes_each_with_pages_that_show_it(demo: ThreadBroker) -> None:
    assert len(SCENES) == 9
    loaded = packs.load(text=HOUSE.read_text(), source=HOUSE.name, activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded
    client = sign_in(Role.ADMIN)
    page = text_of(client, "/demo/")
    for name, words in SCENES.items():
        assert f'<h3 id="scene-{name}">{words.title}</h3>' in page
        assert words.happens in page
        assert 2 <= words.happens.count(". ") + 1 <= 4, "a few sentences"
        for link in words.links:
            assert f'href="{escape(link.url)}"' in page
            assert client.get(link.url).status_code == 200, link.url


def test_the_documentation_has_a_picture_of_each_scene() -> None:
    docs = HOUSE.parents[1] / "docs"
    page = (docs / "demo.md").read_text()
    for number, (name, words) in enumerate(SCENES.items(), start=1):
        about = page.split(f"### {number}. {words.title}\n", 1)[1].split("\n#", 1)[0]
        assert f"(images/scene-{name}.png)" in about
        assert (docs / "images" / f"scene-{name}.png").stat().st_size < 200_000
    agents = {agent["agent_id"] for agent in yaml.safe_load(HOUSE.read_text())["agents"]}
    assert all(f"| `{agent}` |" in page for agent in agents)


def test_an_admin_starts_and_ends_one_and_both_are_recorded(demo: ThreadBroker) -> None:
    admin = sign_in(Role.ADMIN)
    assert admin.post("/demo/close-market/start/").status_code == 302
    assert demo.exchange.market() == "CLOSED"
    page = text_of(admin, "/demo/")
    assert page.count("Running") == 1
    left_s = re.search(r"ends by itself in (\d+) s", page)
    assert left_s
    assert 0 < int(left_s[1]) <= LASTS_S[Scenario.CLOSE_MARKET]
    assert admin.post("/demo/close-market/end/").status_code == 302
    assert demo.exchange.market() == "OPEN"
    assert recorded() == ["demo:scenario_started", "demo:scenario_ended"]
    entry = LedgerEntry.objects.get(kind="demo:scenario_started")
    assert (entry.stream, entry.actor[:5]) == ("system", "user:")
    assert entry.payload == {"scenario": "close-market", "lasts_s": 60, "symbol": ""}


def test_the_price_of_the_chosen_symbol_moves(demo: ThreadBroker) -> None:
    before = demo.exchange.prices()["MSFT"]
    admin = sign_in(Role.ADMIN)
    assert admin.post("/demo/move-price/start/", {"symbol": "MSFT"}).status_code == 302
    assert demo.exchange.prices()["MSFT"] >= before * 129 // 100
    assert "MSFT, ends by itself" in text_of(admin, "/demo/")


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
def test_others_read_the_page_and_start_nothing(role: Role, demo: ThreadBroker) -> None:
    client = sign_in(role)
    assert "/start/" not in text_of(client, "/demo/")
    assert client.post("/demo/close-market/start/").status_code == 403
    assert client.post("/demo/close-market/end/").status_code == 403
    assert demo.exchange.market() == "OPEN"
    assert recorded() == []


def test_following_a_link_starts_nothing(demo: ThreadBroker) -> None:
    assert sign_in(Role.ADMIN).get("/demo/close-market/start/").status_code == 405
    assert Client().get("/demo/").status_code == 302


def test_what_the_demo_does_not_take_is_told_and_not_recorded(demo: ThreadBroker, settings: Settings) -> None:
    admin = sign_in(Role.ADMIN)
    assert admin.post("/demo/no-such/start/").status_code == 404
    assert (
        "not started"
        in admin.post("/demo/move-price/start/", {"symbol": "<b>"}, follow=True).content.decode()
    )
    settings.DIR_DEMO_TOKEN = "another"
    assert "not started" in admin.post("/demo/close-market/start/", follow=True).content.decode()
    settings.DIR_DEMO_URL = "http://127.0.0.1:9"
    assert "not ended" in admin.post("/demo/close-market/end/", follow=True).content.decode()
    assert "does not answer" in text_of(admin, "/demo/")
    assert recorded() == []


def test_the_symbol_of_an_open_escalation_is_offered_first(demo: ThreadBroker) -> None:
    demo_scenes.load_pack()
    demo_scenes.propose(
        demo_scenes.session_of("ambitious-trader"),
        "ADJUST_POSITION",
        demo_scenes.order("BUY", 10, "NVDA", 121_400),
    )
    page = text_of(sign_in(Role.ADMIN), "/demo/")
    assert re.findall(r"<option selected>(.*?)</option>", page) == ["NVDA"]

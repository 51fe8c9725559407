"""The palette (Ctrl+K): found by keyboard, chosen by keyboard, and nothing is done by choosing."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console
from tests.browser.walk import RULES

pytestmark = pytest.mark.usefixtures("full_bucket")

SLOW_MS = 30_000


def opened(page: Page, text: str = "") -> None:
    """Open it, and wait until what it shows belongs to the text."""
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Page, agent, kind")
    expect(box).to_be_focused()
    if text:
        with page.expect_response(lambda answer: "part=palette" in answer.url and f"q={text}" in answer.url):
            page.keyboard.type(text)
    expect(box).to_have_attribute("aria-expanded", "true", timeout=SLOW_MS)
    expect(page.locator("#palette [aria-selected=true]")).to_have_count(1, timeout=SLOW_MS)


def test_a_page_is_reached_by_keys_alone_and_escape_gives_the_focus_back(
    page_of_operator: Page, console: Console
) -> None:
    page = page_of_operator
    page.goto(f"{console.url}/flows/")
    field = page.get_by_label("Agent, any part")
    field.focus()
    opened(page)
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    expect(field).to_be_focused()
    opened(page, "ledg")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{console.url}/ledger/")


def test_arrows_move_the_choice_and_the_box_keeps_the_focus(page_of_operator: Page) -> None:
    page = page_of_operator
    opened(page)
    box, options = page.locator("#palette-q"), page.locator("#palette [role=option]")
    chosen = page.locator("#palette [aria-selected=true]")
    for key, at in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("ArrowUp", 0)):
        page.keyboard.press(key)
        name = options.nth(at).get_attribute("id")
        expect(chosen).to_have_attribute("id", str(name))
        expect(box).to_have_attribute("aria-activedescendant", str(name))
    page.keyboard.press("ArrowUp")
    expect(chosen).to_have_attribute("id", str(options.last.get_attribute("id")))
    expect(box).to_be_focused()


def test_the_end_of_an_id_leads_to_its_flow(page_of_operator: Page, agent: Client) -> None:
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page = page_of_operator
    opened(page, made.dfid[-12:])
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/(flows/{made.dfid}|escalations/{made.escalation_id})/"))


def test_stopping_an_agent_opens_its_form_and_stops_nothing(page_of_operator: Page, console: Console) -> None:
    page = page_of_operator
    opened(page, "momentum")
    page.get_by_role("option", name="Stop agent momentum-trader").click()
    page.wait_for_url(f"{console.url}/agents/momentum-trader/#agent-switch")
    expect(page.get_by_role("dialog", name="Stop momentum-trader?")).to_be_visible()
    expect(page.locator("#agent-switch-reason")).to_be_focused()
    page.goto(f"{console.url}/agents/momentum-trader/")
    expect(page.get_by_role("button", name="Stop this agent")).to_be_visible()


def test_it_stays_when_single_keys_are_off(page_of_operator: Page, console: Console) -> None:
    page = page_of_operator
    page.evaluate("localStorage.setItem('dir-keys-off', '1')")
    page.goto(f"{console.url}/flows/")
    opened(page)


def test_enter_before_the_answer_leads_to_the_search_page(page_of_operator: Page, console: Console) -> None:
    page = page_of_operator
    opened(page)
    page.route("**/search/?*part=palette*", lambda route: None)  # an answer that never comes
    page.keyboard.type("momentum")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{console.url}/search/?q=momentum")
    expect(page.get_by_role("main").get_by_role("link", name="momentum-trader", exact=True)).to_be_visible()


def test_a_lost_server_is_said(page_of_operator: Page) -> None:
    page = page_of_operator
    opened(page)
    page.context.set_offline(True)
    page.keyboard.type("momentum")
    expect(page.locator("[data-palette-status]")).to_have_text("Not connected", timeout=SLOW_MS)
    expect(page.locator("#palette [role=option]")).to_have_count(0)
    page.context.set_offline(False)


def test_it_is_accessible_in_both_themes(browser: Browser, console: Console) -> None:
    for theme in ("light", "dark"):
        context = browser.new_context(color_scheme=theme, viewport={"width": 390, "height": 844})
        page = context.new_page()
        console.sign_in(page)
        opened(page, "trader")
        found = Axe().run(page, options=RULES).response["violations"]
        assert [item["id"] for item in found] == [], theme
        context.close()


def test_without_a_script_the_search_box_leads_to_the_page(browser: Browser, console: Console) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    console.sign_in(page)
    page.locator("#side-q").fill("momentum")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{console.url}/search/?q=momentum")
    expect(page.get_by_role("main").get_by_role("link", name="momentum-trader", exact=True)).to_be_visible()
    page.get_by_role("link", name="Search and go to").click()
    page.wait_for_url(f"{console.url}/search/")
    context.close()


def test_who_is_signed_out_meanwhile_comes_back_to_the_same_page(
    page_of_operator: Page, console: Console
) -> None:
    page = page_of_operator
    page.goto(f"{console.url}/decisions/?action=ABORT")
    opened(page)

    def only_of_palette(route: Route) -> None:
        is_other = route.request.resource_type in {"xhr", "fetch"} and "part=palette" not in route.request.url
        route.abort() if is_other else route.continue_()

    # A hint that makes the page ask for news would lead to the sign-in first.
    page.route("**/*", only_of_palette)
    page.context.clear_cookies()
    with page.expect_request(lambda asked: "part=palette" in asked.url) as asked:
        page.locator("#palette-q").fill("momentum")
    assert asked.value.headers["hx-current-url"] == f"{console.url}/decisions/?action=ABORT"
    page.wait_for_url(re.compile("/accounts/login/[?]next=/decisions/"))

"""A word that a page explains in place: by keyboard, by touch, and without script."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Console
from tests.browser.walk import DESK, PHONE, RULES

# What an open word covers while it is read is not to be touched; test_pages_seen.py measures all targets.
OPEN = {**RULES, "rules": {"target-size": {"enabled": False}}}
PAGES = ("/", "/escalations/", "/agents/", "/budgets/", "/agents/momentum-trader/manifests/1.1.0/")


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no-script"])
def test_a_word_is_explained_by_keyboard(browser: Browser, console: Console, has_script: bool) -> None:
    context = browser.new_context(viewport=DESK, java_script_enabled=has_script)
    page = context.new_page()
    console.sign_in(page)
    for path in PAGES:
        page.goto(f"{console.url}{path}")
        word = page.locator("main .term:visible").first
        meaning = page.locator(f"#{word.get_attribute('popovertarget')}")
        word.focus()
        page.keyboard.press("Enter")
        expect(meaning).to_be_visible()
        if has_script:
            assert Axe().run(page, options=OPEN).response["violations"] == []
        page.keyboard.press("Escape")
        expect(meaning).to_be_hidden()
    context.close()


def test_a_touch_opens_it_and_its_link_leads_to_the_glossary(browser: Browser, console: Console) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True)
    page = context.new_page()
    console.sign_in(page)
    page.goto(f"{console.url}/budgets/")
    page.locator("main .term").first.tap()
    page.get_by_role("link", name="In the glossary").click()
    expect(page).to_have_url(f"{console.url}/glossary/#escalation-token")
    context.close()

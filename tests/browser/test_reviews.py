"""Reviews by keys: y and n choose and never submit, Ctrl+Enter records, and single keys can be off."""

import pytest
from playwright.sync_api import Page, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console
from tests.support import wait_until

pytestmark = pytest.mark.usefixtures("full_bucket")

SLOW_MS = 30_000
ROWS = "[data-queue] [data-row][data-open='1'] th a"


def open_first(page: Page, console: Console, agent: Client) -> str:
    """The first of at least two open reviews, opened by keys from the list."""
    for symbol in ("MSFT", "AAPL"):
        conftest.escalate(agent, symbol=symbol, cents=150_000, explain="I am selling it, as planned.")

    def are_listed() -> bool:
        page.goto(f"{console.url}/reviews/")
        return page.locator(ROWS).count() > 1

    wait_until.until(are_listed, timeout_s=SLOW_MS / 1000, interval_s=0.5)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("form[data-review]")).to_be_visible(timeout=SLOW_MS)
    # Once its scripts are ready for keys.
    page.wait_for_load_state()
    return page.url


def test_keys_choose_and_only_ctrl_enter_records(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    address = open_first(page, console, agent)
    page.keyboard.press("y")
    expect(page.get_by_role("radio", name="Confirmed")).to_be_checked()
    assert page.url == address
    page.keyboard.type("only yes and no")
    expect(page.get_by_role("radio", name="Confirmed")).to_be_checked()
    conftest.send(page)
    page.wait_for_url(lambda url: url != address, timeout=SLOW_MS)
    expect(page.locator("form[data-review]")).to_be_visible()
    page.goto(address)
    expect(page.get_by_text("only yes and no")).to_be_visible()


def test_single_keys_can_be_switched_off(page_of_operator: Page, console: Console, agent: Client) -> None:
    page = page_of_operator
    open_first(page, console, agent)
    page.evaluate("localStorage.setItem('dir-keys-off', '1')")
    page.keyboard.press("n")
    expect(page.get_by_role("radio", name="False alarm")).not_to_be_checked()
    page.evaluate("localStorage.removeItem('dir-keys-off')")
    page.keyboard.press("n")
    expect(page.get_by_role("radio", name="False alarm")).to_be_checked()

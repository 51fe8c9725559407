"""States that need two people, an undo window or ten overrides: readable by everyone, in both themes."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from demo.client import Client
from tests.browser import conftest, desk_cases
from tests.browser.conftest import Console
from tests.browser.walk import RULES, THEMES
from tests.support.demo_scenes import PACK

PASSWORD = "a long enough phrase"
REASON = "Both accounts were checked against the plan of the treasury."
# Ten overrides in a row by the person whom the card then asks to pause.
OVERRIDES = """
from django.contrib.auth.models import User
from escalations.models import Escalation
from tests.support import factories
for row in Escalation.objects.filter(state="OPEN", impact="LOW_IMPACT").order_by("opened_at")[:10]:
    factories.decide(row, User.objects.get(username="operator"))
"""


@pytest.fixture(scope="module")
def desk(data_folder: Path) -> Iterator[Console]:
    """A console of its own with the rules of the demo, and with undo windows; its targets are not there."""
    pack = PACK.read_text().replace("escalations_per_hour: 30", "escalations_per_hour: 99")
    # A script is faster than any reader.
    pack = pack.replace("    sla_s:", "    reading_s: 0\n    sla_s:")
    with (
        mock.patch.dict(os.environ, {"DIR_UNDO_MAX_S": "120"}),
        desk_cases.console_with(data_folder, pack) as (made, _),
    ):
        made.command("add_user", "sam", "--role", "operator", "--password-stdin", given=PASSWORD)
        yield made


@pytest.fixture(scope="module")
def trader(desk: Console) -> Iterator[Client]:
    """The agent that may move money."""
    client = desk.agent("ambitious-trader")
    yield client
    client.wire.close()


@pytest.fixture
def sams_page(browser: Browser, desk: Console) -> Iterator[Page]:
    """A page of the second person."""
    context = browser.new_context()
    page = context.new_page()
    Console(url=desk.url, user="sam", password=PASSWORD, folder=desk.folder).sign_in(page)
    yield page
    context.close()


@pytest.fixture
def my_page(browser: Browser, desk: Console) -> Iterator[Page]:
    """A page of the first person."""
    context = browser.new_context()
    page = context.new_page()
    desk.sign_in(page)
    yield page
    context.close()


def proposed(trader: Client, kind: str, params: dict[str, Any]) -> str:
    """The id of the escalation that follows."""
    dfid = trader.open_flow(trigger="browser test")
    verdict = trader.propose(
        dfid,
        {
            "policy_kind": kind,
            "params": params,
            "execution_constraints": {"validity_window_sec": 600},
            "context_ref": trader.context(dfid).ref,
            "confidence": 0.95,
            "explain": "The plan of the treasury asks for it.",
        },
    )
    assert verdict.escalation_id is not None, verdict
    return verdict.escalation_id


def order(trader: Client, quantity: int) -> str:
    """An order above the agent's limit, of low impact."""
    params = {"symbol": "AAPL", "action": "BUY", "quantity": quantity, "notional_cents": quantity * 18_950}
    return proposed(trader, "ADJUST_POSITION", params)


def violations(page: Page) -> list[str]:
    """What axe finds in both themes, of any weight."""
    found = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for item in Axe().run(page, options=RULES).response["violations"]:
            found.append(f"{theme} {page.url} {item['id']}: {item['nodes'][0]['html'][:200]}")
    return found


def override(page: Page, address: str) -> None:
    """Override by the keys, with all that the form asks for."""
    page.goto(address)
    expect(page.locator("#s1")).to_be_focused()
    page.keyboard.press("o")
    typed = page.locator("#typed-again")
    if typed.is_visible():
        typed.fill(page.locator("label[for=typed-again] code").inner_text())
    page.fill("#justification", f"{REASON} {address[-13:-1]}")
    conftest.send(page)
    expect(page).not_to_have_url(address)


def test_an_empty_queue_says_what_will_come(my_page: Page, desk: Console) -> None:
    my_page.goto(f"{desk.url}/escalations/")
    expect(my_page.get_by_text("No open escalations")).to_be_visible()
    assert violations(my_page) == []


def test_the_first_and_the_second_person_can_read_their_pages(
    my_page: Page, sams_page: Page, desk: Console, trader: Client
) -> None:
    params = {"amount_cents": 1_200_000, "from_account": "reserve", "to_account": "operations"}
    address = f"{desk.url}/escalations/{proposed(trader, 'TRANSFER_FUNDS', params)}/"
    mine, theirs = my_page, sams_page
    theirs.goto(address)
    expect(theirs.get_by_text("Two different people must decide this.")).to_be_visible()
    assert violations(theirs) == []
    override(mine, address)
    mine.goto(address)
    expect(mine.get_by_role("button", name="Withdraw my decision")).to_be_visible()
    assert violations(mine) == []
    theirs.goto(address)
    expect(theirs.get_by_text("One of two decisions is made")).to_be_visible()
    assert REASON not in theirs.content()
    assert violations(theirs) == []


def test_the_strip_with_its_undo_is_readable(my_page: Page, desk: Console, trader: Client) -> None:
    order(trader, 9)  # the next one, above which the strip stands
    override(my_page, f"{desk.url}/escalations/{order(trader, 6)}/")
    expect(my_page.locator(".just-decided").get_by_role("button", name="Take back")).to_be_visible()
    assert violations(my_page) == []


def test_the_card_after_ten_overrides_is_readable(my_page: Page, desk: Console, trader: Client) -> None:
    for quantity in range(10):
        order(trader, 6 + quantity % 4)
    desk.command("shell", "-c", OVERRIDES)
    my_page.goto(f"{desk.url}/escalations/{order(trader, 7)}/")
    expect(my_page.locator(".pause")).to_be_visible()
    assert violations(my_page) == []

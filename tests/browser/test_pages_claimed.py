"""Two people at one escalation: claims, takeovers, handovers and notes arrive by themselves."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")

PASSWORD = "a long enough phrase"
SLOW_MS = 30_000


@pytest.fixture(scope="module")
def colleague(console: Console) -> Console:
    """The same console, as another operator."""
    console.command("add_user", "sam", "--role", "operator", "--password-stdin", given=PASSWORD)
    return Console(url=console.url, user="sam", password=PASSWORD, folder=console.folder)


@pytest.fixture
def sams_page(browser: Browser, colleague: Console) -> Iterator[Page]:
    """A page of the other operator."""
    context = browser.new_context()
    page = context.new_page()
    colleague.sign_in(page)
    yield page
    context.close()


def test_a_claim_moves_between_two_open_pages(
    page_of_operator: Page, sams_page: Page, console: Console, agent: Client
) -> None:
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    address = f"{console.url}/escalations/{made.escalation_id}/"
    mine, theirs = page_of_operator, sams_page
    for page in (mine, theirs):
        page.goto(address)
        page.evaluate("window.sameDocument = true")
    mine.get_by_role("button", name="Claim", exact=True).click()
    expect(theirs.get_by_text("Claimed by operator")).to_be_visible(timeout=SLOW_MS)
    expect(theirs.locator("[data-claim-ends] time")).to_have_text(re.compile(r"^\d+ min \d\d s$"))
    mine.evaluate("window.sameDocument = true")

    theirs.get_by_role("button", name="Take over").click()
    theirs.fill("#takeover-reason", "I know this agent")
    theirs.get_by_role("dialog").get_by_role("button", name="Take over").click()
    expect(mine.get_by_text("I know this agent").first).to_be_visible(timeout=SLOW_MS)
    expect(mine.get_by_text("Claimed by sam")).to_be_visible(timeout=SLOW_MS)
    assert mine.evaluate("window.sameDocument") is True

    mine.fill("#note-text", "It has done this before.")
    mine.get_by_role("button", name="Add note").click()
    expect(theirs.get_by_text("It has done this before.")).to_be_visible(timeout=SLOW_MS)
    expect(mine.locator("#note-text")).to_have_value("")
    assert mine.evaluate("window.sameDocument") is True

    theirs.get_by_role("button", name="Hand over").click()
    theirs.select_option("#receiver", "operator")
    theirs.fill("#handover-note", "My shift ends")
    theirs.get_by_role("dialog").get_by_role("button", name="Hand over").click()
    expect(mine.locator("#decide").get_by_text("Yours")).to_be_visible(timeout=SLOW_MS)
    mine.goto(f"{console.url}/shift/")
    expect(mine.get_by_text("My shift ends")).to_be_visible()


def test_a_visible_page_renews_its_claim(page_of_operator: Page, console: Console, agent: Client) -> None:
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page = page_of_operator
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    with page.expect_response("**/claim/renew/", timeout=SLOW_MS) as renewed:
        page.get_by_role("button", name="Claim", exact=True).click()
    assert renewed.value.status == 204


def test_the_row_of_the_queue_shows_a_claim_by_itself(
    page_of_operator: Page, sams_page: Page, console: Console, agent: Client
) -> None:
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    sams_page.goto(f"{console.url}/escalations/")
    row = sams_page.locator(f'[data-row="{made.escalation_id}"]')
    expect(row).to_be_visible()
    page_of_operator.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page_of_operator.get_by_role("button", name="Claim", exact=True).click()
    expect(row.locator(".hold")).to_have_text(re.compile("operator"), timeout=SLOW_MS)

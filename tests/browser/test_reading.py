"""What a browser reports with a decision: the parts of the page that were seen or opened."""

import pytest
from playwright.sync_api import Page, expect

from demo.client import Client
from escalations import forms
from tests.browser import conftest
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")

SAID = "JSON.parse(new FormData(document.querySelector('[data-decision]')).get('client_reported')).panes"


def test_the_parts_that_were_seen_or_opened_go_with_the_decision(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    page.wait_for_function(f"() => {SAID}.includes('effect')")
    assert {"bundle", "checks", "explain"}.isdisjoint(page.evaluate(SAID))
    for part in page.locator("details[data-pane]").all():
        part.locator("summary").first.click()
    for part in page.locator("section[data-pane]").all():
        part.scroll_into_view_if_needed()
    shown = sorted(set(forms.PANES) - {"advice"})  # this proposal follows no decision package
    page.wait_for_function(f"() => {SAID}.length === {len(shown)}")
    assert page.evaluate(SAID) == shown

"""A flow is followed while it runs, and its pack is made on the page, without a reload."""

import re

import pytest
from playwright.sync_api import Page, expect

from demo.client import Client
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")

SLOW_MS = 30_000
CENTS = 150_000


def test_a_timeline_follows_its_flow_to_the_end(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page, dfid = page_of_operator, agent.open_flow(trigger="followed")
    page.goto(f"{console.url}/flows/{dfid}/")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    page.evaluate("window.sameDocument = true")
    assert page.locator(".lines .e").count() == 1
    page.get_by_label("Compare with the flow").fill("019aa")
    context = agent.context(dfid)
    expect(page.get_by_role("heading", name="Context compiled")).to_be_visible(timeout=SLOW_MS)
    price = int(context.fact("price.MSFT"))
    quantity = max(1, CENTS // price)
    verdict = agent.propose(
        dfid,
        {
            "policy_kind": "ADJUST_POSITION",
            "params": {
                "symbol": "MSFT",
                "action": "BUY",
                "quantity": quantity,
                "notional_cents": quantity * price,
            },
            "execution_constraints": {"validity_window_sec": 600, "max_slippage_bps": 1000},
            "context_ref": context.ref,
            "confidence": 0.95,
            "explain": "Followed from the first entry on.",
        },
    )
    assert verdict.escalation_id
    expect(page.get_by_role("heading", name="Escalation opened")).to_be_visible(timeout=SLOW_MS)
    expect(page.locator(".flow-head .badge").first).to_have_text("Escalated", timeout=SLOW_MS)
    expect(page.locator("section[aria-label='Proposal 1']")).to_be_visible(timeout=SLOW_MS)
    numbers = page.locator(".lines .e").evaluate_all(
        "nodes => nodes.map((node) => Number(node.dataset.cursor))"
    )
    assert numbers == list(range(1, len(numbers) + 1))
    assert page.evaluate("window.sameDocument") is True
    # What somebody types beside it stays.
    expect(page.get_by_label("Compare with the flow")).to_have_value("019aa")


def test_a_pack_is_made_on_the_page_and_saved(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page, dfid = page_of_operator, agent.open_flow(trigger="packed")
    page.goto(f"{console.url}/flows/{dfid}/")
    page.evaluate("window.sameDocument = true")
    page.get_by_role("button", name="Make evidence pack").click()
    save = page.get_by_role("link", name=re.compile(r"Save the pack \("))
    expect(save).to_be_visible(timeout=SLOW_MS)
    with page.expect_download() as download:
        save.click()
    assert download.value.suggested_filename == f"evidence-{dfid}.zip"
    assert page.evaluate("window.sameDocument") is True

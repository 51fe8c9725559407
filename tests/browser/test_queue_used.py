"""The queue as a person works in it: rows that stay where they are, selecting by keys, and a phone."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")

SLOW_MS = 30_000
# Counts the rows that are put in or taken out from now on.
WATCH = """() => {
  window.replaced = 0;
  new MutationObserver((changes) => {
    for (const change of changes)
      for (const node of [...change.addedNodes, ...change.removedNodes])
        if (node.nodeType === 1 && (node.matches("[data-row]") || node.querySelector("[data-row]")))
          window.replaced += 1;
  }).observe(document.querySelector("[data-queue]"), { childList: true, subtree: true });
}"""


def queue_of(page: Page, console: Console, agent: Client, number: int) -> list[str]:
    """The queue of one agent, which the demo's other agents do not change, with `number` new rows in it."""
    made = [conftest.escalate(agent, symbol="MSFT", cents=150_000) for _ in range(number)]
    page.goto(f"{console.url}/escalations/?agent=ambitious-trader&sort=age")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    return [str(one.escalation_id) for one in made]


def refresh(page: Page) -> None:
    """What a hint does: the page asks for its rows. The answer to what it asked before does not count."""
    with page.expect_request(lambda asked: "have=" in asked.url) as asked:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert asked.value.response() is not None


def test_hints_replace_no_row_while_nothing_changes(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    first, *_ = queue_of(page, console, agent, 3)
    hold_still(page)
    box = page.locator(f"#row-{first} [name=escalation]")
    box.check()
    page.evaluate(f"getSelection().selectAllChildren(document.querySelector('#row-{first} .what'))")
    words = page.evaluate("getSelection().toString()")
    page.evaluate(WATCH)
    for _ in range(5):
        refresh(page)
    assert page.evaluate("window.replaced") == 0
    assert page.evaluate("getSelection().toString()") == words != ""
    expect(box).to_be_checked()
    expect(box).to_be_focused()


def hold_still(page: Page) -> None:
    """From now on every live update is the one that the page already shows."""
    page.route("**/escalations/?*", fixed())
    refresh(page)
    refresh(page)  # the page asks again only when it has put the first answer in


def fixed() -> Any:
    """Answer every live update as the first: prices move meanwhile, and their rows may change."""
    answers: list[Any] = []

    def answer(route: Any) -> None:
        if not answers:
            answers.append(route.fetch())
        route.fulfill(response=answers[0])

    return answer


def test_new_rows_come_in_beside_the_old_which_keep_focus_and_selection(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    first, *_ = queue_of(page, console, agent, 3)
    box = page.locator(f"#row-{first} [name=escalation]")
    box.check()
    known = box.evaluate_handle("node => node")
    second = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    expect(page.locator("[data-pill]:not([hidden])")).to_be_visible(timeout=SLOW_MS)
    page.keyboard.press("Tab")  # to the row's link: single keys work there
    page.keyboard.press("n")
    expect(page.locator(f"#row-{second.escalation_id}")).to_be_visible(timeout=SLOW_MS)
    assert known.evaluate("node => node.isConnected && node.checked")
    expect(page.locator(f"#row-{first} .what a")).to_be_focused()


def test_one_request_brings_the_rows_and_both_counts(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    queue_of(page, console, agent, 1)
    page.evaluate("document.querySelector('.nav [data-total]').dataset.total = 'old'")
    page.evaluate("document.querySelector('[data-live-part=views] .n').textContent = 'old'")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    conftest.escalate(agent, symbol="MSFT", cents=150_000)
    expect(page.locator("[data-pill]:not([hidden])")).to_be_visible(timeout=SLOW_MS)
    total, tab = page.locator(".nav [data-total]"), page.locator("[data-live-part=views] .n").first
    assert int(total.get_attribute("data-total") or "") > 1
    assert int(tab.text_content() or "") > 1
    assert not [url for url in asked if url.endswith("/escalations/count/") or "part=views" in url]


def test_rows_are_selected_and_aborted_by_keys_after_a_confirmation(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = queue_of(page, console, agent, 2)
    for one in made:
        page.locator(f"#row-{one} .what a").focus()
        page.keyboard.press("x")
    expect(page.locator("[data-selected]")).to_have_text("2 selected")
    page.get_by_role("button", name="Abort selected").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{console.url}/escalations/bulk/")
    expect(page.locator("[name=escalation]:checked")).to_have_count(2)
    page.get_by_role("button", name="Abort the selected").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="2 decided, 0 refused")).to_be_visible()
    page.get_by_role("link", name="Back to the queue").click()
    page.wait_for_url(f"{console.url}/escalations/?agent=ambitious-trader&sort=age")
    for one in made:
        expect(page.locator(f"#row-{one}")).to_have_count(0)


def test_the_bar_of_selected_rows_covers_no_row_until_one_is_selected(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    # The width of the measurement: at another one a row may have a line more.
    page.set_viewport_size({"width": 1440, "height": 900})
    first, *_ = queue_of(page, console, agent, 3)
    hold_still(page)
    bar = page.get_by_role("group", name="Selected escalations")
    end = page.locator("[data-queue]").evaluate("node => Math.floor(node.getBoundingClientRect().bottom)")
    assert end > 500, "a window that cuts the last row is so low that the bar is not in the way there at all"
    page.set_viewport_size({"width": 1440, "height": end - 20})
    expect(bar).not_to_be_in_viewport()
    page.locator(f"#row-{first} [name=escalation]").check()
    expect(bar).to_be_in_viewport(ratio=1)


def test_a_row_is_claimed_by_its_key_and_nothing_is_sent_without_a_selection(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    (made,) = queue_of(page, console, agent, 1)
    page.get_by_role("button", name="Abort selected").click()
    expect(page.locator("[data-selected]")).to_have_text("Select at least one row first.")
    page.locator(f"#row-{made} .what a").focus()
    page.keyboard.press("c")
    page.wait_for_url(f"{console.url}/escalations/{made}/")
    expect(page.get_by_text("Yours").first).to_be_visible()


def test_a_phone_shows_compact_rows_with_claim_and_folds_the_filters(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    page.set_viewport_size({"width": 390, "height": 844})
    (made,) = queue_of(page, console, agent, 1)
    page.goto(f"{console.url}/escalations/")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.get_by_label("Agent", exact=True)).to_be_hidden()
    page.get_by_text("Filters and order").click()
    expect(page.get_by_label("Agent", exact=True)).to_be_visible()
    row = page.locator(f"#row-{made}")
    expect(row.get_by_role("button", name="Claim")).to_be_visible()
    low = page.locator('[data-row][data-impact="LOW_IMPACT"][data-open="1"]')
    # All at once: a row may go while its neighbours are measured.
    heights = low.evaluate_all("rows => rows.map((row) => row.getBoundingClientRect().height)")
    assert heights
    assert all(0 < height <= 76 for height in heights), heights

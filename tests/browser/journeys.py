"""The journeys of the console's first review, counted again: `python -m tests.browser.journeys`.

What a hundred mixed escalations cost by keyboard, mouse and phone is counted by `tests.browser.desk`.
"""

import re
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser import conftest, desk_cases
from tests.browser.conftest import Console
from tests.browser.desk_cases import JOBS, Desk
from tests.browser.desk_hands import Mouse, Phone
from tests.browser.test_outage import REASON, seconds_until_lost

SLOW_MS: Final = 60_000
LOW, ABORT = JOBS[0], next(job for job in JOBS if job.name == "LOW, abort")
CASES: Final = [LOW, *[ABORT] * 4, LOW]


def main() -> None:
    """Walk each journey once, and print what it cost."""
    with (
        tempfile.TemporaryDirectory() as folder,
        desk_cases.opened(Path(folder), jobs=CASES) as desk,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=conftest.CHROMIUM, args=list(conftest.QUIET))
        for line in (
            newcomer(browser, desk),
            four_aborts(browser, desk),
            auditor(browser, desk.console),
            stopped(browser, desk),
        ):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        browser.close()


def newcomer(browser: Browser, desk: Desk) -> str:
    """From the sign-in form over the overview to the receipt of the first decision."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    hand = Mouse(page, desk.console.password)
    page.goto(f"{desk.console.url}/")
    began = time.monotonic()
    hand.reach(page.locator("[name=login]"))
    hand.write(desk.console.user)
    hand.reach(page.locator("[name=password]"))
    hand.write(desk.console.password)
    hand.move(page.get_by_role("button", name="Sign in"))
    page.wait_for_url(f"{desk.console.url}/")
    signed_in = hand.taken()
    hand.move(page.get_by_role("navigation", name="Sections").get_by_role("link", name="Escalations"))
    page.wait_for_url("**/escalations/")
    hand.open_first()
    expect(page.locator("#s1")).to_be_focused()
    hand.look()
    hand.choose("OVERRIDE")
    hand.reach(page.locator("#justification"))
    hand.write("agreed with accounts", is_reason=True)
    assert not hand.submit()
    decided_s = time.monotonic() - began
    receipt = page.locator(".just-decided").get_by_text("Receipt from the target")
    expect(receipt).to_be_visible(timeout=SLOW_MS)
    receipt_s = time.monotonic() - began
    hand.move(receipt)
    expect(page.locator(".just-decided .receipt")).to_be_visible()
    cost = hand.taken()
    page.context.close()
    return (
        f"newcomer: sign-in {signed_in.moves} clicks; then {cost.moves} clicks and {cost.letters} letters "
        f"until the receipt is open; decided after {decided_s:.1f} s, receipt after {receipt_s:.1f} s"
    )


def four_aborts(browser: Browser, desk: Desk) -> str:
    """ABORT of four items on a phone, in a view of the queue that lists what is left."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, reduced_motion="reduce"
    )
    page = context.new_page()
    desk.console.sign_in(page)
    hand = Phone(page, desk.console.password)
    waiting = {case.escalation_id for case in desk.cases if case.job is ABORT}
    page.goto(f"{desk.console.url}/escalations/{min(waiting)}/")
    taps, swipes, seconds = [], 0, 0.0
    while waiting:
        expect(page.locator("#s1")).to_be_focused()
        here = str(page.locator("[data-escalation]").get_attribute("data-escalation"))
        if here not in waiting:
            page.goto(f"{desk.console.url}/escalations/{min(waiting)}/")
            continue
        began = time.monotonic()
        hand.look()
        hand.choose("ABORT")
        assert not hand.submit()
        seconds += time.monotonic() - began
        cost = hand.taken()
        taps.append(cost.moves)
        swipes += cost.scrolls
        waiting.remove(here)
    context.close()
    return f"phone, ABORT x4: {taps} taps, {swipes} swipes, {seconds:.1f} s; the next item comes by itself"


def auditor(browser: Browser, console: Console) -> str:
    """Who overrode what in the last week: from the overview to the list."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    console.sign_in(page)
    hand = Mouse(page, console.password)
    began = time.monotonic()
    hand.move(page.get_by_role("navigation", name="Sections").get_by_role("link", name="Decisions"))
    hand.reach(page.get_by_label("Action"))
    page.get_by_label("Action").select_option("OVERRIDE")
    hand.effort.moves += 1
    hand.reach(page.get_by_label("From, UTC"))
    hand.write((datetime.now(UTC) - timedelta(days=7)).strftime("%Y-%m-%d"))
    hand.move(page.get_by_role("button", name="Search", exact=True))
    expect(page).to_have_url(re.compile("action=OVERRIDE"))
    rows = page.locator("main table tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("operator")
    cost = hand.taken()
    seconds = time.monotonic() - began
    page.context.close()
    return f"auditor: {cost.moves} clicks and {cost.keys} keys, {seconds:.1f} s; every row names the person"


def stopped(browser: Browser, desk: Desk) -> str:
    """How long an open page takes to say that the server is gone, and what is left of the text."""
    page = browser.new_page()
    desk.console.sign_in(page)
    last = desk.cases[-1]
    page.goto(f"{desk.console.url}/escalations/{last.escalation_id}/")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    page.keyboard.press("o")
    page.keyboard.type(REASON)
    began = time.monotonic()
    desk.process.kill()
    seconds = seconds_until_lost(page, began)
    expect(page.locator("#justification")).to_have_value(REASON)
    page.context.close()
    return f"server gone: {seconds:.1f} s until the page says it; the text is still there"


if __name__ == "__main__":
    main()

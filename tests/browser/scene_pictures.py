"""Pictures of the demo's scenes: `python -m tests.browser.scene_pictures` writes docs/images/scene-*.png.

It starts a console with its demo on a new folder, plays each scene as an agent of the demo does, and ends it.
"""

import re
from typing import Final

from playwright.sync_api import Browser, Page, ViewportSize

from demo.house_rules import WAYS, ListingClerk, Overconfident, Researcher, Rulebook
from runtime.contracts.calibration import LEAST_PAIRS
from tests.browser.conftest import Console
from tests.browser.screenshots import IMAGES, opened
from tests.demo import acting
from tests.support.wait_until import until

SIZE: Final[ViewportSize] = {"width": 1040, "height": 640}
MAPS: Final = "/agents/overconfident-trader/calibration/?kind=LOCATE_BORROW"
# What each picture shows in its middle.
IN_SIGHT: Final = {
    "skipped-step": "think_then_verify",
    "rate-hit": "one_call_a_minute",
    "fallback": "GET_CACHED",
    "replan": "REPLAN",
    "rule-conflict": "P_BLOCK_DESK",
    "abstention": "abstain",
    "overconfidence": "calibrated",
    "paused-action": "blocks_trade",
    "human-step": "Compare the data sheet",
}


def main() -> None:
    """Start, play, look, stop."""
    with opened("--demo", "--market", "cycle") as (browser, console):
        look(browser, console)


def look(browser: Browser, console: Console) -> None:
    """Take a picture of each scene where it is seen best."""
    page = browser.new_page(viewport=SIZE, color_scheme="light")
    console.sign_in(page)
    for name, address in {
        **of_workflow(console),
        **of_rules(console),
        "overconfidence": of_calibration(console, page),
        "paused-action": of_pause(console, page),
        "human-step": of_task(console, page),
    }.items():
        page.goto(f"{console.url}{address}")
        place = page.locator("main").get_by_text(IN_SIGHT[name]).locator("visible=true").first
        place.evaluate("element => element.scrollIntoView({block: 'center'})")
        page.screenshot(path=IMAGES / f"scene-{name}.png")


def of_workflow(console: Console) -> dict[str, str]:
    """The flows of the four ways of the careless researcher."""
    persona = acting.play(Researcher, console.agent("careless-researcher"))
    heard = acting.turns(persona, len(WAYS))
    names = ("skipped-step", "rate-hit", "fallback", "replan")
    return {name: f"/flows/{verdict.dfid}/" for name, verdict in zip(names, heard, strict=True)}


def of_rules(console: Console) -> dict[str, str]:
    """The ruleset whose rules contradict each other, and the escalation of the package that abstained."""
    persona = acting.play(Rulebook, console.agent("rulebook-trader"))
    _, unclear = acting.turns(persona, 2)
    return {
        "rule-conflict": "/rulesets/order-routing/",
        "abstention": f"/escalations/{unclear.escalation_id}/",
    }


def of_calibration(console: Console, page: Page) -> str:
    """The escalation that a calibration map has led to, drafted and activated as an admin does."""
    persona = acting.play(Overconfident, console.agent("overconfident-trader"))
    acting.turns(persona, LEAST_PAIRS)
    page.goto(f"{console.url}{MAPS}")
    page.get_by_role("button", name="Draft maps for LOCATE_BORROW").click()
    page.fill("#activate-reason", "It states 0.95, and four in five go well")
    page.get_by_role("button", name="Activate 1").click()
    page.get_by_text("Reason: It states 0.95").wait_for()
    (asked,) = acting.turns(persona, 1)
    return f"/escalations/{asked.escalation_id}/"


def of_pause(console: Console, page: Page) -> str:
    """The escalation of an action that is paused; the demo's own block-trader may have one already."""
    rows = f"{console.url}/escalations/?agent=block-trader&family=OPERATIONAL"
    return _first(page, rows, r"/escalations/[0-9a-f-]{36}/")


def of_task(console: Console, page: Page) -> str:
    """A task that is open."""
    acting.turns(acting.play(ListingClerk, console.agent("listing-clerk")), 1)
    return _first(page, f"{console.url}/tasks/", r"/tasks/[0-9a-f-]{36}/")


def _first(page: Page, address: str, wanted: str) -> str:
    """The first address of this form that a page leads to, as soon as there is one."""

    def found() -> str:
        page.goto(address)
        led = re.search(wanted, page.content())
        return led[0] if led else ""

    return until(found, timeout_s=180, interval_s=1)


if __name__ == "__main__":
    main()

"""Pictures of the console for the README: `python -m tests.browser.screenshots` writes docs/images/*.png.

It starts a console with its demo on a new folder, waits until there is something to see, and ends it.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.browser import conftest
from tests.browser.conftest import Console

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
DESK: Final[ViewportSize] = {"width": 1440, "height": 900}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}


def main() -> None:
    """Start, look, write, stop."""
    with opened("--demo") as (browser, console):
        look(browser, console)


@contextmanager
def opened(*flags: str) -> Iterator[tuple[Browser, Console]]:
    """A browser, and a console that starts with these flags on a new folder and ends afterwards."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        process, lines = conftest.started(Path(folder), *flags)
        try:
            url, password = conftest.greeting(process, lines)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=conftest.CHROMIUM, args=list(conftest.QUIET)
                )
                yield browser, Console(url=url, user="operator", password=password, folder=Path(folder))
                browser.close()
        finally:
            conftest.stop(process)


def look(browser: Browser, console: Console) -> None:
    """Fill the queue, run one flow to its end, and take the pictures."""
    agent = console.agent("ambitious-trader")
    done = conftest.escalate(agent, symbol="GOOG", cents=240_000)
    page = browser.new_page(viewport=DESK, color_scheme="light")
    console.sign_in(page)
    console.view_timeline_after(page)
    override(page, f"{console.url}/escalations/{done.escalation_id}/")
    waiting = [conftest.escalate(agent, symbol=symbol, cents=cents) for symbol, cents in ORDERS]
    agent.wire.close()
    state = page.context.storage_state()
    addresses = {
        "overview": "/",
        "queue": "/escalations/",
        "decision": f"/escalations/{waiting[0].escalation_id}/",
        "timeline": f"/flows/{done.dfid}/",
        "agent": "/agents/ambitious-trader/",
    }
    page.wait_for_timeout(int(os.environ.get("DEMO_MS", "45000")))  # the demo's own agents add to the picture
    for theme in THEMES:
        for size, name in ((DESK, "console"), (PHONE, "phone")):
            context = browser.new_context(
                viewport=size,
                color_scheme=theme,
                storage_state=state,
                device_scale_factor=2 if name == "phone" else 1,
            )
            picture(context.new_page(), console, addresses, f"{name}-{theme}")
            context.close()


THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
ORDERS: Final = (("NVDA", 480_000), ("AAPL", 150_000), ("MSFT", 340_000), ("AMZN", 120_000))


def override(page: Page, address: str) -> None:
    """Take the decision as a person does, and wait for what comes of it."""
    page.goto(address)
    page.get_by_role("radio", name="Override").check()
    page.fill("[name=justification]", "Agreed with the desk this morning")
    page.get_by_role("button", name="Override: run it as proposed").click()
    page.get_by_text("Receipt from the target").wait_for(timeout=60_000)


def picture(page: Page, console: Console, addresses: dict[str, str], suffix: str) -> None:
    """One file per address; the overview is the README's own."""
    for name, path in addresses.items():
        page.goto(f"{console.url}{path}")
        if name == "decision":
            page.get_by_role("radio", name="Modify").check()
        page.wait_for_timeout(800)
        file = f"{suffix}.png" if name == "overview" else f"{name}-{suffix}.png"
        page.screenshot(path=IMAGES / file)


if __name__ == "__main__":
    main()

"""Pages of a real Chromium on the queue, which write down when they show that there is a new row."""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from bench.queue_clients import PAGE

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
# New rows wait behind a pill that counts them, so that none jumps under a pointer: the count is the news.
WATCH = """
window.benchSeen = [];
new MutationObserver(() => {
  const count = Number(document.querySelector("[data-pill-count]")?.textContent || 0);
  const last = window.benchSeen.at(-1)?.count ?? 0;
  if (count > last) window.benchSeen.push({ at: Date.now() / 1000, count });
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


class MissingBrowserError(Exception):
    """There is no Chromium here, or no Playwright to drive it."""


class Pages:
    """Open pages, each of a person of its own."""

    def __init__(self, pages: Sequence[Any]) -> None:
        self._pages = pages

    def shown_at(self, number: int) -> list[float]:
        """When each page first showed at least `number` new rows, in Unix seconds."""
        seen = [page.evaluate("window.benchSeen") for page in self._pages]
        firsts = (next((one["at"] for one in each if one["count"] >= number), None) for each in seen)
        return [at for at in firsts if at is not None]

    def __len__(self) -> int:
        return len(self._pages)


@contextlib.contextmanager
def opened(base_url: str, session_keys: Sequence[str]) -> Iterator[Pages]:
    """Open the queue once for each session, and wait until its socket is open.

    Raises `MissingBrowserError`.
    """
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise MissingBrowserError("no Chromium on this machine")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise MissingBrowserError("Playwright is not installed") from error
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        try:
            pages = []
            for key in session_keys:
                context = browser.new_context()
                context.add_cookies([{"name": "sessionid", "value": key, "url": base_url}])
                page = context.new_page()
                page.add_init_script(WATCH)
                page.goto(base_url + PAGE)
                page.wait_for_function("document.documentElement.dataset.connection === 'live'")
                pages.append(page)
            yield Pages(pages)
        finally:
            browser.close()

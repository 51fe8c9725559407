"""A server that is slow, frozen, stopped and started again, as the open decision page shows it."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import conftest
from tests.browser.conftest import Console

PROMISED_S = 5.0
TOLERANCE_S = 1.5  # of a machine that runs a browser, a server and a demo on two cores
SLOW_MS = 30_000
REASON = "Typed before the server went away"
WATCH = """() => {
  window.words = [];
  const node = document.querySelector("[data-live-word]");
  new MutationObserver(() => window.words.push(node.textContent)).observe(node, {childList: true});
}"""


@dataclass
class Server:
    """A console with its demo that a test may stop, freeze and start again at the same address."""

    console: Console
    process: subprocess.Popen[str]

    def start(self) -> None:
        """Start it again at the same address, on the same data."""
        port = str(urlsplit(self.console.url).port)
        self.process, _ = conftest.started(self.console.folder, "--demo", "--port", port)


@pytest.fixture(scope="module")
def server(data_folder: Path) -> Iterator[Server]:
    process, lines = conftest.started(data_folder, "--demo")
    made = Server(Console(url="", user="operator", password="", folder=data_folder), process)
    try:
        url, password = conftest.greeting(process, lines)
        made.console = replace(made.console, url=url, password=password)
        yield made
    finally:
        conftest.stop(made.process)


@pytest.fixture
def page_in_use(server: Server, browser: Browser) -> Iterator[Page]:
    """A decision page with an action chosen and a reason typed, live."""
    agent = server.console.agent("ambitious-trader")
    case = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    agent.wire.close()
    context = browser.new_context()
    page = context.new_page()
    server.console.sign_in(page)
    page.goto(f"{server.console.url}/escalations/{case.escalation_id}/")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    page.keyboard.press("o")
    page.keyboard.type(REASON)
    yield page
    context.close()


def seconds_until_lost(page: Page, since: float) -> float:
    expect(page.locator("[data-live-word]")).to_have_text("Not connected", timeout=SLOW_MS)
    return time.monotonic() - since


def test_a_stopped_server_is_told_and_the_page_goes_on_when_it_is_back(
    server: Server, page_in_use: Page
) -> None:
    page, submit = page_in_use, page_in_use.locator("[data-submit]")
    conftest.stop(server.process)
    assert seconds_until_lost(page, time.monotonic()) < PROMISED_S + TOLERANCE_S
    expect(submit).to_be_disabled()
    expect(page.get_by_text("Not connected, so nothing can be sent")).to_be_visible()
    expect(page.locator("[data-claim] .lost-why")).to_have_text("Not connected")
    banner = page.locator("[data-stale]")
    expect(banner).to_contain_text(re.compile(r"Last update \d\d:\d\d:\d\d UTC, retrying in \d+ s"))
    left = page.locator(".case-head .countdown")
    frozen = left.inner_text()
    for seconds in ("4", "3", "2"):  # the banner counts, the deadline does not
        expect(banner).to_contain_text(f"retrying in {seconds} s", timeout=SLOW_MS)
    assert left.inner_text() == frozen
    assert "last update" in left.evaluate("node => getComputedStyle(node, '::after').content")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-announce]")).to_contain_text("Not connected")
    server.start()
    expect(page.locator("[data-live-word]")).to_have_text("Live", timeout=SLOW_MS)
    expect(submit).to_be_enabled()
    expect(banner).to_be_hidden()
    expect(page.locator("[data-claim] .lost-why")).to_have_count(0)
    expect(page.locator("#justification")).to_have_value(REASON)
    conftest.send(page)
    page.wait_for_url(re.compile(r"done=|/escalations/(\?|$)"))


def test_a_frozen_server_is_slow_and_then_not_connected(server: Server, page_in_use: Page) -> None:
    page = page_in_use
    page.evaluate(WATCH)
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        assert seconds_until_lost(page, time.monotonic()) < PROMISED_S + TOLERANCE_S
        expect(page.locator("[data-submit]")).to_be_disabled()
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    expect(page.locator("[data-live-word]")).to_have_text("Live", timeout=SLOW_MS)
    expect(page.locator("[data-submit]")).to_be_enabled()
    assert page.evaluate("window.words") == ["Slow", "Not connected", "Live"]


def test_the_hands_of_these_tests_wait_for_a_frozen_server(server: Server, page_in_use: Page) -> None:
    """A page that is not connected sends nothing at a key: `send` waits until it is, as a person would."""
    page = page_in_use
    page.keyboard.type(", then froze")  # the same reason again would be questioned
    os.kill(server.process.pid, signal.SIGSTOP)
    thaw = threading.Timer(1, os.kill, (server.process.pid, signal.SIGCONT))
    try:
        seconds_until_lost(page, time.monotonic())
    finally:
        thaw.start()
    conftest.send(page)
    page.wait_for_url(re.compile(r"done=|/escalations/(\?|$)"))
    thaw.join()


def test_a_network_that_is_gone_is_told_at_once_and_so_is_its_return(page_in_use: Page) -> None:
    page, word = page_in_use, page_in_use.locator("[data-live-word]")
    page.context.set_offline(True)
    expect(word).to_have_text("Not connected", timeout=1000)
    page.context.set_offline(False)
    expect(word).to_have_text("Live", timeout=SLOW_MS)
    page.context.set_offline(True)
    expect(word).to_have_text("Not connected")
    page.get_by_role("button", name="Try again").click()
    expect(word).to_have_text("Not connected")

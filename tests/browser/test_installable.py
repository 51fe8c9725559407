"""The console as an app: Chromium accepts its manifest, and its worker keeps a notice and no page."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Console

SLOW_MS = 30_000
KEPT = """async () => {
  const found = [];
  for (const name of await caches.keys())
    for (const request of await (await caches.open(name)).keys()) found.push(new URL(request.url).pathname);
  return found;
}"""
# What a headless browser cannot give: it has no profile that something could be installed into.
HEADLESS = {"in-incognito"}


@pytest.fixture
def app(browser: Browser, console: Console) -> Iterator[Page]:
    """A signed-in page under the control of the worker."""
    context = browser.new_context()
    page = context.new_page()
    console.sign_in(page)
    page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    page.goto(f"{console.url}/escalations/")
    page.wait_for_function("navigator.serviceWorker.controller?.state === 'activated'")
    yield page
    context.close()


def asked(page: Page, method: str) -> dict[str, Any]:
    """The browser's own answer to a question about the page."""
    return page.context.new_cdp_session(page).send(method)


def test_chromium_reads_the_manifest_without_an_error_and_could_install_it(app: Page) -> None:
    manifest = asked(app, "Page.getAppManifest")
    assert manifest["url"].endswith("/manifest.webmanifest")
    assert manifest["errors"] == []
    assert '"DIR Console"' in manifest["data"]
    errors = asked(app, "Page.getInstallabilityErrors")["installabilityErrors"]
    assert {item["errorId"] for item in errors} <= HEADLESS


def test_nothing_of_the_console_is_kept_while_browsing_or_after_signing_out(
    app: Page, console: Console
) -> None:
    for path in ("/", "/escalations/", "/flows/", "/account/"):
        app.goto(f"{console.url}{path}")
    browsing = app.evaluate(KEPT)
    assert "/offline/" in browsing
    assert all(path == "/offline/" or path.startswith("/static/") for path in browsing), browsing
    app.goto(f"{console.url}/accounts/logout/")
    app.locator("main").get_by_role("button").first.click()
    app.wait_for_url("**/accounts/login/**")
    assert app.evaluate(KEPT) == browsing
    app.context.set_offline(True)
    app.goto(f"{console.url}/flows/")
    expect(app.get_by_role("heading", name="Not connected")).to_be_visible()


def test_without_a_network_the_notice_comes_and_with_it_the_page_that_was_asked_for(
    app: Page, console: Console
) -> None:
    app.context.set_offline(True)
    app.goto(f"{console.url}/flows/?q=abc")
    expect(app.get_by_text("Nothing shown here is current. Nothing can be decided.")).to_be_visible()
    expect(app.get_by_role("heading", name="Flows")).to_have_count(0)
    # The notice has its own style sheets, else it would be black on white without a card.
    assert app.evaluate("getComputedStyle(document.querySelector('.entrance-card')).borderRadius") != "0px"
    app.get_by_role("link", name="Try again").click()
    expect(app.get_by_role("heading", name="Not connected")).to_be_visible()
    app.context.set_offline(False)
    expect(app.get_by_role("heading", name="Flows", exact=True)).to_be_visible(timeout=SLOW_MS)
    assert app.url == f"{console.url}/flows/?q=abc"


def test_a_form_that_is_sent_without_a_network_is_answered_by_nobody(app: Page, console: Console) -> None:
    app.goto(f"{console.url}/escalations/")
    app.context.set_offline(True)
    answer = app.evaluate(
        "fetch('/offline/', {method: 'POST'}).then((got) => got.status, (error) => error.name)"
    )
    assert answer == "TypeError"
    read = app.evaluate("fetch('/escalations/').then((got) => got.status, (error) => error.name)")
    assert read == "TypeError", "a part of a page is never answered from what was kept"


def test_the_console_needs_no_worker(browser: Browser, console: Console) -> None:
    context = browser.new_context(service_workers="block")
    page = context.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    console.sign_in(page)
    page.goto(f"{console.url}/escalations/")
    expect(page.locator("[data-live-word]")).to_have_text("Live", timeout=SLOW_MS)
    assert page.evaluate("navigator.serviceWorker.controller") is None
    assert not said
    context.close()

"""MODIFY in the browser: the gate answers while a person types, and untouched amounts follow."""

import time

import pytest
from playwright.sync_api import Page, Request, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")

QUANTITY, AMOUNT = "[name='param:quantity']", "[name='param:notional_cents']"


@pytest.fixture
def drawer(page_of_operator: Page, console: Console, agent: Client) -> Page:
    """The decision page of an order above the limit, with MODIFY chosen."""
    page = page_of_operator
    page.set_viewport_size({"width": 1440, "height": 900})
    made = conftest.escalate(agent, symbol="AAPL", cents=200_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Modify").check()
    return page


def test_the_gate_answers_while_a_person_types_and_the_untouched_amount_follows(drawer: Page) -> None:
    amount, before = drawer.locator(AMOUNT), drawer.locator(AMOUNT).input_value()
    drawer.fill(QUANTITY, "2")
    expect(drawer.locator("#dry-run")).to_contain_text("Dry-run verdict: ACCEPT")
    expect(drawer.locator("#dry-run")).to_contain_text("BUY 2 AAPL")
    assert int(amount.input_value()) < int(before)
    expect(drawer.locator(".recalculated")).to_have_text("recalculated")
    assert "recalculated" in str(amount.get_attribute("aria-describedby"))
    expect(drawer.locator("[data-put-in]")).to_have_count(0)
    expect(drawer.locator("[data-dry-run-old]")).to_be_hidden()
    twice = int(amount.input_value())
    drawer.fill(QUANTITY, "1")
    expect(drawer.locator("#dry-run")).to_contain_text("BUY 1 AAPL")
    expect(amount).not_to_have_value(str(twice))


def test_an_amount_that_a_person_has_typed_is_left_and_the_calculated_one_offered(drawer: Page) -> None:
    drawer.fill(AMOUNT, "12345")
    drawer.fill(QUANTITY, "2")
    offer = drawer.locator("[data-put-in]")
    expect(offer).to_be_visible()
    expect(drawer.locator(AMOUNT)).to_have_value("12345")
    expect(drawer.locator(".recalculated")).to_have_count(0)
    # An answer to what is no longer there goes at once, before the next one comes.
    drawer.evaluate("document.querySelector('[data-put-in]').was = true")
    drawer.fill(QUANTITY, "1")
    assert drawer.evaluate("![...document.querySelectorAll('[data-put-in]')].some((node) => node.was)")
    expect(offer).to_be_visible()
    value = str(offer.get_attribute("data-value"))
    offer.click()
    expect(drawer.locator(AMOUNT)).to_have_value(value)
    expect(drawer.locator("[data-dry-run-old]")).to_be_hidden()
    expect(drawer.locator("#dry-run")).to_contain_text("Dry-run verdict")


def test_typing_on_asks_once_and_an_older_answer_is_not_shown(drawer: Page) -> None:
    asked: list[Request] = []
    drawer.on("request", lambda request: asked.append(request) if "/dry-run/" in request.url else None)
    # The page's clock stands while a person types: on a slow machine the pause after it would pass meanwhile.
    drawer.clock.install()
    drawer.clock.pause_at(time.time() + 10)  # it cannot go back, so further than the call may take
    drawer.fill(QUANTITY, "")
    drawer.locator(QUANTITY).press_sequentially("12")
    expect(drawer.locator("[data-checking]")).to_have_text("Checking…")
    assert asked == []
    drawer.clock.resume()
    expect(drawer.locator("#dry-run")).to_contain_text("BUY 12 AAPL")
    # One for what was typed, and one with the amount that follows from it.
    assert len(asked) == 2
    # Never answered: what is typed next cancels it.
    drawer.route("**/dry-run/", lambda _: None, times=1)
    with drawer.expect_event("requestfailed", lambda request: "/dry-run/" in request.url):
        with drawer.expect_request("**/dry-run/"):
            drawer.fill(QUANTITY, "3")
        expect(drawer.locator("[data-checking]")).to_have_text("Checking…")
        drawer.fill(QUANTITY, "4")
    expect(drawer.locator("#dry-run")).to_contain_text("BUY 4 AAPL")


def test_half_a_text_of_json_is_not_sent(drawer: Page) -> None:
    asked: list[Request] = []
    drawer.on("request", lambda request: asked.append(request) if "/dry-run/" in request.url else None)
    drawer.get_by_text("Parameters as JSON").first.click()
    text = drawer.locator("#params")
    text.fill('{"quantity": ')
    expect(drawer.locator("[data-checking]")).to_have_text("The JSON is not complete yet.")
    text.fill('{"action": "BUY", "symbol": "AAPL", "quantity": 2}')
    expect(drawer.locator("#dry-run")).to_contain_text("BUY 2 AAPL")
    assert len(asked) == 1


def test_a_server_that_does_not_answer_is_told(drawer: Page) -> None:
    drawer.route("**/dry-run/", lambda route: route.abort())
    drawer.fill(QUANTITY, "2")
    expect(drawer.locator("[data-checking]")).to_contain_text("Not checked")
    drawer.unroute_all()
    drawer.get_by_role("button", name="Dry-run this change").click()
    expect(drawer.locator("#dry-run")).to_contain_text("Dry-run verdict")
    expect(drawer.locator("[data-checking]")).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1024, 1440, 1920])
def test_the_drawer_has_room_at_every_width(drawer: Page, width: int) -> None:
    drawer.set_viewport_size({"width": width, "height": 900})
    assert drawer.evaluate("document.documentElement.scrollWidth <= innerWidth")
    form, evidence = (
        drawer.evaluate(f"document.querySelector('{part}').getBoundingClientRect().width")
        for part in (".decide", ".case > .stack")
    )
    if width >= 1440:
        assert form >= 500
        assert evidence >= 400
    elif width >= 900:
        assert form >= 290
        assert evidence >= 300
    else:
        assert form == evidence
    drawer.get_by_role("radio", name="Abort").check()
    narrow = drawer.evaluate("document.querySelector('.decide').getBoundingClientRect().width")
    assert narrow <= form

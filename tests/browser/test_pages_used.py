"""What a person does in the browser: watch, claim, modify, override, abort, stop; by keys, without script."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")

BACKGROUND = "button => getComputedStyle(button).backgroundColor"
SLOW_MS = 30_000


@pytest.fixture
def page_of_operator(console: Console, page: Page) -> Page:
    """A signed-in page of a person who wants to see the timeline after a decision."""
    console.sign_in(page)
    console.view_timeline_after(page)
    return page


def test_an_escalation_arrives_without_a_reload(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    page.goto(f"{console.url}/escalations/")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    page.evaluate("window.sameDocument = true")
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    row = page.locator(f'[data-row="{made.escalation_id}"]')
    pill = page.locator("[data-pill]:not([hidden])")
    expect(row.or_(pill).first).to_be_visible(timeout=SLOW_MS)
    if pill.is_visible():
        page.keyboard.press("n")
    expect(row).to_be_visible()
    assert page.evaluate("window.sameDocument") is True
    expect(page.locator('.nav a[href="/escalations/"] .count')).to_be_visible()


def test_a_row_that_has_not_changed_is_left_in_its_place(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/escalations/")
    row = page.locator(f'[data-row="{made.escalation_id}"]')
    # Alone: a similar one that the demo adds would change what this row says of the difference.
    page.goto(f"{console.url}/escalations/?q={quote(row.locator('.what a').inner_text())}")
    expect(row.locator("time[title]").first).to_be_visible()
    row.evaluate("(node) => { node.marked = true; }")
    for _ in range(2):
        with page.expect_response(lambda answer: "have=" in answer.url):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert row.evaluate("(node) => node.marked") is True


def test_a_lost_server_is_told_at_once_and_nothing_is_sent_into_the_void(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Abort").check()
    submit = page.get_by_role("button", name="Abort: run nothing")
    expect(submit).to_be_enabled()
    unsent = page.get_by_text("Not connected, so nothing can be sent")
    expect(unsent).to_be_hidden()
    page.mouse.move(0, 0)
    colour = submit.evaluate(BACKGROUND)
    page.context.set_offline(True)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("[data-live-word]")).to_have_text("Not connected", timeout=SLOW_MS)
    expect(page.locator("[data-stale]")).to_be_visible()
    expect(submit).to_be_disabled()
    expect(unsent).to_be_visible()
    assert submit.evaluate(BACKGROUND) != colour, "what cannot be pressed looks as if it could"
    page.context.set_offline(False)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(submit).to_be_enabled(timeout=SLOW_MS)
    expect(unsent).to_be_hidden()


def test_a_proxy_that_answers_for_a_stopped_server_counts_as_not_connected(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Abort").check()
    submit = page.get_by_role("button", name="Abort: run nothing")
    page.route("**/questions/**", lambda route: route.fulfill(status=502, body="Bad Gateway"))
    page.route("**/state/**", lambda route: route.fulfill(status=502, body="Bad Gateway"))
    page.route("**/count/**", lambda route: route.fulfill(status=502, body="Bad Gateway"))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("[data-live-word]")).to_have_text("Not connected", timeout=SLOW_MS)
    expect(submit).to_be_disabled()
    page.unroute_all()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(submit).to_be_enabled(timeout=SLOW_MS)


def test_what_the_page_came_with_stays_where_nothing_has_changed(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    claim = page.locator("[data-live-url*='part=claim'] > *").first
    mark = claim.evaluate_handle("node => node")
    with page.expect_response(lambda answer: "part=claim" in answer.url):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_load_state("networkidle")
    assert mark.evaluate("node => node.isConnected")


def test_the_focus_stays_on_a_button_of_a_part_that_is_replaced(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/flows/{made.dfid}/")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    page.wait_for_load_state("networkidle")
    button = page.locator(".flow-head button").last
    button.focus()
    old = button.evaluate_handle("node => node")
    # As if the server had sent other words than those that are shown.
    page.evaluate(
        "for (const part of document.querySelectorAll('[data-live]')) part.dataset.liveSeen = 'old'"
    )
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_function("node => !node.isConnected", arg=old)
    expect(button).to_be_focused()


def test_new_rows_leave_the_known_ones_and_the_focus_where_they_are(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    first = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/escalations/")
    link = page.locator(f"[data-row='{first.escalation_id}'] .what a")
    link.focus()
    known = link.evaluate_handle("node => node")
    second = conftest.escalate(agent, symbol="GOOG", cents=150_000)
    pill = page.locator("[data-pill]:not([hidden])")
    expect(pill).to_be_visible(timeout=SLOW_MS)
    pill.evaluate("node => node.click()")  # as the key for it does, which moves no focus
    expect(page.locator(f"[data-row='{second.escalation_id}']")).to_be_visible(timeout=SLOW_MS)
    assert known.evaluate("node => node.isConnected")
    expect(link).to_be_focused()


def test_modify_runs_what_the_person_changed_and_the_receipt_appears(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="AAPL", cents=200_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    expect(page.locator("[name='param:quantity']")).to_be_hidden()
    page.get_by_role("radio", name="Modify").check()
    price = int(re.sub(r"\D", "", page.locator("tr", has_text="price.AAPL").locator("td b").inner_text()))
    page.fill("[name='param:quantity']", "3")
    page.fill("[name='param:notional_cents']", str(3 * price))
    expect(page.locator("[data-param-diff]")).to_contain_text("3")
    page.get_by_role("button", name="Dry-run this change").click()
    expect(page.locator("#dry-run")).to_contain_text("Dry-run verdict: ACCEPT")
    page.fill("[name=justification]", reason)
    page.get_by_role("button", name="Modify: run it as changed").click()
    page.wait_for_url(f"{console.url}/flows/{made.dfid}/")
    expect(page.get_by_text("Receipt from the target")).to_be_visible(timeout=SLOW_MS)
    expect(page.locator(".receipt")).to_contain_text('"quantity": 3')
    expect(page.locator(".lines")).to_contain_text("Outcome recorded")
    expect(page.locator(".lines")).to_contain_text("Decision made")


def test_high_impact_asks_for_the_amount_again(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="AAPL", cents=400_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Override").check()
    page.fill("[name=justification]", reason)
    page.fill("[name=typed_again]", "1")
    page.get_by_role("button", name="Override: run it as proposed").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was decided.")
    assert page.input_value("[name=justification]") == reason
    page.fill("[name=typed_again]", page.locator("label[for=typed-again] code").inner_text())
    page.get_by_role("button", name="Override: run it as proposed").click()
    page.wait_for_url(f"{console.url}/flows/{made.dfid}/")
    expect(page.locator(".flow-head")).to_contain_text("Closed", timeout=SLOW_MS)


def test_a_short_reason_is_asked_for_again_before_anything_is_sent(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="AAPL", cents=400_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Override").check()
    page.fill("[name=justification]", "ok")
    page.get_by_role("button", name="Override: run it as proposed").click()
    expect(page.locator("[name=justification]")).to_be_focused()
    assert page.url.endswith(f"/escalations/{made.escalation_id}/")


def test_an_open_page_says_that_somebody_else_has_decided(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    made = conftest.escalate(agent, symbol="GOOG", cents=150_000)
    address = f"{console.url}/escalations/{made.escalation_id}/"
    page, other = page_of_operator, page_of_operator.context.new_page()
    page.goto(address)
    other.goto(address)
    other.get_by_role("radio", name="Abort").check()
    other.get_by_role("button", name="Abort: run nothing").click()
    other.wait_for_url(f"{console.url}/flows/{made.dfid}/")
    expect(page.get_by_text("This has been closed")).to_be_visible(timeout=SLOW_MS)


def test_the_queue_works_by_keyboard_and_no_key_decides(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="AMZN", cents=150_000)
    page.goto(f"{console.url}/escalations/?q={made.escalation_id}")
    page.keyboard.press("j")
    expect(page.locator(".q.here")).to_have_count(1)
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("[data-search]").blur()
    page.keyboard.press("j")
    page.keyboard.press("c")
    page.wait_for_url(f"{console.url}/escalations/{made.escalation_id}/")
    expect(page.locator(".decide")).to_contain_text("Yours")
    for key in ("o", "m", "a", "y", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="Your decision")).to_be_visible()
    page.keyboard.press("Escape")  # out of the reason, which the first key leads to
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def test_a_decision_needs_no_script(browser: Browser, console: Console, agent: Client) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    console.sign_in(page)
    console.view_timeline_after(page)
    made = conftest.escalate(agent, symbol="NVDA", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Abort").check()
    page.fill("[name=justification]", "Not today")
    page.get_by_role("button", name="Record decision").click()
    page.wait_for_url(f"{console.url}/flows/{made.dfid}/")
    expect(page.get_by_text("Aborted. Nothing will run.")).to_be_visible()
    context.close()


def test_the_chosen_theme_stays(page_of_operator: Page, console: Console) -> None:
    page = page_of_operator
    switch = page.locator("[data-theme-switch]")
    switch.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    switch.click()
    page.goto(f"{console.url}/agents/")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(switch).to_contain_text("Dark")


def test_stop_all_is_two_steps_from_any_page(page_of_operator: Page, console: Console) -> None:
    page, other = page_of_operator, page_of_operator.context.new_page()
    other.goto(f"{console.url}/flows/")
    page.goto(f"{console.url}/kinds/")
    page.get_by_role("button", name="Stop all").click()
    page.locator("#stop-all").get_by_label("Reason").fill("Drill")
    page.get_by_role("button", name="Stop everything now").click()
    expect(page.get_by_text("Everything is stopped")).to_be_visible()
    assert page.url == f"{console.url}/kinds/"
    expect(other.get_by_text("Everything is stopped")).to_be_visible(timeout=SLOW_MS)
    page.get_by_role("button", name="Resume").first.click()
    expect(page.locator("#resume-all")).to_contain_text("Waiting intents:")
    page.locator("#resume-all").get_by_label("Reason").fill("The drill is over")
    page.get_by_role("button", name="Resume everything").click()
    expect(page.get_by_text("Everything is resumed.")).to_be_visible()


def test_what_was_typed_survives_a_detour_and_goes_with_the_decision(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="GOOG", cents=150_000)
    address = f"{console.url}/escalations/{made.escalation_id}/"
    page.goto(address)
    page.get_by_role("radio", name="Override").check()
    page.fill("[name=justification]", "Typed before a detour")
    page.goto(f"{console.url}/escalations/")
    page.goto(address)
    expect(page.locator("[name=justification]")).to_have_value("Typed before a detour")
    expect(page.locator("[name=action]:checked")).to_have_count(0)
    page.get_by_role("radio", name="Abort").check()
    page.get_by_role("button", name="Abort: run nothing").click()
    page.wait_for_url(f"{console.url}/flows/{made.dfid}/")
    page.goto(address)
    assert page.evaluate("Object.keys(sessionStorage).filter((key) => key.startsWith('draft:')).length") == 0


def test_an_empty_reason_is_said_where_it_is_missing(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="GOOG", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Override").check()
    page.get_by_role("button", name="Override: run it as proposed").click()
    expect(page.locator("#justification-wrong")).to_have_text("Write a reason.")
    expect(page.locator("#justification-wrong")).to_be_in_viewport()


def test_the_gates_answer_is_in_sight_and_names_the_calculated_amount(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    page.set_viewport_size({"width": 1440, "height": 900})
    made = conftest.escalate(agent, symbol="AAPL", cents=200_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Modify").check()
    page.fill("[name='param:notional_cents']", "1")
    page.get_by_role("button", name="Dry-run this change").click()
    expect(page.locator("#dry-run .words")).to_be_in_viewport(ratio=1)
    expect(page.locator("#dry-run")).to_contain_text("current facts give")


def test_a_field_of_cents_shows_what_is_typed_in_the_currency(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="AAPL", cents=200_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Modify").check()
    worth = page.locator("output[for='param:notional_cents']")
    for typed, shown in (
        ("123456", "1,234.56 USD"),
        ("5", "0.05 USD"),
        ("100000000", "1,000,000.00 USD"),
        ("", ""),
    ):
        page.fill("[name='param:notional_cents']", typed)
        expect(worth).to_have_text(shown)
    page.fill("[name='param:notional_cents']", "123456")
    expect(page.locator("[data-param-diff]")).to_contain_text("1,234.56 USD")


def test_the_runtimes_figure_is_put_in_without_script(
    browser: Browser, console: Console, agent: Client
) -> None:
    made = conftest.escalate(agent, symbol="AAPL", cents=200_000)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    console.sign_in(page)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Modify").check()
    page.fill("[name='param:quantity']", "2")
    page.get_by_role("button", name="Dry-run this change").click()
    offer = page.locator("[data-put-in]")
    value = str(offer.get_attribute("data-value"))
    offer.click()
    expect(page.locator("[name='param:notional_cents']")).to_have_value(value)
    expect(page.locator("[name='param:quantity']")).to_have_value("2")
    context.close()


def test_between_phone_and_desk_a_bar_leads_to_the_decision(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="AAPL", cents=150_000)
    for width, is_there in ((390, True), (899, True), (900, False), (1440, False)):
        page.set_viewport_size({"width": width, "height": 768})
        page.goto(f"{console.url}/escalations/{made.escalation_id}/")
        expect(page.locator(".to-decide")).to_be_visible(visible=is_there)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_print_uses_the_whole_width(page_of_operator: Page, console: Console, agent: Client) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="AAPL", cents=150_000)
    page.set_viewport_size({"width": 800, "height": 1100})
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.emulate_media(media="print")
    width = page.evaluate("document.querySelector('.case-head').getBoundingClientRect().width")
    assert width > 700
    page.emulate_media(media="screen")


def test_an_invited_person_sets_a_password_under_a_link_and_is_signed_out_by_an_admin(
    page_of_operator: Page, console: Console, browser: Browser
) -> None:
    admin, password = page_of_operator, "correct horse battery"
    admin.goto(f"{console.url}/people/")
    admin.get_by_label("User name").fill("nina")
    admin.get_by_label("auditor").check()
    admin.get_by_role("button", name="Create invite link").click()
    link = admin.get_by_label("The link").inner_text()
    context = browser.new_context()
    nina = context.new_page()
    nina.goto(link)
    nina.get_by_label("New password").fill(password)
    nina.get_by_label("Once more").fill(password)
    nina.get_by_role("button", name="Set password").click()
    expect(nina.get_by_role("heading", name="Your password is set")).to_be_visible()
    Console(console.url, "nina", password, console.folder).sign_in(nina)
    expect(nina.locator("[data-live-word]")).to_have_text("Live")
    admin.get_by_role("link", name="I have saved the link").click()
    admin.get_by_role("button", name="End all sessions").click()
    expect(admin.get_by_text("1 session ended.")).to_be_visible()
    expect(nina).to_have_url(re.compile("/accounts/login/"), timeout=SLOW_MS)
    context.close()

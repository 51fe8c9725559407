"""One item after the other: keys, the next item, what was decided on a strip, and a form that stays."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console
from tests.browser.walk import RULES
from tests.support import wait_until

pytestmark = pytest.mark.usefixtures("full_bucket")

SLOW_MS = 30_000
PRESSED = """() => {
  window.pressed = 0;
  document.addEventListener("keydown", (event) => {
    const types = event.target.matches("textarea") && event.key.length === 1 && !event.ctrlKey;
    if (!types && event.key !== "Control") window.pressed += 1;
  }, true);
}"""


def open_case(page: Page, console: Console, agent: Client, *, cents: int = 150_000) -> str:
    """Open the page of a new escalation; its address without the query."""
    made = conftest.escalate(agent, symbol="MSFT", cents=cents)
    address = f"{console.url}/escalations/{made.escalation_id}/"
    page.goto(address)
    return address


def test_a_low_one_takes_two_keys_and_the_reason(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    conftest.escalate(agent, symbol="GOOG", cents=150_000)
    address = open_case(page, console, agent)
    expect(page.locator("#s1")).to_be_focused()
    page.evaluate(PRESSED)
    page.keyboard.press("o")
    expect(page.locator("[name=action][value=OVERRIDE]")).to_be_checked()
    expect(page.locator("#justification")).to_be_focused()
    page.keyboard.type(reason)
    assert page.evaluate("window.pressed") == 1
    conftest.send(page)
    page.wait_for_url(re.compile(r"/escalations/[^/]+/\?done="))
    assert not page.url.startswith(address)
    strip = page.locator(".just-decided")
    expect(strip).to_contain_text("Overridden")
    expect(strip).to_contain_text("MSFT")
    expect(strip.get_by_text("Receipt from the target")).to_be_visible(timeout=SLOW_MS)
    expect(page.locator("#s1")).to_be_focused()
    violations = Axe().run(page, options=RULES).response["violations"]
    assert not violations, [item["id"] for item in violations]


def test_letters_choose_and_nothing_but_ctrl_enter_sends(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    address = open_case(page, console, agent)
    sent: list[str] = []
    page.on("request", lambda asked: sent.append(asked.url) if asked.method == "POST" else None)
    for key, action in (("m", "MODIFY"), ("q", "REQUEST_INFO"), ("o", "OVERRIDE"), ("a", "ABORT")):
        page.keyboard.press(key)
        expect(page.locator(f"[name=action][value={action}]")).to_be_checked()
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")  # out of the field, if one has the focus
        if action != "ABORT":
            expect(page.locator(f"[name=action][value={action}]")).to_be_focused()
    assert not sent
    assert page.url == address
    page.goto(address)
    page.keyboard.press("a")
    expect(page.locator("[name=action][value=ABORT]")).to_be_focused()
    conftest.send(page)
    page.wait_for_url(re.compile("done=|/escalations/$"))


def test_no_letter_works_while_typing(page_of_operator: Page, console: Console, agent: Client) -> None:
    page = page_of_operator
    open_case(page, console, agent)
    page.keyboard.press("q")
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.type("oma]e[ why?")
    expect(page.locator("#question")).to_have_value("oma]e[ why?")
    expect(page.locator("[name=action][value=REQUEST_INFO]")).to_be_checked()


def test_brackets_walk_the_queue_and_escape_returns_to_its_row(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    first, second = (conftest.escalate(agent, symbol="AMZN", cents=150_000) for _ in range(2))
    page.goto(f"{console.url}/escalations/{first.escalation_id}/?from=q%3Dambitious")
    expect(page.locator(".place")).to_contain_text(re.compile(r"\d+ of \d+"))
    for _ in range(30):
        if str(second.escalation_id) in page.url:
            break
        before = page.url
        page.keyboard.press("]")
        expect(page).not_to_have_url(before)
    assert f"{second.escalation_id}/?from=q%3Dambitious" in page.url
    page.keyboard.press("[")
    expect(page).not_to_have_url(re.compile(str(second.escalation_id)))
    page.go_back()
    page.keyboard.press("e")
    expect(page.locator("[data-evidence] h2:focus")).to_have_count(1)
    page.keyboard.press("Escape")
    page.wait_for_url(f"{console.url}/escalations/?q=ambitious#row-{second.escalation_id}")
    expect(page.locator(f"[data-row='{second.escalation_id}'] .what a")).to_be_focused()


def test_a_refusal_is_shown_in_place_and_what_was_typed_stays(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    address = open_case(page, console, agent, cents=400_000)
    page.evaluate("window.sameDocument = true")
    page.keyboard.press("o")
    page.fill("#typed-again", "1")
    page.fill("#justification", reason)
    conftest.send(page)
    problem = page.locator("#decide #problem")
    expect(problem).to_contain_text("Nothing was decided.")
    expect(problem).to_be_focused()
    assert page.evaluate("window.sameDocument") is True
    assert page.url == address
    expect(page.locator("#typed-again")).to_have_value("1")
    expect(page.locator("#justification")).to_have_value(reason)
    expect(page.locator("[data-submit]")).to_be_enabled()


def test_moved_evidence_is_swapped_under_the_form(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    address = open_case(page, console, agent)
    page.evaluate("window.sameDocument = true")
    page.keyboard.press("o")
    page.keyboard.type(reason)
    page.evaluate("document.querySelector('[name=evidence_hash]').value = '0'.repeat(64)")
    # As if the page had been opened on the revision before.
    older = "{hash: 'x', revision: '0'}"
    page.evaluate(f"Object.assign(document.querySelector('[data-escalation]').dataset, {older})")
    conftest.send(page)
    expect(page.locator("#problem")).to_contain_text("EVIDENCE_CHANGED")
    expect(page.locator("[data-draft-note]")).to_contain_text("for revision 0. Revision 1 is shown now")
    expect(page.locator("[name=action]:checked")).to_have_count(0)
    expect(page.locator("#justification")).to_have_value(reason)
    assert page.evaluate("window.sameDocument") is True
    page.keyboard.press("o")
    conftest.send(page)
    page.wait_for_url(re.compile("done=|/escalations/$"))
    assert not page.url.startswith(address)


def test_who_comes_late_reads_who_was_first(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    address = open_case(page, console, agent)
    page.keyboard.press("o")
    page.keyboard.type(reason)
    other = page.context.new_page()
    other.goto(address)
    other.keyboard.press("a")
    conftest.send(other)
    other.wait_for_url(re.compile("done=|/escalations/$"))
    conftest.send(page)
    expect(page.locator("#problem")).to_contain_text(re.compile(r"You aborted this \d+ s ago"))
    expect(page.locator("#problem")).to_contain_text(f"You had written: {reason}")
    expect(page.locator("[data-decision]")).to_have_count(0)


def test_an_old_password_is_asked_for_on_the_page_and_the_decision_then_goes(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    address = open_case(page, console, agent, cents=400_000)
    console.command("shell", "-c", OLD_PASSWORDS)
    page.keyboard.press("o")
    page.fill("#typed-again", page.locator("label[for=typed-again] code").inner_text())
    page.fill("#justification", reason)
    conftest.send(page)
    password = page.locator("#step-up-password")
    expect(password).to_be_focused()
    page.keyboard.type("not the password")
    page.keyboard.press("Enter")
    expect(page.locator("#step-up-wrong")).to_be_visible()
    password.fill(console.password)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("done=|/escalations/$"))
    assert not page.url.startswith(address)


def test_a_lost_session_keeps_the_text_and_leads_back(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    address = open_case(page, console, agent)
    page.keyboard.press("o")
    page.keyboard.type(reason)
    page.context.clear_cookies(name="sessionid")
    conftest.send(page)
    expect(page.locator("#problem")).to_contain_text("You were signed out.")
    page.get_by_role("link", name="Sign in and continue").click()
    page.fill("[name=login]", console.user)
    page.fill("[name=password]", console.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(address)
    expect(page.locator("#justification")).to_have_value(reason)


def test_a_form_of_an_earlier_sign_in_is_renewed(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    open_case(page, console, agent)
    page.keyboard.press("o")
    page.keyboard.type(reason)
    page.evaluate(
        "document.querySelector('[data-decision] [name=csrfmiddlewaretoken]').value = 'x'.repeat(64)"
    )
    conftest.send(page)
    expect(page.locator("#problem")).to_contain_text("Send it again.")
    conftest.send(page)
    page.wait_for_url(re.compile("done=|/escalations/$"))


def test_a_decision_that_did_not_go_out_keeps_the_page(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    address = open_case(page, console, agent)
    page.keyboard.press("o")
    page.keyboard.type(reason)
    page.route("**/decision/", lambda route: route.abort())
    conftest.send(page)
    expect(page.locator("#problem")).to_contain_text("Not sent. Your text is kept.")
    assert page.url == address
    page.unroute_all()
    expect(page.locator("[data-submit]")).to_be_enabled(timeout=SLOW_MS)
    page.reload()
    expect(page.locator("#justification")).to_have_value(reason)
    page.goto(f"{console.url}/agents/")
    page.go_back()
    expect(page.locator("#justification")).to_have_value(reason)


def test_a_person_may_go_to_the_timeline_after_a_decision(
    browser: Browser, console: Console, agent: Client
) -> None:
    context = browser.new_context()
    page = context.new_page()
    console.sign_in(page)
    made = conftest.escalate(agent, symbol="GOOG", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    with page.expect_response(lambda answer: answer.url.endswith("/after-decision/")):
        page.get_by_label("After a decision").select_option("timeline")
    page.reload()
    expect(page.get_by_label("After a decision")).to_have_value("timeline")
    page.locator("#s1").focus()
    page.keyboard.press("a")
    conftest.send(page)
    page.wait_for_url(f"{console.url}/flows/{made.dfid}/")
    expect(page.get_by_text("Aborted. Nothing will run.")).to_be_visible()
    context.close()


def test_the_tab_counts_what_is_open(page_of_operator: Page, console: Console, agent: Client) -> None:
    page = page_of_operator
    conftest.escalate(agent, symbol="AAPL", cents=400_000)
    page.goto(f"{console.url}/agents/")
    expect(page).to_have_title(re.compile(r"^\(\d+!\) Agents"))
    assert "urgent" in str(page.locator("link[rel=icon]").get_attribute("href"))
    page.keyboard.press("?")
    expect(page.get_by_label("Play a sound")).not_to_be_checked()
    expect(page.get_by_label("Show a notification")).not_to_be_checked()


def test_a_notification_comes_only_where_somebody_asked_for_it(
    page_of_operator: Page, console: Console, agent: Client
) -> None:
    page = page_of_operator
    page.add_init_script(HIDDEN_TAB)
    page.goto(f"{console.url}/agents/")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    count = page.locator("[data-attention]")
    before = page.evaluate(HIGH_IMPACT)
    conftest.escalate(agent, symbol="AAPL", cents=400_000)
    expect(count).not_to_have_attribute("data-high", before, timeout=SLOW_MS)
    assert page.evaluate("window.spoken") == []
    page.keyboard.press("?")
    page.get_by_label("Show a notification").check()
    expect(page.locator("[data-notify-said]")).to_have_text("On in this browser.")
    wait_until.until(lambda: page.evaluate("localStorage.getItem('dir-attention-seen')"))
    assert page.evaluate("window.spoken") == [], "what was open before is no news"
    conftest.escalate(agent, symbol="NVDA", cents=400_000)
    spoken = wait_until.until(lambda: page.evaluate("window.spoken[0]"), timeout_s=30)
    assert "high impact" in spoken


HIGH_IMPACT = "document.querySelector('[data-attention]')?.dataset.high ?? '0'"
HIDDEN_TAB = """
window.spoken = [];
window.Notification = class extends EventTarget {
  static permission = "granted";
  static requestPermission() { return Promise.resolve("granted"); }
  constructor(title, { body }) { super(); window.spoken.push(body); }
};
Object.defineProperty(document, "hidden", { get: () => true });
"""
OLD_PASSWORDS = """
from importlib import import_module
from django.conf import settings
from django.contrib.sessions.models import Session
engine = import_module(settings.SESSION_ENGINE).SessionStore
for row in Session.objects.all():
    kept = engine(row.session_key)
    for method in kept.get("account_authentication_methods", []):
        method["at"] -= 301
    kept.modified = True
    kept.save()
"""

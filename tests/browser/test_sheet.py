"""The decision on a narrow page: a sheet, once the evidence was on the screen; ABORT at any time."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from demo.client import Client
from tests.browser import conftest, desk_hands
from tests.browser.conftest import Console
from tests.browser.test_working_through_the_queue import OLD_PASSWORDS
from tests.browser.walk import RULES, THEMES
from tests.support import wait_until

pytestmark = pytest.mark.usefixtures("full_bucket")

PHONE: ViewportSize = {"width": 390, "height": 640}  # too low for both sections at once
DECIDED = re.compile(r"done=|/escalations/$")
SMALL_TARGETS = """() => [...document.querySelectorAll(".sheet *, .to-decide *")].filter((node) => {
  const isTarget = node.matches("button, select, summary, textarea, .choice, .check, .btn");
  if (!isTarget || node.disabled) return false;
  const box = node.getBoundingClientRect();
  return box.width > 0 && (box.height < 43.5 || box.width < 43.5);
}).map((node) => `${node.tagName} ${node.className} ${node.textContent.trim().slice(0, 40)}`)"""

ABOVE = """isThere => {
  document.querySelector("#line-above")?.remove();
  const line = '<p id="line-above" style="height: 27px; margin: 0">Not connected</p>';
  if (isThere) document.querySelector("main").insertAdjacentHTML("afterbegin", line);
}"""


@pytest.fixture
def phone(browser: Browser, console: Console) -> Iterator[Page]:
    context = browser.new_context(viewport=PHONE, has_touch=True)
    page = context.new_page()
    console.sign_in(page)
    yield page
    context.close()


def open_case(page: Page, console: Console, agent: Client, *, cents: int = 150_000) -> str:
    """Open the page of a new escalation; its address."""
    made = conftest.escalate(agent, symbol="MSFT", cents=cents)
    address = f"{console.url}/escalations/{made.escalation_id}/"
    page.goto(address)
    expect(decide(page)).to_be_visible()
    return address


def sheet(page: Page) -> Locator:
    return page.locator("dialog.sheet[open]")


def decide(page: Page) -> Locator:
    return page.locator("[data-sheet-decide]")


def unread(page: Page) -> Locator:
    return page.locator("[data-sheet-unread]")


def read(page: Page) -> None:
    """Scroll through the page, as a thumb does, until nothing more has to be read first."""
    page.evaluate("scrollTo(0, 0)")
    for _ in range(40):
        page.evaluate(desk_hands.TWO_FRAMES)
        if unread(page).is_hidden():
            return
        page.evaluate("scrollBy({ top: 150, behavior: 'instant' })")
    raise AssertionError(unread(page).inner_text())


def height_of_evidence(page: Page) -> float:
    """How far below the top of the screen the evidence that must be read begins, in pixels."""
    begins: float = page.locator("section[aria-labelledby=s2]").evaluate(
        "node => node.getBoundingClientRect().top"
    )
    return begins


def posts(page: Page) -> list[str]:
    """The decisions that the page sends from now on."""
    sent: list[str] = []
    page.on("request", lambda asked: sent.append(asked.url) if asked.url.endswith("/decision/") else None)
    return sent


def test_the_sheet_opens_only_after_both_sections_were_on_the_screen(
    phone: Page, console: Console, agent: Client
) -> None:
    open_case(phone, console, agent)
    expect(unread(phone)).to_contain_text("Read first: ")
    for _ in range(12):
        before = phone.evaluate("scrollY")
        decide(phone).click()
        phone.evaluate(desk_hands.TWO_FRAMES)
        if sheet(phone).count():
            break
        assert phone.evaluate("scrollY") > before, "each press shows what was not read yet"
    expect(sheet(phone)).to_be_visible()
    assert phone.evaluate("scrollY") > 0, "it did not open at the first press, on the first screen"
    bound = phone.locator("section[aria-labelledby=s2] .finding").first
    assert bound.evaluate("node => node.getBoundingClientRect().top < innerHeight")
    expect(unread(phone)).to_be_hidden()
    expect(phone.locator("#decide-title")).to_be_focused()
    expect(phone.locator("[data-decision]")).to_have_count(1)
    expect(sheet(phone).locator("[data-decision]")).to_be_visible()
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_jumping_to_the_end_is_not_reading(phone: Page, console: Console, agent: Client) -> None:
    open_case(phone, console, agent, cents=400_000)
    sent = posts(phone)
    phone.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    phone.evaluate(desk_hands.TWO_FRAMES)
    radio = phone.get_by_role("radio", name="Override")
    radio.check()
    phone.locator("#justification").fill("Agreed with the desk on the telephone")
    phone.locator("[data-submit]").click()
    # The form at the end of the page leads back to what was jumped over.
    expect(phone.locator("[data-announce]")).to_contain_text("Read first: What will happen")
    expect(phone.locator(".case-head")).to_be_in_viewport()
    expect(phone.locator("[data-submit]")).not_to_be_in_viewport()
    assert not sent


def test_abort_needs_no_reading_and_sends_nothing_by_itself(
    phone: Page, console: Console, agent: Client
) -> None:
    address = open_case(phone, console, agent)
    sent = posts(phone)
    abort = phone.locator("[data-sheet-stop]")
    expect(abort).to_have_text("Abort")
    abort.click()
    expect(sheet(phone)).to_be_visible()
    expect(sheet(phone).locator("[name=action][value=ABORT]")).to_be_checked()
    expect(sheet(phone).locator("[name=action][value=ABORT]")).to_be_focused()
    assert not sent
    assert phone.url == address
    # Another action is not let through by this way in.
    sheet(phone).get_by_role("radio", name="Override").check()
    phone.locator("#justification").fill("Agreed with the desk on the telephone")
    phone.locator("[data-submit]").click()
    expect(phone.locator("[data-sheet-note] button")).to_be_focused()
    assert not sent
    sheet(phone).get_by_role("radio", name="Abort").check()
    phone.locator("[data-submit]").click()
    phone.wait_for_url(DECIDED)
    assert len(sent) == 1


def test_focus_goes_in_stays_in_and_comes_back(phone: Page, console: Console, agent: Client) -> None:
    open_case(phone, console, agent)
    read(phone)
    leaving: tuple[Callable[[], None], ...] = (
        lambda: phone.keyboard.press("Escape"),
        lambda: phone.get_by_role("button", name="Close the decision").click(),
        lambda: phone.mouse.click(195, 20),
    )
    for leave in leaving:
        decide(phone).click()
        expect(phone.locator("#decide-title")).to_be_focused()
        before = height_of_evidence(phone)  # the driver may scroll before it clicks
        for _ in range(25):
            phone.keyboard.press("Tab")
            where = (
                "document.activeElement.closest('dialog.sheet') || document.activeElement === document.body"
            )
            assert phone.evaluate(f"Boolean({where})")
        leave()
        expect(sheet(phone)).to_have_count(0)
        expect(decide(phone)).to_be_focused()
        expect(phone.locator(".case > #decide")).to_have_count(1)
        assert height_of_evidence(phone) == pytest.approx(before, abs=1.5)
    phone.locator("[data-sheet-stop]").click()
    phone.locator("#justification").fill("half a reason")
    phone.keyboard.press("Escape")  # leaves the field
    expect(sheet(phone)).to_be_visible()
    phone.keyboard.press("Escape")
    expect(sheet(phone)).to_have_count(0)
    expect(phone.locator("[data-sheet-stop]")).to_be_focused()
    decide(phone).click()
    expect(phone.locator("#justification")).to_have_value("half a reason")


@pytest.mark.parametrize("is_there_first", [False, True])
def test_a_line_that_comes_or_goes_above_moves_nothing_that_was_looked_at(
    phone: Page, console: Console, agent: Client, is_there_first: bool
) -> None:
    """As when the page has not heard from its server for a while, or somebody else opens the case."""
    open_case(phone, console, agent)
    read(phone)
    phone.evaluate(ABOVE, is_there_first)
    phone.evaluate(desk_hands.TWO_FRAMES)
    decide(phone).click()
    expect(sheet(phone)).to_be_visible()
    before, scrolled = height_of_evidence(phone), phone.evaluate("scrollY")
    phone.evaluate(ABOVE, not is_there_first)
    phone.evaluate(desk_hands.TWO_FRAMES)
    phone.keyboard.press("Escape")
    expect(sheet(phone)).to_have_count(0)
    expect(decide(phone)).to_be_focused()
    phone.evaluate(desk_hands.TWO_FRAMES)
    assert height_of_evidence(phone) == pytest.approx(before, abs=1.5)
    assert phone.evaluate("scrollY") != scrolled, "the line took room, and what was looked at stayed"


def test_letters_open_the_sheet_under_the_same_rule_and_never_send(
    phone: Page, console: Console, agent: Client
) -> None:
    open_case(phone, console, agent)
    sent = posts(phone)
    phone.keyboard.press("o")
    expect(phone.locator("[data-announce]")).to_contain_text("Read first")
    expect(phone.locator("[name=action]:checked")).to_have_count(0)
    expect(sheet(phone)).to_have_count(0)
    phone.keyboard.press("a")
    expect(sheet(phone).locator("[value=ABORT]")).to_be_focused()
    phone.keyboard.press("Escape")
    read(phone)
    for key, action in (("m", "MODIFY"), ("q", "REQUEST_INFO"), ("o", "OVERRIDE")):
        phone.keyboard.press(key)
        expect(sheet(phone).locator(f"[name=action][value={action}]")).to_be_checked()
        # Out of the field, if one has the focus, and out of the sheet. On a busy machine focus comes late,
        # and a second press in the same moment counts for nothing.
        wait_until.until(partial(_is_left, phone), timeout_s=20, interval_s=0.5)
    phone.keyboard.press("o")
    phone.keyboard.press("Escape")
    phone.keyboard.press("a")  # inside the sheet, from a choice
    expect(sheet(phone).locator("[value=ABORT]")).to_be_checked()
    phone.keyboard.press("]")  # no other key leads away from it
    expect(sheet(phone)).to_be_visible()
    assert not sent


def _is_left(phone: Page) -> bool:
    """Press Escape once more where the sheet is open; whether it is not."""
    if sheet(phone).count():
        phone.keyboard.press("Escape")
    return not sheet(phone).count()


def test_a_decision_through_the_sheet_decides(
    phone: Page, console: Console, agent: Client, reason: str
) -> None:
    address = open_case(phone, console, agent)
    read(phone)
    decide(phone).click()
    sheet(phone).get_by_role("radio", name="Override").check()
    phone.locator("#justification").fill(reason)
    expect(phone.locator("[data-submit]")).to_be_in_viewport()
    phone.get_by_role("button", name="Override: run it as proposed").click()
    phone.wait_for_url(DECIDED)
    assert not phone.url.startswith(address)
    expect(phone.locator(".just-decided")).to_contain_text("Overridden")


def test_evidence_that_moved_is_told_in_the_sheet_and_must_be_read_again(
    phone: Page, console: Console, agent: Client, reason: str
) -> None:
    open_case(phone, console, agent)
    sent = posts(phone)
    read(phone)
    decide(phone).click()
    sheet(phone).get_by_role("radio", name="Override").check()
    phone.locator("#justification").fill(reason)
    phone.evaluate("document.querySelector('[name=evidence_hash]').value = '0'.repeat(64)")
    # As if the page had been opened on the revision before.
    older = "{hash: 'x', revision: '0'}"
    phone.evaluate(f"Object.assign(document.querySelector('[data-escalation]').dataset, {older})")
    phone.locator("[data-submit]").click()
    problem = sheet(phone).locator("#problem")
    expect(problem).to_contain_text("EVIDENCE_CHANGED")
    expect(problem).to_be_in_viewport()
    note = sheet(phone).locator("[data-sheet-note]")
    expect(note).to_contain_text("The evidence has changed. Read first:")
    sheet(phone).get_by_role("radio", name="Override").check()
    phone.locator("[data-submit]").click()
    expect(note.get_by_role("button")).to_be_focused()
    assert len(sent) == 1, "the second one was not sent"
    note.get_by_role("button", name="Read it").click()
    expect(sheet(phone)).to_have_count(0)
    expect(phone.locator(".case-head")).to_be_in_viewport()
    read(phone)
    decide(phone).click()
    expect(phone.locator("#justification")).to_have_value(reason)
    expect(note).to_be_hidden()
    phone.locator("[data-submit]").click()
    phone.wait_for_url(DECIDED)
    assert len(sent) == 2


def test_who_comes_late_reads_who_was_first(
    phone: Page, console: Console, agent: Client, reason: str
) -> None:
    address = open_case(phone, console, agent)
    read(phone)
    decide(phone).click()
    sheet(phone).get_by_role("radio", name="Override").check()
    phone.locator("#justification").fill(reason)
    other = phone.context.new_page()
    other.goto(address)
    other.locator("[data-sheet-stop]").click()
    other.locator("[data-submit]").click()
    other.wait_for_url(DECIDED)
    phone.locator("[data-submit]").click()
    expect(phone.locator("#problem")).to_contain_text(re.compile(r"You aborted this \d+ s ago"))
    expect(phone.locator("#problem")).to_be_focused()
    expect(phone.locator("dialog.sheet, .to-decide")).to_have_count(0)


def test_an_old_password_is_asked_for_above_the_sheet(
    phone: Page, console: Console, agent: Client, reason: str
) -> None:
    open_case(phone, console, agent, cents=400_000)
    read(phone)
    decide(phone).click()
    console.command("shell", "-c", OLD_PASSWORDS)
    sheet(phone).get_by_role("radio", name="Override").check()
    phone.fill("#typed-again", phone.locator("label[for=typed-again] code").inner_text())
    phone.fill("#justification", reason)
    phone.locator("[data-submit]").click()
    expect(phone.locator("#step-up-password")).to_be_focused()
    phone.keyboard.press("Escape")
    expect(sheet(phone)).to_be_visible()
    phone.locator("[data-submit]").click()
    phone.locator("#step-up-password").fill(console.password)
    phone.keyboard.press("Enter")
    phone.wait_for_url(DECIDED)


@pytest.mark.parametrize("theme", THEMES)
def test_open_and_closed_it_is_accessible_and_fits_320_px(
    browser: Browser, console: Console, agent: Client, theme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(
        viewport={"width": 320, "height": 640}, color_scheme=theme, has_touch=True, reduced_motion="reduce"
    )
    page = context.new_page()
    console.sign_in(page)
    open_case(page, console, agent)
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    for is_open in (False, True):
        if is_open:
            page.locator("[data-sheet-stop]").click()
            sheet(page).get_by_role("radio", name="Modify").check()
            animation = sheet(page).evaluate("node => getComputedStyle(node).animationName")
            assert animation == "none"
            height = sheet(page).evaluate("node => node.getBoundingClientRect().height")
            assert height <= 640 * 0.85 + 1
        violations = Axe().run(page, options=RULES).response["violations"]
        assert not violations, [(item["id"], item["nodes"][0]["html"][:200]) for item in violations]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(SMALL_TARGETS) == []
    context.close()


def test_without_script_the_bar_is_a_link_to_the_form(
    browser: Browser, console: Console, agent: Client
) -> None:
    context = browser.new_context(viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    console.sign_in(page)
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    bar = page.locator(".to-decide")
    expect(bar.get_by_role("button")).to_have_count(0)
    bar.get_by_role("link", name="Decide").click()
    expect(page.locator("#decide")).to_be_in_viewport()
    page.get_by_role("radio", name="Abort").check()
    page.get_by_role("button", name="Record decision").click()
    page.wait_for_url(DECIDED)
    context.close()


def test_from_900_px_the_form_is_beside_the_evidence_and_below_there_is_the_bar(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    page = page_of_operator
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    address = f"{console.url}/escalations/{made.escalation_id}/"
    boxes = """() => ['.case-head', '#decide'].map((part) => {
      const box = document.querySelector(part).getBoundingClientRect();
      return [box.left, box.right, box.top];
    })"""
    for width in (833, 899, 900, 1024, 1180, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(address)
        head, form = page.evaluate(boxes)
        is_beside = width >= 900
        assert (form[0] >= head[1] and abs(form[2] - head[2]) < 2) is is_beside, width
        expect(page.locator(".to-decide")).to_be_visible(visible=not is_beside)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        if is_beside:
            assert form[1] - form[0] >= 290, width
            assert head[1] - head[0] >= 300, width
    page.set_viewport_size({"width": 899, "height": 800})
    read(page)
    decide(page).click()
    expect(sheet(page)).to_be_visible()
    sheet(page).get_by_role("radio", name="Abort").check()  # accepted from any revision
    page.locator("#justification").fill(reason)
    page.set_viewport_size({"width": 900, "height": 800})  # a tablet that is turned
    expect(sheet(page)).to_have_count(0)
    expect(page.locator("#justification")).to_have_value(reason)
    page.locator("[data-submit]").click()
    page.wait_for_url(DECIDED)


def test_a_silent_agent_without_a_bound_of_a_proposal_works_as_well(phone: Page, console: Console) -> None:
    key = console.command("shell", "-c", SILENT).splitlines()[-1]
    phone.goto(f"{console.url}/escalations/{key}/")
    expect(phone.locator("[data-sheet-stop]")).to_have_text("Stop the agent")
    sent = posts(phone)
    read(phone)
    decide(phone).click()
    sheet(phone).get_by_role("radio", name="Acknowledge").check()
    phone.locator("#justification").fill("Its machine is being moved today")
    phone.locator("[data-submit]").click()
    phone.wait_for_url(DECIDED)
    assert len(sent) == 1


# The console's own sweeper finds the silence. It may write its own round over the one that was entered here,
# so that is entered until it has.
SILENT = """
from escalations.models import Escalation
from runtime.core import clock
from tests.support import fallen_silent, wait_until

desk = fallen_silent.desk("silent-on-a-phone")
fallen_silent.hush(desk)

def found():
    fallen_silent.listen(at=clock.now())
    return Escalation.objects.filter(agent_id=desk.agent.agent_id, state="OPEN").first()

print(wait_until.until(found, timeout_s=50, interval_s=0.2).pk)
"""

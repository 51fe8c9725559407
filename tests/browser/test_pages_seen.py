"""What a person meets in the browser: every page readable by everyone, in both themes and on a phone."""

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")

PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1440, "height": 900}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
GRAVE = {"serious", "critical"}
# Elements whose content is wider than they are, and codes that break within a word.
SPILT = """() => {
  const all = [...document.querySelectorAll("main *")];
  const seen = all.filter((node) => !node.closest(".sr, svg, thead, .lanes"));
  const spills = (node) => {
    const style = getComputedStyle(node);
    const isOpen = style.overflowX === "visible" && style.display !== "inline";
    return isOpen && node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1;
  };
  const breaks = (node) => {
    const text = node.firstChild;
    if (text?.nodeType !== Node.TEXT_NODE) return false;
    const range = document.createRange();
    let last = null;
    return [...text.data].some((letter, at) => {
      range.setStart(text, at);
      range.setEnd(text, at + 1);
      const box = range.getBoundingClientRect();
      const isNext = last !== null && box.width > 0 && box.top > last.top + 4;
      if (box.width > 0) last = box;
      return isNext && /\\w/.test(letter) && /\\w/.test(text.data[at - 1]);
    });
  };
  const words = (node) => `${node.tagName}.${node.className}: ${node.textContent.trim().slice(0, 60)}`;
  const codes = seen.filter((node) => node.matches(".code, .badge"));
  return [...seen.filter(spills), ...codes.filter(breaks)].map(words);
}"""
# As after five failed calls; the demo calls the target again when the time is over, which closes the circuit.
OPEN_FOR_SECONDS = """
from datetime import timedelta
from django.utils import timezone
from runtime.models import Circuit
now = timezone.now()
open_now = {"state": "OPEN", "failures": 5, "openings": 1, "probe": "", "changed_at": now}
open_now["retry_at"] = now + timedelta(seconds=20)
Circuit.objects.update_or_create(tenant="default", target="watchlist", defaults=open_now)
"""
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}


@pytest.fixture(scope="module")
def addresses(console: Console, browser: Browser, agent: Client) -> list[str]:
    """Every page, with one open and one decided escalation, and one flow that has run to its end."""
    said = conftest.escalate(agent, symbol="AAPL", cents=400_000)
    decided = conftest.escalate(agent, symbol="MSFT", cents=150_000).escalation_id
    context = browser.new_context()
    page = context.new_page()
    console.sign_in(page)
    page.goto(f"{console.url}/escalations/{decided}/")
    page.get_by_role("radio", name="Abort").check()
    with page.expect_navigation():
        page.get_by_role("button", name="Abort: run nothing").click()
    page.goto(f"{console.url}/flows/")
    closed = page.locator("tr", has_text="Closed").first.locator("th a")
    expect(closed).to_be_visible(timeout=30_000)
    flow = closed.get_attribute("href")
    page.goto(f"{console.url}{flow}")
    seen = page.get_by_role("link", name="Context the agent received").first.get_attribute("href")
    page.goto(f"{console.url}{page.get_by_role('link', name='Decision records').get_attribute('href')}")
    record = page.locator("tbody th a").first.get_attribute("href")
    page.goto(f"{console.url}/reviews/")
    # The demo's confused agent explains what it does not propose, so a guard flags it before long.
    flagged = page.locator("a[href^='/reviews/'][href*='-']").first
    expect(flagged).to_be_visible(timeout=60_000)
    review = flagged.get_attribute("href")
    context.close()
    return [
        "/",
        "/escalations/",
        "/escalations/?show=closed",
        "/escalations/?impact=LOW_IMPACT&sort=age&decidable=1",
        f"/escalations/bulk/?action=ABORT&escalation={said.escalation_id}",
        "/shift/",
        f"/escalations/{said.escalation_id}/notes/",
        f"/escalations/{said.escalation_id}/",
        "/flows/",
        "/escalations/in-doubt/",
        str(flow),
        str(seen),
        f"{flow}reasoning/",
        f"/flows/compare/?a={str(flow).split('/')[2]}&b={said.dfid}",
        f"/ledger/entries/{said.dfid}/7/",
        "/explore/",
        "/explore/?agent=momentum-trader",
        "/agents/",
        "/agents/momentum-trader/",
        "/agents/momentum-trader/edit/",
        "/agents/momentum-trader/manifests/new/",
        "/agents/momentum-trader/manifests/1.0.0/?trial=1",
        "/register-agent/",
        "/budgets/",
        "/budgets/reservations/",
        "/budgets/reservations/?show=ended",
        "/memory/",
        "/reviews/",
        str(review),
        "/targets/",
        "/people/",
        "/retention/",
        "/notifications/",
        "/outward/",
        "/noise/",
        "/people/1/",
        "/account/",
        "/inbox/",
        "/invite/1-a-b/",
        "/kinds/",
        "/kinds/ADJUST_POSITION/",
        "/kinds/ADJUST_POSITION/new/",
        "/kinds/new/",
        "/ledger/",
        "/conformance/",
        "/records/",
        "/records/?from=yesterday",
        str(record),
        "/records/reports/high_value_outcomes/?decision_key=ADJUST_POSITION&param=notional_cents&over=1",
        "/records/reports/most_denials/",
        "/records/reports/replay_health/?from=",
        "/decisions/",
        "/decisions/?from=yesterday",
        f"/decisions/{decided}/",
        f"/search/?q={said.dfid[-8:]}",
        "/demo/",
        "/help/",
        "/help/execution/",
        "/glossary/",
        "/accounts/logout/",
        "/accounts/reauthenticate/",
        "/accounts/password/change/",
        "/nothing-here/",
    ]


def _faults(page: Page, console: Console, path: str) -> list[str]:
    """What keeps somebody from reading a page: grave findings of axe, and a page wider than the window."""
    page.goto(f"{console.url}{path}")
    if page.locator("input[value=MODIFY]").count():
        page.check("input[value=MODIFY]")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    found = [f"{path} is {wide} px too wide"] if wide > 0 else []
    for item in Axe().run(page, options=RULES).response["violations"]:
        if item["impact"] in GRAVE:
            found.append(f"{path} {item['id']}: {item['nodes'][0]['html'][:200]}")
    return found


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_is_accessible_and_fits(
    browser: Browser,
    console: Console,
    addresses: list[str],
    theme: Literal["light", "dark"],
    size: ViewportSize,
) -> None:
    context = browser.new_context(viewport=size, color_scheme=theme)
    page = context.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    found = _faults(page, console, "/accounts/login/")
    console.sign_in(page)
    for path in addresses:
        found += _faults(page, console, path)
    context.close()
    assert not found, "\n".join(found)
    assert not said, said


@pytest.mark.parametrize("width", [390, 720, 1024, 1440])
def test_nothing_spills_over_and_no_code_breaks_without_script(
    browser: Browser,
    console: Console,
    addresses: list[str],
    width: int,
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=False)
    page = context.new_page()
    console.sign_in(page)
    found = []
    for path in addresses:
        page.goto(f"{console.url}{path}")
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{path} is too wide")
        found += [f"{path} {spilt}" for spilt in page.evaluate(SPILT)]
    context.close()
    assert not found, "\n".join(found)


def test_an_open_circuit_says_all_it_has_to_within_its_cell(page_of_operator: Page, console: Console) -> None:
    page = page_of_operator
    console.command("shell", "-c", OPEN_FOR_SECONDS)
    page.goto(f"{console.url}/targets/")
    expect(page.get_by_text("next try")).to_be_visible()
    for width in (390, 720, 1024):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(SPILT) == [], width


def test_a_long_source_of_an_actual_change_wraps_within_its_cell(
    page_of_operator: Page, console: Console, agent: Client, reason: str
) -> None:
    """Beside the entries of a timeline the table of changes is narrow, at a desk too."""
    page = page_of_operator
    made = conftest.escalate(agent, symbol="MSFT", cents=150_000)
    page.goto(f"{console.url}/escalations/{made.escalation_id}/")
    page.get_by_role("radio", name="Override").check()
    page.fill("#justification", reason)
    with page.expect_navigation():
        page.get_by_role("button", name="Override: run it as proposed").click()
    page.goto(f"{console.url}/flows/{made.dfid}/")
    source = page.locator("td[data-label=Actual] .faint.tiny").first
    expect(source).to_be_visible(timeout=30_000)
    source.evaluate("node => node.prepend('receipt of an executor with a long name, ')")
    for width in (390, 720, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(SPILT) == [], width

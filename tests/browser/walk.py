"""The walk over every page of a console with its demo: where it goes, and what it measures there."""

from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console

PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1440, "height": 900}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
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
RULES: dict[str, Any] = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "resultTypes": ["violations"],
}
EVERY_RULE: dict[str, Any] = {"resultTypes": ["violations"]}
# What a theme decides. It is a choice between two colours in CSS: no script and no page asks which it is.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"], "resultTypes": ["violations"]}


def in_both_themes(page: Page, *, rules: dict[str, Any] = RULES) -> list[dict[str, Any]]:
    """What axe finds: by all `rules` in the light theme, by those about colours in the dark one as well."""
    found: list[dict[str, Any]] = []
    for theme in THEMES:
        asked = rules if theme == "light" else COLOURS
        page.emulate_media(color_scheme=theme)
        said = Axe().run(page, options=asked).response["violations"]
        found += [{**item, "theme": theme} for item in said]
    page.emulate_media(color_scheme="light")
    return found


# Pages that are there on every console with the demo.
ALWAYS = (
    "/",
    "/escalations/",
    "/escalations/?show=closed",
    "/escalations/?impact=LOW_IMPACT&sort=age&decidable=1",
    "/shift/",
    "/tasks/",
    "/flows/",
    "/escalations/in-doubt/",
    "/explore/",
    "/explore/?agent=momentum-trader",
    "/agents/",
    "/agents/momentum-trader/",
    "/agents/momentum-trader/calibration/",
    "/agents/momentum-trader/calibration/?kind=ADJUST_POSITION",
    "/agents/momentum-trader/edit/",
    "/agents/momentum-trader/manifests/new/",
    "/agents/momentum-trader/manifests/1.1.0/?trial=1",
    "/register-agent/",
    "/budgets/",
    "/budgets/reservations/",
    "/budgets/reservations/?show=ended",
    "/memory/",
    "/reviews/",
    "/targets/",
    "/people/",
    "/retention/",
    "/payload-keys/",
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
    "/rulesets/",
    "/rule-coverage/",
    "/rulesets/motor-underwriting/",
    "/rulesets/motor-underwriting/new/",
    "/workflows/",
    "/workflows/research-then-file/",
    "/ledger/",
    "/conformance/",
    "/records/",
    "/records/?from=yesterday",
    "/records/reports/high_value_outcomes/?decision_key=ADJUST_POSITION&param=notional_cents&over=1",
    "/records/reports/most_denials/",
    "/decision-metrics/",
    "/decision-metrics/?agent=nobody&days=0",
    "/records/reports/replay_health/?from=",
    "/decisions/",
    "/decisions/?from=yesterday",
    "/demo/",
    "/help/",
    "/help/execution/",
    "/glossary/",
    "/accounts/logout/",
    "/accounts/reauthenticate/",
    "/accounts/password/change/",
    "/nothing-here/",
)


def interrupt(console: Console) -> str:
    """The escalation of a flow whose workflow has called a person."""
    console.command("load_pack", "docs/examples/researcher.yaml", "--activate")
    agent = console.agent("researcher", manifest_version="1.0.0")
    dfid = agent.open_flow(trigger="a question")
    step = {"instruction": "GENERATE", "output": {"confidence": 0.1}}
    said = agent._call("POST", f"/flows/{dfid}/steps", step, {"Idempotency-Key": dfid}).body
    agent.wire.close()
    return str(said["escalation_id"])


@pytest.fixture(scope="module")
def addresses(console: Console, browser: Browser, agent: Client) -> list[str]:
    """Every page, with one open and one decided escalation, and one flow that has run to its end."""
    said = conftest.escalate(agent, symbol="AAPL", cents=400_000)
    decided = conftest.escalate(agent, symbol="MSFT", cents=150_000).escalation_id
    console.command("load_pack", "docs/examples/underwriter.yaml", "--activate")
    interrupted = interrupt(console)
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
        *ALWAYS,
        f"/escalations/bulk/?action=ABORT&escalation={said.escalation_id}",
        f"/escalations/{said.escalation_id}/notes/",
        f"/escalations/{said.escalation_id}/",
        f"/escalations/{interrupted}/",
        str(flow),
        str(seen),
        f"{flow}reasoning/",
        f"/flows/compare/?a={str(flow).split('/')[2]}&b={said.dfid}",
        f"/ledger/entries/{said.dfid}/7/",
        str(review),
        str(record),
        f"/decisions/{decided}/",
        f"/search/?q={said.dfid[-8:]}",
    ]

"""What a screen reader meets: `python -m tests.browser.names` writes docs/screen-reader-names.md.

It starts a console with four cases, and follows the Tab key with Chromium's own accessibility tree.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.browser import conftest, desk_cases
from tests.browser.desk_cases import JOBS, Desk

PAGE: Final = Path(__file__).parents[2] / "docs" / "screen-reader-names.md"
MOST_TABS: Final = 250
# Where the focus is: the labels of what it is in tell two equal names apart, and the part of the page.
WHERE: Final = """() => {
  const node = document.activeElement;
  if (!node || node === document.body) return null;
  const label = (part) => {
    const ids = (part.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean);
    const named = ids.map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
    const within = part.querySelector(":scope > :is(th, legend, caption)");
    return part.getAttribute("aria-label") ?? (named || within?.textContent);
  };
  const groups = [];
  for (let part = node.parentElement; part; part = part.parentElement) {
    if (!part.matches("section, nav, [role=group], [role=region], fieldset, article, tr, dialog")) continue;
    const words = part.matches("article[data-row]") ? part.id : label(part);
    if (words) groups.push(words.replace(/\\s+/g, " ").trim());
  }
  const decide = node.closest("#decide");
  const evidence = node.closest("[data-evidence]") ? "evidence" : "";
  const part = decide ? "form" : node.closest(".case-head") ? "head" : evidence;
  window.dirStops ??= [];
  const known = window.dirStops.indexOf(node);
  if (known < 0) window.dirStops.push(node);
  return { groups, part, known, target: node.href ?? "" };
}"""


@dataclass(frozen=True)
class Stop:
    """One place where Tab stops: as the accessibility tree names it, and in what it is."""

    role: str
    name: str
    description: str
    groups: tuple[str, ...]
    # "head", "evidence" or "form" on the page of an escalation.
    part: str
    # Where a link leads.
    target: str


def stops(page: Page) -> list[Stop]:
    """All places where Tab stops, from the top of the page until the first one comes again."""
    session = page.context.new_cdp_session(page)
    session.send("Accessibility.enable")
    # The first link of every page leads past the navigation. A page may have put the focus further down.
    page.evaluate("() => { window.dirStops = []; document.querySelector('a[href]').focus(); }")
    found: list[Stop] = []
    for _ in range(MOST_TABS):
        where = page.evaluate(WHERE)
        if where is None or where["known"] >= 0:
            session.detach()
            return found
        found.append(_stop(session, where))
        page.keyboard.press("Tab")
    raise AssertionError(f"more than {MOST_TABS} stops on {page.url}")


def _stop(session: CDPSession, where: dict[str, Any]) -> Stop:
    node = session.send("Runtime.evaluate", {"expression": "document.activeElement"})["result"]["objectId"]
    tree = session.send("Accessibility.getPartialAXTree", {"objectId": node, "fetchRelatives": False})
    read = {key: _text(tree["nodes"][0].get(key)) for key in ("role", "name", "description")}
    return Stop(**read, groups=tuple(where["groups"]), part=where["part"], target=where["target"])


def _text(value: Any) -> str:
    return " ".join(str((value or {}).get("value", "")).split())


def pages(desk: Desk) -> dict[str, str]:
    """The pages to be named, by what they show."""
    by_name = {case.job.name: case for case in desk.cases}
    found = {"Queue": "/escalations/"}
    for name, word in SHOWN.items():
        found[f"Decision page, {word}"] = f"/escalations/{by_name[name].escalation_id}/"
    flow = desk_cases.read(desk.console, FLOW.format(escalation=by_name["in doubt, resume"].escalation_id))
    return {**found, "Timeline": f"/flows/{flow}/"}


SHOWN: Final = {
    "LOW, override": "LOW",
    "HIGH, override": "HIGH",
    "in doubt, resume": "call in doubt",
    "silence, acknowledge": "silent agent",
}
FLOW: Final = """
import json
from escalations.models import Escalation
print(json.dumps(str(Escalation.objects.get(pk="{escalation}").flow_id)))
"""
# Jobs of which the pages are shown, for a console that starts fast.
NAMED: Final = [job for job in JOBS if job.name in SHOWN]


def calm(text: str) -> str:
    """The text without ids, times and counters, which differ at every run."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", text)
    text = re.sub(r"\b[0-9a-f]{8,64}\b", "HASH", text)
    text = re.sub(r"\b\d+ (?:s|min|h)(?: \d+ (?:s|min))?\b", "TIME", text)
    return text.replace("|", "\\|")


def section(title: str, found: list[Stop]) -> str:
    """One table for one page."""
    lines = [f"## {title}", "", "| | role | name | description | in |", "| --- | --- | --- | --- | --- |"]
    for number, stop in enumerate(found, start=1):
        inside = stop.groups[0] if stop.groups else ""
        cells = [str(number), stop.role, calm(stop.name), calm(stop.description), calm(inside)[:60]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


HEAD: Final = """# What a screen reader meets

The places where Tab stops, in order, with role, accessible name and description as Chromium's accessibility
tree has them. Written by `python -m tests.browser.names`; ids, hashes and times are replaced by a word.
`tests/browser/test_names.py` checks the rules: every stop has a name, two different actions of one page share
no role and name unless a labelled group or row tells them apart, and the page of an escalation goes from its
head through the evidence to the form. There the walk begins at the headline, where the page puts the focus.
No real screen reader was used.
"""


def main() -> None:
    """Start a console, follow Tab on each page, write the tables."""
    parts = [HEAD]
    with (
        tempfile.TemporaryDirectory() as folder,
        desk_cases.opened(Path(folder), jobs=NAMED) as desk,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=conftest.CHROMIUM, args=list(conftest.QUIET))
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        desk.console.sign_in(page)
        for title, path in pages(desk).items():
            page.goto(f"{desk.console.url}{path}")
            page.locator("[data-live-word]", has_text="Live").wait_for()
            parts.append(section(title, stops(page)))
        browser.close()
    PAGE.write_text("\n\n".join(part.strip() for part in parts) + "\n")


if __name__ == "__main__":
    main()

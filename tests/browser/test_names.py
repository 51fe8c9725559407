"""What a screen reader meets: every stop of Tab has a name of its own, and the order is that of the page."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser import conftest, desk_cases, names
from tests.browser.desk_cases import Desk
from tests.browser.names import Stop
from tests.browser.test_working_through_the_queue import OLD_PASSWORDS
from tests.browser.walk import RULES, THEMES

DECISIONS = [f"Decision page, {word}" for word in names.SHOWN.values()]
LATER = {"": 0, "head": 1, "evidence": 2, "form": 3}


@pytest.fixture(scope="module")
def desk(data_folder: Path) -> Iterator[Desk]:
    """A console with a LOW, a HIGH, a call in doubt and a silent agent."""
    with desk_cases.opened(data_folder, jobs=names.NAMED) as made:
        yield made


@pytest.fixture(scope="module")
def walked(desk: Desk, browser: Browser) -> dict[str, list[Stop]]:
    """The stops of each page."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    desk.console.sign_in(page)
    found = {}
    for title, path in names.pages(desk).items():
        page.goto(f"{desk.console.url}{path}")
        expect(page.locator("[data-live-word]")).to_have_text("Live")
        found[title] = names.stops(page)
    page.context.close()
    return found


def test_every_stop_has_a_role_and_a_name(walked: dict[str, list[Stop]]) -> None:
    assert all(len(found) > 20 for found in walked.values()), {title: len(walked[title]) for title in walked}
    nameless = [
        f"{title}: {stop}"
        for title, found in walked.items()
        for stop in found
        if not stop.name or stop.role in {"", "generic", "none"}
    ]
    assert not nameless, "\n".join(nameless)


def test_no_two_actions_of_a_page_share_role_and_name_in_the_same_group(
    walked: dict[str, list[Stop]],
) -> None:
    """Two links with one name may stand on a page if they lead to the same place."""
    twice = []
    for title, found in walked.items():
        alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
        for stop in found:
            alike[stop.role, stop.name, stop.groups].append(stop.target)
        for key, targets in alike.items():
            if len(targets) > 1 and (len(set(targets)) > 1 or not targets[0]):
                twice.append(f"{title}: {key}")
    assert not twice, "\n".join(twice)


@pytest.mark.parametrize("title", DECISIONS)
def test_tab_goes_from_the_head_through_the_evidence_to_the_form(
    walked: dict[str, list[Stop]], title: str
) -> None:
    order = [LATER[stop.part] for stop in walked[title] if stop.part]
    assert set(order) == {1, 2, 3}
    assert order == sorted(order)


def violations(page: Page) -> list[str]:
    """What axe finds, of any weight."""
    found = Axe().run(page, options=RULES).response["violations"]
    return [f"{page.url} {item['id']}: {item['nodes'][0]['html'][:200]}" for item in found]


@pytest.mark.parametrize("theme", THEMES)
def test_states_of_the_desk_are_accessible(
    desk: Desk, browser: Browser, theme: Literal["light", "dark"]
) -> None:
    """States that the walk over all pages does not come to."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=theme)
    page = context.new_page()
    desk.console.sign_in(page)
    paths = names.pages(desk)
    high, doubt = paths["Decision page, HIGH"], paths["Decision page, call in doubt"]
    found: list[str] = []

    def see(path: str) -> None:
        page.goto(f"{desk.console.url}{path}")
        expect(page.locator("[data-live-word]")).to_have_text("Live")

    see("/escalations/?agent=nobody")
    expect(page.get_by_text("No results")).to_be_visible()
    found += violations(page)
    see(paths["Decision page, silent agent"])
    found += violations(page)
    see(doubt)
    page.keyboard.press("d")
    found += violations(page)
    see(high)
    page.keyboard.press("m")
    found += violations(page)
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    page.fill("#typed-again", "1")
    page.fill("#justification", f"Checked with accounts, {theme}")
    conftest.send(page)
    expect(page.locator("#problem")).to_be_visible()
    found += violations(page)  # refused, with the form as it was
    page.fill("#justification", "")
    conftest.send(page)
    expect(page.locator("#justification-wrong")).to_be_visible()
    found += violations(page)
    desk.console.command("shell", "-c", OLD_PASSWORDS)
    page.fill("#justification", f"Checked with accounts, {theme}")
    page.fill("#typed-again", page.locator("label[for=typed-again] code").inner_text())
    conftest.send(page)
    expect(page.locator("#step-up-password")).to_be_focused()
    found += violations(page)
    page.keyboard.press("Escape")
    context.set_offline(True)
    expect(page.locator("[data-live-word]")).to_have_text("Not connected")
    expect(page.locator("[data-stale]")).to_be_visible()
    # axe is put into the page by the driver, so it needs no network.
    found += violations(page)
    context.set_offline(False)
    context.close()
    assert not found, "\n".join(found)

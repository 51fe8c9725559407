"""What a person meets in the browser: every page readable by everyone, in both themes and on a phone."""

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from demo.client import Client
from tests.browser import conftest, walk
from tests.browser.conftest import Console
from tests.browser.walk import DESK, PHONE, SPILT

addresses = walk.addresses
pytestmark = pytest.mark.usefixtures("full_bucket")

GRAVE = {"serious", "critical"}
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


def _faults(page: Page, console: Console, path: str) -> list[str]:
    """What keeps somebody from reading a page: grave findings of axe, and a page wider than the window."""
    page.goto(f"{console.url}{path}")
    if page.locator("input[value=MODIFY]").count():
        page.check("input[value=MODIFY]")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    found = [f"{path} is {wide} px too wide"] if wide > 0 else []
    for item in walk.in_both_themes(page):
        if item["impact"] in GRAVE:
            found.append(f"{path} {item['theme']} {item['id']}: {item['nodes'][0]['html'][:200]}")
    return found


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_is_accessible_and_fits(
    browser: Browser, console: Console, addresses: list[str], size: ViewportSize
) -> None:
    context = browser.new_context(viewport=size, reduced_motion="reduce")
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


def test_nothing_spills_over_and_no_code_breaks_without_script(
    browser: Browser, console: Console, addresses: list[str]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    console.sign_in(page)
    found = []
    for path in addresses:
        page.goto(f"{console.url}{path}")
        # Without script only CSS knows the width: one load shows a page at all of them.
        for width in (390, 720, 1024, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append(f"{path} is too wide at {width}")
            found += [f"{path} at {width}: {spilt}" for spilt in page.evaluate(SPILT)]
    context.close()
    assert not found, "\n".join(found)


def test_the_check_of_both_themes_notices_a_colour_of_either(page: Page, console: Console) -> None:
    page.goto(f"{console.url}/accounts/login/")
    assert walk.in_both_themes(page) == []
    for theme, colours in (("light", "#aaa, #fff"), ("dark", "#000, #555")):
        page.evaluate(f"document.querySelector('h1').style.color = 'light-dark({colours})'")
        assert {(item["theme"], item["id"]) for item in walk.in_both_themes(page)} == {
            (theme, "color-contrast")
        }


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

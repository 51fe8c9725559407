"""The editors of manifests, kinds and rulesets: in place, by keys, on a phone, without a script."""

import re

import pytest
import yaml
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser import walk
from tests.browser.conftest import Console

MANIFEST = "/agents/momentum-trader/manifests/new/"
KIND = "/kinds/ADJUST_POSITION/new/"
RULESET = "/rulesets/motor-underwriting/new/"
STORED = re.compile('"max_notional_cents": 155169')


def test_a_manifest_is_checked_in_place_and_a_finding_leads_to_its_field(
    page_of_operator: Page, console: Console
) -> None:
    page = page_of_operator
    page.goto(f"{console.url}{MANIFEST}")
    page.evaluate("window.notReloaded = true")
    limit = page.get_by_label("max_notional_cents")
    limit.fill("a lot")
    # Enter checks, as it does in any form, and saves nothing.
    limit.press("Enter")
    top = page.locator("#check")
    expect(top).to_be_focused()
    expect(top).to_contain_text("Cannot be saved yet")
    expect(limit).to_have_attribute("aria-invalid", "true")
    expect(limit).to_have_value("a lot")
    top.get_by_role("link", name="max_notional_cents").press("Enter")
    expect(limit).to_be_focused()
    limit.fill("1,551.69 USD")
    page.get_by_role("button", name="Check").click()
    expect(top).to_contain_text("Ready to save")
    expect(page.get_by_role("region", name="Document")).to_contain_text(STORED)
    assert page.evaluate("window.notReloaded")
    page.get_by_role("button", name="Edit as document").click()
    expect(page.get_by_label("Manifest", exact=True)).to_have_value(STORED)
    assert page.evaluate("window.notReloaded")


def test_rows_of_a_kind_are_added_and_removed_by_keys(page_of_operator: Page, console: Console) -> None:
    page = page_of_operator
    page.goto(f"{console.url}{KIND}")
    rows = page.get_by_role("group", name="Rules, row")
    before = rows.count()
    page.get_by_role("button", name="Add a rule").press("Enter")
    expect(rows).to_have_count(before + 1)
    added = rows.last.get_by_label("ID")
    expect(added).to_be_focused()
    added.fill("R_NEW")
    page.get_by_role("button", name=f"Remove Rules, row {before}", exact=True).press("Enter")
    expect(rows).to_have_count(before)
    expect(page.get_by_role("button", name="Add a rule")).to_be_focused()
    expect(rows.last.get_by_label("ID")).to_have_value("R_NEW")


def test_a_decision_table_is_rearranged_by_keys_and_stored_as_it_was_shown(
    page_of_operator: Page, console: Console
) -> None:
    console.command("load_pack", "docs/examples/underwriter.yaml", "--activate")
    page = page_of_operator
    page.goto(f"{console.url}{RULESET}")
    page.evaluate("window.notReloaded = true")
    page.get_by_label("premium_cents, rule 1").fill("91000")
    page.get_by_role("button", name="Move up rule 3, ADULT_AT_THE_COAST").press("Enter")
    moved = page.get_by_role("button", name="Move up rule 2, ADULT_AT_THE_COAST")
    expect(moved).to_be_focused()
    moved.press("Enter")
    expect(page.get_by_label("Rule, rule 1")).to_be_focused()
    expect(page.get_by_label("Rule, rule 1")).to_have_value("ADULT_AT_THE_COAST")
    page.get_by_label("New input").select_option("sanctioned")
    page.get_by_role("button", name="Add input").press("Enter")
    cell = page.get_by_label("sanctioned, rule 1")
    expect(cell).to_be_focused()
    cell.fill("false")
    name = page.get_by_label("New parameter")
    name.fill("excess cents")
    page.get_by_role("button", name="Add parameter").press("Enter")
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_be_focused()
    name.fill("excess_cents")
    page.get_by_role("button", name="Add parameter").press("Enter")
    value = page.get_by_label("excess_cents, rule 1")
    expect(value).to_be_focused()
    value.fill("5000")
    page.get_by_role("button", name="Remove input region").press("Enter")
    expect(page.get_by_label("region, rule 1")).to_have_count(0)
    expect(cell).to_have_value("false")
    assert page.evaluate("window.notReloaded")
    page.get_by_role("textbox", name="Version").fill("3.0.0")
    page.get_by_role("button", name="Save as draft").press("Enter")
    page.wait_for_url("**/rulesets/motor-underwriting/?version=3.0.0")
    page.goto(f"{console.url}{RULESET}?from=3.0.0&as=document")
    table = yaml.safe_load(page.locator("#document").input_value())["tables"][0]
    assert table["inputs"] == ["age", "claims", "sanctioned"]
    assert [(rule["id"], rule["when"], rule["then"]["params"]) for rule in table["rules"]] == [
        ("ADULT_AT_THE_COAST", ["[25..70]", "<= 2", "false"], {"premium_cents": 61000, "excess_cents": 5000}),
        ("YOUNG", ["[18..25)", "0", "-"], {"premium_cents": 91000}),
        ("ADULT", ["[25..70]", "<= 2", "-"], {"premium_cents": 48000}),
    ]


def test_a_form_on_its_way_takes_nothing_that_its_answer_would_replace(
    page_of_operator: Page, console: Console
) -> None:
    page, held = page_of_operator, list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.goto(f"{console.url}{KIND}")
    editor, added = page.locator("#editor"), page.get_by_role("button", name="Add a rule")
    before = page.get_by_role("group", name="Rules, row").count()
    page.route(f"**{KIND}", hold)
    added.press("Enter")
    expect(editor).to_have_attribute("inert", "")
    held.pop().abort()
    expect(editor).not_to_have_attribute("inert", "")
    expect(added).to_be_focused()
    added.press("Enter")
    expect(editor).to_have_attribute("inert", "")
    held.pop().continue_()
    expect(page.get_by_role("group", name="Rules, row")).to_have_count(before + 1)
    expect(editor).not_to_have_attribute("inert", "")
    expect(page.get_by_role("group", name="Rules, row").last.get_by_label("ID")).to_be_focused()


def test_without_a_script_everything_works_by_plain_forms(browser: Browser, console: Console) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    console.sign_in(page)
    page.goto(f"{console.url}{MANIFEST}")
    page.get_by_role("button", name="Add a memory scope").click()
    page.get_by_label("Scope").fill("desk-notes")
    page.get_by_label("max_notional_cents").fill("much")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#check")).to_contain_text("Enter an amount as a number")
    expect(page.get_by_label("Scope")).to_have_value("desk-notes")
    page.get_by_label("max_notional_cents").fill("12.50")
    page.get_by_role("button", name="Edit as document").click()
    expect(page.locator("#document")).to_contain_text('"max_notional_cents": 1250')
    page.get_by_role("button", name="Edit as form").click()
    expect(page.get_by_label("max_notional_cents")).to_have_value("12.50")
    context.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_keeps_anybody_from_reading_the_editors(
    browser: Browser, console: Console, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    console.sign_in(page)
    console.command("load_pack", "docs/examples/underwriter.yaml", "--activate")
    faults = []
    places = ((MANIFEST, "max_notional_cents"), (KIND, "Time to decide"), (RULESET, "Certainty, rule 2"))
    for path, field in places:
        page.goto(f"{console.url}{path}")
        for _ in range(2):
            faults += [
                f"{path} {item['theme']} {item['id']}: {item['nodes'][0]['html']}"
                for item in walk.in_both_themes(page, rules=walk.EVERY_RULE)
            ]
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            # Again with something wrong on the page.
            page.get_by_label(field).fill("wrong")
            page.get_by_role("button", name="Check").click()
            expect(page.locator("#check")).to_be_visible()
    context.close()
    assert not faults, "\n".join(faults)

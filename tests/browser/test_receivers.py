"""The page of receivers with a receiver on it, in a browser: added by hand, readable at every width."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import Console

# Long, as addresses of cloud services are.
PLACE = (
    "https://ingest.eu-central-1.siem.example.com/v1/collectors/0190f1e2-7c3b-7000-8000-1234567890ab/events"
)


def test_a_receiver_is_added_by_hand_and_fits(page_of_operator: Page, console: Console) -> None:
    page = page_of_operator
    page.goto(f"{console.url}/outward/")
    page.get_by_label("Name", exact=True).fill("siem")
    page.get_by_label("Kind and form").select_option("SIEM_HTTP as OCSF")
    page.get_by_label("Where").fill(PLACE)
    page.get_by_label("Kinds of events").fill("escalation:* incident:* user:signed_in signin:failed")
    page.get_by_role("button", name="Add the receiver").click()
    expect(page.get_by_role("rowheader", name="siem")).to_be_visible()
    for summary in ("Pause siem", "Move the position of siem"):
        page.locator("summary", has_text=summary.removesuffix(" siem").removesuffix(" of")).click()
    for width in (390, 720, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
    page.get_by_role("row", name="siem").get_by_label("Reason").first.fill("Maintenance")
    page.get_by_role("button", name="Pause it").click()
    expect(page.get_by_role("row", name="siem")).to_contain_text("Maintenance")

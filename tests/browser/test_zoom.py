"""Every page in a large zoom: 200 % and 400 % of a desk's window are 720 and 320 px of width."""

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.browser import walk
from tests.browser.conftest import Console

pytestmark = pytest.mark.usefixtures("full_bucket")

# 1440 x 900 at 200 %; 1280 x 1024 at 400 %, as WCAG 1.4.10 has it; and a small phone.
SIZES: tuple[ViewportSize, ...] = (
    {"width": 720, "height": 450},
    {"width": 320, "height": 256},
    {"width": 320, "height": 640},
)
# Controls that lie beyond the window, or beyond a part that hides what is too wide. A part that scrolls
# shows a control as soon as it gets the focus.
OUT_OF_REACH = """() => {
  const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  const isOut = (node) => {
    const box = node.getBoundingClientRect();
    for (let part = node.parentElement; part !== document.documentElement; part = part.parentElement) {
      const { display, overflowX, position } = getComputedStyle(part);
      if (display === "contents") continue; // it has no box
      if (["auto", "scroll"].includes(overflowX)) return false;
      const edge = part.getBoundingClientRect();
      const isBeyond = box.left < edge.left - 1 || box.right > edge.right + 1;
      if (["hidden", "clip"].includes(overflowX) && isBeyond) return true;
      if (position === "fixed") break;
    }
    return box.left < -1 || box.right > innerWidth + 1;
  };
  return [...document.querySelectorAll(".bar :is(a, button), main :is(" + controls + ")")]
    .filter((node) => !node.disabled && node.checkVisibility({ visibilityProperty: true }))
    .filter((node) => node.getClientRects().length && !node.closest(".sr, .skip, svg"))
    .filter(isOut)
    .map((node) => `${node.tagName} ${(node.textContent || node.name).trim().slice(0, 40)}`);
}"""
# Which share of the height what stays in place takes, in the middle of the page.
COVERED = """() => {
  scrollTo({ top: document.documentElement.scrollHeight / 2, behavior: "instant" });
  const lines = new Set();
  for (const node of document.querySelectorAll("body *")) {
    const { position } = getComputedStyle(node);
    if (!["sticky", "fixed"].includes(position)) continue;
    if (!node.checkVisibility({ visibilityProperty: true })) continue;
    const box = node.getBoundingClientRect();
    if (box.width < innerWidth / 2 || box.left >= innerWidth || box.right <= 0) continue;
    for (let y = Math.max(0, Math.ceil(box.top)); y < Math.min(innerHeight, box.bottom); y += 1) lines.add(y);
  }
  return lines.size / innerHeight;
}"""

addresses = walk.addresses


def test_every_page_can_be_read_and_used_at_200_and_400_percent(
    browser: Browser, console: Console, addresses: list[str]
) -> None:
    context = browser.new_context(viewport=SIZES[0])
    page = context.new_page()
    console.sign_in(page)
    found = []
    for path in addresses:
        page.goto(f"{console.url}{path}")
        for size in SIZES:
            page.set_viewport_size(size)
            where = f"{path} at {size['width']}x{size['height']}"
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if wide > 0:
                found.append(f"{where} is {wide} px too wide")
            found += [f"{where} out of reach: {words}" for words in page.evaluate(OUT_OF_REACH)]
            covered = page.evaluate(COVERED)
            if covered >= 0.5:
                found.append(f"{where} is covered by {covered:.0%}")
    context.close()
    assert not found, "\n".join(found)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size['width']}x{size['height']}")
def test_the_measures_notice_what_they_are_for(
    browser: Browser, console: Console, size: ViewportSize
) -> None:
    context = browser.new_context(viewport=size)
    page = context.new_page()
    console.sign_in(page)
    page.goto(f"{console.url}/escalations/")
    expect(page.locator("main")).to_be_visible()
    assert page.evaluate(OUT_OF_REACH) == []
    assert page.evaluate(COVERED) < 0.5
    page.evaluate("""() => {
      const far = document.createElement("button");
      far.textContent = "too far";
      Object.assign(far.style, { position: "relative", left: "3000px" });
      const wall = document.createElement("div");
      Object.assign(wall.style, { position: "fixed", inset: "0 0 40% 0" });
      document.querySelector("main").append(far, wall);
    }""")
    assert any("too far" in words for words in page.evaluate(OUT_OF_REACH))
    assert page.evaluate(COVERED) >= 0.5
    context.close()

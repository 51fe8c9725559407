"""No text of an agent changes what the runtime shows: head, limit, form, bars and rows stay as they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FloatRect, expect

from tests.browser import layout_attacks
from tests.browser.layout_attacks import ATTACKS, Scene, Viewer

PARTS = [".side", ".bar", "#decide", "[aria-labelledby=s2]", ".case-head .effect"]
PLACED = [".side", ".bar", "#decide", "[data-decision]", "[data-submit]", "label.choice"]
# The containers that say whose text it is.
CLAIMED = ", ".join(
    (
        "[aria-labelledby=s6] .claim",
        "[aria-labelledby=s3] dd bdi",
        "[aria-labelledby=s3] td bdi",
        "[aria-labelledby=s4] bdi",
        "[aria-labelledby=s4] .change > span",
        "[aria-label='Evidence as stored'] pre",
        "[data-modify] .field",
        "[data-param-diff]",
    )
)
EFFECT = ".effect, .to-decide .headline, .follows bdi"


@pytest.fixture(scope="module")
def scene(data_folder: Path) -> Iterator[Scene]:
    with layout_attacks.opened(data_folder) as made:
        yield made


@pytest.fixture(scope="module")
def viewer(browser: Browser, scene: Scene) -> Iterator[Viewer]:
    with layout_attacks.viewer(browser, scene) as made:
        yield made


@dataclass(frozen=True)
class Harmless:
    """A case with harmless texts: where things are, what the second section says, and the pictures."""

    boxes: dict[str, FloatRect]
    limit: str
    # From the top of the window to the end of the second section, and the form.
    ours: list[FloatRect]
    # Both bars, the form and what stands above the sentence: the sentence itself may take more lines.
    around: list[FloatRect]
    pictures: dict[int, list[bytes]]


LIMIT = "node => `${node.innerText} ${node.offsetWidth} ${node.offsetHeight}`"
OURS, AROUND = 0, 1


@pytest.fixture(scope="module")
def harmless(viewer: Viewer, scene: Scene) -> Harmless:
    viewer.open(f"/escalations/{scene.harmless}/")
    boxes = viewer.boxes(PLACED)
    side, bar, form, second, sentence = viewer.boxes(PARTS).values()
    limit = viewer.page.locator("[aria-labelledby=s2]").evaluate(LIMIT)
    window = layout_attacks.WINDOW
    ours: list[FloatRect] = [
        {"x": 0, "y": 0, "width": window["width"], "height": second["y"] + second["height"]},
        form,
    ]
    side["height"] = min(side["height"], window["height"])
    top, left = bar["y"] + bar["height"], side["width"]
    above: FloatRect = {"x": left, "y": top, "width": form["x"] - left, "height": sentence["y"] - 8 - top}
    around = [side, bar, form, above]
    pictures = {OURS: viewer.pictures(ours), AROUND: viewer.pictures(around)}
    layout_attacks.keep("harmless", pictures[OURS], failed=False)
    return Harmless(boxes, limit, ours, around, pictures)


def compare(viewer: Viewer, name: str, harmless: Harmless, which: int) -> None:
    """Assert that a page looks like the harmless one in every pixel; keep both where it does not."""
    places = harmless.around if which else harmless.ours
    expected = harmless.pictures[which]
    found = viewer.pictures(places)
    differs = [
        number
        for number, (one, good) in enumerate(zip(found, expected, strict=True), 1)
        if not viewer.are_alike(one, good)
    ]
    layout_attacks.keep(name, found, failed=bool(differs))
    if differs:
        layout_attacks.keep(f"{name} harmless", expected, failed=True)
    assert not differs, f"compare the pictures {name} {differs} in {layout_attacks.FAILED}"


def test_a_single_letter_makes_another_picture(viewer: Viewer, scene: Scene) -> None:
    viewer.open(f"/escalations/{scene.harmless}/")
    place = viewer.boxes(["#decide"])["#decide"]
    before = viewer.pictures([place])[0]
    assert viewer.are_alike(before, viewer.pictures([place])[0])
    viewer.page.evaluate("document.querySelector('#decide-title').append('.')")
    assert not viewer.are_alike(before, viewer.pictures([place])[0])


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_runtime_shows_is_the_same_picture_beside_an_attack(
    viewer: Viewer, scene: Scene, harmless: Harmless, name: str
) -> None:
    viewer.open(f"/escalations/{scene.beside[name]}/")
    assert viewer.page.get_by_text(layout_attacks.MARK).count() > 0
    astray = viewer.astray(CLAIMED)
    assert not astray, "\n".join(astray)
    assert viewer.boxes(PLACED) == harmless.boxes
    assert viewer.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    compare(viewer, name, harmless, OURS)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_inside_the_sentence_stays_in_it_and_moves_no_button(
    viewer: Viewer, scene: Scene, harmless: Harmless, name: str
) -> None:
    viewer.open(f"/escalations/{scene.within[name]}/")
    astray = viewer.astray(f"{CLAIMED}, {EFFECT}")
    assert not astray, "\n".join(astray)
    assert viewer.boxes(PLACED) == harmless.boxes
    limit = viewer.page.locator("[aria-labelledby=s2]")
    assert limit.evaluate(LIMIT) == harmless.limit
    expect(limit.locator(".finding .words").first).to_be_in_viewport(ratio=1)
    layout_attacks.keep(f"within {name} whole", [viewer.page.screenshot()], failed=False)
    compare(viewer, f"within {name}", harmless, AROUND)


def test_the_loudest_name_of_an_agent_stays_in_its_place(
    viewer: Viewer, scene: Scene, harmless: Harmless
) -> None:
    viewer.open(f"/escalations/{scene.loud}/")
    assert viewer.boxes(PLACED) == harmless.boxes
    assert not viewer.astray(CLAIMED)
    assert viewer.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


ROW = """(id) => {
  const row = document.getElementById(`row-${id}`);
  const from = row.getBoundingClientRect();
  return Object.fromEntries([".pick", ".impact", ".what", ".bound", ".clock", ".hold"].map((part) => {
    const box = row.querySelector(part).getBoundingClientRect();
    return [part, { x: box.x - from.x, width: box.width, inside: box.bottom <= from.bottom + 1 }];
  }).concat([["row", { x: from.x, width: from.width, inside: from.height <= 200 }]]));
}"""


@pytest.mark.parametrize("width", [1440, 390])
def test_the_rows_of_the_queue_keep_their_columns(browser: Browser, scene: Scene, width: int) -> None:
    with layout_attacks.viewer(browser, scene, viewport={"width": width, "height": 900}) as viewer:
        viewer.open("/escalations/?sort=age")
        assert not viewer.astray(".q .what > a, .q .differs, summary span")
        assert viewer.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        usual = viewer.page.evaluate(ROW, scene.harmless)
        for name in ATTACKS:
            for way in (scene.beside, scene.within):
                found = viewer.page.evaluate(ROW, way[name])
                assert found == usual, (name, way is scene.within)


@pytest.mark.parametrize("name", ["html", "closing tags", "live attributes", "markdown"])
def test_timeline_and_memory_hold_an_attack_as_text(viewer: Viewer, scene: Scene, name: str) -> None:
    for path in (f"/flows/{scene.flows[scene.beside[name]]}/", "/memory/", "/agents/payer/"):
        viewer.open(path)
        assert not viewer.astray("main"), path
        assert viewer.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path

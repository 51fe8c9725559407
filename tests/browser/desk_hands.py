"""Three ways to work: by keyboard only, by mouse, and by touch on a phone. Each counts what it does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, Response, expect

from tests.browser import conftest
from tests.browser.desk_cases import Case
from tests.support import wait_until

LETTERS: Final = {
    "OVERRIDE": "o",
    "MODIFY": "m",
    "ABORT": "a",
    "RESUME": "r",
    "MARK_DONE": "d",
    "ACKNOWLEDGE": "w",
    "STOP_AGENT": "s",
}
MOST_TABS = 60
PATIENCE_MS = 30_000
PASSWORD = "#step-up-password"
# Whether a part of the page is in sight: inside the window, and nothing lies over it.
SEEN: Final = """() => {
  const page = document.querySelector("[data-escalation]");
  const isClear = (node) => {
    if (!node) return false;
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height) return false;
    return [box.top + 2, (box.top + box.bottom) / 2, box.bottom - 2].every((y) => {
      const x = box.left + Math.min(box.width / 2, 40);
      if (x < 0 || y < 0 || x > innerWidth || y > innerHeight) return false;
      const hit = document.elementFromPoint(x, y);
      return hit !== null && (node.contains(hit) || hit.contains(node));
    });
  };
  const head = page.querySelector(".case-head .effect");
  const bound = page.querySelector("[aria-labelledby=s2] .finding .words, [aria-labelledby=s2] > p");
  const { escalation, revision, hash } = page.dataset;
  const effect = head.textContent.replace(/\\s+/g, " ").trim();
  return { escalation, revision: Number(revision), hash, effect,
    headline: isClear(head), bound: isClear(bound), passed: bound.getBoundingClientRect().top < 60 };
}"""

# A page that a finger has moved may run on: until it stands still for ten frames.
STANDING: Final = """() => new Promise((go) => {
  let last = scrollY, frames = 0;
  const look = () => {
    frames = scrollY === last ? frames + 1 : 0;
    last = scrollY;
    if (frames < 10) requestAnimationFrame(look);
    else go();
  };
  look();
})"""
# The middle of a place, once two frames have shown it where it is.
MIDDLE: Final = """(node) => new Promise((go) => {
  let last = "";
  const look = () => {
    const { left, top, width, height } = node.getBoundingClientRect();
    const now = `${left} ${top} ${width} ${height}`;
    if (now === last) return go([left + width / 2, top + height / 2]);
    last = now;
    requestAnimationFrame(look);
  };
  look();
})"""
TWO_FRAMES: Final = "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
# Where the sheet stands and the page has been scrolled to: what a tap on "Decide" changes.
PLACE: Final = "() => [document.querySelector('dialog[data-sheet]')?.open ?? location.hash, scrollY]"


@dataclass
class Effort:
    """What one decision cost: `letters` are those of the reason and of answers, `moves` clicks or taps.

    `keys` are all other keys, those of what is typed again, a password, an amount or a receipt among them.
    """

    keys: int = 0
    letters: int = 0
    moves: int = 0
    scrolls: int = 0


@dataclass(frozen=True)
class Shown:
    """What was in sight of an escalation at one revision before the form was sent."""

    escalation: str
    revision: int
    hash: str
    effect: str


@dataclass
class Hand:
    """Works in a page. The subclasses say how something is pressed; `effort` counts it."""

    page: Page
    password: str
    effort: Effort = field(default_factory=Effort)
    asked_password: bool = False

    # What differs between the three.
    def open_first(self) -> None:
        """From the queue to the page of its first row."""
        raise NotImplementedError

    def look_further(self, *, back: bool) -> None:
        """Bring the next part of the evidence into sight, or go back where it has run past."""
        raise NotImplementedError

    def choose(self, action: str) -> None:
        """Choose an action."""
        raise NotImplementedError

    def reach(self, field: Locator, *, back: bool = False) -> None:
        """Put the focus into a field."""
        raise NotImplementedError

    def send(self) -> None:
        """Send the form of the decision."""
        raise NotImplementedError

    def confirm(self) -> None:
        """Send the dialog that asks for the password."""
        raise NotImplementedError

    def end_pause(self) -> None:
        """Press "Continue" on the card after ten overrides in a row."""
        raise NotImplementedError

    # What is the same.
    def write(self, text: str, *, is_reason: bool = False) -> None:
        """Type a text, letter by letter."""
        self.page.keyboard.type(text)
        if is_reason:
            self.effort.letters += len(text)
        else:
            self.effort.keys += len(text)

    def look(self) -> Shown:
        """Look at the headline and at the bound, moving on until both have been in sight."""
        seen: set[str] = set()
        for _ in range(12):
            found = self.page.evaluate(SEEN)
            seen |= {part for part in ("headline", "bound") if found[part]}
            if len(seen) == 2:
                return Shown(found["escalation"], found["revision"], found["hash"], found["effect"])
            self.look_further(back=bool(found["passed"]))
        raise AssertionError(f"the page never shows { ({'headline', 'bound'} - seen) }")

    def fill(self, case: Case, reason: str) -> None:
        """Fill what the chosen action asks for."""
        typed = self.page.locator("#typed-again")
        if typed.is_visible():
            amount = self.page.locator("label[for=typed-again] code").inner_text()
            self.reach(typed)
            self.write(amount)
        if case.job.action == "MARK_DONE":
            self.reach(self.page.locator("#receipt"))
            self.write("r-7")
        if case.job.action not in {"ABORT", "STOP_AGENT"}:
            self.reach(self.page.locator("#justification"))
            self.write(reason, is_reason=True)
        if case.job.action == "MODIFY":
            self.replace_amount(str(case.job.cents - 40_000))

    def replace_amount(self, text: str) -> None:
        """Put another amount in the place of the proposed one."""
        self.reach(self.page.locator("[name='param:amount_cents']"), back=True)
        self.page.keyboard.press("Control+a")
        self.effort.keys += 1
        self.write(text)

    def submit(self) -> str:
        """Send the form, confirm the password where it is asked for; the code of a refusal, or ""."""
        code = self._after(self.send)
        while code == "STEP_UP":
            self.asked_password = True
            expect(self.page.locator(PASSWORD)).to_be_visible()
            self.reach(self.page.locator(PASSWORD))
            self.write(self.password)
            code = self._after(self.confirm)
        return code

    def _after(self, act: Callable[[], None]) -> str:
        def is_answer(answer: Response) -> bool:
            return answer.request.method == "POST" and answer.url.endswith("/decision/")

        before = urlsplit(self.page.url).path
        with self.page.expect_response(is_answer) as got:
            act()
        if got.value.headers.get("hx-redirect"):
            self.page.wait_for_url(lambda url: urlsplit(url).path != before, timeout=PATIENCE_MS)
            return ""
        problem = self.page.locator("#problem[data-code]")
        expect(problem).to_be_attached()
        return str(problem.get_attribute("data-code"))

    def answer_check(self, words: str) -> None:
        """Answer "What did you check?"."""
        self.reach(self.page.locator("#checked"))
        self.write(words, is_reason=True)

    def taken(self) -> Effort:
        """The effort so far, and count anew."""
        done, self.effort = self.effort, Effort()
        return done


@dataclass
class Keyboard(Hand):
    """Keys only: nothing is clicked."""

    def press(self, key: str) -> None:
        """One key, or one combination of keys."""
        self.page.keyboard.press(key)
        self.effort.keys += 1

    def open_first(self) -> None:
        self.press("j")
        self.press("Enter")

    def look_further(self, *, back: bool) -> None:
        self.press("e")

    def choose(self, action: str) -> None:
        self.press(LETTERS[action])
        expect(self.page.locator(f"[name=action][value={action}]")).to_be_checked()

    def reach(self, field: Locator, *, back: bool = False) -> None:
        for _ in range(MOST_TABS):
            if field.evaluate("node => node === document.activeElement"):
                return
            self.press("Shift+Tab" if back else "Tab")
        raise AssertionError(f"{MOST_TABS} times Tab do not lead to {field}")

    def send(self) -> None:
        conftest.send(self.page)
        self.effort.keys += 1

    def confirm(self) -> None:
        self.press("Enter")

    def end_pause(self) -> None:
        self.press("a")  # into the form, which the card stands above
        self.reach(self.page.locator(".pause button"), back=True)
        self.press("Enter")


@dataclass
class Mouse(Hand):
    """Clicks; the keyboard is for text only."""

    def move(self, place: Locator) -> None:
        """One click, and one turn of the wheel before it where the place is out of sight."""
        if not self.is_in_sight(place):
            self.effort.scrolls += 1
        self.act(place)
        self.effort.moves += 1

    def act(self, place: Locator) -> None:
        """Press the place."""
        place.click()

    def is_in_sight(self, place: Locator) -> bool:
        """Whether the middle of the place can be pressed as it is."""
        return bool(
            place.evaluate(
                """(node) => {
                  const box = node.getBoundingClientRect();
                  const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
                  return hit !== null && node.contains(hit);
                }"""
            )
        )

    def open_first(self) -> None:
        self.move(self.page.locator("[data-queue] .what > a").first)

    def look_further(self, *, back: bool) -> None:
        self.page.mouse.move(300, 500)
        self.page.mouse.wheel(0, -300 if back else 300)
        self.effort.scrolls += 1
        # The wheel moves the page after this: two frames later it has.
        self.page.evaluate(TWO_FRAMES)

    def choose(self, action: str) -> None:
        self.move(self.page.locator(f"label.choice:has([value={action}]) b"))
        expect(self.page.locator(f"[name=action][value={action}]")).to_be_checked()

    def reach(self, field: Locator, *, back: bool = False) -> None:
        if not field.evaluate("node => node === document.activeElement"):
            self.move(field)

    def send(self) -> None:
        self.move(self.page.locator("[data-submit]"))

    def confirm(self) -> None:
        self.move(self.page.get_by_role("button", name="Confirm", exact=True))

    def end_pause(self) -> None:
        self.move(self.page.locator(".pause button"))


@dataclass
class Phone(Mouse):
    """Taps on 390x844; the form is a sheet that the bar below opens."""

    def act(self, place: Locator) -> None:
        """Touch the place, once it can be pressed and stands still, as `tap` waits.

        Playwright's own `tap` would first scroll even what is in sight, for the scroll padding.
        """
        expect(place).to_be_enabled(timeout=PATIENCE_MS)
        middle = place.evaluate(MIDDLE)
        if self.is_in_sight(place):
            self.page.touchscreen.tap(*middle)
        else:
            place.tap()

    def look_further(self, *, back: bool) -> None:
        session = self.page.context.new_cdp_session(self.page)

        def touch(kind: str, *ys: int) -> None:
            points = [{"x": 190, "y": y} for y in ys]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        path = range(620, 300, -40)
        start, *way = reversed(path) if back else path
        touch("touchStart", start)
        for y in way:
            touch("touchMove", y)
        self.page.evaluate(TWO_FRAMES)  # the finger rests: the page does not run on
        touch("touchMove", way[-1])
        touch("touchEnd")
        session.detach()
        self.effort.scrolls += 1

    def choose(self, action: str) -> None:
        # The page notes what was in sight a frame later, and a person is no quicker.
        self.page.evaluate(STANDING)
        stop = self.page.locator("[data-sheet-stop]")
        if action in {"ABORT", "STOP_AGENT"} and stop.is_visible():
            self.move(stop)
            expect(self.page.locator("dialog[data-sheet][open]")).to_be_visible()
        else:
            self.open_sheet()
        if not self.page.locator(f"[name=action][value={action}]").is_checked():
            super().choose(action)

    def open_sheet(self) -> None:
        """Open the form, unless it is in sight; the button first leads to each part that was not yet."""
        opened = self.page.locator("dialog[data-sheet][open], [data-to-decide][data-at-form]")
        for _ in range(MOST_TABS):
            self.page.evaluate(STANDING)  # the bar goes where the form itself comes into sight
            if opened.count():
                return
            before = self.page.evaluate(PLACE)
            self.move(self.page.locator("[data-sheet-decide]:visible, .to-decide a:visible").first)
            self._leaves(before)
            if not self.page.locator("dialog[data-sheet]").count():
                return
        raise AssertionError(f"{MOST_TABS} taps on Decide do not open the form")

    def _leaves(self, place: object) -> None:
        """Wait until the tap has shown: the sheet is open, or the page has been scrolled."""
        wait_until.until(lambda: self.page.evaluate(PLACE) != place, timeout_s=10)

    def end_pause(self) -> None:
        self.open_sheet()
        super().end_pause()


HANDS: Final[dict[str, type[Hand]]] = {"keyboard": Keyboard, "mouse": Mouse, "phone": Phone}

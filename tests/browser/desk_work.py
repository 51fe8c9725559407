"""Works the whole queue with one hand, and compares every decision with what was on the screen before it."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect

from tests.browser import desk_cases, desk_hands
from tests.browser.desk_cases import Case, Desk
from tests.browser.desk_hands import PATIENCE_MS, Effort, Hand, Shown
from tests.browser.test_working_through_the_queue import OLD_PASSWORDS

CHECKED: Final = "CHECK_UNANSWERED"
MOST_REFUSALS: Final = 5
LOW_KEYS = 6
# The most keys, without the letters of the reason, that a class may cost by keyboard.
LIMITS: Final = {
    "LOW, override": LOW_KEYS,
    "LOW of a group, override": LOW_KEYS,
    "LOW, abort": LOW_KEYS,
    "failed repeatedly, resume": LOW_KEYS,
    "in doubt, resume": LOW_KEYS,
    "silence, acknowledge": LOW_KEYS,
    "silence, stop": LOW_KEYS,
}
WORDS: Final = (
    "invoice matches the order {}",
    "delivery {} was confirmed by the store",
    "checked with accounts, note {}",
    "contract {} covers this amount",
    "the supplier's statement {} agrees",
)


@dataclass(frozen=True)
class Taken:
    """One decision that was taken, what was in sight before it, and what it cost."""

    case: Case
    shown: Shown
    effort: Effort
    seconds: float
    refusals: tuple[str, ...]
    asked_password: bool

    def name(self) -> str:
        """The class of the row that it belongs to."""
        if self.asked_password and "password" not in self.case.job.name:
            return f"{self.case.job.name}, password"
        return self.case.job.name


@dataclass
class Run:
    """One queue worked to its end."""

    by: str
    taken: list[Taken] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    # What is no decision: opening the queue, and the card after ten overrides in a row.
    extras: list[tuple[str, Effort, float]] = field(default_factory=list)
    seconds: float = 0.0


def work(browser: Browser, desk: Desk, by: str, cases: Sequence[Case]) -> Run:
    """Sign in, open the queue, and decide these cases one after the other; others are left alone."""
    phone = by == "phone"
    context = browser.new_context(
        viewport={"width": 390, "height": 844} if phone else {"width": 1440, "height": 900},
        has_touch=phone,
        is_mobile=phone,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    desk.console.sign_in(page)
    hand = desk_hands.HANDS[by](page, desk.console.password)
    run = Run(by)
    waiting = {case.escalation_id: case for case in cases}
    idle_s = 0.0
    begun = time.monotonic()
    while waiting:
        if urlsplit(page.url).path == "/" or page.url.split("?")[0].endswith("/escalations/"):
            _open_queue(page, desk, hand, run)
        case = waiting.get(_arrived(page))
        if case is None:
            page.goto(f"{desk.console.url}/escalations/{next(iter(waiting))}/")
            continue
        if "password" in case.job.name:
            stopped = time.monotonic()
            desk.console.command("shell", "-c", OLD_PASSWORDS)
            idle_s += time.monotonic() - stopped
        run.taken.append(_decide(page, hand, case, run, len(run.taken)))
        del waiting[case.escalation_id]
        if case.job.action == "ACKNOWLEDGE":
            desk.talk_again(case.agent_id)
    run.seconds = time.monotonic() - begun - idle_s
    context.close()
    return run


def _open_queue(page: Page, desk: Desk, hand: Hand, run: Run) -> None:
    began = time.monotonic()
    page.goto(f"{desk.console.url}/escalations/")
    expect(page.locator("[data-live-word]")).to_have_text("Live")
    before = page.url
    hand.open_first()
    page.wait_for_url(lambda url: url != before)
    run.extras.append(("open the queue and its first row", hand.taken(), time.monotonic() - began))


def _arrived(page: Page) -> str:
    """The escalation whose page is shown, once its scripts are ready for keys."""
    expect(page.locator("#s1")).to_be_focused(timeout=PATIENCE_MS)
    return str(page.locator("[data-escalation]").get_attribute("data-escalation"))


def _decide(page: Page, hand: Hand, case: Case, run: Run, number: int) -> Taken:
    job = case.job
    stops = job.action in {"ABORT", "STOP_AGENT"}
    if page.locator(".pause").count() and not stops:
        _pause(page, hand, run)
        assert _arrived(page) == case.escalation_id
    began = time.monotonic()
    shown = hand.look()
    refusals: list[str] = []
    reason = WORDS[number % len(WORDS)].format(number)
    if job.name == "LOW, same reason again" and run.reasons:
        reason = run.reasons[-1]
    hand.choose(job.action)
    hand.fill(case, reason)
    while code := hand.submit():
        refusals.append(code)
        assert len(refusals) < MOST_REFUSALS, (case, refusals)
        if code == CHECKED:
            hand.answer_check(f"the amount, against invoice {number}")
            continue
        # The evidence has changed: look at it anew, and choose again.
        shown = hand.look()
        hand.choose(job.action)
    if not stops:
        run.reasons.append(reason)
    asked, hand.asked_password = hand.asked_password, False
    return Taken(case, shown, hand.taken(), time.monotonic() - began, tuple(refusals), asked)


def _pause(page: Page, hand: Hand, run: Run) -> None:
    """The card after ten overrides in a row: read it, and continue."""
    began = time.monotonic()
    with page.expect_navigation():
        hand.end_pause()
    run.extras.append(("card after ten overrides in a row", hand.taken(), time.monotonic() - began))


def check_shown(desk: Desk, *runs: Run) -> None:
    """Assert that every decision was taken on what its page had shown, and that the ledger says so."""
    taken = {one.case.escalation_id: one for run in runs for one in run.taken}
    here = {case.escalation_id for case in desk.cases}
    rows = {row["escalation"]: row for row in desk_cases.read(desk.console, DECISIONS)}
    assert taken.keys() == rows.keys() == here, (taken.keys() ^ rows.keys(), rows.keys() ^ here)
    for escalation_id, one in taken.items():
        row, shown = rows[escalation_id], one.shown
        assert shown.escalation == escalation_id
        assert shown.effect == " ".join(one.case.effect.split()), (shown.effect, one.case.effect)
        assert row["action"] == one.case.job.action
        seen = [shown.revision, shown.hash]
        assert row["stored"] == row["signed"] == row["ledger"] == seen, (row, seen)
        assert row["reading"] is not None, row
        assert row["reading"]["shown_ms"] > 0, row
        assert "visible_s" in row["reading"]["client_reported"], row
        assert "effect" in row["reading"]["client_reported"]["panes"], row
    assert "The ledger is intact" in desk.console.command("verify_ledger")


def check_limits(run: Run) -> None:
    """Assert that no decision by keyboard cost more keys than its class may."""
    over = [
        f"{one.name()}: {one.effort.keys} keys, at most {LIMITS[one.name()]}"
        for one in run.taken
        if one.name() in LIMITS and not one.refusals and one.effort.keys > LIMITS[one.name()]
    ]
    assert not over, "\n".join(over)


@dataclass(frozen=True)
class Line:
    """One line of the table: the medians of a class."""

    name: str
    number: int
    keys: float
    letters: float
    moves: float
    scrolls: float
    seconds: float
    refusals: int


def lines_of(run: Run) -> list[Line]:
    """The medians by class, the classes in the order of JOBS."""
    found: dict[str, list[tuple[Effort, float, int]]] = defaultdict(list)
    for one in run.taken:
        found[one.name()].append((one.effort, one.seconds, len(one.refusals)))
    for name, effort, seconds in run.extras:
        found[f"({name})"].append((effort, seconds, 0))
    order = [job.name for job in desk_cases.JOBS]
    names = sorted(found, key=lambda name: order.index(name) if name in order else len(order))
    return [_line(name, found[name]) for name in names]


def _line(name: str, rows: Iterable[tuple[Effort, float, int]]) -> Line:
    efforts, seconds, refusals = zip(*rows, strict=True)
    return Line(
        name=name,
        number=len(efforts),
        keys=median(effort.keys for effort in efforts),
        letters=median(effort.letters for effort in efforts),
        moves=median(effort.moves for effort in efforts),
        scrolls=median(effort.scrolls for effort in efforts),
        seconds=round(median(seconds), 2),
        refusals=sum(refusals),
    )


def as_dict(run: Run) -> dict[str, Any]:
    """A run as figures for a file."""
    return {
        "by": run.by,
        "decisions": len(run.taken),
        "seconds": round(run.seconds, 1),
        "refusals": sum(len(one.refusals) for one in run.taken),
        "classes": [vars(line) for line in lines_of(run)],
    }


DECISIONS: Final = """
import json
from audit import canonical
from audit.models import LedgerEntry
from escalations.models import Decision
recorded = {}
for entry in LedgerEntry.objects.filter(kind="escalation:decided").order_by("pk"):
    payload = canonical.decode(bytes(entry.payload)) if not isinstance(entry.payload, dict) else entry.payload
    recorded[payload["escalation_id"]] = [payload["revision"], payload["evidence_hash"]]
found = []
for row in Decision.objects.order_by("decided_at"):
    stated = canonical.decode(bytes(row.statement))
    found.append({
        "escalation": str(row.escalation_id),
        "action": row.action,
        "stored": [row.revision, row.evidence_hash],
        "signed": [stated["revision"], stated["evidence_hash"]],
        "ledger": recorded.get(str(row.escalation_id)),
        "reading": stated.get("reading"),
    })
print(json.dumps(found))
"""

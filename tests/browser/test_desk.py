"""The operator's desk in small: every class of work by keyboard and on a phone, within its limit of keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import desk_cases, desk_work
from tests.browser.desk_cases import Desk
from tests.browser.desk_hands import Effort, Shown
from tests.browser.desk_work import LIMITS, Run

COUNT = 8  # LOW, HIGH, password, irreversible, in doubt, failed, silent, abort: one of each by keyboard
BY_TOUCH = (*desk_cases.JOBS[:2], *desk_cases.JOBS[6:8])
# Taps without those that open the queue; the password dialog costs two more. One may be a tap on Decide
# that leads to evidence which was not on the screen yet.
TAPS = {
    "LOW, override": 5,
    "LOW, abort": 3,
    "HIGH, override": 6,
    "silence, acknowledge": 5,
}


@pytest.fixture(scope="module")
def desk(data_folder: Path) -> Iterator[Desk]:
    """A console with one of each class for the keyboard, and four cases for the phone."""
    jobs = [*desk_cases.mix(COUNT), *BY_TOUCH]
    with desk_cases.opened(data_folder, jobs=jobs) as made:
        yield made


def test_every_class_of_work_is_decided_by_keyboard_and_by_touch_on_what_was_shown(
    desk: Desk, browser: Browser
) -> None:
    one_of_each = {case.job.name: case for case in desk.cases}
    by_keyboard = desk_work.work(browser, desk, "keyboard", list(one_of_each.values()))
    desk_work.check_limits(by_keyboard)
    assert {one.name() for one in by_keyboard.taken} == {job.name for job in desk_cases.JOBS[:COUNT]}
    rest = [case for case in desk.cases if case not in one_of_each.values()]
    by_touch = desk_work.work(browser, desk, "phone", rest)
    desk_work.check_shown(desk, by_keyboard, by_touch)
    over = [
        f"{one.name()}: {one.effort.moves} taps"
        for one in by_touch.taken
        if one.effort.moves > TAPS.get(one.name(), 7)
    ]
    assert not over, "\n".join(over)
    assert not [one for run in (by_keyboard, by_touch) for one in run.taken if one.refusals]


def test_the_limits_of_keys_bite() -> None:
    """A LOW decision of one key more than allowed is found."""
    case = desk_cases.Case("id", desk_cases.JOBS[0], "payer", "Pay")
    shown = Shown("id", 1, "hash", "Pay")
    effort = Effort(keys=LIMITS["LOW, override"] + 1, letters=20)
    run = Run("keyboard", taken=[desk_work.Taken(case, shown, effort, 1.0, (), False)])
    with pytest.raises(AssertionError, match="7 keys, at most 6"):
        desk_work.check_limits(run)

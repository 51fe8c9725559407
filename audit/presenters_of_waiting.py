"""How entries are shown about what a person, or a target, carries out while an intent waits."""

from collections.abc import Mapping
from typing import Final

from audit import sentences
from audit.events import Kind
from audit.lanes import Lane, Presenter
from audit.sentences import says

PRESENTERS: Final[Mapping[Kind, Presenter]] = {
    Kind.TASK_OPENED: Presenter(
        "user",
        Lane.EXECUTION,
        "Task opened",
        says("{group} is asked for step {step}, until {deadline_at}."),
    ),
    Kind.TASK_ANSWERED: Presenter(
        "check", Lane.DECISION, "Task answered", says("Attempt {number} was carried out by a person.")
    ),
    Kind.TASK_REFUSED: Presenter(
        "cross", Lane.DECISION, "Answer refused", says("The answer was not taken: {code}.")
    ),
    Kind.TASK_OVERDUE: Presenter(
        "clock", Lane.EXECUTION, "Task overdue", says("Nobody carried out attempt {number} in time.")
    ),
    Kind.CALLBACK_OPENED: Presenter(
        "wait",
        Lane.EXECUTION,
        "Callback opened",
        says("The result of attempt {number} may come later from {target}, until {deadline_at}."),
    ),
    Kind.CALLBACK_AWAITED: Presenter(
        "wait",
        Lane.EXECUTION,
        "Taken on by the target",
        says("Attempt {number} was answered with 202: the result comes later."),
    ),
    Kind.CALLBACK_PROGRESSED: Presenter(
        "wait", Lane.EXECUTION, "Progress reported", sentences.callback_progressed
    ),
    Kind.CALLBACK_REPORTED: Presenter(
        "check", Lane.EXECUTION, "Result reported", sentences.callback_reported
    ),
    Kind.CALLBACK_OVERDUE: Presenter(
        "clock",
        Lane.EXECUTION,
        "Callback overdue",
        says("The result of attempt {number} did not come in time."),
    ),
    Kind.CALLBACK_CLOSED: Presenter(
        "check",
        Lane.EXECUTION,
        "Callback closed",
        says("Attempt {number} ended by itself: no result comes later."),
    ),
}

"""Requests that wait for SQLite's one writer, and are answered in one commit by the thread that writes.

A commit writes every page that a transaction has changed, and waits for the disk. Actions of agents change
mostly the same pages, so several in one commit cost less than one after the other (ADR 0082). Each is judged
and recorded as if it were alone, after those before it, and nobody is answered before the commit.
"""

import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

from django.http.response import HttpResponseBase

from runtime.core import transactions

# Whoever else writes waits for so many at most.
MOST_TOGETHER: Final = 8


@dataclass(frozen=True)
class Asked:
    """A request to be answered: `begin` and `end` are what Django does around it, outside a transaction.

    `answer` may be called a second time, when what it did the first time was undone.
    """

    begin: Callable[[], None]
    answer: Callable[[], HttpResponseBase]
    end: Callable[[HttpResponseBase], None]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    answered: Future[HttpResponseBase] = field(default_factory=Future)

    def run(self) -> None:
        """Answer it alone."""
        try:
            self.context.run(self.begin)
            answer = self.context.run(self.answer)
        except BaseException as error:  # whoever waits for the answer raises it
            self.answered.set_exception(error)
        else:
            self.give(answer)

    def give(self, answer: HttpResponseBase) -> None:
        """Let whoever waits for it have the answer."""
        try:
            self.context.run(self.end, answer)
        except BaseException as error:
            self.answered.set_exception(error)
        else:
            self.answered.set_result(answer)


class SharedCommits:
    """What waits for the thread that writes: one request is answered alone, several together."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        """`threads` has one thread, which may have other work as well."""
        self._threads = threads
        self._waiting: deque[Asked] = deque()

    def submit(self, asked: Asked) -> Future[HttpResponseBase]:
        """Answer it when the thread is free, with those that wait besides."""
        asked.answered.set_running_or_notify_cancel()  # from now on nobody calls it off
        self._waiting.append(asked)
        self._threads.submit(self._answer_waiting)
        return asked.answered

    def _answer_waiting(self) -> None:
        """Answer those that wait; none may be left, where an earlier call has answered them."""
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
        answers = _answers_of(taken) if len(taken) > 1 else None
        if answers is None:
            for each in taken:
                each.run()
        else:
            for each, answer in zip(taken, answers, strict=True):
                each.give(answer)


def _answers_of(taken: Sequence[Asked]) -> list[HttpResponseBase] | None:
    """What one commit answers; None where nothing was done, and each is to be answered alone."""
    try:
        for each in taken:
            each.context.run(each.begin)
        works = [partial(each.context.run, each.answer) for each in taken]
        return transactions.run_together(works, may_stand=_may_stand)
    except BaseException:  # it is met again alone, by the request that raises it
        return None


def _may_stand(answer: HttpResponseBase) -> bool:
    """Whether it says that the server did what was asked, or refused it."""
    return answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR

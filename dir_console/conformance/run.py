"""A conformance run: every item, one after the other, and its result as it is printed, shown and kept."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from audit import chain
from dir_console.conformance import catalogue, frameworks
from dir_console.conformance.items import Answer, Check, Finding, Group, Result
from dir_console.conformance.sample import SIZE, Sample
from runtime.core import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of a run, which was begun `at` and took `seconds`."""

    at: datetime
    seconds: float
    flows: int
    results: Sequence[Result]

    def plain(self) -> dict[str, Any]:
        """The report as JSON: what `manage.py conformance --json` prints, and the page keeps."""
        answers = Counter(result.finding.answer for result in self.results)
        readiness = {
            result.finding.answer for result in self.results if result.check.group is Group.READINESS
        }
        return {
            "at": chain.time_text(self.at),
            "seconds": round(self.seconds, 3),
            "flows": self.flows,
            "database": connection.vendor,
            "answers": {answer.value: answers[answer] for answer in Answer},
            "ready": readiness == {Answer.YES},
            "items": [result.plain() for result in self.results],
            "frameworks": frameworks.plain(),
        }


def run(*, tenant: str, size: int = SIZE) -> Report:
    """Try every item on the newest `size` ended flows. Writes nothing; a check that fails is a no."""
    at, begun = clock.now(), time.monotonic()
    sample = Sample(tenant=tenant, size=size)
    results = [result_of(check, sample) for check in catalogue.CHECKS]
    return Report(at=at, seconds=time.monotonic() - begun, flows=sample.size, results=results)


def result_of(check: Check, sample: Sample) -> Result:
    """Try one item; a check that fails is a no, never an exception."""
    begun = time.monotonic()
    try:
        finding = check.run(sample)
    except Exception as error:
        # Whatever it was that could not be tried has not been shown.
        finding = Finding(
            answer=Answer.NO,
            tried=check.tries,
            seen="The check failed before it came to an answer.",
            why=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
        )
    return Result(check=check, finding=finding, seconds=time.monotonic() - begun)

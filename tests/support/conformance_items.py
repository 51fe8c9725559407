"""One item of a conformance run at a time, without the child process unless a test is about it."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from dir_console.conformance import catalogue, imports, run, trial_run
from dir_console.conformance.imports import Import
from dir_console.conformance.items import Check, Finding
from dir_console.conformance.sample import SIZE, Sample

# What the child answers where everything is as it should be.
TRIAL: dict[str, Any] = {
    "egress": {
        "host": "127.0.0.1",
        "tries": [{"address": "127.0.0.1", "way": "call", "result": "EGRESS_REFUSED", "arrived": 0}],
        "allowed": {"result": "200", "arrived": 1},
        "past": 1,
    },
    "judge": {"is_equal": True, "events": []},
}


def get(check_id: str) -> Check:
    """The item of this id."""
    return next(check for check in catalogue.CHECKS if check.id == check_id)


def ask(check_id: str, *, size: int = SIZE) -> Finding:
    """What a run finds of one item; what it raises is a finding too."""
    return run.result_of(get(check_id), Sample(tenant="default", size=size)).finding


def answer_for_the_child(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let nobody start a process: this is what it would have answered. The source is read once."""
    monkeypatch.setattr(trial_run, "run", lambda **_: {**TRIAL, **changes})
    monkeypatch.setattr(imports, "list_imports", _imports)


@cache
def _imports() -> Sequence[Import]:
    return _READ()


_READ = imports.list_imports

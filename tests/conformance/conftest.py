"""A finished history that each test may damage, and a child process that answers without being started."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from tests.support import conformance_items, finished_history, worlds
from tests.support.finished_history import History

history = worlds.opened(finished_history.opened)


@pytest.fixture
def damaged(history: History, django_db_blocker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    """The history, which is as it was before after the test. No child process is started."""
    conformance_items.answer_for_the_child(monkeypatch)
    with django_db_blocker.unblock(), transaction.atomic():
        yield history
        transaction.set_rollback(True)

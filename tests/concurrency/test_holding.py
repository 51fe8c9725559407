"""A hold that is placed while the same flow is being erased, under real threads: one of both comes first."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.flows.models import Flow
from runtime.maintenance.models import LegalHold
from runtime.maintenance.services import erasure, holds
from tests.support import erased_story, hold_story, racing
from tests.support.erased_story import SUBJECT


@pytest.fixture
def story(real_db: str) -> erased_story.Story:
    return erased_story.told()


def placing(**target: Any) -> Callable[[], Any]:
    asked = {"tenant": "default", "name": "case-1", "reason": "they sue", "actor": "user:1"}
    return partial(racing.patiently, partial(holds.place, **{**asked, **target}))


@pytest.mark.parametrize("on", ["flow", "subject"])
def test_either_the_hold_keeps_the_flow_or_it_was_erased_before(story: erased_story.Story, on: str) -> None:
    target = {"dfid": story.dfid} if on == "flow" else {"subject": SUBJECT}
    erase: Callable[[], Any] = partial(
        racing.patiently,
        partial(erasure.erase, tenant="default", dfids=[story.dfid], reason="asked for", actor="user:1"),
    )
    placed, *answers = racing.all_at_once([placing(**target), *[erase] * 3])
    assert isinstance(placed, LegalHold), placed
    assert all(isinstance(answer, erasure.Erased) for answer in answers), answers
    gone = LedgerEntry.objects.filter(kind="flow:erased").first()
    assert (gone is not None) == (Flow.objects.get().erased_at is not None)
    came = LedgerEntry.objects.get(kind="hold:placed")
    # Rows get their numbers in the order in which both took the lock.
    assert gone is None or gone.pk < came.pk
    assert findings.verify_all().findings == []


def test_a_hold_that_waits_for_an_erasure_is_placed_after_it(
    story: erased_story.Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The erasure has found no hold; before it has emptied anything, somebody begins to place one."""
    began: list[Any] = []
    empty = erasure._erase

    def slowly(*given: Any, **named: Any) -> None:
        began.append(racing.started(placing(dfid=story.dfid)))
        empty(*given, **named)
        assert not LegalHold.objects.exists()

    monkeypatch.setattr(erasure, "_erase", slowly)
    answer = erasure.erase(tenant="default", dfids=[story.dfid], reason="asked for", actor="user:1")
    assert isinstance(answer, erasure.Erased)
    assert isinstance(began[0].result(timeout=racing.TOGETHER_S), LegalHold)
    gone, came = (LedgerEntry.objects.get(kind=kind) for kind in ("flow:erased", "hold:placed"))
    assert gone.pk < came.pk
    assert findings.verify_all().findings == []


def test_two_holds_of_one_name_on_one_flow_are_one(story: erased_story.Story) -> None:
    answers = racing.all_at_once([placing(dfid=story.dfid)] * 4)
    assert sorted(getattr(answer, "code", "placed") for answer in answers) == ["HOLD_EXISTS"] * 3 + ["placed"]
    assert LegalHold.objects.count() == 1
    hold = LegalHold.objects.get()
    release = partial(hold_story.release, hold)
    answers = racing.all_at_once([partial(racing.patiently, release)] * 3)
    assert len([answer for answer in answers if isinstance(answer, LegalHold)]) == 1
    assert LedgerEntry.objects.filter(kind="hold:released").count() == 1
    assert findings.verify_all().findings == []

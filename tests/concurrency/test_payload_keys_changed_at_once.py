"""Two admins change the same payload key at once, beside writers and rounds, under real threads."""

from collections.abc import Callable
from typing import Any

import pytest

from audit import erased_keys
from audit.models import ClassKey, LedgerEntry, Payload
from audit.payload_cipher import State
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.maintenance.services import payload_destruction, payload_rotation, payload_rounds
from tests.support import factories, key_story, racing

TENANT = "default"


def patient(work: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: racing.patiently(work)


def test_of_two_rotations_of_what_was_shown_one_wins_and_writers_lose_nothing(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = key_story.commit(count=20)
    monkeypatch.setattr(payload_rotation, "AT_ONCE", 5)
    shown = ClassKey.objects.get().pk

    def rotated() -> Any:
        return payload_rotation.begin(
            tenant=TENANT, data_class="people", actor="user:1", reason="x", seen=shown, in_rounds=True
        )

    def written() -> list[str]:
        return [racing.patiently(key_story.commit)[0] for _ in range(10)]

    def moved() -> int:
        return sum(racing.patiently(lambda: payload_rounds.move_due(tenant=TENANT)) for _ in range(5))

    answers = racing.all_at_once(
        [patient(rotated), patient(rotated), patient(rotated), written, moved, moved]
    )
    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    winners = [answer for answer in answers[:3] if isinstance(answer, payload_rotation.Rotated)]
    losers = [answer for answer in answers[:3] if isinstance(answer, Problem)]
    assert (len(winners), len(losers)) == (1, 2), answers
    assert all("has rotated the class people since the page was shown" in each.detail for each in losers)
    assert ClassKey.objects.count() == 2
    assert LedgerEntry.objects.filter(kind="payload_key:rotated").count() == 1
    payload_rounds.move_due(tenant=TENANT)
    assert not Payload.objects.exclude(key__retired_at=None).exists()
    written_names = answers[3]
    assert isinstance(written_names, list)
    rows = {row.commitment: row.body for row in Payload.objects.all()}
    assert {rows[name] for name in [*kept, *written_names]} == {key_story.WORDS}
    assert key_story.list_faults() == []


def test_of_two_destructions_of_what_was_shown_one_wins(real_db: str) -> None:
    kept = key_story.commit(count=20)
    key = key_story.retired("people")
    shown = erased_keys.digest_of(kept)

    def destroyed() -> Any:
        return payload_destruction.destroy(
            tenant=TENANT, data_class="people", key_id=key.pk, reason="x", actor="user:1", seen=shown
        )

    answers = racing.all_at_once([patient(destroyed)] * 3)
    winners = [answer for answer in answers if isinstance(answer, payload_destruction.Destroyed)]
    losers = [answer for answer in answers if isinstance(answer, Problem)]
    assert (len(winners), len(losers)) == (1, 2), answers
    assert all("was destroyed already" in each.detail for each in losers)
    assert winners[0].payloads == 20
    assert LedgerEntry.objects.get(kind="payload_key:destroyed").payload["commitments_digest"] == shown
    assert key_story.list_faults() == []


def test_a_destruction_beside_a_round_erases_all_that_was_shown_or_nothing(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = key_story.commit(count=30)
    monkeypatch.setattr(payload_rotation, "AT_ONCE", 3)
    key = key_story.retired("people")
    payload_rounds.start(tenant=TENANT, key_id=key.pk, actor="user:1")
    shown = erased_keys.digest_of(kept)

    def destroyed() -> Any:
        return payload_destruction.destroy(
            tenant=TENANT, data_class="people", key_id=key.pk, reason="x", actor="user:1", seen=shown
        )

    def moved() -> int:
        return payload_rounds.move_due(tenant=TENANT)

    gone, *others = racing.all_at_once([patient(destroyed), patient(moved), patient(moved)])
    assert not [item for item in (gone, *others) if isinstance(item, Exception)], (gone, others)
    opened = {row.open().state for row in Payload.objects.filter(commitment__in=kept)}
    if isinstance(gone, Problem):
        assert "than the page showed" in gone.detail
        assert opened == {State.HELD}
    else:
        assert opened == {State.ERASED}
    assert key_story.list_faults() == []


def test_proposals_and_decisions_beside_a_rotation_are_recorded_whole(real_db: str) -> None:
    desk = factories.desk()
    flows = [desk.open() for _ in range(6)]
    shown = {row.data_class: row.pk for row in ClassKey.objects.filter(retired_at=None)}

    def rotated() -> Any:
        return payload_rotation.begin(
            tenant=TENANT,
            data_class="parameters",
            actor="user:1",
            seen=shown["parameters"],
            in_rounds=True,
        )

    def proposed() -> list[Any]:
        return [racing.patiently(lambda flow=flow: desk.propose(flow)) for flow in flows]  # type: ignore[misc]

    def moved() -> int:
        return sum(racing.patiently(lambda: payload_rounds.move_due(tenant=TENANT)) for _ in range(4))

    answers = racing.all_at_once([patient(rotated), proposed, moved])
    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    payload_rounds.move_due(tenant=TENANT)
    assert {row.open().state for row in Payload.objects.all()} == {State.HELD}
    assert findings.verify_all().findings == []

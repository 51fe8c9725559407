"""Several senders beside writers and a sealer, with real threads and commits: no gap, and in order."""

import pytest
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from runtime.maintenance.services import sealing
from runtime.outward.services import sending
from tests.support import event_receivers, incident_story, racing

WRITERS, SENDERS, ROUNDS = 2, 3, 8


def test_what_many_write_and_many_send_arrives_whole_and_in_order(
    real_db: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_receivers.allow(settings, monkeypatch)
    with event_receivers.hook() as (place, _):

        def work(number: int) -> int:
            sent = 0
            for turn in range(ROUNDS):
                if number < WRITERS:
                    incident_story.refuse(f"agent-{number}", code=f"{turn}")
                else:
                    sealing.seal_now()
                    sent += sending.send_due()
            return sent

        sent = sum(racing.race(WRITERS + SENDERS, work))
        sealing.seal_now()
        event_receivers.make_due()
        sent += sending.send_due()
        events = [event_receivers.read(request) for request in place.target.seen]
    sequence = [event.get_extension("sequence") for event in events]
    # Nobody crashed and no lease ended, so nothing came twice either.
    assert sequence == sorted(set(sequence))
    written = LedgerEntry.objects.filter(kind="request:refused")
    assert {event.get_id() for event in events} == {bytes(entry.hash).hex() for entry in written}
    assert sent == len(events) == WRITERS * ROUNDS

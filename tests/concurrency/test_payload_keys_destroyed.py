"""A key of payloads that is destroyed beside others who move and hold what is under it."""

from typing import Any

from audit.models import LedgerEntry, Payload
from audit.payload_cipher import State
from audit.verification import findings
from runtime.maintenance.models import LegalHold
from runtime.maintenance.services import payload_destruction, payload_rotation
from tests.support import erased_story, hold_story, key_story, racing

TENANT = "default"


def test_a_hold_and_a_destruction_at_once_come_one_after_the_other(real_db: str) -> None:
    story = erased_story.told()
    key = key_story.retired("parameters")

    def destroyed() -> Any:
        return racing.patiently(
            lambda: payload_destruction.destroy(
                tenant=TENANT, data_class="parameters", key_id=key.pk, reason="x", actor="user:1"
            )
        )

    def moved() -> Any:
        return racing.patiently(lambda: payload_rotation.move(tenant=TENANT, classes=["parameters"]))

    def placed() -> Any:
        return racing.patiently(lambda: hold_story.place(story.dfid))

    hold, gone, *others = racing.all_at_once([placed, destroyed, moved, destroyed])
    assert isinstance(hold, LegalHold), hold
    assert not [item for item in (gone, *others) if isinstance(item, Exception)], (gone, others)
    key.refresh_from_db()
    under = Payload.objects.filter(key=key)
    if key.destroyed_at is None:
        assert not under.exclude(erased_at=None).exists()
    else:
        assert {row.open().state for row in under} <= {State.ERASED}
        assert LedgerEntry.objects.filter(kind="payload_key:destroyed").count() == 1
    assert findings.verify_all().findings == []

"""Legal holds as tests place them."""

from typing import Any
from uuid import UUID

from runtime.maintenance.models import LegalHold
from runtime.maintenance.services import holds

NAME = "case-2026-14"
REASON = "The buyer sues."


def place(dfid: UUID | None = None, **changes: Any) -> LegalHold:
    """A live hold on a flow, or on the `subject` that is given."""
    asked: dict[str, Any] = {
        "tenant": "default",
        "name": NAME,
        "dfid": dfid,
        "reason": REASON,
        "actor": "user:1",
    }
    hold = holds.place(**{**asked, **changes})
    assert isinstance(hold, LegalHold), hold
    return hold


def release(hold: LegalHold, **changes: Any) -> LegalHold:
    """It is released."""
    asked: dict[str, Any] = {"tenant": "default", "reason": "They settled.", "actor": "user:2"}
    released = holds.release(hold_id=hold.pk, **{**asked, **changes})
    assert isinstance(released, LegalHold), released
    return released

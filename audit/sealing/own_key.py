"""The key that this process signs with, for as long as its signatures count.

After a rotation the key before stays valid for `keys.OVERLAP`, in which every process is restarted. One that
was not must not go on: whoever verifies the ledger would find what it signs wrong, forever. So whatever is
signed is signed by `signer`, which knows when the key ends and asks the database for it once in
`ASK_AGAIN_S`, long before an end that another process has begun.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from audit import signing
from audit.sealing import keys
from audit.signing import Signer

ASK_AGAIN_S: Final = 600
# No call to a target begins so shortly before the end: its result could not be recorded any more.
LAST_CALL: Final = timedelta(minutes=10)
_cached: dict[tuple[str, str, str], tuple[float, datetime | None]] = {}


class KeyEndedError(Exception):
    """The signing key of this process was replaced, and no longer counts."""

    def __init__(self, key_id: str, until: datetime) -> None:
        super().__init__(
            f"The signing key {key_id} of this server was replaced and ended at {until:%Y-%m-%d %H:%M} UTC. "
            "Restart the server with the DIR_SIGNING_KEY in use."
        )


def signer(*, tenant: str, at: datetime) -> Signer:
    """The signer of this process for something of the moment `at`.

    Raises:
        KeyEndedError: its key has ended by then. Nothing may be signed, so what was to be signed is undone.
    """
    own = signing.signer()
    _require_until(tenant=tenant, at=at)
    return own


def _require_until(*, tenant: str, at: datetime) -> None:
    """Do nothing where the key of this process counts at a moment; KeyEndedError where it has ended."""
    key_id, until = signing.signer().key_id, _ends_at(tenant)
    if until is not None and at >= until:
        raise KeyEndedError(key_id, until)


def require_for_call(*, tenant: str, now: Callable[[], datetime]) -> None:
    """Do nothing where the key of this process counts until the result of a call that begins now is recorded.

    `now` is asked only of a key that has an end: it may cost a question to the database.

    Raises:
        KeyEndedError: it ends before.
    """
    if _ends_at(tenant) is not None:
        _require_until(tenant=tenant, at=now() + LAST_CALL)


def forget() -> None:
    """Ask the database anew: this process has begun a key, or a test has undone one."""
    _cached.clear()


def _ends_at(tenant: str) -> datetime | None:
    """When the key of this process ends; None while no other has replaced it."""
    key_id = signing.signer().key_id
    place = (str(connection.settings_dict["NAME"]), tenant, key_id)
    ask_at, until = _cached.get(place, (0.0, None))
    now = time.monotonic()
    if now < ask_at:
        return until
    found = (key.until for key in keys.known(tenant=tenant) if key.key_id == key_id)
    until = next(found, None)
    _cached[place] = now + ASK_AGAIN_S, until
    return until

"""The keys of classes: which one is in use, and beginning the first."""

import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID, uuid4

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.checks import CheckMessage, Warning
from django.db import connection, transaction

from audit import payload_cipher
from audit.models import ClassKey
from audit.payload_cipher import PayloadKeyError

# A process asks again so often which key is in use: for so long, and for the transaction in hand, it goes on
# with one that another process has retired.
ASK_AGAIN_S: Final = 30


class PayloadClass(StrEnum):
    """What is encrypted with one key.

    PARAMETERS: what agents send (parameters, explanations, triggers, summaries of steps). RECEIPTS: what
    targets answered. PEOPLE: what people write. FINDINGS: what soft guards found.
    """

    PARAMETERS = "parameters"
    RECEIPTS = "receipts"
    PEOPLE = "people"
    FINDINGS = "findings"


@dataclass(frozen=True, slots=True)
class InUse:
    """The key that payloads of a class are encrypted with now."""

    key_id: UUID
    cipher: AESGCM


# By database, tenant and class, with the time (monotonic) until which it is believed.
_cached: dict[tuple[str, str, str], tuple[float, InUse | None]] = {}


def in_use(*, tenant: str, data_class: str, at: datetime) -> InUse | None:
    """The key of a class, which begins with its first payload. Asks the database once in `ASK_AGAIN_S`.

    None on an installation that was never given a key: its payloads are in clear. Inside the caller's
    transaction. Raises PayloadKeyError where this process cannot use the key.
    """
    place = (str(connection.settings_dict["NAME"]), tenant, data_class)
    until, held = _cached.get(place, (0.0, None))
    if time.monotonic() < until:
        return held
    rows = ClassKey.objects.filter(tenant=tenant, data_class=data_class, retired_at=None)
    row = rows.first()
    # A process that lost its key must not go on in clear.
    in_clear = not settings.DIR_PAYLOAD_KEY and row is None and not ClassKey.objects.exists()
    if row is None and not in_clear:
        ClassKey.objects.bulk_create(
            [new(tenant=tenant, data_class=data_class, at=at)], ignore_conflicts=True
        )
        row = rows.get()
    found = None if row is None else usable(row)
    # Only then: the row may be of this transaction, and be taken back with it.
    until = time.monotonic() + ASK_AGAIN_S
    transaction.on_commit(lambda: _cached.__setitem__(place, (until, found)))
    return found


def forget(*, tenant: str, data_class: str) -> None:
    """Ask for the key of a class anew: this process has begun another one."""
    _cached.pop((str(connection.settings_dict["NAME"]), tenant, data_class), None)


def check_given(**_: Any) -> list[CheckMessage]:
    """A warning where payloads are stored in clear, since the installation was given no key."""
    if settings.DIR_PAYLOAD_KEY:
        return []
    return [
        Warning(
            "DIR_PAYLOAD_KEY is not set: payloads are stored in clear.",
            hint="Set it to the base64 form of 32 random bytes, the same for all processes, and keep a copy.",
            id="audit.W001",
        )
    ]


def new(*, tenant: str, data_class: str, at: datetime) -> ClassKey:
    """A fresh key, wrapped and not saved. Raises PayloadKeyError without the key of the installation."""
    held = payload_cipher.master()
    if held is None:
        raise PayloadKeyError("DIR_PAYLOAD_KEY holds no key, so no payload can be written")
    key_id = uuid4()
    secret = secrets.token_bytes(payload_cipher.KEY_BYTES)
    return ClassKey(
        key_id=key_id,
        tenant=tenant,
        data_class=data_class,
        master_id=held.master_id,
        wrapped=payload_cipher.wrap(held, secret, tenant=tenant, data_class=data_class, key_id=key_id),
        created_at=at,
    )


def usable(row: ClassKey) -> InUse:
    """What a stored key encrypts with. Raises PayloadKeyError where this process cannot use it."""
    try:
        cipher = payload_cipher.unwrap(row)
    except InvalidTag:
        raise PayloadKeyError(f"the key {row.key_id} of the class {row.data_class} was changed") from None
    if cipher is None:
        raise PayloadKeyError(
            f"DIR_PAYLOAD_KEY is not the key that payloads of the class {row.data_class} are encrypted "
            "with: restore it"
        )
    return InUse(row.key_id, cipher)

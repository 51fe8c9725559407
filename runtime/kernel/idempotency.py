"""The key that makes a repeated call one effect at the target."""

from enum import StrEnum
from uuid import UUID

from audit import canonical


class Direction(StrEnum):
    """Forward does the step; a compensation undoes it and has a key of its own."""

    FORWARD = "FORWARD"
    COMPENSATE = "COMPENSATE"


def target_key(
    *,
    tenant: str,
    dfid: UUID | str,
    intent_id: UUID | str,
    step: str,
    direction: Direction = Direction.FORWARD,
) -> str:
    """64 lower-case hexadecimal digits, the same for every attempt of a step and for no other call.

    A MODIFY is a new intent, hence a new key. Hashed as canonical JSON: joined text could be split two ways.
    """
    parts = [tenant, str(dfid), str(intent_id), step, direction.value]
    return canonical.digest(canonical.encode(parts))

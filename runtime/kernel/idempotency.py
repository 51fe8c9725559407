"""The key that makes a repeated call one effect at the target."""

from uuid import UUID

from audit import canonical
from runtime.contracts.states import Direction


def target_key(
    *,
    tenant: str,
    dfid: UUID | str,
    intent_id: UUID | str,
    step: str,
    direction: Direction = Direction.FORWARD,
) -> str:
    """64 lower-case hexadecimal digits, the same for every attempt of a step and for no other call.

    A compensation has a key of its own.
    A MODIFY is a new intent, hence a new key. Hashed as canonical JSON: joined text could be split two ways.
    """
    parts = [tenant, str(dfid), str(intent_id), step, direction.value]
    return canonical.digest(canonical.encode(parts))

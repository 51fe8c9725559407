"""New identifiers: UUIDv7, so that rows sort by the time they were made."""

import secrets
import time
import uuid

from runtime.kernel import ids


def new_id() -> uuid.UUID:
    """A new UUIDv7 from the process clock and the system's randomness."""
    return ids.uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(10))

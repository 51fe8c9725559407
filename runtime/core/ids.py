"""New identifiers: UUIDv7 (RFC 9562, section 5.7), so that rows sort by the time they were made."""

import secrets
import time
import uuid
from datetime import datetime

RANDOM_BYTES = 10
# Without I, L, O and U.
_BASE_32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id() -> uuid.UUID:
    """A new UUIDv7 from the process clock and the system's randomness."""
    return uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(RANDOM_BYTES))


def uuid7(now_ms: int, random_bytes: bytes) -> uuid.UUID:
    """A UUIDv7 of the Unix time `now_ms` (milliseconds) and ten random bytes."""
    if len(random_bytes) != RANDOM_BYTES:
        raise ValueError("a UUIDv7 takes ten random bytes")
    noise = int.from_bytes(random_bytes)
    value = (now_ms & (2**48 - 1)) << 80
    value |= 0x7 << 76
    value |= ((noise >> 62) & 0xFFF) << 64
    value |= 0b10 << 62
    value |= noise & (2**62 - 1)
    return uuid.UUID(int=value)


def new_ulid() -> str:
    """A new ULID: 26 characters of Crockford's base 32 that sort by the millisecond, then at random."""
    value = ((time.time_ns() // 1_000_000) << 80) | int.from_bytes(secrets.token_bytes(RANDOM_BYTES))
    return "".join(_BASE_32[(value >> shift) & 31] for shift in range(125, -1, -5))


def first_id_of(at: datetime) -> uuid.UUID:
    """Less than every UUIDv7 that is made at this time or later, and greater than all made before."""
    return uuid.UUID(int=max(0, int(at.timestamp() * 1000)) << 80)

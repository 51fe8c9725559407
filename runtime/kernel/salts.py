"""Salts that make the digest of a body a commitment: without the salt, a guess of the words confirms nothing.

A salt is a member of the body that is hashed, so it is erased with the words. What is worked out from a
salted proposal has a salt of its own, derived from it: one body tells nothing of the salts of others.
"""

import re
from collections.abc import Mapping
from typing import Final

from audit import canonical

# 128 bits, as hexadecimal digits.
DIGITS: Final = 32
_SALT: Final = re.compile(r"[0-9a-f]{32}")


def derive(salt: str | None, *, of: str) -> str | None:
    """The salt of the body named `of`, from that of its proposal; None for an older one without."""
    return None if salt is None else canonical.digest(canonical.encode([of, salt]))[:DIGITS]


def find(body: bytes) -> str | None:
    """The salt in stored bytes, or the nonce of a statement; what a gate judged has that of its proposal."""
    try:
        known = canonical.decode(body)
    except ValueError:
        return None
    if not isinstance(known, Mapping):
        return None
    asked = known.get("proposal")
    places = (
        known.get("salt"),
        known.get("nonce"),
        asked.get("salt") if isinstance(asked, Mapping) else None,
    )
    return next((value for value in places if isinstance(value, str) and _SALT.fullmatch(value)), None)

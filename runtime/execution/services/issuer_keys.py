"""Where the public keys of issuers of tokens come from. It blocks for up to three seconds."""

from runtime.execution.adapters import key_sets


def fetch(place: str) -> bytes | str:
    """The key set (RFC 7517) at a URL or in a file; else in a few words why there is none."""
    return key_sets.read(place) if place.startswith("/") else key_sets.fetch(place)

"""The place that a target names with `Location`, where it is asked for the result of a call."""

from collections.abc import Sequence
from urllib.parse import urljoin, urlsplit

MAX_CHARS = 2000


def location_of(headers: Sequence[tuple[str, str]], *, base_url: str, path: str) -> str | None:
    """Path and query of the one `Location` of an answer to `path`; None where it is no place of the target.

    A target is asked where it lives, and nowhere else: an address of another host, port or scheme would let
    it send the console, with its signature, to others.
    """
    named = [value for name, value in headers if name.lower() == "location"]
    if len(named) != 1:
        return None
    try:
        base = urlsplit(base_url)
        found = urlsplit(urljoin(base_url.rstrip("/") + path, named[0].strip()))
        is_elsewhere = (found.scheme, found.netloc) != (base.scheme, base.netloc)
    except ValueError:
        return None
    place = (found.path or "/") + (f"?{found.query}" if found.query else "")
    is_odd = len(place) > MAX_CHARS or not place.isascii() or not place.isprintable()
    return None if is_elsewhere or is_odd else place


def origin_of(base_url: str) -> str:
    """Scheme, host and port of a target's address."""
    base = urlsplit(base_url)
    return f"{base.scheme}://{base.netloc}"

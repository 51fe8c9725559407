"""Canonical JSON (RFC 8785): one byte form per value, stored and hashed as it is.

Plain values take a fast road through orjson; what orjson may write differently (floats that are integral,
very large or very small, keys outside ASCII) takes rfc8785. Both roads give the same bytes.
"""

import hashlib
import json
import math
import re
from typing import Any, Final

import orjson
import rfc8785

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 128  # orjson stops at 254 and Python's stack somewhat later; one bound for both roads

_FAST_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
_TEXT: Final = frozenset[type]({str})
_ALWAYS_PLAIN: Final = frozenset[type]({str, bool, type(None)})
_LEAST_PLAIN, _MOST_PLAIN = 1e-4, 1e15
# Where an integer can begin that is longer than the safe ones; digits of a hash stand after something else.
_LONG_INTEGER = re.compile(rb"[-:,\[\s]\d{16}")
_SIXTEEN = b"0" * 16
_DIGITS_AS_ZEROS = bytes.maketrans(b"0123456789", b"0" * 10)


class CanonicalError(ValueError):
    """The value has no canonical form: NaN, an integer past 2^53-1, a lone surrogate, a foreign type."""


def encode(value: Any) -> bytes:
    """The RFC 8785 bytes of `value` (None, bool, int, float, str, list, tuple, dict with str keys).

    Raises CanonicalError for NaN, Infinity, integers outside +-(2^53-1), lone surrogates, other types
    and nesting deeper than MAX_DEPTH.
    """
    try:
        if _is_plain(value, MAX_DEPTH):
            return orjson.dumps(value, option=_FAST_OPTIONS)
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, TypeError, UnicodeEncodeError) as error:
        raise CanonicalError(str(error)) from error


def decode(encoded: bytes) -> Any:
    """The value of JSON bytes, such that `encode(decode(b)) == b` for each b that encode made.

    Raises CanonicalError for bytes that are not JSON.
    """
    try:
        if _has_long_integer(encoded):
            return json.loads(encoded.decode(), parse_int=_read_integer, parse_constant=_refuse_constant)
        return orjson.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise CanonicalError("not JSON") from error


def _has_long_integer(encoded: bytes) -> bool:
    # Most bytes have no so many digits in a row, which is found without looking at each place.
    if _SIXTEEN not in encoded.translate(_DIGITS_AS_ZEROS):
        return False
    return _LONG_INTEGER.search(b":" + encoded) is not None


def copied(value: Any) -> Any:
    """A copy that shares nothing with `value`, and has the same bytes; raises CanonicalError as `encode`."""
    return decode(encode(value))


def digest(encoded: bytes) -> str:
    """SHA-256 of the bytes as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(encoded).hexdigest()


def normalise(value: Any) -> Any:
    """The same value with each integral float inside +-(2^53-1) as an int: 100.0 -> 100, -0.0 -> 0."""
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) <= MAX_SAFE_INTEGER else value
    if isinstance(value, dict):
        return {key: normalise(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [normalise(member) for member in value]
    return value


def _is_plain(value: Any, depth: int) -> bool:
    """Whether orjson writes `value` as RFC 8785 would. Exact types only: a subclass takes the slow road."""
    kind = type(value)
    if kind in _ALWAYS_PLAIN:
        return True
    if kind is int:
        return bool(-MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER)
    if depth == 0:
        raise CanonicalError(f"nested deeper than {MAX_DEPTH}")
    if kind is float:
        if not math.isfinite(value):
            raise CanonicalError("NaN and Infinity have no JSON form")
        # Both write the shortest digits that give it back, and within these bounds without an exponent.
        return _LEAST_PLAIN <= abs(value) <= _MOST_PLAIN and not value.is_integer()
    if kind is dict:
        # UTF-16 order (RFC 8785) and UTF-8 order (orjson) part beyond the BMP; ASCII is the cheap test.
        plain, members = _TEXT.issuperset(map(type, value)) and "".join(value).isascii(), value.values()
    elif kind is list or kind is tuple:
        plain, members = True, value
    else:
        return False
    for member in members:
        # Every member is visited even after a No: the depth bound must hold on the slow road too.
        kind = type(member)
        if kind in _ALWAYS_PLAIN:
            continue
        if kind is int:  # as above, without a call for each
            plain = plain and -MAX_SAFE_INTEGER <= member <= MAX_SAFE_INTEGER
        elif not _is_plain(member, depth - 1):
            plain = False
    return plain


def _read_integer(digits: str) -> int | float:
    # RFC 8785 writes 2^60 held in a float as plain digits: read it back as the float that it was.
    number = float(digits)
    return int(digits) if abs(number) <= MAX_SAFE_INTEGER else number


def _refuse_constant(name: str) -> float:
    raise CanonicalError(f"{name} is not JSON")

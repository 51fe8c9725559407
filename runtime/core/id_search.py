"""Search of rows by a part of their id, as lists show its end: UUIDv7 primary keys alone."""

from typing import TypeVar
from uuid import UUID

from django.db import models
from django.db.models import CharField, Q, QuerySet, Value
from django.db.models.functions import Cast, Replace

Row = TypeVar("Row", bound=models.Model)
DIGITS = 32
# An index answers for the beginning of an id alone. Any other part is looked for in so many of the newest
# rows, and from so many digits on.
NEWEST = 20_000
LEAST_INSIDE = 4
MOST_INSIDE = 200


def digits_of(text: str) -> str:
    """The digits of a part of an id, also as a page shows it (`…ee72-b873`); empty for anything else."""
    digits = text.strip().lstrip("…").replace("-", "").lower()
    is_part = len(digits) <= DIGITS and all(char in "0123456789abcdef" for char in digits)
    return digits if is_part else ""


def having(rows: QuerySet[Row], text: str) -> Q:
    """The rows whose id begins with `text`, and the newest that have it at any place; for no id, no row."""
    digits = digits_of(text)
    if not digits:
        return Q(pk__in=())
    if len(digits) == DIGITS:
        return Q(pk=UUID(digits))
    low, high = UUID(digits.ljust(DIGITS, "0")), UUID(digits.ljust(DIGITS, "f"))
    begins = Q(pk__gte=low, pk__lte=high)
    if len(digits) < LEAST_INSIDE:
        return begins
    newest = rows.order_by("-pk")
    oldest = list(newest.values_list("pk", flat=True)[NEWEST - 1 : NEWEST])
    searched = newest.filter(pk__gte=oldest[0]) if oldest else newest
    # PostgreSQL writes an id with hyphens, SQLite stores it without.
    written = Replace(Cast("pk", CharField()), Value("-"), Value(""))
    found = searched.annotate(id_digits=written).filter(id_digits__contains=digits)
    return begins | Q(pk__in=list(found.values_list("pk", flat=True)[:MOST_INSIDE]))

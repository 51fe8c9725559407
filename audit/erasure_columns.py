"""Where words of a flow are stored: one table of rows and columns, to which each app adds its own.

An erasure empties exactly these cells, and the checks of the ledger let exactly these be empty after one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.utils.module_loading import import_string

SETTING: Final = "DIR_ERASURE_COLUMNS"


@dataclass(frozen=True, slots=True, kw_only=True)
class WordColumns:
    """The columns of one table that hold words of a flow.

    `model` is its label, `flow` the lookup from a row to its flow. `columns` says by column what it holds and
    `left` what is left of it, if that is not an empty value.
    """

    model: str
    flow: str
    columns: Mapping[str, str]
    left: Mapping[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """The table, as findings and mismatches name it."""
        return self.model.partition(".")[2].lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherColumns:
    """Columns of one table that no erasure of a flow touches, each with the reason.

    `columns` maps a column to why it holds no words of a flow, or how else its words go.
    """

    model: str
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTable:
    """What one app says of its tables."""

    words: Sequence[WordColumns] = ()
    others: Sequence[OtherColumns] = ()


@cache
def all_tables() -> tuple[ColumnTable, ...]:
    """What each app of `settings.DIR_ERASURE_COLUMNS` says."""
    return tuple(import_string(path) for path in getattr(settings, SETTING, ()))


def list_words() -> Iterator[WordColumns]:
    """Every table with words of flows, in the order in which they are emptied."""
    for table in all_tables():
        yield from table.words


def list_others() -> Iterator[OtherColumns]:
    """Every table with columns that stay."""
    for table in all_tables():
        yield from table.others


@cache
def names() -> frozenset[str]:
    """`table.column` of every column that an erasure empties."""
    return frozenset(f"{words.table}.{column}" for words in list_words() for column in words.columns)

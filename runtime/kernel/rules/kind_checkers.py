"""What is made of a kind once and kept, first of all what checks values against its schemas."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel import schemas

Found = TypeVar("Found")


class _Same:
    """A kind as the object that it is: the active kinds are read once and kept."""

    __slots__ = ("kind",)

    def __init__(self, kind: KindDocument) -> None:
        self.kind = kind

    def __hash__(self) -> int:
        return id(self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.kind is self.kind


def once_per_kind(work: Callable[[KindDocument], Found]) -> Callable[[KindDocument], Found]:
    """Keep what `work` finds in a kind: by the object, or else by the bytes of the kind."""

    @lru_cache(maxsize=1024)
    def of_body(body: bytes) -> Found:
        return work(KindDocument.from_bytes(body))

    @lru_cache(maxsize=256)
    def of_object(same: _Same) -> Found:
        return of_body(same.kind.to_bytes())

    @wraps(work)
    def of_kind(kind: KindDocument) -> Found:
        return of_object(_Same(kind))

    return of_kind


@once_per_kind
def of_params(kind: KindDocument) -> schemas.Checker:
    """What checks parameters against the schema of a kind.

    Raises:
        ValueError: when the schema is not usable.
    """
    return schemas.checker(kind.params_schema)


@once_per_kind
def of_constraints(kind: KindDocument) -> schemas.Checker:
    """What checks the bounds that an agent sets itself; raises ValueError as `of_params`."""
    return schemas.checker(kind.constraints_schema)

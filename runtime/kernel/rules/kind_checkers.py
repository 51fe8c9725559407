"""What is made of a kind once and kept, first of all what checks values against its schemas."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel import schemas

Found = TypeVar("Found")


def once_per_kind(work: Callable[[KindDocument], Found]) -> Callable[[KindDocument], Found]:
    """Keep what `work` finds in a kind by its bytes, which an active kind remembers."""

    @lru_cache(maxsize=1024)
    def of_body(body: bytes) -> Found:
        return work(KindDocument.from_bytes(body))

    @wraps(work)
    def of_kind(kind: KindDocument) -> Found:
        return of_body(kind.to_bytes())

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

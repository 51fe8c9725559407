"""Versions of facts whose time was over: their rows are deleted, their entries stay."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

from audit.events.base import Event, Kind, Text


class PrunedFact(BaseModel):
    """The versions of one fact that were deleted: all from `first` to `through`, both included."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    path: Text
    first: Annotated[int, Field(ge=1)]
    through: Annotated[int, Field(ge=1)]


class FactsPruned(Event):
    """`selector` and `days` are the class of facts by which they went, as DIR_FACT_RETENTION had it."""

    kind = Kind.FACTS_PRUNED
    selector: Text
    days: Annotated[int, Field(ge=1)]
    pruned: Annotated[tuple[PrunedFact, ...], Strict(False)]

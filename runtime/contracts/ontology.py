"""The ontology: which facts there are, what their values look like, and who may write them.

An ontology is immutable under its `schema_version`. Fields are only ever appended, always with a default.
"""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from audit import actors
from runtime.contracts.document import Contract, is_empty, is_none
from runtime.contracts.kind_types import JsonSchema, SemVer

MAX_TYPES = 500
MAX_TAGS = 20
# An exact path, or all paths that begin so: `account.*`, `account.EU-*`.
_PATH = r"^[a-z0-9_]+\.([A-Za-z0-9_\-:]+|[A-Za-z0-9_\-:]*\*)$"
TAG = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$"
Tag = Annotated[str, StringConstraints(pattern=TAG)]


class FactType(Contract):
    """What is declared of the facts at a path, or at all paths that begin as `path` does before its `*`.

    `source` is who may write them: the name of a feed, or a writer such as `feed:prices`; without one any
    feed whose key covers them. Older than `max_age_s` such a fact is no evidence, where a policy kind that
    requires it says nothing of its age.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    path: Annotated[str, StringConstraints(pattern=_PATH, max_length=200)]
    value_schema: JsonSchema | None = Field(default=None, validation_alias="schema", exclude_if=is_none)
    unit: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = Field(
        default=None, exclude_if=is_none
    )
    tags: Annotated[tuple[Tag, ...], Field(max_length=MAX_TAGS)] = Field(default=(), exclude_if=is_empty)
    source: Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=160)] | None = Field(
        default=None, exclude_if=is_none
    )
    max_age_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(default=None, exclude_if=is_none)

    @property
    def prefix(self) -> str | None:
        """The beginning of the paths that are meant; None for an exact path."""
        return self.path[:-1] if self.path.endswith("*") else None

    @property
    def writer(self) -> str | None:
        """The writer that is meant by `source`: a name alone is that of a feed."""
        if self.source is None:
            return None
        return self.source if ":" in self.source else actors.feed(self.source)


class OntologyDocument(Contract):
    """One version of the ontology."""

    schema_version: SemVer
    facts: Annotated[tuple[FactType, ...], Field(min_length=1, max_length=MAX_TYPES)]

    @model_validator(mode="after")
    def _declares_each_once(self) -> Self:
        paths = [declared.path for declared in self.facts]
        if len(set(paths)) != len(paths):
            raise ValueError("a path is declared once")
        return self

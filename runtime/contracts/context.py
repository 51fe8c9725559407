"""The frozen working context (DIR paper, 8): what an agent was shown, as it is stored and hashed."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from runtime.contracts.document import is_none


class SeenFact(BaseModel):
    """One fact as it stood: path of two segments, version and value."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    path: str
    version: int
    value: JsonValue


class SchemaRef(BaseModel):
    """A policy kind that may be proposed, and the digest of the version in force."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    kind: str
    version: str
    digest: str
    schema_url: str


class ContextBudget(BaseModel):
    """What the agent has left in this flow."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    attempts_left: int
    escalation_tokens: int


class Remembered(BaseModel):
    """A remembered value with where it comes from: a claim of its writer, not a fact."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    scope: str
    key: str
    version: int
    value: JsonValue
    source: str
    writer: str
    written_at: str
    expires_at: str | None


class ArtifactRef(BaseModel):
    """A reference to content that is kept elsewhere, by its SHA-256."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    digest: str
    media_type: str
    size_bytes: int
    location: str
    title: str


class Trimmed(BaseModel):
    """How many items of a layer the token budget left out."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    layer: str
    left_out: int


class WorkingContext(BaseModel):
    """The four layers: session (`recent_history`), state (`facts`), memory and artifacts.

    `facts` is nested by namespace and name; `versions` has the version of each by its dotted path.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    facts: dict[str, dict[str, JsonValue]]
    versions: dict[str, int]
    recent_history: tuple[dict[str, JsonValue], ...]
    mission: str
    memory: tuple[Remembered, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    schemas: tuple[SchemaRef, ...]
    budget: ContextBudget
    trimmed: tuple[Trimmed, ...] = ()
    salt: str | None = Field(default=None, exclude_if=is_none)

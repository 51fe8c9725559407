"""The frozen working context (DIR paper, 8): what an agent was shown, as it is stored and hashed."""

from pydantic import BaseModel, ConfigDict, JsonValue


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


class WorkingContext(BaseModel):
    """The four layers: session (`recent_history`), state (`facts`), memory and artifacts.

    `facts` is nested by namespace and name; `versions` has the version of each by its dotted path. Memory
    and artifacts have no store yet, so they are empty.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    facts: dict[str, dict[str, JsonValue]]
    versions: dict[str, int]
    recent_history: tuple[dict[str, JsonValue], ...]
    mission: str
    memory: tuple[JsonValue, ...] = ()
    artifacts: tuple[JsonValue, ...] = ()
    schemas: tuple[SchemaRef, ...]
    budget: ContextBudget

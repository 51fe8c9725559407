"""Bodies of the calls of the state manager: facts, versions of the world, the ontology."""

import re
from typing import Final

from pydantic import BaseModel, Field, JsonValue

from runtime.contracts.api_schemas import At, Body

# The number of a version of the world, or the id (ULID) of the write that made it.
WORLD_VERSION: Final = r"^([0-9]{1,15}|[0-7][0-9A-HJKMNP-TV-Z]{25})$"
_WORLD_VERSION: Final = re.compile(WORLD_VERSION, re.ASCII)


def names_world_version(text: str) -> bool:
    """Whether a text is written like one; there need not be such a version."""
    return _WORLD_VERSION.fullmatch(text) is not None


class FactRequest(Body):
    """A new value of a fact: any JSON value."""

    value: JsonValue


class FactVersion(Body):
    """A version of a fact that was just written. `etag` is the header's value, quotes included."""

    path: str
    version: int
    etag: str


class FactWritten(FactVersion):
    """A version of a fact that was just written, by which write.

    `world_version_id` is the version of the world that the write made; null: it is not numbered yet.
    """

    write_id: str
    world_version_id: int | None


class FactPatch(Body):
    """A JSON Merge Patch (RFC 7396) of a fact as `FactRequest` has it: `value` is merged into the value."""

    value: JsonValue


class FactView(FactVersion):
    """One version of a fact, with its value."""

    value: JsonValue


class WorldView(Body):
    """The facts that the caller may read, by path, as they were at one version of the world.

    `next` is the path to send as `after` for the rest; null where this is all of it.
    """

    world_version_id: int
    facts: dict[str, JsonValue]
    next: str | None


class WorldVersionView(Body):
    """One write and the version of the world that it made.

    `writer_id` and `discipline` are null where it wrote nothing that the caller may read; `facts` are the
    versions of those facts, at most 100. `discipline` is IEE where an execution wrote, else IAE.
    """

    version_id: int
    parent_version_id: int | None
    write_id: str
    writer_id: str | None
    discipline: str | None
    toolchain: dict[str, str]
    at: At
    facts: dict[str, int]


class FactTypeView(BaseModel):
    """What is declared of facts: `path` is exact, or a beginning with `*`; `source` is who may write them."""

    path: str
    value_schema: dict[str, JsonValue] | None = Field(serialization_alias="schema")
    unit: str | None
    tags: tuple[str, ...]
    source: str | None
    max_age_s: int | None


class OntologyView(BaseModel):
    """One version of the ontology, as far as it is about facts that the caller may read."""

    schema_version: str
    state: str
    digest: str
    facts: tuple[FactTypeView, ...]


class WorldVersions(Body):
    """Versions of the world in order. `next` is the number to send as `from` for the rest, or null."""

    versions: tuple[WorldVersionView, ...]
    next: int | None


class StateChangedView(Body):
    """A version of the world that changed facts which the caller may read; `facts` has their new versions."""

    event_type: str
    world_version_id: int
    write_id: str
    writer_id: str
    at: At
    facts: dict[str, int]


class StateChanges(Body):
    """Changes in order. `next` is the version to send as `after`.

    With `resync` the caller is too far behind, and `events` is empty: read the world at version `next`, and
    go on from there.
    """

    events: tuple[StateChangedView, ...]
    next: int
    resync: bool


class AttemptView(Body):
    """One call to a target; `finished_at` is null while it is under way."""

    number: int
    step: str
    direction: str
    purpose: str
    state: str
    error_category: str | None
    status_code: int | None
    started_at: At
    finished_at: At | None


class ExecutionView(Body):
    """The life of an intent: `step` of `steps` is next, or was last; `status` is null without an outcome.

    `task_id` is the DFID of its flow. Where receipts wrote facts, `world_version_id_before` is the version of
    the world before the first such write, and `world_version_id_after` the one that the last made; both are
    null while it is not numbered. Else both are the last version when the outcome was recorded.
    """

    execution_id: str
    task_id: str
    proposal_id: str
    action_name: str
    state: str
    step: int
    steps: int
    direction: str
    created_at: At
    valid_until: At
    finished_at: At | None
    attempts: tuple[AttemptView, ...]
    status: str | None
    recorded_at: At | None
    world_version_id_before: int | None
    world_version_id_after: int | None


class DecisionContextView(Body):
    """The inputs that a decision was made from, as they are stored.

    `decided_by` is `gate`, whose decision has the id of its proposal, or `recommender`. To an auditor `input`
    and `rules` are whole: SHA-256 of their canonical JSON (RFC 8785) is `input_digest` and
    `policy_bundle_hash`. To its agent `rules` is null, and `left_out` points to the members of `input` that
    hold less than was stored.
    """

    decision_id: str
    task_id: str
    agent_id: str
    decided_by: str
    action_name: str | None
    decision: str
    decided_at: At
    world_version_id: int | None
    digests: dict[str, str]
    input: dict[str, JsonValue]
    rules: dict[str, JsonValue] | None
    left_out: tuple[str, ...]


class RetentionClassView(Body):
    """What is kept for how many days, and what says so.

    `name` is a path, a namespace or `*` of facts; a policy kind, or `*` for flows without a proposal.
    """

    name: str
    days: int
    set_by: str


class RetentionView(Body):
    """The classes of one entity; what none names is kept permanently."""

    entity: str
    classes: tuple[RetentionClassView, ...]

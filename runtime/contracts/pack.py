"""A pack: the file that brings kinds, agents, targets and a first world state."""

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from runtime.contracts import states
from runtime.contracts.guard import Guard
from runtime.contracts.manifest import AgentId, Manifest
from runtime.contracts.policy_kind import (
    Contract,
    PolicyKind,
    Segment,
    SemVer,
    Slug,
    TargetName,
    Title,
    Words,
    is_empty,
)


class Resource(Contract):
    """Something that can run out; `capacity` is an integer in `unit`."""

    name: Words
    capacity: Annotated[int, Field(ge=0, le=2**53 - 1)]
    unit: Words


class Target(Contract):
    """A deployment setting: where steps go and which environment variable holds the signing secret.

    It is not part of any kind's hash. Without `secret_env` the calls are unsigned.
    """

    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$", max_length=500)]
    secret_env: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")] | None = None


class PackAgent(Contract):
    """An agent to register, with its manifest."""

    agent_id: AgentId
    role: states.AgentRole
    owner: Title
    mission: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    manifest: Manifest


class Pack(Contract):
    """A whole pack file."""

    pack: Slug
    version: SemVer
    description: Annotated[str, StringConstraints(max_length=2000)] | None = None
    resources: tuple[Resource, ...] = ()
    facts: dict[Segment, dict[Segment, JsonValue]] = Field(default_factory=dict)
    policy_kinds: tuple[PolicyKind, ...] = ()
    targets: dict[TargetName, Target] = Field(default_factory=dict)
    agents: tuple[PackAgent, ...] = ()
    guards: tuple[Guard, ...] = Field(default=(), exclude_if=is_empty)

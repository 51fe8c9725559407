"""A pack: the file that brings kinds, agents, targets and a first world state."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, model_validator

from runtime.contracts import states
from runtime.contracts.document import Contract, Words, is_empty, is_none
from runtime.contracts.guard import GuardDocument
from runtime.contracts.kind_types import Segment, SemVer, Slug, TargetName, Title
from runtime.contracts.manifest import AgentId, ManifestDocument
from runtime.contracts.ontology import OntologyDocument
from runtime.contracts.policy_kind import Invariant, KindDocument
from runtime.contracts.ruleset import RulesetDocument
from runtime.contracts.workflow import WorkflowDocument

# A 2xx or 3xx says that something was done, and nobody refuses by a 1xx.
RefusingStatus = Annotated[int, Field(ge=400, le=599)]


def _ordered(statuses: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(statuses)))


class PackResource(Contract):
    """Something that can run out; `capacity` is an integer in `unit`."""

    name: Words
    capacity: Annotated[int, Field(ge=0, le=2**53 - 1)]
    unit: Words


class TargetProtocol(StrEnum):
    """How a target is spoken to: by the requests of steps, or as an MCP server over Streamable HTTP."""

    HTTP = "http"
    MCP = "mcp"


class PackTarget(Contract):
    """A deployment setting: where steps go and which environment variable holds the signing secret.

    It is not part of any kind's hash. Without `secret_env` the calls are unsigned. `refuses` are the statuses
    that mean: not done, and will not be. A target that `honours_keys` does once what is sent twice under one
    `Idempotency-Key`. `health` is a path that answers 2xx while the target can work. `deep_link` is where
    people look a call up by its key: a page of the target's own console. Of an MCP server (`protocol: mcp`)
    `base_url` is its endpoint, and the variable holds the token that it wants as a Bearer.
    """

    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$", max_length=500)]
    secret_env: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")] | None = None
    refuses: Annotated[tuple[RefusingStatus, ...], AfterValidator(_ordered), Field(max_length=20)] = ()
    honours_keys: bool = False
    health: Annotated[str, StringConstraints(pattern=r"^/[^\s#]*$", max_length=500)] | None = None
    # The host is fixed, and `{key}` stands once, behind it: a key can neither choose the site nor the scheme.
    deep_link: (
        Annotated[
            str,
            StringConstraints(
                pattern=r"^https://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[!-z|~]*\{key\}[!-z|~]*$", max_length=500
            ),
        ]
        | None
    ) = None
    protocol: TargetProtocol = TargetProtocol.HTTP

    @model_validator(mode="after")
    def _declares_what_its_protocol_knows(self) -> Self:
        if self.protocol is TargetProtocol.MCP and (self.refuses or self.honours_keys or self.health):
            raise ValueError(
                "refuses, honours_keys and health are of http targets: MCP knows nothing of them"
            )
        return self


class PackAgent(Contract):
    """An agent to register, with its manifest."""

    agent_id: AgentId
    role: states.AgentRole
    owner: Title
    mission: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    manifest: ManifestDocument


class PackDocument(Contract):
    """A whole pack file."""

    pack: Slug
    version: SemVer
    description: Annotated[str, StringConstraints(max_length=2000)] | None = None
    resources: tuple[PackResource, ...] = ()
    facts: dict[Segment, dict[Segment, JsonValue]] = Field(default_factory=dict)
    policy_kinds: tuple[KindDocument, ...] = ()
    # What kinds of this file assert by name (`safety_assertions`).
    invariants: tuple[Invariant, ...] = Field(default=(), exclude_if=is_empty)
    targets: dict[TargetName, PackTarget] = Field(default_factory=dict)
    agents: tuple[PackAgent, ...] = ()
    guards: tuple[GuardDocument, ...] = Field(default=(), exclude_if=is_empty)
    workflows: Annotated[tuple[WorkflowDocument, ...], Field(max_length=50)] = Field(
        default=(), exclude_if=is_empty
    )
    rulesets: tuple[RulesetDocument, ...] = Field(default=(), exclude_if=is_empty)
    ontology: OntologyDocument | None = Field(default=None, exclude_if=is_none)

"""Incidents: their states, severities, what they link, and the rules that open them. Frozen forms, pure."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator

from audit import canonical
from audit.events import Kind
from runtime.contracts.states import Choice, Impact

LONGEST_TITLE: Final = 160
LONGEST_REASON: Final = 500
LONGEST_REF: Final = 160
LONGEST_NAME: Final = 64
MOST_TIMES: Final = 1000
MOST_WITHIN_S: Final = 7 * 86_400
# What an incident records of itself would open the next one.
_OWN: Final = ("incident:", "incident_rule:", "post_mortem:")


class IncidentState(Choice):
    """Where the work on an incident stands; CLOSED is the end."""

    OPEN = "OPEN"
    MITIGATED = "MITIGATED"
    RESOLVED = "RESOLVED"
    CLOSED = "CLOSED"


# A rule adds what it finds to an incident in one of these; after that it opens another.
LIVE: Final = (IncidentState.OPEN.value, IncidentState.MITIGATED.value)


class Severity(Choice):
    """How bad it is, the worst first. The first two are closed only with a post-mortem."""

    SEV1 = "SEV1"
    SEV2 = "SEV2"
    SEV3 = "SEV3"
    SEV4 = "SEV4"

    def is_at_least(self, other: "Severity") -> bool:
        """Whether it is as bad as the other one, or worse."""
        order = list(Severity)
        return order.index(self) <= order.index(other)


NEEDS_POST_MORTEM: Final = (Severity.SEV1.value, Severity.SEV2.value)


class LinkKind(Choice):
    """What an incident links."""

    FLOW = "FLOW"
    RECORD = "RECORD"
    ESCALATION = "ESCALATION"
    AGENT = "AGENT"
    TARGET = "TARGET"
    PERSON = "PERSON"


# These are about a flow, which is kept as long as the incident links them.
OF_A_FLOW: Final = (LinkKind.FLOW.value, LinkKind.RECORD.value, LinkKind.ESCALATION.value)


class RuleState(Choice):
    """A version of a rule is drafted, activated by another admin, and switched off."""

    DRAFT = "DRAFT"
    ACTIVE = "ACTIVE"
    OFF = "OFF"


class Scope(Choice):
    """What a rule counts together: all entries, those of one agent, or those of one flow."""

    EVERYTHING = "EVERYTHING"
    AGENT = "AGENT"
    FLOW = "FLOW"


Short = Annotated[str, Field(max_length=LONGEST_REF)]


class IncidentRule(BaseModel):
    """What opens an incident: `times` entries that match within `within_s` seconds.

    An empty condition asks nothing. `where` are fields of the entry: `contradicts` must be there and not
    empty, `result=FAILED` must have that value.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
    title: Annotated[str, Field(min_length=1, max_length=120)]
    severity: Annotated[Severity, Strict(False)]
    kinds: Annotated[tuple[str, ...], Strict(False), Field(min_length=1, max_length=10)]
    reason: Short = ""
    agent_id: Short = ""
    policy_kind: Short = ""
    impact: Annotated[Impact | None, Strict(False)] = None
    where: Annotated[tuple[Short, ...], Strict(False), Field(max_length=5)] = ()
    times: Annotated[int, Field(ge=1, le=MOST_TIMES)] = 1
    within_s: Annotated[int, Field(ge=1, le=MOST_WITHIN_S)] = 3600
    per: Annotated[Scope, Strict(False)] = Scope.EVERYTHING

    @field_validator("kinds")
    @classmethod
    def _known(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        for kind in kinds:
            if kind not in Kind.__members__.values() or kind.startswith(_OWN):
                raise ValueError(f"{kind} is no kind of entry that a rule can count")
        return tuple(dict.fromkeys(kinds))

    @field_validator("where")
    @classmethod
    def _named(cls, where: tuple[str, ...]) -> tuple[str, ...]:
        for item in where:
            if not item.partition("=")[0].isidentifier():
                raise ValueError(f"{item} is not of the form field or field=value")
        return where

    def to_bytes(self) -> bytes:
        """The canonical bytes, whose digest the ledger records."""
        return canonical.encode(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, body: bytes) -> "IncidentRule":
        """Read what `to_bytes` wrote."""
        return cls.model_validate(canonical.decode(body))

    @property
    def digest(self) -> str:
        """The digest of the canonical bytes."""
        return canonical.digest(self.to_bytes())

"""Agents, manifests, kinds, keys, facts, people and the installation itself."""

from audit.events.base import Event, Kind, Names, Text


class AgentRegistered(Event):
    kind = Kind.AGENT_REGISTERED
    agent_id: str
    role: Text
    owner: str


class AgentEdited(Event):
    """What people say of an agent; dates as YYYY-MM-DD, None for no review."""

    kind = Kind.AGENT_EDITED
    agent_id: str
    owner_before: str
    owner_after: str
    mission_before: str
    mission_after: str
    review_before: str | None = None
    review_after: str | None = None


class AgentStatusChanged(Event):
    kind = Kind.AGENT_STATUS_CHANGED
    agent_id: str
    from_status: Text
    to_status: Text
    reason: Text


class AgentStopped(Event):
    kind = Kind.AGENT_STOPPED
    agent_id: str
    reason: Text


class AgentResumed(Event):
    kind = Kind.AGENT_RESUMED
    agent_id: str
    reason: Text = ""


class ManifestRegistered(Event):
    kind = Kind.MANIFEST_REGISTERED
    agent_id: str
    version: str
    digest: str


class ManifestActivated(Event):
    """`solo`: by its own author, the only admin of the installation."""

    kind = Kind.MANIFEST_ACTIVATED
    agent_id: str
    version: str
    digest: str
    reason: Text = ""
    solo: bool = False


class ManifestDiscarded(Event):
    """A draft that never comes into force."""

    kind = Kind.MANIFEST_DISCARDED
    agent_id: str
    version: str
    digest: str
    reason: Text


class SessionOpened(Event):
    kind = Kind.SESSION_OPENED
    agent_id: str
    key_id: str
    manifest_version: str
    protocol_version: str


class KeyIssued(Event):
    kind = Kind.KEY_ISSUED
    key_id: str
    subject: str


class KeyRevoked(Event):
    kind = Kind.KEY_REVOKED
    key_id: str


class KindRegistered(Event):
    kind = Kind.KIND_REGISTERED
    policy_kind: str
    version: str
    digest: str


class KindActivated(Event):
    """`replaces` is the version before; `solo`: by its own author, the only admin of the installation."""

    kind = Kind.KIND_ACTIVATED
    policy_kind: str
    version: str
    digest: str
    reason: Text = ""
    solo: bool = False
    replaces: str = ""


class KindDiscarded(Event):
    """A draft that never comes into force."""

    kind = Kind.KIND_DISCARDED
    policy_kind: str
    version: str
    digest: str
    reason: Text


class PackLoaded(Event):
    kind = Kind.PACK_LOADED
    pack: str
    version: str
    digest: str


class TargetConfigured(Event):
    kind = Kind.TARGET_CONFIGURED
    name: str
    base_url: str
    signed: bool


class FactWritten(Event):
    kind = Kind.FACT_WRITTEN
    path: str
    version: int
    digest: str
    writer: str


class MemoryWritten(Event):
    """`quarantined`: nobody reads it until an admin releases it."""

    kind = Kind.MEMORY_WRITTEN
    scope: str
    key: str
    version: int
    digest: str
    source: Text
    quarantined: bool


class MemoryReleased(Event):
    kind = Kind.MEMORY_RELEASED
    scope: str
    key: str
    version: int


class MemoryDiscarded(Event):
    kind = Kind.MEMORY_DISCARDED
    scope: str
    key: str
    version: int


class ArtifactRegistered(Event):
    kind = Kind.ARTIFACT_REGISTERED
    digest: str
    media_type: Text
    size_bytes: int


class BudgetSpent(Event):
    """Escalation tokens left, in thousandths of a token."""

    kind = Kind.BUDGET_SPENT
    agent_id: str
    tokens_left_milli: int


class BudgetRefilled(Event):
    """A person filled the agent's escalation bucket."""

    kind = Kind.BUDGET_REFILLED
    agent_id: str
    tokens: int
    reason: Text


class SystemStopped(Event):
    kind = Kind.SYSTEM_STOPPED
    reason: Text


class SystemResumed(Event):
    kind = Kind.SYSTEM_RESUMED
    reason: Text = ""


class RequestRefused(Event):
    kind = Kind.REQUEST_REFUSED
    code: Text
    path: str
    detail_digest: str | None = None


class UserAdded(Event):
    kind = Kind.USER_ADDED
    user_id: int
    roles: Names


class UserDeactivated(Event):
    kind = Kind.USER_DEACTIVATED
    user_id: int


class PayloadErased(Event):
    kind = Kind.PAYLOAD_ERASED
    commitment: str
    reason: Text

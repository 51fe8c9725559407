"""Agents, manifests, kinds, keys, facts, people and the installation itself."""

from typing import Annotated

from pydantic import Field, Strict

from audit.events.base import At, Event, Kind, Names, Numbers, Text, is_absent


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


class AgentOwnerChangeAsked(Event):
    """One admin asks for another owner; another admin has to agree."""

    kind = Kind.AGENT_OWNER_CHANGE_ASKED
    agent_id: str
    owner_before: str
    owner_after: str


class AgentOwnerChanged(Event):
    """`solo`: by the only admin there is, who asked for it too."""

    kind = Kind.AGENT_OWNER_CHANGED
    agent_id: str
    owner_before: str
    owner_after: str
    asked_by: str
    solo: bool = False


class AgentOwnerChangeDropped(Event):
    kind = Kind.AGENT_OWNER_CHANGE_DROPPED
    agent_id: str
    owner_after: str


class AgentStatusChanged(Event):
    kind = Kind.AGENT_STATUS_CHANGED
    agent_id: str
    from_status: Text
    to_status: Text
    reason: Text


class AgentAutonomyChanged(Event):
    """Another level of autonomy: lowered by the runtime because of its score, or raised by a person.

    `signals`, `counts` and `points` are the parts of the score, in one order: what was counted from
    `window_from` on. It lowers from `supervised_at` and `read_only_at` on. What was counted until
    `counts_from` does not count again.
    """

    kind = Kind.AGENT_AUTONOMY_CHANGED
    agent_id: str
    from_level: Text
    to_level: Text
    reason: Text
    score: int = 0
    signals: Names = ()
    counts: Numbers = ()
    points: Numbers = ()
    window_from: At | None = None
    supervised_at: int | None = None
    read_only_at: int | None = None
    counts_from: At | None = None
    # Raised by the only admin there is, who owns the agent too.
    solo: bool = False


class AgentLabelsChanged(Event):
    """The labels that an agent has from now on, in order, and until when each (null: until a person ends it).

    `because` says by what it `gained` some, and `source` by which flow, conversation or scope of memory. A
    person has `ended` some, with a `reason`.
    """

    kind = Kind.AGENT_LABELS_CHANGED
    agent_id: str
    because: Text
    source: str = ""
    gained: Names = ()
    ended: Names = ()
    reason: Text = ""
    labels: Names
    until: Annotated[tuple[At | None, ...], Strict(False)]
    # Ended by the only admin there is, who owns the agent too.
    solo: bool = False


class AgentStopped(Event):
    kind = Kind.AGENT_STOPPED
    agent_id: str
    reason: Text
    # Intents whose call had begun before the stop, and had not ended; the first hundred.
    under_way: Names = ()


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
    # What the agent says of itself; nobody checks it.
    instance_id: Text = ""
    environment: Text = ""


class KeyIssued(Event):
    """`secret_digest` is of what is stored of the secret; `fact_prefix` is what a feed's key may write.

    `environment` is where an agent's key may be used. A key that is no secret but a subject of an issuer of
    tokens has both in `token_issuer` and `token_subject`.
    """

    kind = Kind.KEY_ISSUED
    key_id: str
    subject: str
    secret_digest: str | None = None
    fact_prefix: str | None = None
    environment: Annotated[Text | None, Field(exclude_if=is_absent)] = None
    token_issuer: Annotated[str | None, Field(exclude_if=is_absent)] = None
    token_subject: Annotated[str | None, Field(exclude_if=is_absent)] = None


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
    """`secret_env` names the variable that holds the signing secret; entries of old have only `signed`.

    Without `protocol` it is an http target.
    """

    kind = Kind.TARGET_CONFIGURED
    name: str
    base_url: str
    signed: bool
    refuses: Numbers = ()
    honours_keys: bool = False
    health: str | None = None
    secret_env: str | None = None
    deep_link: str | None = None
    protocol: Text | None = None


class FactWritten(Event):
    """The facts of one `write_id` are one version of the world; entries of old have none."""

    kind = Kind.FACT_WRITTEN
    path: str
    version: int
    digest: str
    writer: str
    write_id: str | None = None


class MemoryRead(Event):
    """An agent asked for an item of memory by the API; `rule` is what allowed or denied it.

    Without a version nothing was given: it was denied, or there is no active value.
    """

    kind = Kind.MEMORY_READ
    agent_id: str
    scope: str
    key: str
    decision: Text
    rule: str
    version: int | None = None
    digest: str | None = None


class MemoryWritten(Event):
    """`quarantined`: nobody reads it until an admin releases it; `reasons` say why.

    `rule` is what allowed the write; `source_check` is what was found at the source, and `source_place` where
    the value was found. Entries of older versions do not hold them, nor when the item expires.
    """

    kind = Kind.MEMORY_WRITTEN
    scope: str
    key: str
    version: int
    digest: str
    source: Text
    quarantined: bool
    rule: Annotated[str | None, Field(exclude_if=is_absent)] = None
    source_check: Annotated[Text | None, Field(exclude_if=is_absent)] = None
    source_place: Annotated[Text | None, Field(exclude_if=is_absent)] = None
    reasons: Annotated[Names, Field(exclude_if=is_absent)] = ()
    # The source labels that its writer had: who reads it has them from then on.
    labels: Annotated[Names, Field(exclude_if=is_absent)] = ()
    expires_at: Annotated[At | None, Field(exclude_if=is_absent)] = None


class MemoryRefused(Event):
    """A write that was denied by `rule`, with the problem's code. At most a few in a minute."""

    kind = Kind.MEMORY_REFUSED
    agent_id: str
    scope: str
    key: str
    rule: str
    code: Text


class MemoryReleased(Event):
    """The digest is that of the value that the person was shown; `solo`: an owner of the writer, alone."""

    kind = Kind.MEMORY_RELEASED
    scope: str
    key: str
    version: int
    digest: Annotated[str | None, Field(exclude_if=is_absent)] = None
    reason: Annotated[Text, Field(exclude_if=is_absent)] = ""
    solo: Annotated[bool, Field(exclude_if=is_absent)] = False


class MemoryDiscarded(Event):
    kind = Kind.MEMORY_DISCARDED
    scope: str
    key: str
    version: int
    digest: Annotated[str | None, Field(exclude_if=is_absent)] = None
    reason: Annotated[Text, Field(exclude_if=is_absent)] = ""


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
    under_way: Names = ()  # as of AgentStopped


class SystemResumed(Event):
    kind = Kind.SYSTEM_RESUMED
    reason: Text = ""


class EpochRestored(Event):
    """The database is older than its mark: it does not hold the entry that the mark names.

    Or than a checkpoint that a witness holds, over `missing_size` entries; without a mark that names
    anything, `missing_entry` is 0.
    """

    kind = Kind.EPOCH_RESTORED
    epoch: int
    missing_entry: int
    missing_hash: str
    newest_entry: int
    missing_digest: str | None = None
    database_id: Text | None = None
    witness: Text | None = None
    missing_size: int | None = None


class EpochBegun(Event):
    """An admin has said how to go on after a restore; the signed statement is a payload of its own."""

    kind = Kind.EPOCH_BEGUN
    epoch: int
    missing_entry: int
    missing_hash: str
    reason: Text
    statement_commitment: str
    statement_digest: str
    signature: str
    key_id: str
    database_id: Text | None = None


class RequestRefused(Event):
    kind = Kind.REQUEST_REFUSED
    code: Text
    path: str
    detail_digest: str | None = None  # SHA-256 of the sentence that was answered


class LimitChanged(Event):
    """How much a person or a role may decide; without amount and impact, the limit was removed.

    `holder` is `user:7` or `role:operator`; empty `policy_kind` means all kinds. `solo`: by the only admin.
    """

    kind = Kind.LIMIT_CHANGED
    holder: Text
    policy_kind: Text
    unit: Text
    amount: int | None
    impact: Text | None
    of_impact: bool
    solo: bool = False


class UserAdded(Event):
    kind = Kind.USER_ADDED
    user_id: int
    roles: Names


class UserInvited(Event):
    """A link was made under which the user sets a password; the link itself is nowhere recorded.

    `reset`: the user had a password before, which ended with it.
    """

    kind = Kind.USER_INVITED
    user_id: int
    expires_at: At
    reset: bool = False


class UserDeactivated(Event):
    kind = Kind.USER_DEACTIVATED
    user_id: int


class UserReactivated(Event):
    """A deactivated user may sign in again, with the roles and other groups that they have."""

    kind = Kind.USER_REACTIVATED
    user_id: int
    groups: Names


class UserSessionsEnded(Event):
    """The user was signed out of `sessions` browsers."""

    kind = Kind.USER_SESSIONS_ENDED
    user_id: int
    sessions: int


class GroupAdded(Event):
    """A group without people, which may own agents; by an admin, or for the owner that a pack names."""

    kind = Kind.GROUP_ADDED
    name: Text


class UserRolesChanged(Event):
    """A user's groups are others. Noticed only, where somebody changed them past this console."""

    kind = Kind.USER_ROLES_CHANGED
    user_id: int
    gained: Names
    lost: Names
    done_here: bool = False


class PayloadErased(Event):
    kind = Kind.PAYLOAD_ERASED
    commitment: str
    reason: Text

"""Messages between agents, in a stream of each conversation (`conversation:ID`), and what agents offer.

The envelope with its payload stands behind `message_commitment`. A message of no sender or to nobody is one
between an agent and the registry of capabilities.
"""

from typing import Annotated, Final

from pydantic import Field

from audit.events.base import At, Event, Id, Kind, Names, Text, is_absent

CONVERSATION_KINDS: Final = frozenset(
    {
        Kind.CONVERSATION_OPENED,
        Kind.CONVERSATION_SLOWED,
        Kind.CONVERSATION_STOPPED,
        Kind.MESSAGE_SENT,
        Kind.MESSAGE_TAKEN,
        Kind.MESSAGE_DEAD,
        Kind.CAPABILITY_ADVERTISED,
        Kind.CAPABILITY_HEARD,
        Kind.CAPABILITY_HEALTH_CHANGED,
        Kind.CAPABILITY_OVERRIDDEN,
    }
)


class ConversationOpened(Event):
    """`name` is the id that the agents use."""

    kind = Kind.CONVERSATION_OPENED
    conversation_id: Id
    name: Text
    agent_id: Text


class ConversationSlowed(Event):
    """A message was refused since there were too many within `window_s` seconds."""

    kind = Kind.CONVERSATION_SLOWED
    conversation_id: Id
    most: int
    window_s: int


class ConversationStopped(Event):
    """It takes no more messages: `most` were sent. `dead` still waited and became dead letters."""

    kind = Kind.CONVERSATION_STOPPED
    conversation_id: Id
    reason: Text
    most: int
    dead: int


class MessageSent(Event):
    """`number` is its place in the mailbox of its recipient.

    `low` and `high` are the protocol versions that all agents of the conversation understand so far, and
    `high` the one that is spoken. `key_id` names the key whose signature of the message was verified.
    """

    kind = Kind.MESSAGE_SENT
    conversation_id: Id
    message_id: Text
    message_type: Text
    from_agent_id: Text | None
    to_agent_id: Text | None
    correlation_id: Text
    number: int | None
    size_bytes: int
    expires_at: At
    low: Text
    high: Text
    deprecated_on: Text | None
    key_id: Text
    message_commitment: str
    dfid: Id | None = None
    # What its sender had: whoever is given the message has them from then on.
    labels: Annotated[Names, Field(exclude_if=is_absent)] = ()


class MessageTaken(Event):
    """Its recipient acknowledged it, in the session of this name."""

    kind = Kind.MESSAGE_TAKEN
    conversation_id: Id
    message_id: Text
    session: Text


class MessageDead(Event):
    """It can no longer be delivered."""

    kind = Kind.MESSAGE_DEAD
    conversation_id: Id
    message_id: Text
    reason: Text


class CapabilityAdvertised(Event):
    """An agent offers something; `body_digest` is that of the record of its claims. `message_id` said so."""

    kind = Kind.CAPABILITY_ADVERTISED
    agent_id: Text
    capability: Text
    body_digest: str
    status: Text
    message_id: Text


class CapabilityHeard(Event):
    """A provider said how it is: a heartbeat."""

    kind = Kind.CAPABILITY_HEARD
    agent_id: Text
    status: Text
    message_id: Text


class CapabilityHealthChanged(Event):
    """What counts towards naming a provider is another than before, because of `because`."""

    kind = Kind.CAPABILITY_HEALTH_CHANGED
    agent_id: Text
    capability: Text
    state: Text
    failures: int
    quarantines: int
    until: At | None
    because: Text


class CapabilityOverridden(Event):
    """A person decides whether it is named: `state` LISTED or DELISTED, or empty for its health to decide."""

    kind = Kind.CAPABILITY_OVERRIDDEN
    agent_id: Text
    capability: Text
    state: Text
    reason: Text

"""Who acts, as the ledger names it.

An agent, a person, a feed, a guard or an auditor's key has a stream of the same name.
"""

from typing import Final

SYSTEM: Final = "system"
AGENT: Final = "agent:"
USER: Final = "user:"


def agent(agent_id: str) -> str:
    """An agent, by the id that its manifest and its key carry."""
    return AGENT + agent_id


def user(pk: object) -> str:
    """A person, by the primary key of the account: a name can be given to another account later."""
    return f"{USER}{pk}"


def feed(name: str) -> str:
    """A source of facts, by the name that its key carries."""
    return f"feed:{name}"


def auditor(name: str) -> str:
    """Who reads the audit API, by the name that the key carries; a person who signs in is a `user`."""
    return f"auditor:{name}"


def guard(guard_id: str) -> str:
    """A soft guard, by the id that its pack gives it."""
    return f"guard:{guard_id}"


def is_user(actor: str) -> bool:
    """Whether a person acted."""
    return actor.startswith(USER)


def incident(incident_id: object) -> str:
    """The stream of an incident; nobody acts as one."""
    return f"incident:{incident_id}"


def hold(hold_id: object) -> str:
    """The stream of a legal hold; nobody acts as one."""
    return f"hold:{hold_id}"


def target(name: str) -> str:
    """The stream of a target; nobody acts as one."""
    return f"target:{name}"


def conversation(pk: object) -> str:
    """The stream of a conversation between agents; nobody acts as one."""
    return f"conversation:{pk}"

"""How entries about messages between agents are shown."""

from collections.abc import Mapping
from typing import Any, Final

from audit.events import Kind
from audit.lanes import Lane, Presenter
from audit.sentences import says

_REGISTRY: Final = "the registry"


def _sent(payload: Mapping[str, Any]) -> str:
    sender, recipient = payload.get("from_agent_id"), payload.get("to_agent_id")
    return f"{payload.get('message_type')} from {sender or _REGISTRY} to {recipient or _REGISTRY}."


def _overridden(payload: Mapping[str, Any]) -> str:
    decided = payload.get("state") or "as its health says"
    return f"{payload.get('capability')} is {decided}: {payload.get('reason')}."


PRESENTERS: Final[Mapping[Kind, Presenter]] = {
    Kind.CONVERSATION_OPENED: Presenter(
        "send", Lane.SYSTEM, "Conversation opened", says("{agent_id} began {name}.")
    ),
    Kind.CONVERSATION_SLOWED: Presenter(
        "wait",
        Lane.SYSTEM,
        "Conversation slowed down",
        says("A message was refused: more than {most} within {window_s} seconds."),
    ),
    Kind.CONVERSATION_STOPPED: Presenter(
        "stop",
        Lane.SYSTEM,
        "Conversation stopped",
        says("It has the most messages that one may have: {most}."),
    ),
    Kind.MESSAGE_SENT: Presenter("send", Lane.SYSTEM, "Message sent", _sent),
    Kind.MESSAGE_TAKEN: Presenter(
        "check", Lane.SYSTEM, "Message taken", says("{message_id} was acknowledged by its recipient.")
    ),
    Kind.MESSAGE_DEAD: Presenter(
        "cross", Lane.SYSTEM, "Message not delivered", says("{message_id} is a dead letter: {reason}.")
    ),
    Kind.CAPABILITY_ADVERTISED: Presenter(
        "layers", Lane.SYSTEM, "Capability advertised", says("{agent_id} offers {capability}.")
    ),
    Kind.CAPABILITY_HEARD: Presenter(
        "check", Lane.SYSTEM, "Heartbeat", says("{agent_id} says that it is {status}.")
    ),
    Kind.CAPABILITY_HEALTH_CHANGED: Presenter(
        "high", Lane.SYSTEM, "Health of a provider changed", says("{capability} is {state}: {because}.")
    ),
    Kind.CAPABILITY_OVERRIDDEN: Presenter("user", Lane.SYSTEM, "Listing of a provider decided", _overridden),
}

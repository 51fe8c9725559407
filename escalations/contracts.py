"""The closed sets of this app. Values are stored: they are permanent."""

from runtime.contracts.states import Choice


class Family(Choice):
    """DECISION comes before an intent, OPERATIONAL after it; AGENT is about an agent that fell silent."""

    DECISION = "DECISION"
    OPERATIONAL = "OPERATIONAL"
    AGENT = "AGENT"


class State(Choice):
    """An escalation is open until one decision, its deadline, or the end of its flow closes it."""

    OPEN = "OPEN"
    RESOLVED = "RESOLVED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"


class Action(Choice):
    """What a person can do; each family offers only its own."""

    OVERRIDE = "OVERRIDE"
    MODIFY = "MODIFY"
    ABORT = "ABORT"
    REQUEST_INFO = "REQUEST_INFO"
    RESUME = "RESUME"
    MARK_DONE = "MARK_DONE"
    ACKNOWLEDGE = "ACKNOWLEDGE"
    STOP_AGENT = "STOP_AGENT"


class Closing(Choice):
    """Why a question is closed."""

    ANSWERED = "ANSWERED"
    WAIT_ENDED = "WAIT_ENDED"
    DECIDED = "DECIDED"
    WITHDRAWN = "WITHDRAWN"


ACTIONS: dict[Family, tuple[Action, ...]] = {
    Family.DECISION: (Action.OVERRIDE, Action.MODIFY, Action.REQUEST_INFO, Action.ABORT),
    Family.OPERATIONAL: (Action.RESUME, Action.MARK_DONE, Action.MODIFY, Action.ABORT),
    Family.AGENT: (Action.ACKNOWLEDGE, Action.STOP_AGENT),
}

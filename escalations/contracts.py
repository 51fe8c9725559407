"""The closed sets of this app, and what each action is. Values are stored: they are permanent."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from runtime.contracts.states import Choice


class Family(Choice):
    """DECISION comes before an intent, OPERATIONAL after it; AGENT is about an agent that fell silent.

    INTERRUPT is about a flow that does not continue in its workflow: nothing has been proposed.
    """

    DECISION = "DECISION"
    OPERATIONAL = "OPERATIONAL"
    AGENT = "AGENT"
    INTERRUPT = "INTERRUPT"


class State(Choice):
    """An escalation is open until one decision, its deadline, or the end of its flow closes it."""

    OPEN = "OPEN"
    RESOLVED = "RESOLVED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"


class Action(Choice):
    """What a person can do; `ACTIONS` says what follows from each."""

    OVERRIDE = "OVERRIDE"
    MODIFY = "MODIFY"
    ABORT = "ABORT"
    REQUEST_INFO = "REQUEST_INFO"
    RESUME = "RESUME"
    REDIRECT = "REDIRECT"
    MARK_DONE = "MARK_DONE"
    ACKNOWLEDGE = "ACKNOWLEDGE"
    STOP_AGENT = "STOP_AGENT"

    @property
    def spec(self) -> "ActionSpec":
        """Its words, and the rules that hang on it."""
        return ACTIONS[self]


class DecisionState(Choice):
    """Where a person's signed decision stands. IN_EFFECT ended the escalation; TAKEN_BACK no longer does.

    The others are of escalations that two people decide: AWAITING_SECOND is the first decision, which ends
    as CONFIRMED by the second, or as SUPERSEDED.
    """

    IN_EFFECT = "IN_EFFECT"
    TAKEN_BACK = "TAKEN_BACK"
    AWAITING_SECOND = "AWAITING_SECOND"
    CONFIRMED = "CONFIRMED"
    SUPERSEDED = "SUPERSEDED"


class FirstEnd(Choice):
    """Why the first of two decisions no longer awaits a second."""

    CONFIRMED = "CONFIRMED"
    DIFFERED = "DIFFERED"
    WITHDRAWN = "WITHDRAWN"
    EVIDENCE_CHANGED = "EVIDENCE_CHANGED"
    RIGHTS_CHANGED = "RIGHTS_CHANGED"
    ABORTED = "ABORTED"
    DEADLINE_PASSED = "DEADLINE_PASSED"
    FLOW_ENDED = "FLOW_ENDED"


class NotePurpose(Choice):
    """What a note is for: to be read beside something, or the words of a claim or a shift that moves on."""

    NOTE = "NOTE"
    TAKEOVER = "TAKEOVER"
    HANDOVER = "HANDOVER"
    SHIFT = "SHIFT"


class Closing(Choice):
    """Why a question is closed."""

    ANSWERED = "ANSWERED"
    WAIT_ENDED = "WAIT_ENDED"
    DECIDED = "DECIDED"
    WITHDRAWN = "WITHDRAWN"


class Occasion(Choice):
    """When a notice is sent.

    The first four are of an escalation: it causes two, and time causes two. Three are of an incident, one is
    of a step that people carry out, and a test is sent by an admin.
    """

    OPENED = "OPENED"
    HALF_TIME = "HALF_TIME"
    HANDED_UP = "HANDED_UP"
    CLOSED = "CLOSED"
    INCIDENT_OPENED = "INCIDENT_OPENED"
    INCIDENT_RAISED = "INCIDENT_RAISED"
    INCIDENT_CLOSED = "INCIDENT_CLOSED"
    TASK_OPENED = "TASK_OPENED"
    TEST = "TEST"


OF_ESCALATIONS = (Occasion.OPENED, Occasion.HALF_TIME, Occasion.HANDED_UP, Occasion.CLOSED)
OF_INCIDENTS = (Occasion.INCIDENT_OPENED, Occasion.INCIDENT_RAISED, Occasion.INCIDENT_CLOSED)


class NoticeState(Choice):
    """A notice is pending until it was taken, was given up, or is no longer wanted."""

    PENDING = "PENDING"
    SENT = "SENT"
    FAILED = "FAILED"
    DROPPED = "DROPPED"


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What an action does, in the words of a family: beside its name, on its button, once it was taken."""

    hint: str
    button: str
    done: str


@dataclass(frozen=True, kw_only=True)
class ActionSpec:
    """One action: where it is offered, its words, and the rules that hang on it.

    What it writes is in `services/actions.py`; a part of the form of its own is in `_decide.html`.
    """

    families: tuple[Family, ...]
    word: str
    hint: str
    icon: str
    tone: str
    # On the submit button, and the message after it was taken.
    button: str
    done: str
    # The key that chooses it on the decision page; it never submits.
    key: str
    # The word of an escalation that ended so, and what its decider did: "sam aborted this".
    ended: str
    did: str
    ended_tone: Literal["accent", "danger", "info", "ok"]
    # Replaces `hint` once there is an intent.
    hint_afterwards: str = ""
    # What is other in a family than above.
    wordings: Mapping[Family, "Wording"] = field(default_factory=dict)
    # It only stops: always possible, whoever owns the agent, without a written reason.
    stops: bool = False
    # It asks the agent, and decides nothing.
    asks: bool = False
    # A person's own proposal goes before the gate; with `changes_params` it has other parameters.
    submits_proposal: bool = False
    changes_params: bool = False
    # It leads to a forward call of an intent.
    runs_forward: bool = False
    # It ends an intent, so it says what became of a call of it that is in doubt.
    states_effect: bool = False
    # It records what the person found at the target.
    takes_receipt: bool = False
    # It names the instruction of the workflow that comes next.
    takes_instruction: bool = False
    # Two different people must choose it where the impact or the policy kind asks for two.
    needs_two: bool = False
    # It is allowed before an admin has ended the recovery of a restored database.
    in_recovery: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the decision form that belong to it."""
        shown = {
            "params": self.changes_params,
            "instruction": self.takes_instruction,
            "effect": self.states_effect,
            "receipt": self.takes_receipt,
            "question": self.asks,
            "reason": not self.asks,
            "conditions": self.submits_proposal,
        }
        return tuple(part for part, is_shown in shown.items() if is_shown)

    def worded(self, family: Family) -> "Wording":
        """Its words in a family."""
        own = Wording(hint=self.hint, button=self.button, done=self.done)
        if family is Family.OPERATIONAL and self.hint_afterwards:
            own = replace(own, hint=self.hint_afterwards)
        return self.wordings.get(family, own)


# In the order of the page.
ACTIONS: Mapping[Action, ActionSpec] = {
    Action.OVERRIDE: ActionSpec(
        families=(Family.DECISION,),
        submits_proposal=True,
        needs_two=True,
        key="o",
        word="Override",
        hint="Run exactly what the agent proposed",
        icon="check",
        tone="ok",
        button="Override: run it as proposed",
        done="Overridden. It runs as proposed by the agent.",
        ended="Overridden",
        did="overrode this",
        ended_tone="ok",
    ),
    Action.RESUME: ActionSpec(
        families=(Family.OPERATIONAL, Family.INTERRUPT),
        runs_forward=True,
        needs_two=True,
        key="r",
        word="Resume",
        hint="Retry with the same idempotency key",
        icon="play",
        tone="ok",
        button="Resume with the same key",
        done="Resumed, with the same key.",
        ended="Resumed",
        did="resumed this",
        ended_tone="ok",
        wordings={
            Family.INTERRUPT: Wording(
                hint="The agent continues by any edge of its workflow; what was demanded is lifted",
                button="Resume the workflow",
                done="Resumed. The agent continues in its workflow.",
            )
        },
    ),
    Action.REDIRECT: ActionSpec(
        families=(Family.INTERRUPT,),
        takes_instruction=True,
        needs_two=True,
        key="i",
        word="Redirect",
        hint="The agent continues with the instruction that you choose; checkers are still asked",
        icon="next",
        tone="accent",
        button="Redirect the workflow",
        done="Redirected. The agent continues with the instruction you chose.",
        ended="Redirected",
        did="redirected this",
        ended_tone="accent",
    ),
    Action.MARK_DONE: ActionSpec(
        families=(Family.OPERATIONAL,),
        takes_receipt=True,
        needs_two=True,
        key="d",
        word="Mark done",
        hint="It took effect: enter the receipt you found",
        icon="check",
        tone="accent",
        button="Mark as done",
        done="Marked as done, with the receipt you gave.",
        ended="Marked done",
        did="marked this as done",
        ended_tone="ok",
    ),
    Action.MODIFY: ActionSpec(
        families=(Family.DECISION, Family.OPERATIONAL),
        submits_proposal=True,
        changes_params=True,
        runs_forward=True,
        states_effect=True,
        needs_two=True,
        key="m",
        word="Modify",
        hint="Run it with changed parameters",
        icon="edit",
        tone="accent",
        button="Modify: run it as changed",
        done="Modified. It runs with your changes.",
        ended="Modified",
        did="modified this",
        ended_tone="accent",
    ),
    Action.REQUEST_INFO: ActionSpec(
        families=(Family.DECISION, Family.INTERRUPT),
        asks=True,
        key="q",
        word="Ask the agent",
        hint="Ask a question first. The deadline pauses until the agent answers",
        icon="ask",
        tone="info",
        button="Ask the agent",
        done="Question sent. The deadline is paused until the agent answers.",
        ended="Asked the agent",
        did="asked the agent about this",
        ended_tone="info",
    ),
    Action.ABORT: ActionSpec(
        families=(Family.DECISION, Family.OPERATIONAL, Family.INTERRUPT),
        stops=True,
        states_effect=True,
        in_recovery=True,
        key="a",
        word="Abort",
        hint="Nothing runs. Always allowed; needs no reason",
        # Steps may already have run, and completed steps may be undone.
        hint_afterwards="No further steps run. Always allowed",
        icon="cross",
        tone="danger",
        button="Abort: run nothing",
        done="Aborted. Nothing will run.",
        ended="Aborted",
        did="aborted this",
        ended_tone="danger",
    ),
    Action.ACKNOWLEDGE: ActionSpec(
        families=(Family.AGENT,),
        key="w",
        word="Acknowledge",
        hint="The silence is expected. Restart the timer",
        icon="check",
        tone="ok",
        button="Acknowledge the silence",
        done="Acknowledged. The silence timer restarts now.",
        ended="Acknowledged",
        did="acknowledged this",
        ended_tone="ok",
    ),
    Action.STOP_AGENT: ActionSpec(
        families=(Family.AGENT,),
        stops=True,
        key="s",
        word="Stop the agent",
        hint="Hold all of its calls until someone resumes it",
        icon="stop",
        tone="danger",
        button="Stop the agent",
        done="Stopped. The agent's calls are held until someone resumes it.",
        ended="Agent stopped",
        did="stopped this agent",
        ended_tone="danger",
    ),
}


# What they are about ends by itself at a deadline.
WITH_DEADLINE: tuple[Family, ...] = (Family.DECISION, Family.INTERRUPT)


def offered(family: Family) -> tuple[Action, ...]:
    """The actions of a family, in the order of the page."""
    return tuple(action for action, spec in ACTIONS.items() if family in spec.families)

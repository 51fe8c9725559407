"""May this person take this action on this escalation now? One pure function answers the button and the POST.

Separation of duty, friction that grows with impact, and the family's own
actions. Roles are the names of groups.
"""

from dataclasses import dataclass

from escalations.contracts import ACTIONS, Action, Family, State
from runtime.contracts.states import AgentStatus, Impact

DECIDING_ROLES = frozenset({"operator", "senior"})
SEPARATION_DAYS = 7
STEP_UP_S = 300
LEAST_REASON_CHARS = 15
MAX_QUESTIONS = 3
SILENCED = frozenset({AgentStatus.SUSPENDED, AgentStatus.RETIRED})
# To stop is always possible, whoever owns the agent, and needs no written reason.
STOPPING = frozenset({Action.ABORT, Action.STOP_AGENT})
# None of them runs anything, so all are cheap: no fresh password, nothing typed again.
HARMLESS = STOPPING | {Action.REQUEST_INFO}
DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who decides. `confirmed_at_ms` is when the password was last given, in Unix milliseconds."""

    user_id: int
    username: str
    roles: frozenset[str]
    groups: frozenset[str]
    confirmed_at_ms: int | None
    is_solo: bool


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is decided on. `failing` holds the words of findings that no person can lift.

    `in_doubt` says that an earlier call may have taken effect, `steps_done` that one certainly has.
    """

    family: Family
    state: State
    impact: Impact
    agent_owner: str
    manifest_activated_by: str
    manifest_written_by: str
    manifest_activated_at_ms: int | None
    deadline_at_ms: int | None
    failing: tuple[str, ...]
    agent_status: AgentStatus = AgentStatus.ACTIVE
    questions_asked: int = 0
    waiting_until_ms: int | None = None
    in_doubt: bool = False
    steps_done: bool = False


@dataclass(frozen=True)
class Allowed:
    """The action may be taken. In solo mode the record says so."""

    solo: bool = False


@dataclass(frozen=True)
class Denied:
    """The action may not be taken: `why` is shown on the page, `status` answers the POST."""

    code: str
    why: str
    status: int


Answer = Allowed | Denied


def may(action: Action, person: Person, situation: Situation, *, now_ms: int) -> Answer:
    """Whether `person` may take `action`. The first reason that speaks against it is the answer."""
    denied = (
        _closed(situation, now_ms)
        or _foreign(action, situation)
        or role_missing(person)
        or _not_liftable(action, situation)
        or _not_replaceable(action, situation)
        or _not_askable(action, situation, now_ms)
        or _duty(action, person, situation, now_ms)
        or _step_up(action, person, situation, now_ms)
    )
    if denied is not None:
        return denied
    return Allowed(solo=person.is_solo and _conflict(person, situation, now_ms) is not None)


def is_weighty(action: Action, impact: Impact) -> bool:
    """Whether the amount must be typed again and the password be fresh. Stopping is always the cheapest."""
    return action not in HARMLESS and impact is Impact.HIGH_IMPACT


def reason_missing(action: Action, impact: Impact, justification: str) -> str | None:
    """What is missing in the written reason, or None."""
    if action in STOPPING:
        return None
    if action is Action.REQUEST_INFO:
        return None if justification.strip() else "Write the question."
    least = LEAST_REASON_CHARS if impact is Impact.HIGH_IMPACT else 1
    if len(justification.strip()) < least:
        return "Write a reason." if least == 1 else f"Write a reason of at least {least} characters."
    return None


def is_typed_again(action: Action, impact: Impact) -> bool:
    """Whether the amount or target is typed again: where the action says what is to run."""
    return is_weighty(action, impact) and action in {Action.OVERRIDE, Action.MODIFY}


def statement_missing(action: Action, situation: Situation, *, is_stated: bool) -> str | None:
    """What a person has to state before something else runs in place of a call in doubt, or None."""
    if action is not Action.MODIFY or not situation.in_doubt or is_stated:
        return None
    return (
        "Nobody knows whether the earlier call took effect. Find out at its target, and state that it did "
        "not, or mark it done."
    )


def wait_ms(*, term_ms: int, longest_ms: int) -> int:
    """For how long one question stops the clock, in milliseconds; `term_ms` is the escalation's own term.

    A third of the term at most, so that all questions together can no more than double it.
    """
    return max(0, min(longest_ms, term_ms // MAX_QUESTIONS))


def _closed(situation: Situation, now_ms: int) -> Denied | None:
    if situation.state is not State.OPEN:
        return Denied("ALREADY_DECIDED", f"This escalation is {situation.state.lower()}.", 409)
    if situation.deadline_at_ms is not None and now_ms > situation.deadline_at_ms:
        return Denied("DEADLINE_PASSED", "The deadline has passed: the answer is no.", 409)
    return None


def _foreign(action: Action, situation: Situation) -> Denied | None:
    if action in ACTIONS[situation.family]:
        return None
    offered = ", ".join(ACTIONS[situation.family])
    return Denied("ACTION_UNKNOWN", f"{action} is not offered here. Choose one of {offered}.", 400)


def role_missing(person: Person) -> Denied | None:
    """Who may not decide at all."""
    if person.roles & DECIDING_ROLES:
        return None
    return Denied("ROLE_MISSING", "Deciding needs the role operator or senior.", 403)


def _not_liftable(action: Action, situation: Situation) -> Denied | None:
    if action is not Action.OVERRIDE or not situation.failing:
        return None
    why = situation.failing[0].rstrip(".")
    return Denied("NOT_LIFTABLE", f"No person can lift this: {why}. Modify or abort.", 409)


def _not_replaceable(action: Action, situation: Situation) -> Denied | None:
    if action is not Action.MODIFY or not situation.steps_done:
        return None
    why = "A step of this has taken effect, so nothing else can run in its place. Resume, mark done or abort."
    return Denied("STEPS_DONE", why, 409)


def _not_askable(action: Action, situation: Situation, now_ms: int) -> Denied | None:
    if action is not Action.REQUEST_INFO:
        return None
    if situation.waiting_until_ms is not None and now_ms <= situation.waiting_until_ms:
        return Denied("QUESTION_OPEN", "A question is out already. Wait for the answer, or decide.", 409)
    if situation.questions_asked >= MAX_QUESTIONS:
        return Denied(
            "QUESTIONS_SPENT", f"{MAX_QUESTIONS} questions were asked, which is all. Decide, or abort.", 409
        )
    if situation.agent_status in SILENCED:
        status = situation.agent_status.lower()
        return Denied("AGENT_SILENCED", f"The agent is {status} and cannot answer. Decide, or abort.", 409)
    return None


def _duty(action: Action, person: Person, situation: Situation, now_ms: int) -> Denied | None:
    # Who owns a silent agent may stop it; that its silence is in order is for somebody else to say.
    if action in STOPPING or person.is_solo:
        return None
    return _conflict(person, situation, now_ms)


def _conflict(person: Person, situation: Situation, now_ms: int) -> Denied | None:
    if situation.agent_owner in {person.username, *person.groups}:
        return Denied("SEPARATION_OF_DUTY", "You own this agent: somebody else must decide.", 403)
    activated = situation.manifest_activated_at_ms
    recent = activated is not None and now_ms - activated < SEPARATION_DAYS * DAY_MS
    me = f"user:{person.user_id}"
    if not recent or me not in {situation.manifest_activated_by, situation.manifest_written_by}:
        return None
    did = "activated" if me == situation.manifest_activated_by else "wrote"
    return Denied(
        "SEPARATION_OF_DUTY",
        f"You {did} this agent's manifest, in force since less than {SEPARATION_DAYS} days: "
        "somebody else must decide.",
        403,
    )


def _step_up(action: Action, person: Person, situation: Situation, now_ms: int) -> Denied | None:
    if not is_weighty(action, situation.impact):
        return None
    if person.confirmed_at_ms is not None and now_ms - person.confirmed_at_ms <= STEP_UP_S * 1000:
        return None
    return Denied("STEP_UP", "Confirm your password first: it was given more than five minutes ago.", 401)

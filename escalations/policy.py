"""May this person take this action on this escalation now? One pure function answers the button and the POST.

Separation of duty, friction that grows with impact, and the family's own
actions. Roles are the names of groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from audit import actors
from audit.access.roles import HOLDERS, Permission
from escalations import contracts
from escalations.contracts import Action, Family, State
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus, Effect, Impact
from runtime.kernel import authority_limits, separation, units
from runtime.kernel.authority_limits import AuthorityLimit

DECIDING_ROLES = HOLDERS[Permission.DECIDE]
STEP_UP_S = 300
LEAST_REASON_CHARS = 15
MAX_QUESTIONS = 3
SILENCED = frozenset({AgentStatus.SUSPENDED, AgentStatus.RETIRED})


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who decides. `confirmed_at_ms` is when the password was last given, in Unix milliseconds.

    `groups` are the current ones and those left lately. `is_solo`: nobody else has held a role that
    decides in those days. `limits` are those of authority that were set for the person or the roles.
    `groups_now` are the groups of this moment alone: what gives a right.
    """

    user_id: int
    username: str
    roles: frozenset[str]
    groups: frozenset[str]
    confirmed_at_ms: int | None
    is_solo: bool
    limits: tuple[AuthorityLimit, ...] = ()
    groups_now: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class OwnerLeft:
    """A former owner of the agent: who it was, who changed it (`user:7`), and when."""

    owner: str
    changed_by: tuple[str, ...]
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class EscalationContext:
    """What is decided on. `failing` holds the messages of findings that no person can override.

    `in_doubt` says that an earlier call may have taken effect, `steps_done` that one certainly has, and
    `is_known_done` that it is the one at hand; `is_questioned` that its receipt is what the person is asked
    about; `is_paused` that the step at hand is held back before its call, which was never made;
    `is_contradicted` that a call which it replaces has taken effect against what a person stated;
    `crosses_limit` that what was accepted is above a limit tightened since, so that RESUME overrides it.
    `approvals` is how many people the kind asks for; `first_by` made the first of two decisions, the primary
    key of a user, and `in_one_hand` are users (`user:7`) who cannot be the second to that first.
    `gate_id` is the group whose members alone may let it run, empty where anybody may who decides.
    `amounts` are the largest amounts of the case by unit.
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
    is_known_done: bool = False
    is_questioned: bool = False
    is_paused: bool = False
    is_contradicted: bool = False
    steps_done: bool = False
    crosses_limit: bool = False
    owners_left: tuple[OwnerLeft, ...] = ()
    policy_kind: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)
    approvals: int = 1
    first_by: int | None = None
    in_one_hand: frozenset[str] = frozenset()
    gate_id: str = ""


@dataclass(frozen=True)
class Tie:
    """What binds a person to an agent: a sentence, and until when; None for as long as it is so."""

    why: str
    until_ms: int | None


@dataclass(frozen=True)
class Allowed:
    """The action may be taken. In solo mode the record says so."""

    solo: bool = False


@dataclass(frozen=True)
class Denied:
    """The action may not be taken: `why` is shown on the page, and the code answers the POST."""

    code: ProblemCode
    why: str


Answer = Allowed | Denied


def may(
    action: Action, person: Person, situation: EscalationContext, *, now_ms: int, effect: Effect | None = None
) -> Answer:
    """Whether `person` may take `action`. The first reason that speaks against it is the answer.

    `effect` is what `effect_of` says: stating the effect of a call weighs more than stopping.
    """
    denied = (
        _not_offered(action, situation, now_ms)
        or role_missing(person)
        or _not_possible(action, situation, now_ms)
        or _not_of_gate(action, person, situation)
        or beyond_authority(action, person, situation)
        or _not_one_of_two(action, person, situation)
    )
    if denied is not None:
        return denied
    found = ties(person, situation, now_ms=now_ms)
    # Who is alone is bound by no tie, unless two people are needed: one of them would be no second one.
    is_free = person.is_solo and not needs_two(action, situation)
    # Who owns a silent agent may stop it; that its silence is expected is for someone else to confirm.
    if found and not (is_free or is_stopping(action, effect)):
        return Denied(ProblemCode.SEPARATION_OF_DUTY, f"{found[0].why}: someone else must decide.")
    confirmed_at_ms = person.confirmed_at_ms
    is_fresh = confirmed_at_ms is not None and now_ms - confirmed_at_ms <= STEP_UP_S * 1000
    if is_weighty(action, situation.impact, effect) and not is_fresh:
        return Denied(
            ProblemCode.STEP_UP, "Confirm your password first: it was last confirmed more than 5 minutes ago."
        )
    return Allowed(solo=person.is_solo and bool(found))


def effect_of(action: Action, situation: EscalationContext, *, stated: Effect | None) -> Effect | None:
    """The recorded effect of the call in doubt; None where nothing is in doubt, or nothing ends.

    An ABORT without a statement leaves it unknown, so that stopping needs no knowledge.
    """
    return (stated or Effect.UNKNOWN) if situation.in_doubt and action.spec.states_effect else None


def is_stopping(action: Action, effect: Effect | None = None) -> bool:
    """Whether it only stops: a statement about a call does more, since it frees or uses up capacity."""
    return action.spec.stops and effect in {None, Effect.UNKNOWN}


def is_weighty(action: Action, impact: Impact, effect: Effect | None = None) -> bool:
    """Whether the password must be fresh, and the reason a long one. Stopping is always the cheapest."""
    # A question runs nothing either.
    is_harmless = is_stopping(action, effect) or action.spec.asks
    return impact is not Impact.LOW_IMPACT and not is_harmless


def needs_two(action: Action, situation: EscalationContext) -> bool:
    """Whether two different people must choose the same."""
    return action.spec.needs_two and takes_two(situation.impact, situation.approvals)


def takes_two(impact: Impact, approvals: int) -> bool:
    """Whether what runs something takes two people: at CRITICAL impact, or where the kind says so."""
    return impact is Impact.CRITICAL or approvals > 1


def counts_as_first(person: Person, situation: EscalationContext) -> bool:
    """Whether the first of two decisions is this person's, or may be made from the same hand."""
    return person.user_id == situation.first_by or actors.user(person.user_id) in situation.in_one_hand


def is_for_two(situation: EscalationContext) -> bool:
    """Whether any action on this escalation needs two people."""
    return any(needs_two(action, situation) for action in offered(situation))


def offered(situation: EscalationContext) -> tuple[Action, ...]:
    """The actions that the case has, in the order of the page.

    Of a step that was held back there is nothing to mark as done, and with steps done before it nothing else
    can run in its place.
    """
    return tuple(
        action
        for action in contracts.offered(situation.family)
        if not situation.is_paused
        or not (action.spec.takes_receipt or (action.spec.changes_params and situation.steps_done))
    )


def undoes_steps(action: Action, situation: EscalationContext) -> bool:
    """Whether the action ends a pause by undoing what is done."""
    return action is Action.ABORT and situation.is_paused and situation.steps_done


def beyond_authority(
    action: Action,
    person: Person,
    situation: EscalationContext,
    *,
    changed: Mapping[str, int] | None = None,
) -> Denied | None:
    """What is above the person's limits. Stopping and asking never are.

    `changed` are the amounts of the person's own parameters: of these MODIFY is judged once they are known,
    and of the shown ones for a unit that they do not have.
    """
    if action.spec.stops or action.spec.asks:
        return None
    limits = authority_limits.in_force(
        person.limits,
        holder=actors.user(person.user_id),
        roles=person.roles & DECIDING_ROLES,
        policy_kind=situation.policy_kind,
    )
    if action.spec.changes_params and changed is None:
        limits = tuple(limit for limit in limits if limit.impact is not None)
    amounts = {**situation.amounts, **(changed or {})}
    limit = authority_limits.first_exceeded(limits, amounts=amounts, impact=situation.impact)
    if limit is None:
        return None
    most = units.write(Decimal(limit.most), limit.unit).strip()
    on = f" for {situation.policy_kind}" if situation.policy_kind else ""
    if limit.impact is not None:
        why = f"Above your limit: you may decide up to {limit.impact}{on}."
    elif limit.unit not in amounts:
        why = f"The amount{on} cannot be read in the unit of your limit of {most}."
    else:
        why = f"Above your limit of {most}{on}."
    return Denied(ProblemCode.AUTHORITY_EXCEEDED, why)


def reason_missing(
    action: Action, impact: Impact, justification: str, *, effect: Effect | None = None
) -> str | None:
    """What is missing in the written reason, or None."""
    if is_stopping(action, effect):
        return None
    if action.spec.asks:
        return None if justification.strip() else "Write the question."
    least = 1 if impact is Impact.LOW_IMPACT else LEAST_REASON_CHARS
    if len(justification.strip()) < least:
        return "Write a reason." if least == 1 else f"Write a reason of at least {least} characters."
    return None


def is_typed_again(action: Action, situation: EscalationContext) -> bool:
    """Whether the amount or target is typed again: where the action sets what runs, or overrides a limit."""
    lifts = action is Action.RESUME and situation.crosses_limit
    return is_weighty(action, situation.impact) and (action.spec.submits_proposal or lifts)


def statement_missing(action: Action, situation: EscalationContext, *, stated: Effect | None) -> str | None:
    """What a person has to state before something else runs in place of a call in doubt, or None."""
    if not action.spec.changes_params or not situation.in_doubt or stated is Effect.NOT_HAPPENED:
        return None
    if stated is Effect.HAPPENED:
        return (
            "You stated that the earlier call took effect, so nothing can run in its place. Mark "
            "it done, or abort."
        )
    return (
        "It is unknown whether the earlier call took effect. Check at its target, and state that it did "
        "not take effect. If it did, mark it done; if nobody can tell, abort."
    )


def wait_ms(*, term_ms: int, longest_ms: int) -> int:
    """For how long one question stops the clock, in milliseconds; `term_ms` is the escalation's own term.

    A third of the term at most, so that all questions together can at most double it.
    """
    return max(0, min(longest_ms, term_ms // MAX_QUESTIONS))


def _not_offered(action: Action, situation: EscalationContext, now_ms: int) -> Denied | None:
    if situation.state is not State.OPEN:
        return Denied(ProblemCode.ALREADY_DECIDED, f"This escalation is {situation.state.lower()}.")
    if situation.deadline_at_ms is not None and now_ms > situation.deadline_at_ms:
        return Denied(ProblemCode.DEADLINE_PASSED, "The deadline has passed; the proposal was aborted.")
    available = offered(situation)
    if action not in available:
        why = f"{action} is not available here. Choose one of {', '.join(available)}."
        return Denied(ProblemCode.ACTION_UNKNOWN, why)
    return None


def role_missing(person: Person) -> Denied | None:
    """Who may not decide at all."""
    if person.roles & DECIDING_ROLES:
        return None
    return Denied(ProblemCode.ROLE_MISSING, "Deciding needs the role operator or senior.")


def passes_gate(person: Person, situation: EscalationContext) -> bool:
    """Whether the person is in the group that must approve."""
    return not situation.gate_id or situation.gate_id in person.groups_now


def _not_of_gate(action: Action, person: Person, situation: EscalationContext) -> Denied | None:
    """Who is not in the group that must approve; to stop and to ask is for everybody who decides."""
    if action.spec.stops or action.spec.asks or passes_gate(person, situation):
        return None
    why = f"Only people in the group {situation.gate_id} may let this run. You can ask the agent, or abort."
    return Denied(ProblemCode.GATE_CLOSED, why)


def _not_one_of_two(action: Action, person: Person, situation: EscalationContext) -> Denied | None:
    """Who cannot be the first or the second of two people."""
    if not needs_two(action, situation):
        return None
    if situation.first_by == person.user_id:
        why = (
            "You made the first of two decisions. Someone else must make the second; you can withdraw yours, "
            "or abort."
        )
        return Denied(ProblemCode.SECOND_PERSON_NEEDED, why)
    if counts_as_first(person, situation):
        why = (
            "Your account and that of the first person are linked by an invite made less than "
            f"{separation.DAYS} days ago. Someone else must make the second decision; you can abort."
        )
        return Denied(ProblemCode.SECOND_PERSON_NEEDED, why)
    if situation.first_by is None and person.is_solo:
        why = "Two different people must decide this, and nobody else holds a deciding role. Abort."
        return Denied(ProblemCode.TWO_PEOPLE_NEEDED, why)
    return None


def _not_possible(action: Action, situation: EscalationContext, now_ms: int) -> Denied | None:
    """What the case itself does not allow, whoever asks for it."""
    if action is Action.OVERRIDE and situation.failing:
        why = situation.failing[0].rstrip(".")
        return Denied(ProblemCode.NOT_LIFTABLE, f"This cannot be overridden: {why}. Modify or abort.")
    if action.spec.changes_params and situation.steps_done:
        why = (
            "A step has already taken effect, so nothing else can run in its place. Resume, mark done or "
            "abort."
        )
        return Denied(ProblemCode.STEPS_DONE, why)
    if action.spec.runs_forward and has_happened(situation):
        return _refuse_again(situation)
    if not action.spec.asks:
        return None
    if situation.waiting_until_ms is not None and now_ms <= situation.waiting_until_ms:
        return Denied(
            ProblemCode.QUESTION_OPEN, "A question is already open. Wait for the answer, or decide."
        )
    if situation.questions_asked >= MAX_QUESTIONS:
        why = f"All {MAX_QUESTIONS} questions have been asked. Decide, or abort."
        return Denied(ProblemCode.QUESTIONS_SPENT, why)
    if situation.agent_status in SILENCED:
        status = situation.agent_status.lower()
        return Denied(
            ProblemCode.AGENT_SILENCED, f"The agent is {status} and cannot answer. Decide, or abort."
        )
    return None


def has_happened(situation: EscalationContext) -> bool:
    """Whether a receipt says that the call has taken effect, so that it is not made again."""
    return situation.is_questioned or situation.is_contradicted


def _refuse_again(situation: EscalationContext) -> Denied:
    """Why nothing is called again where a receipt says that it has happened."""
    if situation.is_questioned:
        why = (
            "The call took effect, and its receipt is recorded, so it is not made again. Mark it done with "
            "what is true, or abort."
        )
        return Denied(ProblemCode.RECEIPT_RECORDED, why)
    why = (
        "A receipt shows that the earlier call took effect, although a person stated that it did not. "
        "Correct the statement in the list of calls in doubt, or abort."
    )
    return Denied(ProblemCode.EFFECT_CONTRADICTED, why)


def ties(person: Person, situation: EscalationContext, *, now_ms: int) -> tuple[Tie, ...]:
    """Everything that keeps a person from deciding on this agent, what lasts longest first."""
    me, names = actors.user(person.user_id), {person.username, *person.groups}
    found: list[Tie] = []
    if situation.agent_owner in names:
        found.append(Tie("You own this agent", None))
    at_ms = situation.manifest_activated_at_ms
    if at_ms is not None and me in {situation.manifest_activated_by, situation.manifest_written_by}:
        did = "activated" if me == situation.manifest_activated_by else "wrote"
        why = f"You {did} this agent's manifest, active for less than {separation.DAYS} days"
        found.append(Tie(why, separation.ends_ms(at_ms)))
    for left in situation.owners_left:
        until_ms = separation.ends_ms(left.at_ms)
        if left.owner in names:
            found.append(Tie(f"You owned this agent less than {separation.DAYS} days ago", until_ms))
        if me in left.changed_by:
            why = f"You changed who owns this agent less than {separation.DAYS} days ago"
            found.append(Tie(why, until_ms))
    lasting = [tie for tie in found if tie.until_ms is None or now_ms < tie.until_ms]
    return tuple(sorted(lasting, key=lambda tie: (tie.until_ms is not None, -(tie.until_ms or 0))))

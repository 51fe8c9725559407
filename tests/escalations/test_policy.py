"""Who may do what, as a table of truth: the same function answers the button and the POST."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from escalations import contracts, policy
from escalations.contracts import Action, Family, State
from escalations.policy import Allowed, Denied, EscalationContext, OwnerLeft, Person
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus, Effect, Impact
from runtime.kernel import separation

NOW_MS = 1_767_323_045_000
LOW, HIGH = Impact.LOW_IMPACT, Impact.HIGH_IMPACT
WEEK_MS = separation.ends_ms(0)


def person(**fields: Any) -> Person:
    """An operator who has just given the password."""
    return Person(
        **{
            "user_id": 1,
            "username": "olivia",
            "roles": frozenset({"operator"}),
            "groups": frozenset({"operator"}),
            "confirmed_at_ms": NOW_MS,
            "is_solo": False,
            **fields,
        }
    )


def situation(**fields: Any) -> EscalationContext:
    """An open decision of low impact about somebody else's agent."""
    return EscalationContext(
        **{
            "family": Family.DECISION,
            "state": State.OPEN,
            "impact": LOW,
            "agent_owner": "trading-desk",
            "manifest_activated_by": "user:9",
            "manifest_written_by": "user:8",
            "manifest_activated_at_ms": NOW_MS,
            "deadline_at_ms": NOW_MS + 1000,
            "failing": (),
            **fields,
        }
    )


def may(
    action: Action = Action.OVERRIDE, who: Person | None = None, what: EscalationContext | None = None
) -> policy.Answer:
    """The answer at NOW_MS."""
    return policy.may(action, who or person(), what or situation(), now_ms=NOW_MS)


def denied(answer: policy.Answer) -> tuple[str, int]:
    """Code and status of a denial."""
    assert isinstance(answer, Denied), answer
    assert answer.why
    return answer.code, answer.code.status


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("action", list(Action))
def test_each_family_offers_its_own_actions_only(family: Family, action: Action) -> None:
    answer = may(action, what=situation(family=family))
    if action in contracts.offered(family):
        assert answer == Allowed()
    else:
        assert denied(answer) == ("ACTION_UNKNOWN", 400)
        assert isinstance(answer, Denied)
        assert all(offered in answer.why for offered in contracts.offered(family))


@pytest.mark.parametrize("action", contracts.offered(Family.OPERATIONAL))
def test_nothing_goes_forward_where_a_receipt_contradicts_what_was_stated(action: Action) -> None:
    answer = may(action, what=situation(family=Family.OPERATIONAL, is_contradicted=True))
    if action in {Action.RESUME, Action.MODIFY}:
        assert denied(answer) == ("EFFECT_CONTRADICTED", 409)
    else:
        assert answer == Allowed()


def test_what_a_receipt_shows_is_not_called_again_while_its_receipt_is_asked_about() -> None:
    answer = may(Action.RESUME, what=situation(family=Family.OPERATIONAL, is_questioned=True))
    assert denied(answer) == ("RECEIPT_RECORDED", 409)


@pytest.mark.parametrize("state", [State.RESOLVED, State.EXPIRED, State.WITHDRAWN])
@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.ABORT])
def test_what_is_closed_stays_closed(state: State, action: Action) -> None:
    answer = may(action, what=situation(state=state))
    assert denied(answer) == ("ALREADY_DECIDED", 409)


@pytest.mark.parametrize(("left_ms", "is_late"), [(1, False), (0, False), (-1, True)])
def test_after_the_last_millisecond_the_answer_is_no(left_ms: int, is_late: bool) -> None:
    answer = may(what=situation(deadline_at_ms=NOW_MS + left_ms))
    if is_late:
        assert denied(answer) == ("DEADLINE_PASSED", 409)
    else:
        assert answer == Allowed()


def test_an_operational_escalation_has_no_deadline() -> None:
    assert may(Action.RESUME, what=situation(family=Family.OPERATIONAL, deadline_at_ms=None)) == Allowed()


@pytest.mark.parametrize(
    ("roles", "is_allowed"),
    [
        ({"operator"}, True),
        ({"senior"}, True),
        ({"operator", "auditor"}, True),
        ({"admin"}, False),
        ({"auditor"}, False),
        (set(), False),
    ],
)
@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.ABORT])
def test_only_operators_and_seniors_decide(roles: set[str], is_allowed: bool, action: Action) -> None:
    answer = may(action, person(roles=frozenset(roles)))
    if is_allowed:
        assert answer == Allowed()
    else:
        assert denied(answer) == ("ROLE_MISSING", 403)


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.ABORT])
def test_no_person_overrides_a_fail_but_may_change_or_abort(action: Action) -> None:
    answer = may(action, what=situation(failing=("The market is closed",)))
    if action is Action.OVERRIDE:
        assert denied(answer) == ("NOT_LIFTABLE", 409)
        assert isinstance(answer, Denied)
        assert "The market is closed" in answer.why
    else:
        assert answer == Allowed()


OWNER = {"agent_owner": "olivia"}
OWNER_BY_GROUP = {"agent_owner": "operator"}
ACTIVATED = {"manifest_activated_by": "user:1", "manifest_activated_at_ms": NOW_MS - WEEK_MS + 1}
WRITTEN = {"manifest_written_by": "user:1", "manifest_activated_at_ms": NOW_MS - WEEK_MS + 1}
JUST_RECENT = NOW_MS - WEEK_MS + 1


def left(owner: str = "nobody", *changed_by: str, at_ms: int = JUST_RECENT) -> OwnerLeft:
    """An owner that the agent has no more."""
    return OwnerLeft(owner=owner, changed_by=changed_by, at_ms=at_ms)


OWNED = {"owners_left": (left("olivia"),)}
OWNED_BY_GROUP = {"owners_left": (left("operator"),)}
CHANGED = {"owners_left": (left("nobody", "user:2", "user:1"),)}
CONFLICTS = pytest.mark.parametrize(
    "conflict",
    [OWNER, OWNER_BY_GROUP, ACTIVATED, WRITTEN, OWNED, OWNED_BY_GROUP, CHANGED],
    ids=["owner", "group", "activated", "written", "owned", "owned by a group", "changed the owner"],
)


@CONFLICTS
@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY])
def test_nobody_decides_on_their_own_agent(conflict: dict[str, Any], action: Action) -> None:
    assert denied(may(action, what=situation(**conflict))) == ("SEPARATION_OF_DUTY", 403)


@CONFLICTS
def test_a_conflict_does_not_keep_anybody_from_aborting(conflict: dict[str, Any]) -> None:
    assert may(Action.ABORT, what=situation(**conflict)) == Allowed()


@CONFLICTS
def test_the_only_person_of_an_installation_decides_and_the_record_says_so(conflict: dict[str, Any]) -> None:
    assert may(who=person(is_solo=True), what=situation(**conflict)) == Allowed(solo=True)


def test_the_sentence_says_what_the_person_did() -> None:
    conflicts = (ACTIVATED, WRITTEN, OWNED, CHANGED)
    said = [may(Action.OVERRIDE, what=situation(**conflict)) for conflict in conflicts]
    assert [answer.why.split(" this ")[0] for answer in said if isinstance(answer, Denied)] == [
        "You activated",
        "You wrote",
        "You owned",
        "You changed who owns",
    ]


def test_what_binds_a_person_comes_with_its_end_and_what_lasts_longest_first() -> None:
    bound = {**OWNER, **ACTIVATED, "owners_left": (left("olivia", at_ms=NOW_MS), left("olivia", at_ms=5))}
    found = policy.ties(person(), situation(**bound), now_ms=NOW_MS)
    assert [tie.until_ms for tie in found] == [None, NOW_MS + WEEK_MS, NOW_MS + 1]
    assert policy.ties(person(), situation(), now_ms=NOW_MS) == ()


@pytest.mark.parametrize(
    "harmless",
    [
        {"manifest_activated_by": "user:1", "manifest_activated_at_ms": NOW_MS - WEEK_MS},
        {"manifest_activated_by": "user:1", "manifest_activated_at_ms": None},
        {"manifest_activated_by": "user:10"},
        {"manifest_written_by": "user:1", "manifest_activated_at_ms": NOW_MS - WEEK_MS},
        {"agent_owner": "olivia2"},
        {"owners_left": (left("olivia", "user:1", at_ms=NOW_MS - WEEK_MS),)},
        {"owners_left": (left("olivia2", "user:10"),)},
        {"agent_owner": ""},
    ],
)
def test_what_is_no_conflict_is_not_recorded_as_one(harmless: dict[str, Any]) -> None:
    assert may(what=situation(**harmless)) == Allowed()
    assert may(who=person(is_solo=True), what=situation(**harmless)) == Allowed(solo=False)


@pytest.mark.parametrize(
    ("confirmed_at_ms", "is_fresh"),
    [(NOW_MS, True), (NOW_MS - 300_000, True), (NOW_MS - 300_001, False), (None, False)],
)
@pytest.mark.parametrize("impact", [LOW, HIGH])
@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.ABORT])
def test_high_impact_asks_for_a_fresh_password_and_abort_never_does(
    confirmed_at_ms: int | None, is_fresh: bool, impact: Impact, action: Action
) -> None:
    answer = may(action, person(confirmed_at_ms=confirmed_at_ms), situation(impact=impact))
    if is_fresh or impact is LOW or action is Action.ABORT:
        assert answer == Allowed()
    else:
        assert denied(answer) == ("STEP_UP", 401)


def test_whoever_owns_a_silent_agent_may_stop_it_and_somebody_else_acknowledges() -> None:
    silent = situation(family=Family.AGENT, impact=HIGH, agent_owner="olivia")
    stale = person(confirmed_at_ms=None)
    assert may(Action.STOP_AGENT, stale, silent) == Allowed()
    assert denied(may(Action.ACKNOWLEDGE, person(), silent)) == ("SEPARATION_OF_DUTY", 403)
    assert may(Action.ACKNOWLEDGE, person(is_solo=True), silent) == Allowed(solo=True)


@pytest.mark.parametrize("impact", [LOW, HIGH])
@pytest.mark.parametrize("action", list(Action))
def test_weight_is_high_impact_of_what_runs_something(action: Action, impact: Impact) -> None:
    is_harmless = action in {Action.ABORT, Action.REQUEST_INFO, Action.STOP_AGENT}
    assert policy.is_weighty(action, impact) is (impact is HIGH and not is_harmless)


@pytest.mark.parametrize(
    ("action", "impact", "text", "missing"),
    [
        (Action.ABORT, HIGH, "", None),
        (Action.STOP_AGENT, HIGH, "", None),
        (Action.ACKNOWLEDGE, LOW, "", "Write a reason."),
        (Action.REQUEST_INFO, HIGH, "?", None),
        (Action.REQUEST_INFO, LOW, " \n", "Write the question."),
        (Action.OVERRIDE, LOW, "k", None),
        (Action.OVERRIDE, LOW, " \n\t", "Write a reason."),
        (Action.MODIFY, LOW, "", "Write a reason."),
        (Action.OVERRIDE, HIGH, "x" * 15, None),
        (Action.OVERRIDE, HIGH, "x" * 14, "Write a reason of at least 15 characters."),
        (Action.RESUME, HIGH, " " * 20, "Write a reason of at least 15 characters."),
    ],
)
def test_a_reason_is_as_long_as_the_impact_asks(
    action: Action, impact: Impact, text: str, missing: str | None
) -> None:
    assert policy.reason_missing(action, impact, text) == missing


def test_the_first_reason_that_speaks_against_it_is_the_answer() -> None:
    stranger, senior = person(roles=frozenset(), confirmed_at_ms=None), person(confirmed_at_ms=None)
    failing: dict[str, Any] = {"failing": ("no",), "impact": HIGH, **OWNER}
    asked = [
        (stranger, {**failing, "state": State.EXPIRED}),
        (stranger, failing),
        (senior, failing),
        (senior, {**failing, "failing": ()}),
        (senior, {"impact": HIGH}),
    ]
    found = [denied(may(who=who, what=situation(**fields)))[0] for who, fields in asked]
    assert found == ["ALREADY_DECIDED", "ROLE_MISSING", "NOT_LIFTABLE", "SEPARATION_OF_DUTY", "STEP_UP"]


@pytest.mark.parametrize(
    ("standing", "code"),
    [
        ({"questions_asked": 2}, None),
        ({"questions_asked": 3}, "QUESTIONS_SPENT"),
        ({"waiting_until_ms": NOW_MS + 1}, "QUESTION_OPEN"),
        ({"waiting_until_ms": NOW_MS}, "QUESTION_OPEN"),
        ({"waiting_until_ms": NOW_MS - 1}, None),
        ({"agent_status": AgentStatus.SUSPENDED}, "AGENT_SILENCED"),
        ({"agent_status": AgentStatus.RETIRED}, "AGENT_SILENCED"),
        ({"agent_status": AgentStatus.PASSIVE}, None),
        ({"agent_status": AgentStatus.LOCKED}, None),
    ],
)
def test_one_question_at_a_time_three_at_most_and_only_to_who_may_answer(
    standing: dict[str, Any], code: str | None
) -> None:
    answer = may(Action.REQUEST_INFO, what=situation(**standing))
    assert answer == Allowed() if code is None else denied(answer) == (code, 409)
    assert may(Action.OVERRIDE, what=situation(**standing)) == Allowed()


@pytest.mark.parametrize("conflict", [OWNER, ACTIVATED], ids=["owner", "manifest"])
def test_who_may_not_decide_does_not_stop_the_clock_either(conflict: dict[str, Any]) -> None:
    assert denied(may(Action.REQUEST_INFO, what=situation(**conflict))) == ("SEPARATION_OF_DUTY", 403)


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("action", [Action.MODIFY, Action.RESUME, Action.ABORT])
def test_nothing_else_runs_in_place_of_a_step_that_has_taken_effect(action: Action, family: Family) -> None:
    answer = may(action, what=situation(family=family, steps_done=True))
    if action not in contracts.offered(family):
        assert denied(answer) == ("ACTION_UNKNOWN", 400)
    elif action is Action.MODIFY:
        assert denied(answer) == ("STEPS_DONE", 409)
    else:
        assert answer == Allowed()


@pytest.mark.parametrize("action", list(Action))
def test_a_call_in_doubt_is_replaced_only_with_a_statement(action: Action) -> None:
    for in_doubt, stated in itertools.product([True, False], [None, *Effect]):
        missing = policy.statement_missing(action, situation(in_doubt=in_doubt), stated=stated)
        is_free = stated is Effect.NOT_HAPPENED
        expected = action is Action.MODIFY and in_doubt and not is_free
        assert (missing is not None) is expected, (in_doubt, stated)


@pytest.mark.parametrize("action", list(Action))
def test_what_ends_a_call_in_doubt_says_what_became_of_it(action: Action) -> None:
    for in_doubt, stated in itertools.product([True, False], [None, *Effect]):
        said = policy.effect_of(action, situation(in_doubt=in_doubt), stated=stated)
        if in_doubt and action in {Action.MODIFY, Action.ABORT}:
            assert said is (stated or Effect.UNKNOWN), (in_doubt, stated)
        else:
            assert said is None, (in_doubt, stated)


def test_to_state_that_a_replaced_call_took_effect_names_the_way_out() -> None:
    words = policy.statement_missing(Action.MODIFY, situation(in_doubt=True), stated=Effect.HAPPENED)
    assert words is not None
    assert "Mark it done" in words


@pytest.mark.parametrize("effect", [None, *Effect])
def test_to_know_what_became_of_a_call_weighs_more_than_to_stop(effect: Effect | None) -> None:
    knows = effect in {Effect.HAPPENED, Effect.NOT_HAPPENED}
    what = situation(family=Family.OPERATIONAL, impact=HIGH, in_doubt=True, agent_owner="olivia")
    mine = policy.may(Action.ABORT, person(), what, now_ms=NOW_MS, effect=effect)
    assert mine == Allowed() if not knows else denied(mine) == ("SEPARATION_OF_DUTY", 403)
    other = situation(family=Family.OPERATIONAL, impact=HIGH, in_doubt=True)
    stale = policy.may(Action.ABORT, person(confirmed_at_ms=None), other, now_ms=NOW_MS, effect=effect)
    assert stale == Allowed() if not knows else denied(stale) == ("STEP_UP", 401)
    unsaid = policy.reason_missing(Action.ABORT, HIGH, "", effect=effect)
    assert (unsaid is not None) is knows


@pytest.mark.parametrize("crosses", [True, False])
@pytest.mark.parametrize("impact", [LOW, HIGH])
@pytest.mark.parametrize("action", list(Action))
def test_what_is_to_run_is_typed_again_where_it_weighs(action: Action, impact: Impact, crosses: bool) -> None:
    asked = situation(impact=impact, crosses_limit=crosses)
    says_what_runs = action in {Action.OVERRIDE, Action.MODIFY} or (action is Action.RESUME and crosses)
    assert policy.is_typed_again(action, asked) is (impact is HIGH and says_what_runs)


@given(term_ms=st.integers(-1, 10**10), longest_ms=st.integers(0, 10**8))
def test_all_questions_together_no_more_than_double_a_term(term_ms: int, longest_ms: int) -> None:
    wait = policy.wait_ms(term_ms=term_ms, longest_ms=longest_ms)
    assert 0 <= wait <= longest_ms
    assert wait * policy.MAX_QUESTIONS <= max(0, term_ms)


@pytest.mark.parametrize("steps_done", [False, True])
def test_a_pause_has_no_more_actions_than_it_needs(steps_done: bool) -> None:
    paused = situation(family=Family.OPERATIONAL, is_paused=True, steps_done=steps_done)
    expected = {Action.RESUME, Action.ABORT} | (set() if steps_done else {Action.MODIFY})
    assert set(policy.offered(paused)) == expected
    assert policy.undoes_steps(Action.ABORT, paused) is steps_done
    assert not policy.undoes_steps(Action.RESUME, paused)
    denied = may(Action.MARK_DONE, what=paused)
    assert isinstance(denied, Denied)
    assert denied.code is ProblemCode.ACTION_UNKNOWN

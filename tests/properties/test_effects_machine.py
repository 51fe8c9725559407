"""No effect twice: targets that answer in every way there is, against everything that people and time can do.

The lifecycle machine, played at targets that are honest about what they declare and about nothing else, by
people who look at the target and tell the truth, or say that they do not know. A long search, on the database
that the settings name, prints its steps:
`pytest -s tests/properties/test_effects_machine.py --hypothesis-profile=long`.
"""

from collections import Counter, defaultdict
from typing import Any
from uuid import UUID

import hypothesis
import pytest
from django.db import connection
from django.db.models import Q
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytest_django.fixtures import Settings

from audit import canonical
from escalations import contracts, left_calls
from escalations.contracts import Action, Family, State
from escalations.models import Decision, Escalation
from escalations.services import deciding, stating
from escalations.services.decision_request import StatementRequest
from runtime.contracts.states import ENDED, Effect, ReservationState
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.resources.models import Reservation
from tests.properties import effects_ground, lifecycle_ground
from tests.properties.effects_ground import ANSWERS, RECEIPT, SUCCEED, Bank, keeps_keys
from tests.properties.lifecycle_ground import Asked, Ground
from tests.properties.test_lifecycle_machine import (
    MEANWHILE,
    NUMBERS,
    ROUNDS,
    TENANT,
    WHEN,
    WORKERS,
    Lifecycle,
)
from tests.support import factories, ledger_tampering

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
KINDS = st.sampled_from(sorted(effects_ground.KINDS))
NAMES = st.sampled_from([RECEIPT, *sorted(ANSWERS), *[RECEIPT] * 8])
PROPOSALS = st.builds(
    Asked,
    kind=KINDS,
    quantity=st.sampled_from([10, 20, 30, 40]),
    window_s=st.sampled_from([600, 600, 5]),
)
# What a person says of a call in doubt: the truth, that nobody knows, or nothing at all.
SAYS = st.sampled_from(["truth", "truth", "unknown", "nothing"])
STEPS = {"gate": 100, "default": 100, "long": 20_000}
EXAMPLES, STEPS_OF_ONE = 5, 25
CHECKED_EVERY = 10


class Effects(Lifecycle):
    """The lifecycle machine with other targets, and with people whose word the model can check."""

    def __init__(self, ground: Ground, bank: Bank, reached: Counter[Any]) -> None:
        super().__init__(ground, reached)
        self.bank = bank
        self.steps_played = 0

    # The same rules, with the kinds and the answers of this ground.

    @initialize(target=Lifecycle.posted, kinds=st.lists(KINDS, min_size=2, max_size=4))
    def begin(self, kinds: list[str]) -> Any:
        """A few accepted proposals, so that there is something for things to happen to."""
        self.ground.shake_hands()
        posts = [self.propose(self.open(), Asked(kind=kind)) for kind in kinds]
        return multiple(*[post for post in posts if post])

    @rule(target=Lifecycle.posted, asked=PROPOSALS, owner=WORKERS, fates=st.lists(NAMES, max_size=5))
    def trade(self, asked: Asked, owner: str, fates: list[str]) -> Any:
        """A proposal in a flow of its own; what is accepted goes to its target so many times."""
        return self.carry(asked, owner, fates)

    @rule(target=Lifecycle.posted, dfid=Lifecycle.opened, asked=PROPOSALS)
    def trade_in(self, dfid: UUID, asked: Asked) -> Any:
        """A proposal to a flow in any state, also to one that is in doubt."""
        before = {row.pk for row in Intent.objects.filter(flow=dfid)}
        in_doubt = calls_in_doubt.is_flow_in_doubt(flow=Flow.objects.get(pk=dfid))
        post = self.propose(dfid, asked)
        after = {row.pk for row in Intent.objects.filter(flow=dfid)}
        assert not (in_doubt and after - before), "an agent has put something in place of a call in doubt"
        return post or multiple()

    @precondition(lambda self: self.pending().exists())
    @rule(number=NUMBERS, owner=WORKERS, fates=st.lists(NAMES, min_size=1, max_size=5))
    def attempt(self, number: int, owner: str, fates: list[str]) -> None:
        """One worker takes one intent to its target, as often as there are answers for it."""
        intent = self.pending()[number % self.pending().count()]
        for fate in fates:
            self.work(intent.pk, owner, fate)

    @precondition(lambda self: self.pending().exists())
    @rule(number=NUMBERS, owner=WORKERS, fate=NAMES, meanwhile=MEANWHILE, when=WHEN)
    def attempt_while(self, number: int, owner: str, fate: str, meanwhile: str, when: str) -> None:
        """One worker takes one intent; in the middle something happens, or the worker ends there."""
        intent = self.pending()[number % self.pending().count()]
        setattr(self.ground.between, when, lambda: self.befall(meanwhile, intent))
        self.work(intent.pk, owner, fate)

    @rule(
        target=Lifecycle.posted,
        kind=st.sampled_from([name for name in sorted(effects_ground.KINDS) if name.endswith("_STEPS")]),
        done=st.integers(1, 2),
        owner=WORKERS,
        undoing=st.lists(NAMES, min_size=1, max_size=3),
    )
    def turn_back(self, kind: str, done: int, owner: str, undoing: list[str]) -> Any:
        """A new intent does some of its three steps, fails for good at the next, and undoes some of them."""
        self.settle()
        return self.carry(Asked(kind=kind), owner, [*[RECEIPT] * done, "422", *undoing])

    def work(self, intent_id: UUID, owner: str, fate: str) -> None:
        """Attempt an intent; a target that hangs is soon given up, and its call has arrived by then."""
        self.bank.fate = fate
        with self.bank.hanging():
            super().work(intent_id, owner, fate)
        state = Attempt.objects.filter(intent=intent_id).order_by("-number").values_list("state", flat=True)
        self.reached[fate, state.first()] += 1

    # People who tell the truth.

    @precondition(lambda self: Escalation.objects.filter(state=State.OPEN).exists())
    @rule(number=NUMBERS, choice=NUMBERS, quantity=st.sampled_from([10, 30, 70]), says=SAYS)
    def decide(self, number: int, choice: int, quantity: int, says: str) -> None:
        """Any action that a truthful person may take."""
        waiting = list(Escalation.objects.filter(state=State.OPEN).order_by("opened_at"))
        escalation = waiting[number % len(waiting)]
        offered = contracts.offered(Family(escalation.family))
        self.take(escalation, offered[choice % len(offered)], quantity=quantity, says=says)

    def take(self, escalation: Escalation, action: Action, *, says: str, quantity: int = 10) -> None:
        """Take the action, or the one that is true instead; what the runtime makes of it is checked."""
        intent = escalation.intent
        happened = self.effects[self.last_key(escalation)] > 0
        if intent is not None and action is Action.RESUME and happened and not keeps_keys(intent.target):
            action = Action.MARK_DONE
        if action is Action.MARK_DONE and not happened:
            action = Action.ABORT
        effect = self.said_of(escalation, says)
        named: dict[str, Any] = {"effect": effect}
        if action is Action.MODIFY:
            named["params"] = {"quantity": quantity}
        elif action is Action.MARK_DONE:
            named["receipt"] = {"order_id": "found"}
        in_doubt = intent is not None and calls_in_doubt.is_in_doubt(intent=intent)
        answer = factories.decide(escalation, self.ground.olivia, action, **named)
        if isinstance(answer, deciding.DecisionResult):
            assert not (in_doubt and action is Action.MODIFY) or effect is Effect.NOT_HAPPENED
            self.reached[action, effect if in_doubt else "not in doubt"] += 1
        else:
            assert action is not Action.ABORT, answer

    def said_of(self, escalation: Escalation, says: str) -> Effect | None:
        """What a person says of the call in doubt of an escalation."""
        if says != "truth":
            return Effect.UNKNOWN if says == "unknown" else None
        keys = Attempt.objects.filter(calls_in_doubt.IN_DOUBT, intent=escalation.intent_id)
        here = self.last_key(escalation)
        known = set(keys.values_list("target_key", flat=True))
        return self.truth(here if here in known or not known else known.pop())

    def truth(self, key: str) -> Effect:
        """What became of a call, as the target knows it."""
        return Effect.HAPPENED if self.effects[key] else Effect.NOT_HAPPENED

    @precondition(lambda self: calls_in_doubt.count_left(tenant=TENANT) > 0)
    @rule(number=NUMBERS)
    def state(self, number: int) -> None:
        """Somebody finds out what became of a call that was left in doubt."""
        left = left_calls.list_calls(tenant=TENANT)
        self.settle_call(left[number % len(left)])

    def settle_call(self, left: left_calls.Left) -> None:
        """State the truth of it."""
        call, olivia = left.call, self.ground.olivia
        effect = self.truth(call.target_key)
        said = StatementRequest(
            intent_id=call.intent_id, number=call.number, effect=effect, reason="I have looked at it."
        )
        answer = stating.state(tenant=TENANT, person=factories.person(olivia), user=olivia, request=said)
        assert isinstance(answer, stating.StatementResult), answer
        self.reached["stated later", effect] += 1

    # What must hold.

    @invariant()
    def nothing_is_wrong(self) -> None:
        """All that the lifecycle machine checks, now and then and in the end: it costs more than a step."""
        if self.steps_played % CHECKED_EVERY == 0:
            super().nothing_is_wrong()

    @property
    def effects(self) -> Counter[str]:
        """How often each key was done at its target."""
        return self.bank.effects

    @invariant()
    def no_effect_is_there_twice(self) -> None:
        """Not under one key, and not by one call in place of another."""
        self.steps_played += 1
        twice = [key for key, count in self.effects.items() if count > 1]
        assert not twice, [calls_under(key) for key in twice]
        in_the_world: dict[UUID, set[UUID]] = defaultdict(set)
        for intent_id, steps in self.standing().items():
            assert not steps.issuperset(effects_ground.ALTERNATIVES), (
                f"{intent_id}: a step and the one in its place"
            )
            if steps:
                in_the_world[Intent.objects.get(pk=intent_id).flow_id].add(intent_id)
        assert all(len(found) == 1 for found in in_the_world.values()), in_the_world

    @invariant()
    def nothing_ends_in_doubt_unless_a_person_says_so(self) -> None:
        """An end with a call in doubt is an ABORT by somebody who signed that nobody knows."""
        ended = Q(intent__flow__state__in=ENDED)
        for intent_id in set(
            Attempt.objects.filter(calls_in_doubt.IN_DOUBT & ended).values_list("intent", flat=True)
        ):
            rows = Decision.objects.filter(escalation__intent=intent_id, action=Action.ABORT)
            said = [canonical.decode(bytes(row.statement)).get("effect") for row in rows]
            assert Effect.UNKNOWN in said, (intent_id, said)

    @invariant()
    def what_is_free_has_no_effect_and_what_is_used_up_may_have_one(self) -> None:
        """Reservations are what statements and receipts say, and truthful people say what is."""
        standing = self.standing()
        rows = Reservation.objects.exclude(proposal__intent=None).values_list(
            "proposal__intent", "state", "flow__state"
        )
        for intent_id, state, flow_state in rows:
            stands = bool(standing.get(intent_id))
            if state == ReservationState.RELEASED:
                assert not stands, f"what {intent_id} held is free, and its effect is in the world"
            elif flow_state in ENDED and not calls_in_doubt.is_in_doubt(
                intent=Intent.objects.get(pk=intent_id)
            ):
                assert stands, f"what {intent_id} held is used up, and all know that nothing happened"

    def standing(self) -> dict[UUID, set[str]]:
        """The steps of each intent whose effect is in the world, as its target knows it."""
        keys: dict[UUID, dict[tuple[str, str], str]] = defaultdict(dict)
        for intent_id, step, direction, key in Attempt.objects.values_list(
            "intent", "step", "direction", "target_key"
        ):
            keys[intent_id][step, direction] = key
        return {intent_id: effects_ground.standing(self.effects, calls) for intent_id, calls in keys.items()}

    def drain(self) -> None:
        """All ends, by people who abort and may not know; then all is found out, and nothing is left."""
        self.reached["steps"] += self.steps_played
        self.steps_played = 0
        self.settle()
        for turn in range(ROUNDS):
            if not Flow.objects.exclude(state__in=ENDED).exists():
                break
            self.wait(90_000)
            for intent in self.pending():
                self.work(intent.pk, "the last", SUCCEED)
            for escalation in Escalation.objects.filter(state=State.OPEN):
                self.take(escalation, Action.ABORT, says="truth" if turn % 2 else "nothing")
        self.what_is_free_has_no_effect_and_what_is_used_up_may_have_one()
        while left := left_calls.list_calls(tenant=TENANT):
            self.settle_call(left[0])
        assert not calls_in_doubt.list_calls(tenant=TENANT).exists()
        self.what_is_free_has_no_effect_and_what_is_used_up_may_have_one()
        assert ledger_tampering.differences() == []


def calls_under(key: str) -> list[Any]:
    """What is recorded of the attempts under one key, for whoever reads of a failure."""
    rows = Attempt.objects.filter(target_key=key).order_by("number")
    return list(
        rows.values_list("intent__proposal__policy_kind", "number", "purpose", "state", "detail", "sent_at")
    )


def test_no_answer_and_no_decision_makes_an_effect_twice(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    profile = hypothesis.settings.get_current_profile_name()
    wanted, reached, bank = STEPS.get(profile, STEPS["default"]), Counter[Any](), Bank()
    with lifecycle_ground.made(monkeypatch, pack=effects_ground.PACK, broker=bank) as ground:

        class Played(Effects):
            def __init__(self) -> None:
                super().__init__(ground, bank, reached)

        while reached["steps"] < wanted:
            run_state_machine_as_test(Played, settings=_settings(is_long=profile == "long"))
            print(f"{reached['steps']} steps on {connection.vendor}, nothing found", flush=True)
    steps = reached.pop("steps")
    if profile == "long":
        for what, times in sorted(reached.items(), key=str):
            print(f"{times:7} {what}")
        missing = sorted(name for name in ANSWERS if not any(key[0] == name for key in reached))
        assert not missing, f"these answers never came: {missing}"
    assert steps >= wanted


def _settings(*, is_long: bool) -> hypothesis.settings:
    """Few lives of many steps. The long search is never the same twice, and does not shrink."""
    phases = [phase for phase in hypothesis.Phase if not (is_long and phase is hypothesis.Phase.shrink)]
    return hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS_OF_ONE * (2 if is_long else 1),
        derandomize=not is_long,
        phases=phases,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )

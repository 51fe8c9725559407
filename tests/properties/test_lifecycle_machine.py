"""The whole lifecycle in any order: proposals, people, workers, crashes, stops and the passing of time.

Real services, a real database, a real target over HTTP. A longer search than the suite's:
`pytest tests/properties/test_lifecycle_machine.py --hypothesis-profile=long`.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

import hypothesis
import pytest
from django.db import transaction
from django.db.models import QuerySet
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from escalations import contracts
from escalations.contracts import Action, Family, State
from escalations.models import Escalation
from escalations.services import deciding
from runtime.contexts.services import usage
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import ENDED, AgentStatus, Effect, IntentState
from runtime.execution.services import attempting
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.services import flows
from runtime.maintenance.services import sweeper
from runtime.proposals.services import intake
from runtime.registry.services import agents
from runtime.state.services import facts
from runtime.stops.services import stops
from tests.properties import lifecycle_ground, lifecycle_invariants
from tests.properties.lifecycle_ground import AGENT, Fate, Ground, WorkerDiedError
from tests.support import factories

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
TENANT, ADMIN = factories.TENANT, "user:1"
HOLDS = ("stop", "stop the agent", "lock", "market closes")
# Accepted, until they no longer fit; a person decides; never.
QUANTITIES = st.sampled_from([10, 10, 10, 20, 40, 60, 70, 90])
PROPOSALS = st.builds(
    lifecycle_ground.Asked,
    kind=st.sampled_from(lifecycle_ground.KINDS),
    quantity=QUANTITIES,
    confidence=st.sampled_from([0.9, 0.9, 0.9, 0.1]),
    window_s=st.sampled_from([600, 600, 5]),
)
WAITS_S = st.sampled_from([*[6] * 10, 31, 31, 31, 61, 700, 90_000])
WORKERS = st.sampled_from(["worker-1", "worker-2", "worker-3"])
MEANWHILE = st.sampled_from(
    ["the worker dies"] * 4 + [*HOLDS, "lapse", "lapse", "cancel", "end the parent", "another worker"]
)
WHEN = st.sampled_from(["after_claim", "after_call"])
FATES = st.sampled_from([Fate.SUCCEED, Fate.SUCCEED, Fate.SUCCEED, *Fate])
# Of what undoes a step: most of it works, some of it a person has to look at.
UNDOING = st.sampled_from([*[Fate.SUCCEED] * 3, Fate.REFUSE, Fate.REFUSE, Fate.LOSE_AFTER, Fate.BUSY])
NUMBERS = st.integers(0, 9)
ROUNDS = 12
# What a search must have come across, or it has shown nothing.
REACHED = {
    "intent:in_doubt",
    "intent:blocked",
    "saga:advanced",
    "saga:dirtied",
    "saga:compensated",
    "resource:released",
    "resource:committed",
    Reason.COMPENSATION_FAILED,
    Reason.IN_DOUBT,
}
# Flow, Idempotency-Key, body, stored answer.
Post = tuple[UUID, str, bytes, bytes]


class Lifecycle(RuleBasedStateMachine):
    """One desk, its flows, its workers, its person; time passes only where a rule says so."""

    opened = Bundle("opened")
    posted = Bundle("posted")

    def __init__(self, ground: Ground, reached: Counter[Any]) -> None:
        super().__init__()
        self.ground, self.reached = ground, reached
        self.watch = lifecycle_invariants.Watch()
        self.sent_again: Counter[str] = Counter()
        self.stopped = False
        self.example = transaction.atomic()
        self.example.__enter__()
        ground.begin()

    @initialize(
        target=posted, kinds=st.lists(st.sampled_from(lifecycle_ground.KINDS), min_size=2, max_size=5)
    )
    def begin(self, kinds: list[str]) -> Any:
        """A few accepted proposals, so that there is something for things to happen to."""
        self.ground.shake_hands()
        asked = [lifecycle_ground.Asked(kind=kind) for kind in kinds]
        return multiple(*[post for post in (self.propose(self.open(), one) for one in asked) if post])

    # The agent.

    @rule(target=opened, parent=st.none() | opened)
    def open_flow(self, parent: UUID | None) -> Any:
        """A flow of its own, or one under another where that one takes a child."""
        opened = self.ground.open(parent)
        return multiple() if isinstance(opened, Problem) else opened

    @rule(target=posted, asked=PROPOSALS, owner=WORKERS, fates=st.lists(FATES, max_size=4))
    def trade(self, asked: lifecycle_ground.Asked, owner: str, fates: list[Fate]) -> Any:
        """A proposal in a flow of its own; what is accepted goes to its target at once, so many times."""
        return self.carry(asked, owner, fates)

    @rule(target=posted, dfid=opened, asked=PROPOSALS)
    def trade_in(self, dfid: UUID, asked: lifecycle_ground.Asked) -> Any:
        """A proposal to a flow in any state."""
        return self.propose(dfid, asked) or multiple()

    def open(self) -> UUID:
        """A flow of its own."""
        opened = self.ground.open(None)
        assert isinstance(opened, UUID), opened
        return opened

    def propose(self, dfid: UUID, asked: lifecycle_ground.Asked) -> Post | None:
        """A proposal on a fresh context; what was posted and answered, unless the flow takes none."""
        body = self.ground.body(dfid, asked)
        if body is None:
            return None
        key = uuid4().hex
        answer = self.ground.post(dfid, key, body)
        return None if isinstance(answer, Problem) else (dfid, key, body, answer.body)

    @rule(post=posted, same=st.booleans())
    def post_again(self, post: Post, same: bool) -> None:
        """The same call once more gets the stored answer, whatever has happened since; another body none."""
        dfid, key, body, stored = post
        before = Intent.objects.count()
        if same:
            assert self.ground.post(dfid, key, body) == intake.Answered(body=stored)
        else:
            answer = self.ground.post(dfid, key, body.replace(b'"quantity":', b'"quantity":1'))
            assert isinstance(answer, Problem)
            assert answer.code == "IDEMPOTENCY_KEY_REUSED"
        assert Intent.objects.count() == before

    @precondition(lambda self: Flow.objects.exclude(state__in=ENDED).exists())
    @rule(number=NUMBERS, how=st.sampled_from(["cancel", "cancel", "close", "overspend"]))
    def withdraw(self, number: int, how: str) -> None:
        """The agent ends a flow, where that is still possible."""
        living = list(Flow.objects.exclude(state__in=ENDED).order_by("opened_at"))
        dfid = living[number % len(living)].pk
        if how == "cancel":
            flows.cancel(agent=self.agent, dfid=dfid, reason="Enough")
        elif how == "close":
            flows.close(agent=self.agent, dfid=dfid, reason="Done")
        else:
            usage.report(agent=self.agent, dfid=dfid, asked=api_schemas.UsageRequest(tokens=1_001))

    # The workers and their target.

    @precondition(lambda self: self.pending().exists())
    @rule(number=NUMBERS, owner=WORKERS, fates=st.lists(FATES, min_size=1, max_size=5))
    def attempt(self, number: int, owner: str, fates: list[Fate]) -> None:
        """One worker takes one intent to its target, as often as there are fates for it."""
        intent, calls = self.pending()[number % self.pending().count()], self.ground.broker.calls
        for fate in fates:
            self.work(intent.pk, owner, fate)
        assert not self.stopped or self.ground.broker.calls == calls, "the target was called after the stop"

    @precondition(lambda self: self.pending().exists())
    @rule(number=NUMBERS, owner=WORKERS, fate=FATES, meanwhile=MEANWHILE, when=WHEN)
    def attempt_while(self, number: int, owner: str, fate: Fate, meanwhile: str, when: str) -> None:
        """One worker takes one intent; in the middle something happens, or the worker ends there."""
        intent = self.pending()[number % self.pending().count()]
        calls, stopped = self.ground.broker.calls, self.stopped
        setattr(self.ground.between, when, lambda: self.befall(meanwhile, intent))
        self.work(intent.pk, owner, fate)
        if stopped or (self.stopped and when == "after_claim"):
            assert self.ground.broker.calls == calls, "the target was called after the stop"

    @rule(
        target=posted,
        kind=st.sampled_from(lifecycle_ground.KINDS[1:]),
        done=st.integers(1, 2),
        owner=WORKERS,
        undoing=st.lists(UNDOING, min_size=1, max_size=3),
    )
    def turn_back(self, kind: str, done: int, owner: str, undoing: list[Fate]) -> Any:
        """A new intent does some of its three steps, fails for good at the next, and undoes some of them."""
        self.settle()
        asked = lifecycle_ground.Asked(kind=kind)
        return self.carry(asked, owner, [*[Fate.SUCCEED] * done, Fate.REFUSE, *undoing])

    def carry(self, asked: lifecycle_ground.Asked, owner: str, fates: Iterable[str]) -> Any:
        """A proposal in a flow of its own, and a worker that attempts its intent, if there is one."""
        calls = self.ground.broker.calls
        post = self.propose(self.open(), asked)
        intent = Intent.objects.filter(flow=post[0]).first() if post else None
        if intent is not None:
            for fate in fates:
                self.work(intent.pk, owner, fate)
        assert not self.stopped or self.ground.broker.calls == calls, "the target was called after the stop"
        return post or multiple()

    def pending(self) -> QuerySet[Intent]:
        """The intents that wait for a worker, in order."""
        return Intent.objects.filter(state=IntentState.PENDING).order_by("created_at", "pk")

    def work(self, intent_id: UUID, owner: str, fate: str) -> None:
        """Attempt an intent at a target in this mood, unless the worker dies of it."""
        self.ground.broker.fate = fate
        try:
            attempting.attempt(intent_id, owner=owner)
        except WorkerDiedError:
            pass
        finally:
            self.ground.between.after_claim = self.ground.between.after_call = None

    def befall(self, meanwhile: str, intent: Intent) -> None:
        """What can happen while a worker is in the middle of an attempt."""
        if meanwhile == "the worker dies":
            raise WorkerDiedError
        if meanwhile in HOLDS:
            self.hold(meanwhile)
        elif meanwhile == "lapse":
            self.wait(31)
        elif meanwhile == "another worker":
            attempting.attempt(intent.pk, owner="worker-4")
        else:
            parent = Flow.objects.get(pk=intent.flow_id).parent_id
            dfid = parent if meanwhile == "end the parent" and parent else intent.flow_id
            flows.cancel(agent=self.agent, dfid=dfid, reason="Enough")

    # Time, and what it ends.

    @rule(seconds=WAITS_S)
    def wait(self, seconds: int) -> None:
        """Windows, leases, deadlines and idle flows end; the sweeper and the agent go on."""
        self.ground.clock.move(seconds)
        assert sweeper.sweep().failed == 0
        self.ground.shake_hands()

    @rule(what=st.sampled_from([*["settle"] * 6, "a price moves", "a price jumps", *HOLDS]))
    def disturb(self, what: str) -> None:
        """The world moves, somebody holds things back, or all is well again."""
        if what == "settle":
            self.settle()
        elif what.startswith("a price"):
            self.write_fact("price.ABC", 105 if what.endswith("moves") else 130)
        else:
            self.hold(what)

    def settle(self) -> None:
        """Nothing is held back, and the market is as it was."""
        stops.resume_all(tenant=TENANT, actor=ADMIN)
        stops.resume_agent(tenant=TENANT, agent_id=AGENT, actor=ADMIN)
        self.stopped = False
        self.set_status(AgentStatus.ACTIVE)
        self.write_fact("market.state", "OPEN")
        self.write_fact("price.ABC", 100)

    def hold(self, what: str) -> None:
        """A stop, a status, or a market that closes."""
        match what:
            case "stop":
                stops.stop_all(tenant=TENANT, actor=ADMIN, reason="trial")
                self.stopped = True
            case "stop the agent":
                stops.stop_agent(tenant=TENANT, agent_id=AGENT, actor=ADMIN, reason="trial")
                self.stopped = True
            case "lock":
                self.set_status(AgentStatus.LOCKED)
            case "market closes":
                self.write_fact("market.state", "CLOSED")
            case _:
                raise ValueError(what)

    def set_status(self, status: AgentStatus) -> None:
        """An admin holds the agent back, or lets it go on."""
        agents.set_status(tenant=TENANT, agent_id=AGENT, status=status, reason="trial", actor=ADMIN)

    def write_fact(self, path: str, value: Any) -> None:
        """The next version of a fact."""
        facts.write(tenant=TENANT, path=path, value=value, writer="feed:trial", expected_version=None)

    # People.

    @precondition(lambda self: Escalation.objects.filter(state=State.OPEN).exists())
    @rule(number=NUMBERS, choice=NUMBERS, quantity=QUANTITIES, careful=st.booleans())
    def decide(self, number: int, choice: int, quantity: int, careful: bool) -> None:
        """A person takes any action; a careful one looks at the target before sending a call again."""
        waiting = list(Escalation.objects.filter(state=State.OPEN).order_by("opened_at"))
        escalation = waiting[number % len(waiting)]
        offered = contracts.offered(Family(escalation.family))
        action = offered[choice % len(offered)]
        key = self.last_key(escalation)
        happened = self.ground.broker.effects[key] > 0
        if careful and action is Action.RESUME and happened:
            action = Action.MARK_DONE
        named: dict[str, Any] = {}
        if action is Action.MODIFY:
            found = Effect.HAPPENED if careful and happened else Effect.NOT_HAPPENED
            named = {"params": {"quantity": quantity}, "effect": found}
        elif action is Action.MARK_DONE:
            named = {"receipt": {"order_id": "found"}}
        answer = factories.decide(escalation, self.ground.olivia, action, **named)
        if isinstance(answer, deciding.DecisionResult) and action is Action.RESUME and happened:
            self.sent_again[key] += 1

    def last_key(self, escalation: Escalation) -> str:
        """The key of the call that an operational escalation is about; empty for the other family."""
        rows = Attempt.objects.filter(intent=escalation.intent_id).order_by("-number")
        return rows.values_list("target_key", flat=True).first() or ""

    # What must hold.

    @property
    def agent(self) -> Any:
        """The one agent."""
        return self.ground.session.agent

    @invariant()
    def nothing_is_wrong(self) -> None:
        """After every step."""
        self.watch.check(self.ground.broker.effects, self.sent_again)

    def teardown(self) -> None:
        """Drain everything: then every flow has ended, and nothing is held."""
        try:
            self.drain()
            self.nothing_is_wrong()
            lifecycle_invariants.check_end()
            self.reached.update(LedgerEntry.objects.values_list("kind", flat=True))
            self.reached.update(Escalation.objects.values_list("reason", flat=True))
        finally:
            transaction.set_rollback(True)
            self.example.__exit__(None, None, None)

    def drain(self) -> None:
        """Lift what holds; then workers, the sweeper and a person who aborts, until nothing is left."""
        self.settle()
        for _ in range(ROUNDS):
            if not Flow.objects.exclude(state__in=ENDED).exists():
                return
            self.wait(90_000)
            for intent in self.pending():
                self.work(intent.pk, "the last", Fate.SUCCEED)
            for escalation in Escalation.objects.filter(state=State.OPEN):
                answer = factories.decide(escalation, self.ground.olivia, Action.ABORT)
                assert isinstance(answer, deciding.DecisionResult), answer


def test_whatever_happens_in_whatever_order(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    reached: Counter[str] = Counter()
    with lifecycle_ground.made(monkeypatch) as ground:

        class Played(Lifecycle):
            def __init__(self) -> None:
                super().__init__(ground, reached)

        run_state_machine_as_test(Played, settings=_settings())
    assert reached.keys() >= REACHED, sorted(REACHED - reached.keys())


def _settings() -> hypothesis.settings:
    """A sixth of the profile's examples: each is a life of many steps."""
    return hypothesis.settings(
        max_examples=hypothesis.settings().max_examples // 6,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )

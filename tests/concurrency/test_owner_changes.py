"""Admins race over who owns an agent: one change, made or dropped once."""

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.problem import Problem
from runtime.registry.models import Agent, OwnerChange
from runtime.registry.services import ownership, registration
from tests.support import factories, racing


def edit(by: str, owner: str) -> Agent | Problem:
    seen = registration.profile_of(Agent.objects.get())
    wanted = registration.Profile(owner=owner, mission=seen.mission, review_on=None)
    return registration.edit(tenant="default", agent_id="trader", seen=seen, wanted=wanted, actor=by)


def test_two_admins_ask_agree_and_drop_at_once_and_one_change_is_left(real_db: str) -> None:
    factories.desk(owner="ada")
    admins = [f"user:{factories.user(name, 'admin').pk}" for name in ("ada", "bob", "carl")]

    asked = racing.race(3, lambda number: edit(admins[number], "bob"))

    assert sorted(type(answer).__name__ for answer in asked) == ["Agent", "Problem", "Problem"]
    change = OwnerChange.objects.get()
    others = [admin for admin in admins if admin != change.asked_by]

    def end(number: int) -> OwnerChange | Problem:
        act = (ownership.agree, ownership.drop)[number]
        return act(tenant="default", agent_id="trader", change_pk=change.pk, actor=others[number])

    answers = racing.race(2, end)

    assert sum(isinstance(answer, OwnerChange) for answer in answers) == 1
    change.refresh_from_db()
    assert (change.agreed_at is None) is (change.dropped_at is not None)
    assert Agent.objects.get().owner == ("ada" if change.agreed_at is None else "bob")
    assert LedgerEntry.objects.filter(kind__startswith="agent:owner_change").count() == 2
    assert isinstance(verify_database(), Whole)

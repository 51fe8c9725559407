"""Eight flows want sixty of a hundred units: one gets them, and no unit is ever granted twice."""

from collections import Counter
from typing import Any

import pytest
from django.db import transaction

from audit.verification.verify import Whole, verify_database
from runtime.contracts import pack
from runtime.contracts.reasons import Reason
from runtime.contracts.states import ReservationState
from runtime.core import clock
from runtime.resources.models import Reservation, Resource
from runtime.resources.services import resources
from tests.support import factories, gate_cases, racing


def stock(name: str, capacity: int) -> None:
    """A resource, as a pack brings it."""
    with transaction.atomic():
        given = pack.PackResource(name=name, capacity=capacity, unit="units")
        resources.store(tenant=factories.TENANT, given=given, actor="system", at=clock.now())


def claiming(*claims: tuple[str, str], **fields: Any) -> factories.Desk:
    """A desk whose kind claims amounts of resources."""
    listed = [{"resource": name, "amount": amount} for name, amount in claims]
    return factories.desk(kind=gate_cases.kind(claims=listed, **fields))


def test_eight_flows_of_sixty_of_a_hundred_units_get_one(real_db: str) -> None:
    stock("units", 100)
    desk = claiming(("units", "60"))
    desks = [desk, *(factories.desk(agent_id=f"trader-{number}") for number in range(7))]
    opened = [one.open() for one in desks]
    answers = racing.race(8, lambda number: racing.propose(desks[number], opened[number]))
    assert Counter(answer["verdict"] for answer in answers) == {"ACCEPT": 1, "REJECT": 7}
    refused = [answer["reasons"] for answer in answers if answer["verdict"] == "REJECT"]
    assert {reason["code"] for reasons in refused for reason in reasons} == {Reason.RESOURCE_CONTENTION}
    assert {(reasons[0]["proposed_value"], reasons[0]["limit"]) for reasons in refused} == {(60, 40)}
    row = Resource.objects.get(name="units")
    assert (row.reserved, row.committed) == (60, 0)
    assert isinstance(verify_database(), Whole)


@pytest.mark.slow
def test_a_hundred_racers_for_three_units_get_three(real_db: str) -> None:
    stock("seats", 3)
    desk = claiming(("seats", "1"))
    desks = [desk, *(factories.desk(agent_id=f"trader-{number}") for number in range(9))]
    opened = [desks[number % 10].open() for number in range(100)]
    answers = racing.race(100, lambda number: racing.propose(desks[number % 10], opened[number]))
    assert Counter(answer["verdict"] for answer in answers) == {"ACCEPT": 3, "REJECT": 97}
    assert Resource.objects.get(name="seats").reserved == 3


def test_two_claims_are_taken_all_or_none(real_db: str) -> None:
    stock("plenty", 1_000)
    stock("few", 2)
    desk = claiming(("plenty", "10"), ("few", "1"))
    desks = [desk, *(factories.desk(agent_id=f"trader-{number}") for number in range(11))]
    opened = [one.open() for one in desks]
    answers = racing.race(12, lambda number: racing.propose(desks[number], opened[number]))
    assert Counter(answer["verdict"] for answer in answers) == {"ACCEPT": 2, "REJECT": 10}
    assert {row.name: row.reserved for row in Resource.objects.all()} == {"plenty": 20, "few": 2}
    assert Reservation.objects.filter(state=ReservationState.HELD).count() == 4

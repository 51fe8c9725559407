"""A target with a probe whose answer is chosen by the test, and a call to it whose own answer never came."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from uuid import UUID

from runtime.execution.services import attempting
from runtime.flows.models import Attempt
from tests.support import booking_targets, misbehaving_targets, trading_desk

PACK = trading_desk.PACK.replace(booking_targets.STEP, booking_targets.ASKED)
LINKED = "https://broker.example/orders?key={key}"


@dataclass
class Asked:
    """A running target: POST loses its answer, and GET is answered with `answer`."""

    answer: booking_targets.Answering
    standing: misbehaving_targets.StandIn

    @property
    def questions(self) -> list[misbehaving_targets.Seen]:
        """The status queries that have reached it."""
        return [seen for seen in self.standing.seen if seen.method == "GET"]


@contextmanager
def opened(answer: booking_targets.Answering) -> Iterator[Asked]:
    """A target that answers every question so, until the test says otherwise."""
    chosen: list[Asked] = []

    def treat(request: BaseHTTPRequestHandler) -> None:
        (misbehaving_targets.drop if request.command == "POST" else chosen[0].answer)(request)

    with misbehaving_targets.stand_in(treat) as standing:
        chosen.append(Asked(answer=answer, standing=standing))
        yield chosen[0]


def put_in_doubt(desk: trading_desk.Desk) -> Attempt:
    """A call that reached the target and was never answered: a person is asked."""
    intent_id: UUID = desk.accept()
    attempting.attempt(intent_id, owner=trading_desk.OWNER)
    return Attempt.objects.select_related("intent").get(intent=intent_id)

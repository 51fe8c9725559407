"""Reservations on their page: what stands and until when, why others ended, one page at a time."""

import re

import pytest
from django.db import transaction

from audit.access.roles import Role
from runtime.contexts.services import usage
from runtime.contracts import api_schemas, pack
from runtime.contracts.reasons import Reason
from runtime.core import clock
from runtime.flows.models import Intent
from runtime.resources.models import Reservation
from runtime.resources.queries import reservation_list
from runtime.resources.services import reservations, resources
from tests.support import factories, gate_cases
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/budgets/reservations/"
CASH, DESK = "cash:<b>USD</b>", "desk:hours"


@pytest.fixture
def desk() -> factories.Desk:
    """An agent that claims cash and hours."""
    with transaction.atomic():
        for name, unit in ((CASH, "cents"), (DESK, "h")):
            given = pack.PackResource(name=name, capacity=10_000_000, unit=unit)
            resources.store(tenant=factories.TENANT, given=given, actor="system", at=clock.now())
    claims = [{"resource": CASH, "amount": "params.notional_cents"}, {"resource": DESK, "amount": "2"}]
    return factories.desk(
        kind=gate_cases.kind(claims=claims), manifest=gate_cases.manifest(compute={"tokens": 1_000})
    )


def test_says_that_nothing_is_reserved() -> None:
    page = text_of(sign_in(Role.AUDITOR), PAGE)
    assert "No reservations" in page


def test_shows_what_stands_and_how_long(desk: factories.Desk) -> None:
    held, pinned = desk.open(), desk.open()
    desk.propose(held)
    desk.propose(pinned)
    with transaction.atomic():
        reservations.pin(intent=Intent.objects.get(flow=pinned.row()), at=clock.now())
    client = sign_in(Role.OPERATOR)
    page = text_of(client, PAGE)
    for flow in (held, pinned):
        assert page.count(f'href="/flows/{flow.dfid}/"') == 2
    for words in ("94,750", "Held", "Pinned", "until the call outcome", "cash:&lt;b&gt;USD&lt;/b&gt;"):
        assert words in page, words
    assert re.search(r'data-label="Lease left" class="nowrap">\d+ \w', page)
    assert not code_in(page)
    one = text_of(client, f"{PAGE}?resource={DESK}", **{"HX-Request": "true"})
    assert "<html" not in one
    assert "94,750" not in one
    assert one.count("/flows/") == 2


def test_shows_why_those_that_ended_did(desk: factories.Desk) -> None:
    done = desk.open()
    desk.propose(done)
    with transaction.atomic():
        reservations.release(flow=done.row(), reason=Reason.LEASE_ENDED, at=clock.now())
    client = sign_in(Role.OPERATOR)
    assert "No reservations" in text_of(client, PAGE)
    page = text_of(client, f"{PAGE}?show=ended")
    assert page.count("LEASE_ENDED") == 2
    assert "The flow waited until its lease on a resource expired." in page
    assert "No results" in text_of(client, f"{PAGE}?resource=gold")


def test_a_lease_that_is_over_but_not_yet_swept_says_so(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    Reservation.objects.update(lease_until=clock.now())
    assert text_of(sign_in(Role.OPERATOR), PAGE).count(">expired<") == 2


def test_pages_are_cut_by_key(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation_list, "PAGE", 3)
    opened = [desk.open() for _ in range(4)]
    for flow in opened:
        desk.propose(flow)
    client = sign_in(Role.OPERATOR)
    seen, address, pages = list[str](), f"{PAGE}?resource={CASH}", 0
    while address and pages < 5:
        page = text_of(client, address)
        pages += 1
        seen += [str(flow.dfid) for flow in opened if f"/flows/{flow.dfid}/" in page]
        following = page.split('rel="next" href="')
        address = PAGE + following[1].split('"')[0].replace("&amp;", "&") if len(following) > 1 else ""
    assert pages == 2
    assert sorted(seen) == sorted(str(flow.dfid) for flow in opened)
    for odd in ("x", "9" * 40, "-1"):
        assert client.get(f"{PAGE}?before={odd}").status_code == 200


def test_the_budgets_page_shows_use_over_time_of_one_agent_or_one_flow(desk: factories.Desk) -> None:
    other = factories.desk(agent_id="other", manifest=gate_cases.manifest(compute={"tokens": 1_000}))
    first, second = desk.open(), desk.open()
    third = other.open()
    for who, flow, tokens in ((desk, first, 11), (desk, second, 22), (other, third, 44)):
        usage.report(agent=who.again(), dfid=flow.dfid, asked=api_schemas.UsageRequest(tokens=tokens))
    desk.escalate()
    client = sign_in(Role.OPERATOR)
    for query, summary in (
        ("", "1 escalation, 77 tokens"),
        ("?agent=trader", "1 escalation, 33 tokens"),
        ("?agent=other", "0 escalations, 44 tokens"),
        (f"?flow={second.dfid}", "0 escalations, 22 tokens"),
        ("?flow=nonsense", "1 escalation, 77 tokens"),
        ("?agent=nobody", "0 escalations, 0 tokens"),
    ):
        page = text_of(client, f"/budgets/{query}")
        assert summary in page, query
        assert '<span class="value">77</span>' in page
        assert not code_in(page)
    assert "Usage over time of other" in text_of(client, "/budgets/?agent=other")
    assert "Figures as a table" in page

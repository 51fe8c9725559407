"""The replay on the page of a flow: equal, different with both values, or erased."""

import pytest
from django.test import Client
from django.urls import reverse

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.flows.models import Proposal
from runtime.maintenance.services import payloads
from tests.support import factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def path() -> str:
    desk = factories.desk()
    flow = desk.open()
    desk.propose(flow)
    return reverse("flow-replay", args=[flow.dfid])


def test_the_page_of_a_flow_offers_it(path: str) -> None:
    page = text_of(sign_in(Role.AUDITOR), path.removesuffix("replay"))
    assert f'hx-get="{path}"' in page
    assert 'id="replay"' in page


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.AUDITOR])
def test_says_that_everything_is_equal(path: str, role: Role) -> None:
    answer = text_of(sign_in(role), path)
    assert "Replay equal." in answer
    assert "1 verdict judged again" in answer


def test_shows_both_values_as_text(path: str) -> None:
    row = Proposal.objects.get()
    held = bytes(row.body)
    Proposal.objects.filter(pk=row.pk).update(body=held.replace(b'"BUY"', b'"<b>SELL"'))
    answer = text_of(sign_in(Role.AUDITOR), path)
    assert "An entry or a row is not what was recorded." in answer
    assert "/proposal/params/action" in answer
    assert ">BUY<" in answer
    assert ">&lt;b&gt;SELL<" in answer
    assert "<b>SELL" not in answer


def test_says_that_words_were_erased(path: str) -> None:
    opened = LedgerEntry.objects.get(kind="flow:opened")
    payloads.erase(
        tenant="default", commitment=opened.payload["trigger_commitment"], reason="asked", actor="user:1"
    )
    assert "Not replayable." in text_of(sign_in(Role.AUDITOR), path)


def test_is_for_people_who_are_signed_in_and_only_reads(path: str) -> None:
    assert Client().get(path).status_code == 302
    client = sign_in(Role.ADMIN)
    assert client.get(reverse("flow-replay", args=[UNKNOWN])).status_code == 404
    assert client.post(path).status_code == 405

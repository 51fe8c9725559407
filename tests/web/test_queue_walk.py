"""From one decision to the next item of the same queue, and what its page says of the one before."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.utils.html import escape

from audit.access.roles import Role
from escalations import contracts, queries
from escalations.models import Decision, Escalation
from escalations.queue_filter import QueueFilter
from escalations.views import queue_walk
from tests.support import demo_scenes
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db

REASON = "Within what the desk agreed"
PLACE = re.compile(r'<nav class="place".*?</nav>', re.DOTALL)


def escalate() -> None:
    session = demo_scenes.session_of("ambitious-trader")
    said = demo_scenes.propose(session, "ADJUST_POSITION", demo_scenes.order("BUY", 8, "AAPL", 8 * 18_950))
    assert "escalation_id" in said, said


@pytest.fixture
def queue() -> list[UUID]:
    """Three open items, in the order of the queue."""
    demo_scenes.load_pack()
    for _ in range(3):
        escalate()
    return queries.list_ids(tenant="default", wanted=QueueFilter())


@pytest.fixture
def olga() -> Client:
    return sign_in(Role.OPERATOR, name="olga")


def decide(client: Client, pk: UUID, action: str = "ABORT", **fields: Any) -> Any:
    case = Escalation.objects.get(pk=pk)
    shown = {"evidence_hash": case.evidence_hash, "version": case.version, "impact": case.impact}
    headers = fields.pop("headers", None)
    body = {**shown, "action": action, "justification": REASON, **fields}
    return client.post(f"/escalations/{pk}/decision/", body, headers=headers)


def place(client: Client, address: str) -> str:
    found = PLACE.search(text_of(client, address))
    assert found is not None
    return found[0]


def test_after_a_decision_comes_the_item_that_followed_and_past_the_end_the_first(
    queue: list[UUID], olga: Client
) -> None:
    first, second, third = queue
    assert decide(olga, second)["Location"] == f"/escalations/{third}/?done={second}"
    assert decide(olga, third)["Location"] == f"/escalations/{first}/?done={third}"
    last = decide(olga, first)
    assert last["Location"] == "/escalations/"
    page = text_of(olga, "/escalations/")
    assert "Aborted. Nothing will run." in page
    assert "No other escalation is open." in page


def test_the_filter_goes_along_and_limits_what_comes_next(queue: list[UUID], olga: Client) -> None:
    first, second, third = queue
    olga.post(f"/escalations/{first}/claim/")
    olga.post(f"/escalations/{third}/claim/")
    carried = "mine=1"
    page = text_of(olga, f"/escalations/{first}/?from=mine%3D1")
    assert '<input type="hidden" name="from" value="mine=1">' in page
    gone = decide(olga, first, **{"from": carried})
    assert gone["Location"] == f"/escalations/{third}/?from=mine%3D1&done={first}"
    assert decide(olga, third, **{"from": carried})["Location"] == "/escalations/?mine=1"
    assert Escalation.objects.get(pk=second).state == contracts.State.OPEN


def test_the_page_says_where_it_lies_and_links_to_its_neighbours(queue: list[UUID], olga: Client) -> None:
    first, second, third = queue
    middle = place(olga, f"/escalations/{second}/?from=q%3Dtrader")
    assert "2 of 3" in middle
    assert f'href="/escalations/{first}/?from=q%3Dtrader" data-previous' in middle
    assert f'href="/escalations/{third}/?from=q%3Dtrader" data-next' in middle
    assert f'href="/escalations/?q=trader#row-{second}"' in text_of(
        olga, f"/escalations/{second}/?from=q%3Dtrader"
    )
    assert "data-previous" not in place(olga, f"/escalations/{first}/")
    assert "data-next" not in place(olga, f"/escalations/{third}/")
    outside = place(olga, f"/escalations/{second}/?from=q%3Dnobody")
    assert "it lists 0 open" in outside
    decide(olga, second)
    assert f'href="/escalations/{first}/" data-next' in place(olga, f"/escalations/{second}/")


def test_a_question_leads_on_too_and_alone_it_stays(queue: list[UUID], olga: Client) -> None:
    first, second, third = queue
    assert decide(olga, first, "REQUEST_INFO", question="Why?")["Location"] == f"/escalations/{second}/"
    decide(olga, first)
    decide(olga, third)
    assert decide(olga, second, "REQUEST_INFO", question="And?")["Location"] == f"/escalations/{second}/"


def test_an_item_that_a_colleague_took_meanwhile_is_passed_over(queue: list[UUID]) -> None:
    first, second, third = queue
    assert queue_walk.next_after(first, before=queue, now=[first, third]) == third
    assert queue_walk.next_after(third, before=queue, now=[third, second]) == second
    new = uuid4()
    assert queue_walk.next_after(first, before=queue, now=[new, second]) == second
    assert queue_walk.next_after(uuid4(), before=queue, now=queue) == first
    assert queue_walk.next_after(first, before=[first], now=[first]) is None


def test_the_strip_is_for_the_person_who_just_decided(queue: list[UUID], olga: Client) -> None:
    first, second, _ = queue
    address = decide(olga, first, "OVERRIDE")["Location"]
    page = text_of(olga, address)
    assert 'class="just-decided"' in page
    assert "Overridden" in page
    fragment = text_of(olga, f"/escalations/{first}/strip/")
    assert 'class="just-decided"' in fragment
    assert f'href="/flows/{Escalation.objects.get(pk=first).flow_id}/"' in fragment
    sam = sign_in(Role.OPERATOR, name="sam")
    for other in (address, f"/escalations/{second}/?done={second}", f"/escalations/{second}/?done=x"):
        assert 'class="just-decided"' not in text_of(sam, other)
    assert text_of(sam, f"/escalations/{first}/strip/").strip() == ""
    Decision.objects.update(state=contracts.DecisionState.TAKEN_BACK)
    assert text_of(olga, f"/escalations/{first}/strip/").strip() == ""


def test_the_strip_ends_after_a_while(
    queue: list[UUID], olga: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = queue[0]
    decide(olga, first)
    assert text_of(olga, f"/escalations/{first}/strip/").strip()
    decided = Decision.objects.get(escalation=first).decided_at
    monkeypatch.setattr("runtime.core.clock.now", lambda: decided + timedelta(minutes=15, seconds=1))
    assert not text_of(olga, f"/escalations/{first}/strip/").strip()


def test_a_form_sent_in_place_is_told_where_to_go_and_refused_with_the_page(
    queue: list[UUID], olga: Client
) -> None:
    first, second, _ = queue
    in_place = {"HX-Request": "true"}
    refused = decide(olga, first, "OVERRIDE", version=99, headers=in_place)
    assert refused.status_code == 409
    assert 'data-code="VERSION_CHANGED"' in refused.content.decode()
    taken = decide(olga, first, headers=in_place)
    assert (taken.status_code, taken["HX-Redirect"]) == (204, f"/escalations/{second}/?done={first}")


@pytest.mark.parametrize(
    ("chosen", "goes_to"), [("timeline", "/flows/{flow}/"), ("queue", "/escalations/?q=trader")]
)
def test_a_person_chooses_where_to_go(queue: list[UUID], olga: Client, chosen: str, goes_to: str) -> None:
    first = queue[0]
    answer = olga.post(f"/escalations/{first}/after-decision/", {"after": chosen, "from": "q=trader"})
    assert answer["Location"] == f"/escalations/{first}/?from=q%3Dtrader"
    assert f'<option value="{chosen}" selected>' in text_of(olga, f"/escalations/{first}/")
    flow = Escalation.objects.get(pk=first).flow_id
    assert decide(olga, first, **{"from": "q=trader"})["Location"] == goes_to.format(flow=flow)


def test_a_choice_that_is_none_is_not_kept(queue: list[UUID], olga: Client) -> None:
    olga.post(f"/escalations/{queue[0]}/after-decision/", {"after": "https://elsewhere.example/"})
    assert queue_walk.COOKIE not in olga.cookies
    olga.cookies[queue_walk.COOKIE] = "elsewhere"
    assert decide(olga, queue[0])["Location"] == f"/escalations/{queue[1]}/?done={queue[0]}"


@pytest.mark.parametrize(
    "hostile",
    [
        "https://elsewhere.example/",
        "//elsewhere.example/?q=x",
        '"><script>alert(1)</script>',
        "next=/ledger/&impact=NONE&after=1&show=closed",
        "q=%00",
        "&" * 1999,
        "%ff%fe&\u202e=1",
    ],
)
def test_a_hostile_filter_is_no_filter(queue: list[UUID], olga: Client, hostile: str) -> None:
    answer = olga.get(f"/escalations/{queue[0]}/", {"from": hostile})
    assert answer.status_code == 200
    page = answer.content.decode()
    assert '<input type="hidden" name="from" value="">' in page
    assert escape(hostile) not in page
    taken = decide(olga, queue[0], **{"from": hostile})
    assert taken["Location"] == f"/escalations/{queue[1]}/?done={queue[0]}"


def test_a_claim_keeps_the_filter_of_its_page(queue: list[UUID], olga: Client) -> None:
    path = f"/escalations/{queue[0]}/"
    referer = {"Referer": f"http://testserver{path}?from=q%3Dtrader"}
    answer = olga.post(f"{path}claim/", headers=referer)
    assert answer["Location"] == f"{path}?from=q%3Dtrader"


def test_every_action_has_a_key_of_its_own_that_the_help_lists(queue: list[UUID], olga: Client) -> None:
    keys = [spec.key for spec in contracts.ACTIONS.values()]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set("jkcnex/?[]"), "it has another meaning already"
    fixed = {"OVERRIDE": "o", "MODIFY": "m", "REQUEST_INFO": "q", "ABORT": "a"}
    assert {name: contracts.Action(name).spec.key for name in fixed} == fixed
    page = text_of(olga, f"/escalations/{queue[0]}/")
    assert all(f"<kbd>{key}</kbd>" in page for key in keys)
    assert 'data-key="o"' in page


def test_the_count_carries_what_the_tab_shows(queue: list[UUID], olga: Client) -> None:
    nearest = min(row.deadline_at for row in Escalation.objects.all() if row.deadline_at)
    fragment = text_of(olga, "/escalations/count/")
    assert 'data-total="3"' in fragment
    assert f'data-next-deadline="{nearest.isoformat()}"' in fragment
    assert 'data-newest-high=""' in fragment

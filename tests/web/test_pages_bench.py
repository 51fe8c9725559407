"""The bench of a call in doubt: its key, a link to the target, its raw answer, and what each choice does."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import LedgerEntry
from escalations import consequences
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Effect
from runtime.core import clock
from runtime.core.views import labels
from runtime.flows.models import Attempt, Intent
from runtime.registry.queries import recorded_targets
from runtime.resources.models import Reservation, Resource
from runtime.stops.services import stops
from tests.escalations.test_replacing import CLAIMS, called
from tests.support import (
    asked_targets,
    factories,
    fake_target,
    gate_cases,
    misbehaving_targets,
    trading_desk,
)
from tests.support.asked_targets import Asked
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
HOSTILE = b'<script>alert(1)</script>\xe2\x80\xae{"a":"</pre><img src=x onerror=alert(2)>"}\xff\x00'


@pytest.fixture
def target(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    linked = asked_targets.PACK.replace("refuses:", f'deep_link: "{asked_targets.LINKED}", refuses:')
    monkeypatch.setattr(trading_desk, "PACK", linked)
    with asked_targets.opened(misbehaving_targets.answer(200, b'{"order_id":"7"}')) as opened:
        yield opened


@pytest.fixture
def olivia() -> User:
    return factories.user("olivia")


@pytest.fixture
def call(target: Asked) -> Attempt:
    return asked_targets.put_in_doubt(trading_desk.open_desk(base_url=target.standing.base_url))


def page_of(call: Attempt) -> str:
    return f"/escalations/{Escalation.objects.get(intent=call.intent_id).pk}/"


def ask_at(call: Attempt) -> str:
    return f"/escalations/in-doubt/{call.intent_id}/{call.number}/ask/"


def test_the_page_has_the_whole_key_a_link_and_the_question(call: Attempt) -> None:
    page = text_of(sign_in(Role.OPERATOR), page_of(call))
    assert f'data-copy="{call.target_key}"' in page
    assert f'href="https://broker.example/orders?key={call.target_key}"' in page
    assert 'rel="noopener noreferrer external"' in page
    assert f'action="{ask_at(call)}"' in page


def test_the_answer_is_shown_as_it_came_with_what_it_means(call: Attempt, target: Asked) -> None:
    client = sign_in(Role.OPERATOR)
    asked = client.post(ask_at(call))
    assert (asked.status_code, asked["Location"]) == (302, f"{page_of(call)}#bench")
    page = text_of(client, page_of(call))
    assert "{&quot;order_id&quot;:&quot;7&quot;}" in page
    assert "2xx with a JSON object is its receipt" in page
    assert "asked by somebody" in page
    assert Escalation.objects.get().state == "OPEN"
    assert "Status query answered" in text_of(client, f"/flows/{call.intent.flow_id}/")
    assert client.post(ask_at(call)).status_code == 429


def test_a_key_that_is_not_found_may_still_arrive(call: Attempt, target: Asked) -> None:
    client = sign_in(Role.OPERATOR)
    target.answer = misbehaving_targets.answer(404, b"{}")
    client.post(ask_at(call))
    page = text_of(client, page_of(call))
    assert "404 means that it has no call with this key" in page
    assert "may still have been on its way" in page


def test_a_hostile_answer_is_text(call: Attempt, target: Asked) -> None:
    client = sign_in(Role.OPERATOR)
    headers = {"Server": "<b>evil</b>", "Location": "javascript:alert(1)"}
    target.answer = misbehaving_targets.answer(500, HOSTILE, headers=headers)
    client.post(ask_at(call))
    page = text_of(client, page_of(call))
    for raw in ("<script>alert", "<img src=x", "\u202e", "<b>evil", 'href="javascript', "\x00"):
        assert raw not in page
    assert "&lt;script&gt;alert(1)" in page
    assert code_in(page) == []


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.ADMIN])
def test_only_who_decides_asks(role: Role, call: Attempt, target: Asked) -> None:
    client = sign_in(role)
    assert ask_at(call) not in text_of(client, page_of(call))
    assert client.post(ask_at(call)).status_code == 403
    assert target.questions == []


def test_neither_a_get_nor_a_forged_form_asks(call: Attempt, target: Asked) -> None:
    assert sign_in(Role.OPERATOR).get(ask_at(call)).status_code == 302
    client = Client(enforce_csrf_checks=True)
    client.force_login(factories.user("mara", groups=("operator",)))
    assert client.post(ask_at(call)).status_code == 403
    assert target.questions == []


def test_a_stop_says_why_nothing_was_asked(call: Attempt, target: Asked) -> None:
    stops.stop_all(tenant="default", actor="user:1", reason="trial")
    answer = sign_in(Role.OPERATOR).post(ask_at(call))
    assert answer.status_code == 409
    assert "Lift the stop first" in answer.content.decode()
    assert target.questions == []


def test_a_call_that_was_left_in_doubt_has_the_same_bench(call: Attempt, target: Asked) -> None:
    account = factories.user("olivia")
    factories.decide(Escalation.objects.get(), account, Action.ABORT)
    client = sign_in(Role.OPERATOR)
    assert f'action="{ask_at(call)}"' in text_of(client, "/escalations/in-doubt/")
    asked = client.post(ask_at(call))
    assert asked["Location"] == f"/escalations/in-doubt/#call-{call.intent_id}-1"
    page = text_of(client, "/escalations/in-doubt/")
    assert "{&quot;order_id&quot;:&quot;7&quot;}" in page
    call.refresh_from_db()
    assert call.effect == ""
    assert LedgerEntry.objects.filter(kind="status_query:finished").count() == 1


def lines(intent: Intent) -> dict[Action, str]:
    places = recorded_targets.list_places(tenant="default")
    found = consequences.of_intent(intent, place=places.get(intent.target), at=clock.now())
    return {action: " ".join(said) for action, said in found.items()}


def test_each_choice_says_what_it_does(call: Attempt) -> None:
    said = lines(call.intent)
    assert "may run twice" in said[Action.RESUME]
    assert "starts anew, 1 min from the retry" in said[Action.RESUME]
    assert "ends as executed" in said[Action.MARK_DONE]
    assert "Only if the call in doubt had no effect" in said[Action.MODIFY]
    assert "stays listed as in doubt" in said[Action.ABORT]
    page = text_of(sign_in(Role.OPERATOR), page_of(call))
    assert "may run twice" in page


def test_nothing_is_said_of_an_intent_that_was_rewritten(call: Attempt, target: Asked) -> None:
    requests = bytes(call.intent.requests).replace(b"/orders", b"/refund")
    Intent.objects.filter(pk=call.intent_id).update(requests=requests)
    client = sign_in(Role.OPERATOR)
    assert "may run twice" not in text_of(client, page_of(call))
    assert client.post(ask_at(call)).status_code == 409
    assert target.questions == []


def test_a_window_that_is_longer_than_a_new_one_holds(call: Attempt) -> None:
    call.intent.valid_until = clock.now() + timedelta(hours=3, minutes=-1)
    assert "holds for another 2 h" in lines(call.intent)[Action.RESUME]


def test_steps_are_named_with_what_becomes_of_them(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    pack = fake_target.pack().replace("refuses: [503]", "refuses: [503], honours_keys: true")
    monkeypatch.setattr(trading_desk, "PACK", pack)
    with fake_target.opened() as book:
        intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
        book.faults["/pay"] = [fake_target.LOSE]
        fake_target.walk(intent_id)
    intent = trading_desk.intent(intent_id)
    said = lines(intent)
    assert "cannot run twice, broker honours keys" in said[Action.RESUME]
    assert "Runs pay, then ship. Done before: reserve." in said[Action.RESUME]
    assert "pay counts as done, with your receipt; ship runs next" in said[Action.MARK_DONE]
    assert "Undone, newest first: reserve. Not run: ship." in said[Action.ABORT]
    assert "If the call took effect: it is undone." in said[Action.ABORT]


def test_amounts_have_their_units_and_end_as_said(olivia: User) -> None:
    Resource.objects.create(
        tenant="default", name="cash:USD", capacity=150_000, unit="cents", configured_at=clock.now()
    )
    case = called(factories.desk(kind=gate_cases.kind(claims=CLAIMS)), "UNKNOWN", Reason.IN_DOUBT)
    assert case.intent is not None
    held = Reservation.objects.get()
    amount = f"{labels.amount(held.amount, 'cents')} of cash:USD"
    said = lines(case.intent)
    assert f"{amount} stays reserved." in said[Action.RESUME]
    assert f"{amount} counts as used." in said[Action.MARK_DONE]
    assert f"{amount} is released first" in said[Action.MODIFY]
    assert f"If it had no effect: {amount} is released." in said[Action.ABORT]
    factories.decide(
        case, olivia, Action.ABORT, effect=Effect.NOT_HAPPENED, justification="Not in their book."
    )
    held.refresh_from_db()
    assert held.state == "RELEASED"


def test_what_undoes_a_step_says_what_stays(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened() as book:
        intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
        book.faults["/ship"] = [fake_target.REFUSE]
        book.faults["/pay/undo"] = [fake_target.LOSE]
        fake_target.walk(intent_id)
    said = lines(trading_desk.intent(intent_id))
    assert "Undoes pay again, then reserve." in said[Action.RESUME]
    assert "no validity window" in said[Action.RESUME]
    assert "pay counts as undone; then reserve is undone." in said[Action.MARK_DONE]
    assert "Steps that stay done: reserve, pay." in said[Action.ABORT]

"""The pages of tasks: who sees what, the typed form, refusals that keep the input, and what was erased."""

import html
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from audit.access.roles import Role
from runtime.contracts.states import IntentState
from runtime.execution.models import HumanTask
from runtime.flows.models import Intent
from tests.support import human_tasks, markup, trading_desk
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def intent_id(monkeypatch: pytest.MonkeyPatch) -> UUID:
    monkeypatch.setattr(trading_desk, "PACK", human_tasks.pack("approve", "order"))
    waiting = trading_desk.open_desk().accept()
    assert human_tasks.attempt(waiting) == "AWAITING"
    return waiting


def member(role: Role = Role.OPERATOR, *groups: str) -> Client:
    client = sign_in(role)
    account = User.objects.latest("pk")
    for name in groups or (human_tasks.GROUP,):
        account.groups.add(Group.objects.get_or_create(name=name)[0])
    return client


def page(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_list_names_tasks_of_my_groups_first(intent_id: UUID) -> None:
    mine = markup.words(page(member(), "/tasks/"))
    assert "For you 1 open" in mine
    assert "Look at 2 of ABC" in mine
    User.objects.update(username="first")
    other = markup.words(page(sign_in(Role.AUDITOR), "/tasks/"))
    assert "No task waits for a group that you are in." in other
    assert "For other groups 1 open" in other


def test_the_inbox_names_the_tasks_of_my_groups_alone(intent_id: UUID) -> None:
    task = human_tasks.task(intent_id)
    shown = page(member(), "/inbox/")
    assert f'href="/tasks/{task.pk}/"' in shown
    assert "treasury: approve of BUY, by " in markup.words(shown)
    User.objects.update(username="first")
    assert str(task.pk) not in page(member(Role.OPERATOR, "another"), "/inbox/")


def test_the_form_is_typed_and_the_answer_is_taken(intent_id: UUID) -> None:
    client, task = member(), human_tasks.task(intent_id)
    shown = page(client, f"/tasks/{task.pk}/")
    for control in (
        'name="param:approved"',
        'name="param:price" type="number"',
        'name="param:desk"',
        'name="param:note"',
    ):
        assert control in shown
    sent = {"task_hash": task.task_hash, "param:approved": "true", "param:price": "12", "param:desk": "B"}
    answered = client.post(f"/tasks/{task.pk}/answer/", sent)
    assert (answered.status_code, answered["Location"]) == (302, f"/tasks/{task.pk}/")
    assert Intent.objects.get(pk=intent_id).state == IntentState.PENDING
    after = page(client, f"/tasks/{task.pk}/")
    assert '"price": 12' in html.unescape(after)
    assert "The answer By" in markup.words(after)
    assert "Ended" in markup.words(page(client, "/tasks/"))


def test_a_wrong_answer_keeps_what_was_typed(intent_id: UUID) -> None:
    client, task = member(), human_tasks.task(intent_id)
    sent = {"task_hash": task.task_hash, "param:approved": "true", "param:price": "0", "param:note": "kept"}
    refused = client.post(f"/tasks/{task.pk}/answer/", sent)
    assert refused.status_code == 400
    words = refused.content.decode()
    assert "must be at least 1" in words
    assert 'value="kept"' in words
    assert Intent.objects.get(pk=intent_id).state == IntentState.AWAITING


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"answer": "{"}, 400),
        ({"answer": "[]"}, 400),
        ({"param:note": "a\x00b"}, 400),
        ({"param:note": "a" * 5000}, 400),
        ({"answer": '{"approved": true, "price": 3}'}, 302),
    ],
)
def test_what_is_written_as_json_is_read_whole(intent_id: UUID, sent: dict[str, str], status: int) -> None:
    client, task = member(), human_tasks.task(intent_id)
    answered = client.post(f"/tasks/{task.pk}/answer/", {"task_hash": task.task_hash, **sent})
    assert answered.status_code == status


def test_who_may_not_answer_sees_why_and_no_form(intent_id: UUID) -> None:
    task = human_tasks.task(intent_id)
    stranger = sign_in(Role.OPERATOR)
    User.objects.update(username="stranger")
    assert "Only people in the group treasury can answer this." in page(stranger, f"/tasks/{task.pk}/")
    assert "Record and sign" not in page(stranger, f"/tasks/{task.pk}/")
    assert stranger.post(f"/tasks/{task.pk}/answer/", {"task_hash": task.task_hash}).status_code == 403
    auditor = member(Role.AUDITOR)
    assert auditor.post(f"/tasks/{task.pk}/answer/", {"task_hash": task.task_hash}).status_code == 403
    assert Client().get(f"/tasks/{task.pk}/").status_code in (302, 403)


def test_nothing_is_answered_by_get_and_an_unknown_task_is_not_found(intent_id: UUID) -> None:
    client, task = member(), human_tasks.task(intent_id)
    assert client.get(f"/tasks/{task.pk}/answer/").status_code == 405
    assert client.get(f"/tasks/{UUID(int=7)}/").status_code == 404
    assert client.post(f"/tasks/{UUID(int=7)}/answer/", {}).status_code == 404


def test_a_rewritten_task_says_so(intent_id: UUID) -> None:
    client, task = member(), human_tasks.task(intent_id)
    HumanTask.objects.filter(pk=task.pk).update(step="other")
    assert "does not match the ledger" in page(client, f"/tasks/{task.pk}/")


def test_the_flow_says_that_a_person_is_waited_for(intent_id: UUID) -> None:
    flow = page(member(), f"/flows/{trading_desk.intent(intent_id).flow_id}/")
    assert "Waiting for a person" in flow
    assert "Waiting for the runtime" not in flow


def test_texts_of_agents_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = human_tasks.pack("approve").replace("Look at {quantity} of {symbol}", "<b>Look</b> at {symbol}")
    monkeypatch.setattr(trading_desk, "PACK", text)
    waiting = trading_desk.open_desk().accept()
    human_tasks.attempt(waiting)
    shown = page(member(), f"/tasks/{human_tasks.task(waiting).pk}/")
    assert "<b>Look</b>" not in shown
    assert "&lt;b&gt;Look&lt;/b&gt; at ABC" in shown


@pytest.mark.parametrize("forged", [b"\xff{", b"[null]"])
@pytest.mark.parametrize("column", ["body", "answer", "statement", "signature"])
def test_bytes_that_are_not_what_was_recorded_are_named_and_not_shown(
    intent_id: UUID, column: str, forged: bytes
) -> None:
    client, task = member(), human_tasks.task(intent_id)
    if column != "body":
        human_tasks.answer(task, human_tasks.person("tim"))
    HumanTask.objects.filter(pk=task.pk).update(**{column: forged})
    for address in ("/tasks/", f"/tasks/{task.pk}/"):
        shown = page(client, address)
        assert "[null]" not in shown
    if column != "signature":  # of that verify_ledger tells
        assert "does not match the ledger" in shown

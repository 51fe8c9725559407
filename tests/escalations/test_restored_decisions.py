"""What people may decide while a restored backup waits for an admin, and in the epoch after it."""

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deciding, dry_running
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Effect
from runtime.core import clock
from runtime.epochs.services import epochs
from runtime.flows.models import Intent
from runtime.flows.queries import calls_in_doubt
from runtime.maintenance.services import sweeper
from runtime.resources.models import Resource
from tests.escalations.test_left_in_doubt import leave, refused, state
from tests.escalations.test_replacing import CLAIMS, called
from tests.escalations.test_stating import HELD
from tests.support import decision_rows, factories, gate_cases, resources_pack, restored_backup
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return restored_backup.keep_mark(tmp_path, monkeypatch)


@pytest.fixture
def desk(db: None) -> factories.Desk:
    """A desk whose purchases claim cash."""
    Resource.objects.create(
        tenant="default", name="cash:USD", capacity=150_000, unit="cents", configured_at=clock.now()
    )
    return factories.desk(kind=gate_cases.kind(claims=CLAIMS))


@pytest.mark.parametrize("swept", [False, True])
def test_nothing_but_abort_is_taken_meanwhile(
    swept: bool, place: Path, desk: factories.Desk, olivia: User
) -> None:
    asked = desk.escalate()
    restored_backup.restore(place)
    if swept:
        sweeper.sweep()
    before = decision_rows.state_of(asked)
    for action in (Action.OVERRIDE, Action.MODIFY, Action.REQUEST_INFO):
        answer = factories.decide(asked, olivia, action, params=gate_cases.PARAMS)
        assert decision_rows.refused(answer) == (503, "RECOVERY")
    assert decision_rows.state_of(asked) == before
    assert isinstance(factories.decide(asked, olivia, Action.ABORT), deciding.DecisionResult)
    assert not Intent.objects.exists()


@pytest.mark.parametrize("swept", [False, True])
def test_nobody_states_meanwhile_what_became_of_a_call(
    swept: bool, place: Path, desk: factories.Desk, olivia: User
) -> None:
    left = leave(desk, olivia)
    restored_backup.restore(place)
    if swept:
        sweeper.sweep()
    assert refused(state(left, factories.user("mara"), Effect.NOT_HAPPENED)) == (503, "RECOVERY")
    assert resources_pack.used("cash:USD") == (0, HELD)
    assert calls_in_doubt.count_left(tenant="default") == 1


def test_an_abort_with_a_statement_waits_as_well(place: Path, desk: factories.Desk, olivia: User) -> None:
    asked = called(desk, "UNKNOWN", Reason.IN_DOUBT)
    restored_backup.restore(place)
    answer = factories.decide(asked, olivia, Action.ABORT, effect=Effect.NOT_HAPPENED)
    assert decision_rows.refused(answer) == (503, "RECOVERY")
    assert isinstance(
        factories.decide(asked, olivia, Action.ABORT, effect=Effect.UNKNOWN), deciding.DecisionResult
    )
    assert resources_pack.used("cash:USD") == (0, HELD)


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY])
def test_what_waited_before_the_restore_may_have_been_decided_since(
    action: Action, place: Path, desk: factories.Desk, olivia: User
) -> None:
    asked = desk.escalate()
    restored_backup.restore(place)
    sweeper.sweep()
    restored_backup.begin_next()
    answer = factories.decide(asked, olivia, action, params=gate_cases.PARAMS)
    assert decision_rows.refused(answer) == (409, "EPOCH_ENDED")
    tried = dry_running.dry_run(
        tenant="default",
        escalation_id=asked.pk,
        person=factories.person(olivia),
        request=factories.decision_request(asked, action, params=gate_cases.PARAMS),
    )
    assert isinstance(tried, Problem)
    assert tried.code == "EPOCH_ENDED"
    assert not Intent.objects.exists()
    assert isinstance(factories.decide(asked, olivia, Action.ABORT), deciding.DecisionResult)


def offered(client: Client, escalation: Escalation) -> list[str]:
    """The actions that the page offers."""
    page = text_of(client, f"/escalations/{escalation.pk}/")
    return re.findall(r'name="action" value="(\w+)"(?! disabled)', page)


def test_the_page_offers_what_is_taken_and_nothing_else(
    place: Path, desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, client = desk.escalate(), sign_in(Role.SENIOR, name="mara")
    assert offered(client, asked) == ["OVERRIDE", "MODIFY", "REQUEST_INFO", "ABORT"]
    with monkeypatch.context() as patched:
        patched.setattr(epochs, "refuse_while_recovering", lambda: epochs.WAITING)
        assert offered(client, asked) == ["ABORT"]
    ended = Problem(code=ProblemCode.EPOCH_ENDED, detail="It ended.")
    monkeypatch.setattr(epochs, "refuse_proposal", lambda flow: ended)
    assert offered(client, asked) == ["REQUEST_INFO", "ABORT"]

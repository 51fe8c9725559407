"""Claims: a lease that tells colleagues who is looking, and never decides who may."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import claiming, deciding
from runtime.contracts.problem import Problem
from runtime.core import clock
from tests.support import decision_rows, factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def escalation(desk: factories.Desk) -> Escalation:
    return desk.escalate()


def claim(escalation: Escalation, user: User) -> Problem | None:
    return claiming.claim(tenant="default", escalation_id=escalation.pk, user=user)


def release(escalation: Escalation, user: User) -> Problem | None:
    return claiming.release(tenant="default", escalation_id=escalation.pk, user=user)


def row() -> Escalation:
    return Escalation.objects.get()


def test_a_claim_is_a_lease_and_is_recorded(escalation: Escalation, olivia: User) -> None:
    assert claim(escalation, olivia) is None
    assert row().claimed_by == olivia
    assert decision_rows.recorded(escalation)[-1] == ("escalation:claimed", f"user:{olivia.pk}")


def test_a_claim_changes_neither_version_nor_evidence(escalation: Escalation, olivia: User) -> None:
    claim(escalation, olivia)
    assert (row().version, row().evidence_hash) == (escalation.version, escalation.evidence_hash)


def test_a_renewed_claim_lives_longer_and_is_recorded_as_such(
    escalation: Escalation, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(escalation, olivia)
    before = row().claimed_until
    assert before is not None
    monkeypatch.setattr(clock, "now", lambda: before - timedelta(minutes=1))
    assert claim(escalation, olivia) is None
    assert row().claimed_until == before + timedelta(minutes=9)
    assert [kind for kind, _ in decision_rows.recorded(escalation)].count("escalation:claimed") == 2
    assert decision_rows.last_payload(escalation)["renewed"] is True


def test_a_live_claim_of_a_colleague_is_a_conflict_and_no_bar_to_deciding(
    escalation: Escalation, olivia: User
) -> None:
    claim(escalation, olivia)
    mara = factories.user("mara")
    problem = claim(escalation, mara)
    assert problem is not None
    assert (problem.status, problem.code) == (409, "CLAIMED")
    assert "olivia" in problem.detail
    assert isinstance(factories.decide(escalation, mara), deciding.DecisionResult)


def test_a_claim_that_has_run_out_can_be_taken(
    escalation: Escalation, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(escalation, olivia)
    until = row().claimed_until
    assert until is not None
    monkeypatch.setattr(clock, "now", lambda: until)
    mara = factories.user("mara")
    assert claim(escalation, mara) is None
    assert row().claimed_by == mara


def test_a_claim_is_given_back_by_its_holder_only(escalation: Escalation, olivia: User) -> None:
    claim(escalation, olivia)
    assert release(escalation, factories.user("mara")) is None
    assert row().claimed_by == olivia
    assert release(escalation, olivia) is None
    assert (row().claimed_by, row().claimed_until) == (None, None)
    assert decision_rows.recorded(escalation)[-1] == ("escalation:released", f"user:{olivia.pk}")


def test_what_is_decided_cannot_be_claimed(escalation: Escalation, olivia: User) -> None:
    factories.decide(escalation, olivia, Action.ABORT)
    problem = claim(escalation, olivia)
    assert problem is not None
    assert problem.code == "ALREADY_DECIDED"


def test_what_is_not_there_is_not_found(escalation: Escalation, olivia: User) -> None:
    for act in (claiming.claim, claiming.release):
        for tenant, escalation_id in (("default", uuid4()), ("other", escalation.pk)):
            problem = act(tenant=tenant, escalation_id=escalation_id, user=olivia)
            assert problem is not None
            assert problem.status == 404

"""Claims that an open page renews, that are taken over with a reason, and handed over with a note."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import LedgerEntry
from escalations import note_list
from escalations.contracts import Action, NotePurpose
from escalations.models import Escalation, Note
from escalations.services import claiming
from runtime.contracts.problem import Problem
from runtime.core import clock
from tests.support import decision_rows, factories

pytestmark = pytest.mark.django_db
WHY = "The customer waits on the phone."


@pytest.fixture
def escalation(desk: factories.Desk) -> Escalation:
    return desk.escalate()


@pytest.fixture
def sam(db: None) -> User:
    return factories.user("sam")


def claim(escalation: Escalation, user: User) -> None:
    assert claiming.claim(tenant="default", escalation_id=escalation.pk, user=user) is None


def take_over(escalation: Escalation, user: User, holder: User | None, reason: str = WHY) -> Problem | None:
    seen = None if holder is None else holder.pk
    return claiming.take_over(
        tenant="default", escalation_id=escalation.pk, user=user, holder=seen, reason=reason
    )


def hand_over(escalation: Escalation, user: User, receiver: str, note: str = WHY) -> Problem | None:
    return claiming.hand_over(
        tenant="default", escalation_id=escalation.pk, user=user, receiver=receiver, note=note
    )


def renew(escalation: Escalation, user: User) -> bool:
    return claiming.renew(tenant="default", escalation_id=escalation.pk, user=user)


def row() -> Escalation:
    return Escalation.objects.get()


def last_move(escalation: Escalation) -> note_list.NoteShown | None:
    return note_list.get_last_move(tenant="default", dfid=escalation.flow_id, escalation_id=escalation.pk)


def at(moment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: moment)


def refused_action(escalation: Escalation) -> tuple[str, str]:
    assert decision_rows.recorded(escalation)[-1][0] == "escalation:refused"
    payload = decision_rows.last_payload(escalation)
    return payload["action"], payload["code"]


def test_an_open_page_renews_the_claim_without_an_entry(
    escalation: Escalation, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(escalation, olivia)
    until, entries = row().claimed_until, LedgerEntry.objects.count()
    assert until is not None
    at(until - timedelta(minutes=1), monkeypatch)
    assert renew(escalation, olivia)
    assert row().claimed_until == until + timedelta(minutes=9)
    assert LedgerEntry.objects.count() == entries
    assert decision_rows.unlike(escalation) == []


def test_other_pages_are_told_of_a_renewal(
    escalation: Escalation,
    olivia: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    claim(escalation, olivia)
    told: list[str] = []
    monkeypatch.setattr("audit.live.hints.hint", lambda **hint: told.append(hint["stream"]))
    with django_capture_on_commit_callbacks(execute=True):
        assert renew(escalation, olivia)
    assert told == [str(escalation.flow_id), "escalations"]


def test_only_the_holder_of_a_live_claim_on_an_open_escalation_renews_it(
    escalation: Escalation, olivia: User, sam: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not renew(escalation, olivia)
    claim(escalation, olivia)
    until = row().claimed_until
    assert until is not None
    assert not renew(escalation, sam)
    with monkeypatch.context() as patch:
        at(until, patch)
        assert not renew(escalation, olivia)
    assert row().claimed_until == until
    factories.decide(escalation, sam, Action.ABORT)
    assert not renew(escalation, olivia)


def test_a_decision_ends_the_claim_whoever_made_it(escalation: Escalation, olivia: User, sam: User) -> None:
    claim(escalation, olivia)
    factories.decide(escalation, sam)
    assert (row().claimed_by, row().claimed_until) == (None, None)


def test_a_takeover_moves_the_claim_and_keeps_the_reason(
    escalation: Escalation, olivia: User, sam: User
) -> None:
    claim(escalation, olivia)
    assert take_over(escalation, sam, olivia) is None
    assert row().claimed_by == sam
    assert decision_rows.recorded(escalation)[-1] == ("escalation:taken_over", f"user:{sam.pk}")
    assert decision_rows.last_payload(escalation)["former"] == f"user:{olivia.pk}"
    moved = last_move(escalation)
    assert moved is not None
    assert (moved.purpose, moved.author, moved.addressee) == (NotePurpose.TAKEOVER, "sam", "olivia")
    assert [piece.text for piece in moved.words] == [WHY]
    assert WHY.encode() not in b"".join(bytes(entry.body) for entry in LedgerEntry.objects.all())
    assert decision_rows.unlike(escalation) == []


@pytest.mark.parametrize(("reason", "code"), [(" \r\n ", "NOTE_EMPTY"), ("x" * 2001, "NOTE_TOO_LONG")])
def test_a_takeover_without_a_reason_is_refused(
    escalation: Escalation, olivia: User, sam: User, reason: str, code: str
) -> None:
    claim(escalation, olivia)
    assert decision_rows.refused(take_over(escalation, sam, olivia, reason)) == (422, code)
    assert row().claimed_by == olivia
    assert refused_action(escalation) == ("TAKE_OVER", code)
    assert not Note.objects.exists()


def test_a_takeover_from_somebody_who_was_not_shown_is_refused(
    escalation: Escalation, olivia: User, sam: User
) -> None:
    claim(escalation, olivia)
    assert take_over(escalation, sam, olivia) is None
    mara = factories.user("mara")
    problem = take_over(escalation, mara, olivia)
    assert decision_rows.refused(problem) == (409, "CLAIM_MOVED")
    assert problem is not None
    assert "sam" in problem.detail
    assert row().claimed_by == sam
    assert decision_rows.refused(take_over(escalation, mara, None)) == (409, "CLAIM_MOVED")


def test_a_takeover_of_a_claim_that_has_run_out_is_a_claim(
    escalation: Escalation, olivia: User, sam: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(escalation, olivia)
    at(row().claimed_until, monkeypatch)
    assert take_over(escalation, sam, olivia, "") is None
    assert row().claimed_by == sam
    assert decision_rows.recorded(escalation)[-1] == ("escalation:claimed", f"user:{sam.pk}")
    assert decision_rows.last_payload(escalation)["renewed"] is False


def test_a_handover_gives_the_claim_with_a_new_lease(
    escalation: Escalation, olivia: User, sam: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(escalation, olivia)
    until = row().claimed_until
    assert until is not None
    at(until - timedelta(minutes=1), monkeypatch)
    assert hand_over(escalation, olivia, "sam") is None
    assert (row().claimed_by, row().claimed_until) == (sam, until + timedelta(minutes=9))
    assert decision_rows.recorded(escalation)[-1] == ("escalation:handed_over", f"user:{olivia.pk}")
    assert decision_rows.last_payload(escalation)["receiver"] == f"user:{sam.pk}"
    (handed,) = note_list.list_handed_to(tenant="default", user_pk=sam.pk, most=5)
    assert (handed.author, handed.escalation_id) == ("olivia", escalation.pk)
    factories.decide(escalation, sam, Action.ABORT)
    assert note_list.list_handed_to(tenant="default", user_pk=sam.pk, most=5) == []
    assert decision_rows.unlike(escalation) == []


@pytest.mark.parametrize("receiver", ["aud", "boss", "gone", "olivia", "nobody"])
def test_a_handover_to_somebody_who_cannot_decide_is_refused(
    escalation: Escalation, olivia: User, receiver: str
) -> None:
    """An auditor, the agent's owner, somebody deactivated, oneself, and nobody at all."""
    factories.user("aud", "auditor")
    factories.user("boss", "operator", groups=("trading-desk",))
    gone = factories.user("gone")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    claim(escalation, olivia)
    problem = hand_over(escalation, olivia, receiver)
    assert decision_rows.refused(problem) == (422, "RECEIVER_CANNOT_DECIDE")
    assert row().claimed_by == olivia
    assert refused_action(escalation) == ("HAND_OVER", "RECEIVER_CANNOT_DECIDE")


def test_only_the_holder_hands_over_and_only_with_a_note(
    escalation: Escalation, olivia: User, sam: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    mara = factories.user("mara")
    assert decision_rows.refused(hand_over(escalation, olivia, "sam")) == (409, "NOT_CLAIMED")
    claim(escalation, olivia)
    assert decision_rows.refused(hand_over(escalation, mara, "sam")) == (409, "NOT_CLAIMED")
    assert decision_rows.refused(hand_over(escalation, olivia, "sam", " ")) == (422, "NOTE_EMPTY")
    at(row().claimed_until, monkeypatch)
    assert decision_rows.refused(hand_over(escalation, olivia, "sam")) == (409, "NOT_CLAIMED")
    assert row().claimed_by == olivia


def test_who_comes_late_learns_who_did_what(escalation: Escalation, olivia: User, sam: User) -> None:
    claim(escalation, olivia)
    factories.decide(escalation, sam, Action.ABORT)
    for problem in (take_over(escalation, olivia, olivia), hand_over(escalation, olivia, "sam")):
        assert decision_rows.refused(problem) == (409, "ALREADY_DECIDED")
        assert problem is not None
        assert "sam decided ABORT at" in problem.detail


def test_other_tenants_and_unknown_escalations_are_not_found(escalation: Escalation, olivia: User) -> None:
    known: dict[str, Any] = {"escalation_id": escalation.pk, "user": olivia, "tenant": "other"}
    assert decision_rows.refused(claiming.take_over(holder=None, reason=WHY, **known))[0] == 404
    assert decision_rows.refused(claiming.hand_over(receiver="sam", note=WHY, **known))[0] == 404
    assert not claiming.renew(**known)

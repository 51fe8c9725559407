"""Decisions that two people must make alike: every way they begin, agree, differ and end."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from audit import actors, canonical, events, ledger
from audit.models import LedgerEntry
from audit.verification import findings
from escalations import policy
from escalations.contracts import Action, DecisionState
from escalations.models import Decision, Escalation
from escalations.services import claiming, deadlines, deciding, drift_scan, policy_context, two_people
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.core import clock
from runtime.core.ids import new_id
from runtime.flows.models import Feedback, Intent, Proposal, Verdict
from runtime.registry.queries import invitations
from runtime.resources.models import Reservation
from tests.escalations.test_deciding import held_back
from tests.escalations.test_replacing import give_to_person
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db
SMALLER = {**factories.OVER_LIMIT, "notional_cents": 120_000}
SMALLEST = {**factories.OVER_LIMIT, "notional_cents": 110_000}


def states() -> list[str]:
    return list(Decision.objects.order_by("sequence").values_list("state", flat=True))


def last_end(escalation: Escalation) -> str:
    """Why the last first decision ended, as its entry says."""
    rows = LedgerEntry.objects.filter(stream=str(escalation.flow_id), kind="escalation:first_ended")
    payload: dict[str, str] = canonical.decode(bytes(rows.order_by("-seq")[0].body))["payload"]
    return payload["why"]


def unlike() -> list[str]:
    """What `verify_ledger` finds in the rows of flows; the people of these tests have no entries."""
    return [item.detail for item in findings.verify_all().findings if "-" in item.stream]


def stated(sequence: int) -> dict[str, Any]:
    found: dict[str, Any] = canonical.decode(bytes(Decision.objects.get(sequence=sequence).statement))
    return found


def good(answer: Any) -> deciding.DecisionResult:
    assert isinstance(answer, deciding.DecisionResult), answer
    return answer


def test_the_first_decision_is_signed_and_nothing_runs(critical: Escalation, olivia: User) -> None:
    before = (Proposal.objects.count(), Verdict.objects.count(), Feedback.objects.count())
    answer = good(factories.decide(critical, olivia))
    assert answer.first_of_two is not None
    assert not answer.first_of_two.differed
    row = Escalation.objects.get()
    assert (row.state, row.version, row.resolution) == ("OPEN", 2, "")
    assert states() == ["AWAITING_SECOND"]
    assert (Proposal.objects.count(), Verdict.objects.count(), Feedback.objects.count()) == before
    assert not Intent.objects.exists()
    assert not Reservation.objects.exists()
    assert critical.flow.state == row.flow.state == "ESCALATED"
    assert stated(1)["part"] == "1 of 2"
    payload = decision_rows.last_payload(critical)
    assert set(payload) == {
        *("escalation_id", "sequence", "revision", "evidence_hash"),
        *("statement_digest", "signature", "key_id"),
    }


def test_two_people_who_choose_the_same_run_it(critical: Escalation, olivia: User, mara: User) -> None:
    factories.decide(critical, olivia, justification="A reason of the first person.")
    answer = good(factories.decide(critical, mara, justification="Another one of the second."))
    assert answer.first_of_two is None
    assert states() == ["CONFIRMED", "IN_EFFECT"]
    assert Intent.objects.get().proposal.author == f"user:{mara.pk}"
    row = Escalation.objects.get()
    assert (row.state, row.resolution, row.decision) == (
        "RESOLVED",
        "OVERRIDE",
        Decision.objects.get(sequence=2),
    )
    assert last_end(critical) == "CONFIRMED"
    first = Decision.objects.get(sequence=1)
    assert stated(2)["part"] == "2 of 2"
    assert stated(2)["confirms"] == canonical.digest(bytes(first.statement))
    assert Feedback.objects.filter(event_type="ESCALATION_RESOLVED").count() == 1
    assert unlike() == []


def test_a_kind_asks_for_two_people_whatever_the_impact(db: None, olivia: User, mara: User) -> None:
    escalation = factories.desk(kind=gate_cases.kind(approvals=2)).escalate()
    assert escalation.impact == "LOW_IMPACT"
    assert good(factories.decide(escalation, olivia)).first_of_two
    assert good(factories.decide(escalation, mara)).first_of_two is None
    assert Intent.objects.count() == 1


def test_the_same_change_of_both_runs_as_changed(critical: Escalation, olivia: User, mara: User) -> None:
    factories.decide(critical, olivia, Action.MODIFY, params=SMALLER)
    backwards = dict(reversed(SMALLER.items()))
    assert good(factories.decide(critical, mara, Action.MODIFY, params=backwards)).first_of_two is None
    assert canonical.decode(bytes(Intent.objects.get().proposal.body))["params"] == SMALLER


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"action": Action.OVERRIDE}, {"action": Action.MODIFY, "params": SMALLER}),
        ({"action": Action.MODIFY, "params": SMALLER}, {"action": Action.OVERRIDE}),
        ({"action": Action.MODIFY, "params": SMALLER}, {"action": Action.MODIFY, "params": SMALLEST}),
        ({"action": Action.OVERRIDE, "conditions": ("1 == 1",)}, {"action": Action.OVERRIDE}),
    ],
)
def test_a_different_choice_takes_the_place_of_the_first(
    critical: Escalation, olivia: User, mara: User, first: dict[str, Any], second: dict[str, Any]
) -> None:
    factories.decide(critical, olivia, **first)
    answer = good(factories.decide(critical, mara, **second))
    assert answer.first_of_two is not None
    assert answer.first_of_two.differed
    assert states() == ["SUPERSEDED", "AWAITING_SECOND"]
    assert last_end(critical) == "DIFFERED"
    assert not Intent.objects.exists()
    # The newest is the one to be confirmed, also by who was the first before.
    assert good(factories.decide(critical, olivia, **second)).first_of_two is None
    assert states() == ["SUPERSEDED", "CONFIRMED", "IN_EFFECT"]
    assert unlike() == []


def test_the_same_person_makes_no_second_decision(critical: Escalation, olivia: User) -> None:
    factories.decide(critical, olivia)
    held_back(critical, olivia, expected=(409, "SECOND_PERSON_NEEDED"))


def linked(user: User, by: str) -> None:
    """An admin, or another person, has made an invite link of the account."""
    invited = events.UserInvited(user_id=user.pk, expires_at=clock.now(), reset=True)
    stream = actors.user(user.pk)
    ledger.append_to(tenant=factories.TENANT, stream=stream, actor=by, at=clock.now(), events=[invited])


@pytest.mark.parametrize("links", ["first by second", "second by first", "both by one admin"])
def test_accounts_that_one_hand_may_hold_are_not_two_people(
    critical: Escalation, olivia: User, mara: User, links: str
) -> None:
    if links == "first by second":
        linked(olivia, actors.user(mara.pk))
    elif links == "second by first":
        linked(mara, actors.user(olivia.pk))
    else:
        linked(olivia, "user:77")
        linked(mara, "user:77")
    factories.decide(critical, olivia)
    held_back(critical, mara, expected=(409, "SECOND_PERSON_NEEDED"))
    situation = policy_context.of(
        escalation=Escalation.objects.get(), agent=critical.flow.agent, shown=None, at=clock.now()
    )
    third = factories.user("nora")
    assert good(factories.decide(critical, third)).first_of_two is None
    assert policy.counts_as_first(factories.person(mara), situation)
    assert not policy.counts_as_first(factories.person(third), situation)


def test_links_of_different_admins_and_old_ones_bind_nobody(
    critical: Escalation, olivia: User, mara: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked(olivia, "user:77")
    linked(mara, "user:78")
    with monkeypatch.context() as earlier:
        long_ago = clock.now() - timedelta(days=8)
        earlier.setattr(clock, "now", lambda: long_ago)
        nora = factories.user("nora")
        linked(nora, "user:77")
    factories.decide(critical, olivia)
    assert invitations.in_one_hand_with(actor=actors.user(olivia.pk), at=clock.now()) == {"user:77"}
    assert good(factories.decide(critical, nora)).first_of_two is None


def test_a_refused_try_does_not_tell_what_was_tried(critical: Escalation, olivia: User) -> None:
    stale = factories.person(olivia, confirmed_at_ms=None)
    held_back(critical, olivia, who=stale, expected=(401, "STEP_UP"))
    assert decision_rows.last_payload(critical)["action"] == ""


def test_one_person_alone_can_only_abort(critical: Escalation, olivia: User) -> None:
    alone = factories.person(olivia, is_solo=True)
    held_back(critical, olivia, who=alone, expected=(403, "TWO_PEOPLE_NEEDED"))
    assert good(factories.decide(critical, olivia, Action.ABORT, who=alone)).action is Action.ABORT


@pytest.mark.parametrize("by_first", [True, False])
def test_one_abort_wins_at_once(critical: Escalation, olivia: User, mara: User, by_first: bool) -> None:
    factories.decide(critical, olivia)
    assert good(factories.decide(critical, olivia if by_first else mara, Action.ABORT))
    assert states() == ["SUPERSEDED", "IN_EFFECT"]
    assert last_end(critical) == "ABORTED"
    assert Escalation.objects.get().resolution == "ABORT"
    assert not Intent.objects.exists()
    assert unlike() == []


def test_an_abort_alone_needs_no_second_person(critical: Escalation, olivia: User) -> None:
    factories.decide(critical, olivia, Action.ABORT)
    assert states() == ["IN_EFFECT"]
    assert "part" not in stated(1)


def test_the_author_withdraws_the_first_decision_and_nobody_else(
    critical: Escalation, olivia: User, mara: User
) -> None:
    def withdraw(account: User) -> Any:
        return two_people.withdraw(
            tenant="default", escalation_id=critical.pk, person=factories.person(account)
        )

    assert withdraw(olivia).code == "NO_FIRST_DECISION"
    factories.decide(critical, olivia)
    assert withdraw(mara).code == "NO_FIRST_DECISION"
    assert decision_rows.recorded(critical)[-1] == ("escalation:refused", f"user:{mara.pk}")
    assert withdraw(olivia) == critical.flow_id
    assert states() == ["SUPERSEDED"]
    assert last_end(critical) == "WITHDRAWN"
    assert Escalation.objects.get().version == 3
    assert good(factories.decide(critical, olivia)).first_of_two
    assert unlike() == []


def test_there_is_nothing_to_withdraw_of_an_unknown_escalation(db: None, olivia: User) -> None:
    answer = two_people.withdraw(tenant="other", escalation_id=new_id(), person=factories.person(olivia))
    assert isinstance(answer, Problem)
    assert answer.code == "ESCALATION_NOT_FOUND"


def test_new_evidence_ends_the_first_decision(critical: Escalation, olivia: User, mara: User) -> None:
    factories.decide(critical, olivia)
    factories.write("price.AAPL", 99_999)
    assert drift_scan.revise_open() == 1
    assert states() == ["SUPERSEDED"]
    assert last_end(critical) == "EVIDENCE_CHANGED"
    assert good(factories.decide(critical, mara)).first_of_two
    assert unlike() == []


def test_the_second_person_finds_the_drift_and_confirms_nothing(
    critical: Escalation, olivia: User, mara: User
) -> None:
    factories.decide(critical, olivia)
    request = factories.decision_request(critical)
    factories.write("price.AAPL", 99_999)
    answer = factories.send(critical, mara, request)
    assert isinstance(answer, Problem)
    assert answer.code == "EVIDENCE_CHANGED"
    assert states() == ["SUPERSEDED"]


def test_an_answer_of_the_agent_ends_the_first_decision(olivia: User, mara: User) -> None:
    desk = factories.desk(kind=gate_cases.kind(impact="'CRITICAL'"))
    escalation = desk.escalate()
    factories.decide(escalation, olivia)
    assert good(factories.decide(escalation, mara, Action.REQUEST_INFO, justification="Why?"))
    assert states() == ["AWAITING_SECOND"]
    factories.answer(desk, escalation)
    assert (states(), last_end(escalation)) == (["SUPERSEDED"], "EVIDENCE_CHANGED")


def test_the_deadline_ends_the_first_decision(
    critical: Escalation, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.decide(critical, olivia)
    assert critical.deadline_at is not None
    late = critical.deadline_at + timedelta(seconds=1)
    monkeypatch.setattr(clock, "now", lambda: late)
    assert deadlines.sweep() == 1
    assert (states(), last_end(critical)) == (["SUPERSEDED"], "DEADLINE_PASSED")
    assert not Intent.objects.exists()
    assert unlike() == []


def test_the_end_of_the_flow_ends_the_first_decision(olivia: User) -> None:
    desk = factories.desk(kind=gate_cases.kind(impact="'CRITICAL'"))
    escalation = desk.escalate()
    factories.decide(escalation, olivia)
    factories.cancel(desk, escalation)
    assert (states(), last_end(escalation)) == (["SUPERSEDED"], "FLOW_ENDED")
    assert unlike() == []


def leaves(account: User) -> None:
    account.is_active = False
    account.save()


def loses_the_role(account: User) -> None:
    account.groups.clear()


def comes_to_own_it(account: User) -> None:
    account.groups.add(Group.objects.get_or_create(name="trading-desk")[0])


@pytest.mark.parametrize("change", [leaves, loses_the_role, comes_to_own_it])
def test_a_first_decision_of_who_may_no_longer_decide_confirms_nothing(
    critical: Escalation, olivia: User, mara: User, change: Any
) -> None:
    factories.decide(critical, olivia)
    change(olivia)
    answer = good(factories.decide(critical, mara))
    assert answer.first_of_two is not None
    assert not answer.first_of_two.differed
    assert (states(), last_end(critical)) == (["SUPERSEDED", "AWAITING_SECOND"], "RIGHTS_CHANGED")


def test_what_the_gate_rejects_is_no_first_decision(critical: Escalation, olivia: User) -> None:
    beyond = {**factories.OVER_LIMIT, "notional_cents": 999_999}
    held_back(critical, olivia, Action.MODIFY, params=beyond, expected=(409, "GATE_REFUSED"))
    held_back(critical, olivia, Action.MODIFY, params=None, expected=(400, "PARAMS_MISSING"))


def test_a_second_decision_that_the_gate_rejects_leaves_the_first(
    critical: Escalation, olivia: User, mara: User
) -> None:
    factories.decide(critical, olivia)
    beyond = {**factories.OVER_LIMIT, "notional_cents": 999_999}
    held_back(critical, mara, Action.MODIFY, params=beyond, expected=(409, "GATE_REFUSED"))
    assert states() == ["AWAITING_SECOND"]


def test_a_change_may_weigh_less_than_what_was_shown_and_never_more(olivia: User, mara: User) -> None:
    impact = "params.notional_cents == 120000 ? 'HIGH_IMPACT' : 'CRITICAL'"
    desk = factories.desk(kind=gate_cases.kind(impact=impact))
    high = desk.escalate(params=SMALLER)
    held_back(high, olivia, Action.MODIFY, params=SMALLEST, expected=(409, "IMPACT_RAISED"))
    critical = desk.escalate()
    assert good(factories.decide(critical, olivia, Action.MODIFY, params=SMALLER)).first_of_two
    assert good(factories.decide(critical, mara, Action.MODIFY, params=SMALLER)).first_of_two is None


def test_the_claim_of_the_first_person_ends_with_the_decision(critical: Escalation, olivia: User) -> None:
    assert claiming.claim(tenant="default", escalation_id=critical.pk, user=olivia) is None
    factories.decide(critical, olivia)
    assert Escalation.objects.get().claimed_by is None


def called(desk: factories.Desk, *people: User) -> Escalation:
    """What two people have let run, and of whose call nobody knows whether it took effect."""
    escalation = desk.escalate()
    for account in people:
        good(factories.decide(escalation, account))
    intent = Intent.objects.get(flow_id=escalation.flow_id)
    return give_to_person(intent, "UNKNOWN", Reason.IN_DOUBT)


def test_two_people_resume_and_mark_done(olivia: User, mara: User) -> None:
    desk = factories.desk(kind=gate_cases.kind(approvals=2))
    resumed = called(desk, olivia, mara)
    assert good(factories.decide(resumed, olivia, Action.RESUME)).first_of_two
    assert good(factories.decide(resumed, mara, Action.RESUME)).first_of_two is None
    done = called(desk, olivia, mara)
    held_back(done, olivia, Action.MARK_DONE, expected=(400, "RECEIPT_MISSING"))
    receipt = {"reference": "A-1"}
    assert good(factories.decide(done, olivia, Action.MARK_DONE, receipt=receipt)).first_of_two
    other = good(factories.decide(done, mara, Action.MARK_DONE, receipt={"reference": "B-2"})).first_of_two
    assert other is not None
    assert other.differed
    same = factories.decide(done, olivia, Action.MARK_DONE, receipt={"reference": "B-2"})
    assert good(same).first_of_two is None
    assert Escalation.objects.get(pk=done.pk).resolution == "MARK_DONE"


@pytest.mark.parametrize(
    "change",
    [
        {"action": "MODIFY"},
        {"justification": "other words"},
        {"statement": b"{}"},
        {"signature": b"x" * 64},
        {"state": DecisionState.SUPERSEDED},
        {"sequence": 7},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_first_decision_that_was_rewritten_is_confirmed_by_nobody(
    critical: Escalation, olivia: User, mara: User, change: dict[str, Any]
) -> None:
    factories.decide(critical, olivia)
    Decision.objects.update(**change)
    answer = factories.decide(critical, mara)
    assert isinstance(answer, Problem)
    assert answer.code == "TAMPERED"
    told = [kind for kind, _ in decision_rows.recorded(critical)]
    assert "row:mismatched" in told
    assert not Intent.objects.exists()
    assert unlike() != []
    assert good(factories.decide(critical, mara, Action.ABORT))


def test_a_first_decision_that_no_entry_records_is_confirmed_by_nobody(
    critical: Escalation, olivia: User, mara: User
) -> None:
    factories.decide(critical, olivia)
    forged = Decision.objects.get()
    two_people.withdraw(tenant="default", escalation_id=critical.pk, person=factories.person(olivia))
    Decision.objects.filter(pk=forged.pk).update(state=DecisionState.AWAITING_SECOND)
    answer = factories.decide(critical, mara)
    assert isinstance(answer, Problem)
    assert answer.code == "TAMPERED"
    assert unlike() != []

"""The pages of a decision for two people: where it stands, and that nobody reads what the first one chose."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit import canonical
from audit.models import LedgerEntry
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import dry_running, two_people
from runtime.contracts.problem import Problem
from tests.escalations.test_two_people import called
from tests.support import factories, gate_cases, markup, misbehaving_targets
from tests.web.test_every_write_url import addresses, filled
from tests.web.test_separation_of_duty import BACKEND

pytestmark = pytest.mark.django_db
REASON = "Sesquipedalian grounds of the first person."
CENTS = 123_457
CHANGED = {**factories.OVER_LIMIT, "notional_cents": CENTS}
SECRETS = ("Sesquipedalian", str(CENTS), "1,234.57", "ZZTOPQ")
CONDITION = "params.symbol != 'ZZTOPQ'"
TRIED = re.compile("modif(?:y|ied)", re.IGNORECASE)


@pytest.fixture
def desk(db: None) -> factories.Desk:
    return factories.desk(kind=gate_cases.kind(approvals=2))


@pytest.fixture
def case(desk: factories.Desk) -> Escalation:
    return desk.escalate()


def browser(account: User) -> Client:
    client = Client()
    client.force_login(account, backend=BACKEND)
    return client


def read(client: Client, path: str) -> str:
    answer = client.get(path)
    body = b"".join(answer) if answer.streaming else answer.content
    # An evidence pack is no text, but its members are stored as they are, so their words can be found in it.
    return f"{answer.status_code} {dict(answer.headers)} {body.decode(errors='replace')}"


def paths(case: Escalation) -> Iterator[str]:
    """Every address of the console and of the API that can be opened about this case."""
    flow, here = f"/flows/{case.flow_id}", f"/escalations/{case.pk}"
    known = {
        "escalation_id": str(case.pk),
        "dfid": str(case.flow_id),
        "agent_id": case.agent_id,
        "kind": case.policy_kind,
        "version": "1.0.0",
        "path": "market.state",
        "name": "broker",
    }
    for route in addresses():
        if "<int:seq>" not in route and not route.startswith(("accounts/logout", "glossary", "api/v1/docs")):
            yield filled(route, known)
    yield from (f"{here}/questions/?part={part}" for part in ("clock", "claim", "over"))
    yield from (f"{here}/state/?version=1&revision=1", f"{here}/?from=impact=LOW_IMPACT")
    yield from ("/escalations/?part=views", f"/escalations/?have={case.pk}", "/escalations/?show=closed")
    for account in User.objects.all():
        yield from (f"/ledger/?stream=user:{account.pk}", f"/people/{account.pk}/")
        yield f"/decisions/?person={account.username}"
    yield from (
        f"/ledger/?stream={case.flow_id}",
        "/ledger/?kind=escalation:first_decided",
        f"/flows/?q={case.flow_id}",
    )
    for seq in LedgerEntry.objects.filter(stream=str(case.flow_id)).values_list("seq", flat=True):
        yield f"{flow}/entries/{seq}/"


def first_tries(case: Escalation, who: User) -> None:
    """A refused try, a dry run, a decision, its withdrawal, and the decision that stays."""
    request = factories.decision_request(
        case, Action.MODIFY, params=CHANGED, justification=REASON, conditions=(CONDITION,)
    )
    stranger = factories.person(who, roles=frozenset())
    assert isinstance(factories.send(case, who, request, who=stranger), Problem)
    me = factories.person(who)
    tried = dry_running.dry_run(tenant="default", escalation_id=case.pk, person=me, request=request)
    assert not isinstance(tried, Problem)
    assert not isinstance(factories.send(case, who, request), Problem)
    two_people.withdraw(tenant="default", escalation_id=case.pk, person=me)
    again = factories.decide(
        case, who, Action.MODIFY, params=CHANGED, justification=REASON, conditions=(CONDITION,)
    )
    assert not isinstance(again, Problem)


def test_the_second_person_reads_nowhere_what_the_first_chose(desk: factories.Desk, case: Escalation) -> None:
    olivia, mara = factories.user("olivia"), factories.user("mara", "senior", "admin", "auditor")
    client = browser(mara)
    before = {path: len(TRIED.findall(read(client, path))) for path in paths(case)}
    first_tries(case, olivia)
    seen = 0
    for path in paths(case):
        page = read(client, path)
        assert [secret for secret in SECRETS if secret in page] == [], path
        assert len(TRIED.findall(page)) <= before.get(path, 0), path
        seen += page.startswith("200")
    assert seen > 40
    # Nor does any entry hold it, whoever exports the ledger.
    for row in LedgerEntry.objects.filter(stream__in=[str(case.flow_id), f"user:{olivia.pk}"]):
        body = bytes(row.body).decode()
        assert not TRIED.search(body)
        assert [secret for secret in SECRETS if secret in body] == []


def test_the_agent_hears_nothing_of_a_first_decision(desk: factories.Desk, case: Escalation) -> None:
    before = case.flow.feedback_seq
    first_tries(case, factories.user("olivia"))
    assert desk.look(case.flow_id).row().feedback_seq == before


def test_the_page_says_where_it_stands_and_who_made_the_first(case: Escalation) -> None:
    olivia, mara = factories.user("olivia"), factories.user("mara")
    page = markup.tight(read(browser(mara), f"/escalations/{case.pk}/"))
    assert "Two different people must decide this." in page
    factories.decide(case, olivia)
    theirs = markup.tight(read(browser(mara), f"/escalations/{case.pk}/"))
    assert "<b>One of two decisions is made</b> (by <bdi>olivia</bdi> at" in theirs
    assert "/withdraw-decision/" not in theirs
    mine = markup.tight(read(browser(olivia), f"/escalations/{case.pk}/"))
    assert "<b>One of two decisions is made</b> (by you at" in mine
    assert "/withdraw-decision/" in mine
    assert "Someone else must make the second; you can withdraw yours, or abort." in mine
    auditor = browser(factories.user("ada", "auditor"))
    assert "(by <bdi>olivia</bdi> at" in markup.tight(read(auditor, f"/escalations/{case.pk}/"))
    assert "1 of 2<span" in markup.tight(read(browser(mara), "/escalations/"))


def test_the_page_says_that_choices_differed_and_not_how(case: Escalation) -> None:
    olivia, mara, nils = (factories.user(name) for name in ("olivia", "mara", "nils"))
    factories.decide(case, olivia, Action.MODIFY, params=CHANGED, justification=REASON)
    factories.decide(case, mara)
    page = markup.tight(read(browser(nils), f"/escalations/{case.pk}/"))
    assert "An earlier first decision was different" in page
    assert [secret for secret in SECRETS if secret in page] == []


def test_a_first_decision_after_one_that_was_withdrawn_did_not_differ(case: Escalation) -> None:
    olivia = factories.user("olivia")
    first_tries(case, olivia)
    assert [row.state for row in Decision.objects.all()] == ["SUPERSEDED", "AWAITING_SECOND"]
    page = read(browser(factories.user("nils")), f"/escalations/{case.pk}/")
    assert "An earlier first decision was different" not in page


def test_two_people_decide_by_the_form_and_the_page_then_shows_both(case: Escalation) -> None:
    olivia, mara = factories.user("olivia"), factories.user("mara")

    def send(client: Client, reason: str) -> str:
        row = Escalation.objects.get(pk=case.pk)
        form = {
            "action": "OVERRIDE",
            "evidence_hash": row.evidence_hash,
            "version": str(row.version),
            "impact": row.impact,
            "justification": reason,
        }
        answer = client.post(f"/escalations/{case.pk}/decision/", form)
        assert answer.status_code == 302, answer.content
        return str(answer["Location"])

    # Nothing else is open: the way leads back to the queue.
    assert send(browser(olivia), REASON) == "/escalations/"
    assert send(browser(mara), "The other one.") == "/escalations/"
    page = markup.tight(read(browser(mara), f"/escalations/{case.pk}/"))
    assert REASON in page
    assert "First of two decisions" in page
    for row in Decision.objects.all():
        assert canonical.digest(bytes(row.statement)) in page


@pytest.mark.parametrize("chosen", [Action.OVERRIDE, Action.MODIFY])
def test_lists_and_files_of_decisions_hold_the_first_one_as_such(case: Escalation, chosen: Action) -> None:
    changes: dict[str, Any] = {"params": CHANGED} if chosen is Action.MODIFY else {}
    factories.decide(case, factories.user("olivia"), chosen, justification=REASON, **changes)
    mara = factories.user("mara")
    factories.decide(case, mara, Action.ABORT if chosen is Action.MODIFY else Action.OVERRIDE)
    client = browser(mara)
    for path in ("/decisions/", f"/decisions/{case.pk}/"):
        page = markup.tight(read(client, path))
        assert "does not match the ledger" not in page, path
        assert page.count("First of two</span>") == 1, path
        assert REASON in page, path
    for path in ("/decisions/?format=json", f"/decisions/{case.pk}/?format=json"):
        told = client.get(path).json()["decisions"]
        assert all(one["matches_ledger"] for one in told), path
        by_person = {one["person"]: one["first_of_two"] for one in told}
        assert by_person == {"olivia": True, "mara": False}, path


def test_a_first_decision_that_was_rewritten_is_not_shown_in_the_end(case: Escalation) -> None:
    factories.decide(case, factories.user("olivia"), justification=REASON)
    mara = factories.user("mara")
    factories.decide(case, mara)
    Decision.objects.filter(sequence=1).update(justification="Forged grounds.")
    page = read(browser(mara), f"/escalations/{case.pk}/")
    assert "Forged grounds" not in page
    assert "does not match the ledger" in page


def test_of_several_resumed_at_once_a_first_decision_stays_one(desk: factories.Desk, settings: Any) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    olivia, mara = factories.user("olivia"), factories.user("mara")
    failed = called(desk, olivia, mara)
    bound = {"hash": failed.evidence_hash, "version": failed.version, "impact": failed.impact}
    form = {f"{name}:{failed.pk}": value for name, value in bound.items()}
    form |= {"action": "RESUME", "escalation": str(failed.pk), "justification": REASON}
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as target:
        factories.configure_target(base_url=target.base_url, honours_keys=False)
        assert b"SETTLE_ALONE" in browser(olivia).post("/escalations/bulk/decide/", form).content
        refused = LedgerEntry.objects.filter(kind="escalation:refused", stream=str(failed.flow_id))
        # Which action it was is what the second person must not learn.
        assert refused.get().payload["action"] == ""
        factories.configure_target(honours_keys=True)
        browser(olivia).post("/escalations/bulk/", form)
        page = markup.tight(browser(olivia).post("/escalations/bulk/decide/", form).content.decode())
    assert "First of two</span>" in page
    assert "Nothing runs until a second person has chosen the same." in page


def test_withdrawing_by_the_page(case: Escalation) -> None:
    olivia, mara = factories.user("olivia"), factories.user("mara")
    factories.decide(case, olivia)
    path = f"/escalations/{case.pk}/withdraw-decision/"
    assert browser(mara).post(path).status_code == 409
    assert browser(olivia).get(path).status_code == 405
    assert browser(olivia).post(path).status_code == 302
    assert Decision.objects.get().state == "SUPERSEDED"


def test_critical_is_an_icon_a_word_and_a_view_of_its_own(db: None) -> None:
    factories.desk(kind=gate_cases.kind(impact="'CRITICAL'")).escalate()
    client = browser(factories.user("mara"))
    for asked in ("", "?impact=CRITICAL", "?impact=HIGH_IMPACT"):
        page = markup.tight(read(client, f"/escalations/{asked}"))
        assert 'data-impact="CRITICAL"' in page
        assert "#critical" in page
        assert "Critical" in page
    assert 'data-impact="CRITICAL"' not in read(client, "/escalations/?impact=LOW_IMPACT")

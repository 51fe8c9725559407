"""Several escalations at once: each is decided by itself, on what was shown of it, after a confirmation."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import LedgerEntry
from escalations.models import Decision, Escalation
from runtime.contracts.reasons import Reason
from runtime.contracts.states import IntentState
from runtime.core import clock
from runtime.flows.models import Intent
from runtime.registry.models import Agent
from tests.escalations.test_replacing import called
from tests.support import demo_scenes, factories, misbehaving_targets
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
CONFIRM, DECIDE = "/escalations/bulk/", "/escalations/bulk/decide/"


@pytest.fixture(autouse=True)
def _loopback_targets(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


@pytest.fixture
def client() -> Client:
    factories.user("olivia")
    return sign_in(Role.OPERATOR)


def escalate(desk: factories.Desk, number: int, **changes: Any) -> list[Escalation]:
    rows = []
    for _ in range(number):
        Agent.objects.update(escalation_millitokens=3000)
        rows.append(desk.escalate(**changes))
    return rows


def fields_of(page: str) -> dict[str, list[str]]:
    """The fields that a browser would send of the form that decides, with all of its boxes as they are."""
    form = page[page.index(f'action="{DECIDE}"') :]
    form = form[: form.index("</form>")]
    found: dict[str, list[str]] = {}
    for tag in re.findall(r"<input [^>]*>", form):
        given = dict(re.findall(r'([a-z]+)="([^"]*)"', tag))
        is_box = given.get("type") == "checkbox"
        if given.get("name", "csrf") == "csrfmiddlewaretoken" or (
            is_box and not re.search(r"\schecked", tag)
        ):
            continue
        found.setdefault(given["name"], []).append(given.get("value", ""))
    return found


def confirmed(client: Client, action: str, rows: list[Escalation], **fields: Any) -> dict[str, Any]:
    """What a person would send who opened the list, selected the rows and went on to the page that asks."""
    answer = client.post(CONFIRM, {"action": action, "escalation": [str(row.pk) for row in rows]})
    assert answer.status_code == 200, answer.content.decode()[:3000]
    return {**fields_of(answer.content.decode()), **fields}


def results(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.status_code
    return re.findall(r'data-result="[^"]+" data-code="([^"]*)"', answer.content.decode())


def test_the_list_leads_to_a_page_and_only_that_page_decides(desk: factories.Desk, client: Client) -> None:
    rows = escalate(desk, 3)
    queue = text_of(client, "/escalations/")
    assert f'<form method="post" action="{CONFIRM}"' in queue
    for row in rows:
        assert f'<input type="checkbox" name="escalation" value="{row.pk}">' in queue
    asked = confirmed(client, "ABORT", rows[:2], justification="Not today")
    assert (
        client.get(CONFIRM, {"action": "ABORT", "escalation": [str(row.pk) for row in rows]}).status_code
        == 200
    )
    assert not Decision.objects.exists()
    assert client.get(DECIDE).status_code == 405
    assert results(client.post(DECIDE, asked)) == ["", ""]
    assert set(Escalation.objects.values_list("state", flat=True)) == {"RESOLVED", "OPEN"}
    user = User.objects.get(username="somebody")
    for row, decision in zip(rows, Decision.objects.order_by("escalation"), strict=False):
        assert (decision.escalation_id, decision.action, decision.approver) == (row.pk, "ABORT", user)
        assert (decision.evidence_hash, decision.justification) == (row.evidence_hash, "Not today")
    recorded = LedgerEntry.objects.filter(kind="escalation:decided")
    assert set(recorded.values_list("stream", flat=True)) == {str(row.flow_id) for row in rows[:2]}


def test_a_form_sent_twice_decides_nothing_twice(desk: factories.Desk, client: Client) -> None:
    rows = escalate(desk, 2)
    asked = confirmed(client, "ABORT", rows)
    asked["escalation"] = [*asked["escalation"], *asked["escalation"]]
    assert results(client.post(DECIDE, asked)) == ["", ""]
    assert results(client.post(DECIDE, asked)) == ["ALREADY_DECIDED", "ALREADY_DECIDED"]
    assert Decision.objects.count() == 2


def test_one_of_five_that_drifted_is_refused_and_the_others_run(desk: factories.Desk, client: Client) -> None:
    rows = escalate(desk, 5)
    asked = confirmed(client, "OVERRIDE", rows, justification="The desk has agreed to these.")
    drifted = rows[2]
    Escalation.objects.filter(pk=drifted.pk).update(version=drifted.version + 1)
    codes = results(client.post(DECIDE, asked))
    assert codes == ["", "", "VERSION_CHANGED", "", ""]
    assert Escalation.objects.get(pk=drifted.pk).state == "OPEN"
    assert Intent.objects.count() == Decision.objects.filter(action="OVERRIDE").count() == 4
    hashes = dict(Decision.objects.values_list("escalation", "evidence_hash"))
    assert hashes == {row.pk: row.evidence_hash for row in rows if row.pk != drifted.pk}


def test_a_changed_fact_refuses_every_override_and_no_abort(desk: factories.Desk, client: Client) -> None:
    rows = escalate(desk, 2)
    override = confirmed(client, "OVERRIDE", rows, justification="The desk has agreed to these.")
    abort = confirmed(client, "ABORT", rows)
    factories.write("market.state", "CLOSED")
    assert results(client.post(DECIDE, override)) == ["EVIDENCE_CHANGED", "EVIDENCE_CHANGED"]
    assert not Intent.objects.exists()
    assert results(client.post(DECIDE, abort)) == ["", ""]


def test_high_impact_is_never_overridden_among_several(desk: factories.Desk) -> None:
    demo_scenes.add_user("pat", Role.OPERATOR, password=demo_scenes.PASSWORD)
    client = Client()  # with a password that was just given
    client.post("/accounts/login/", {"login": "pat", "password": demo_scenes.PASSWORD})
    low, high = escalate(desk, 1)[0], escalate(desk, 1, params=factories.HIGH_IMPACT)[0]
    answer = client.post(CONFIRM, {"action": "OVERRIDE", "escalation": [str(low.pk), str(high.pk)]})
    assert answer.status_code == 409
    assert b"NOT_ALIKE" in answer.content
    asked = confirmed(client, "OVERRIDE", [low], justification="The desk has agreed to it.")
    bound = {f"hash:{high.pk}": high.evidence_hash, f"version:{high.pk}": high.version}
    forged = {**asked, **bound, "escalation": [str(low.pk), str(high.pk)]}
    told = client.post(DECIDE, {**forged, f"impact:{high.pk}": "HIGH_IMPACT"})
    assert (told.status_code, Decision.objects.count()) == (409, 0)
    # Who claims that it was shown as LOW is refused by the evidence.
    assert results(client.post(DECIDE, {**forged, f"impact:{high.pk}": "LOW_IMPACT"})) == [
        "",
        "IMPACT_CHANGED",
    ]
    assert Escalation.objects.get(pk=high.pk).state == "OPEN"


def test_only_alike_proposals_are_overridden_together_and_with_a_reason(
    desk: factories.Desk, client: Client
) -> None:
    mine, theirs = escalate(desk, 2), factories.desk(agent_id="other-trader").escalate()
    refused = client.post(CONFIRM, {"action": "OVERRIDE", "escalation": [str(mine[0].pk), str(theirs.pk)]})
    assert refused.status_code == 409
    asked = confirmed(client, "OVERRIDE", mine, justification=" ")
    assert results(client.post(DECIDE, asked)) == ["JUSTIFICATION_MISSING", "JUSTIFICATION_MISSING"]
    assert not Decision.objects.exists()


def test_separation_of_duty_and_roles_hold_for_each(desk: factories.Desk, client: Client) -> None:
    rows = [*escalate(desk, 1), factories.desk(agent_id="other-trader").escalate()]
    Agent.objects.filter(agent_id="trader").update(owner="somebody")
    page = client.get(CONFIRM, {"action": "OVERRIDE", "escalation": [str(rows[0].pk)]}).content.decode()
    assert "You own this agent: someone else must decide." in page
    bound = {f"{name}:{rows[0].pk}": value for name, value in zip(
        ("hash", "version", "impact"), (rows[0].evidence_hash, rows[0].version, rows[0].impact), strict=True
    )}  # fmt: skip
    asked = {"action": "OVERRIDE", "justification": "Mine", "escalation": [str(rows[0].pk)], **bound}
    assert results(client.post(DECIDE, asked)) == ["SEPARATION_OF_DUTY"]
    # Whoever owns it may still stop it.
    assert results(client.post(DECIDE, confirmed(client, "ABORT", rows))) == ["", ""]
    for role in (Role.AUDITOR, Role.ADMIN):
        other = sign_in(role, name=f"only-{role}")
        assert other.post(DECIDE, asked).status_code == other.get(CONFIRM).status_code == 403
        assert 'name="escalation"' not in text_of(other, "/escalations/")


def test_a_rewritten_row_can_only_be_aborted(desk: factories.Desk, client: Client) -> None:
    rows = escalate(desk, 2)
    asked = confirmed(client, "OVERRIDE", rows, justification="The desk has agreed to these.")
    evidence = rows[0].evidence.get()
    rows[0].evidence.update(body=bytes(evidence.body).replace(b"AAPL", b"MSFT"))
    assert results(client.post(DECIDE, asked)) == ["TAMPERED", ""]
    page = client.get(CONFIRM, {"action": "ABORT", "escalation": [str(rows[0].pk)]}).content.decode()
    assert "does not match the ledger" in page
    assert "MSFT" not in page
    assert results(client.post(DECIDE, confirmed(client, "ABORT", rows[:1]))) == [""]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 400),
        ({"action": "ABORT"}, 400),
        ({"action": "ABORT", "escalation": "not-an-id"}, 400),
        ({"action": "ABORT", "escalation": "019aa000-0000-7000-8000-000000000000"}, 400),
        ({"action": "<script>", "escalation": "019aa000-0000-7000-8000-000000000000"}, 400),
        ({"action": "MARK_DONE", "escalation": "019aa000-0000-7000-8000-000000000000"}, 400),
        ({"action": "ABORT", "escalation": [f"019aa000-0000-7000-8000-{n:012d}" for n in range(101)]}, 400),
        ({"action": "ABORT", "escalation": "'; DROP TABLE--\x00", "justification": "\x00"}, 400),
    ],
)
def test_selections_that_name_nothing_usable_are_refused(
    desk: factories.Desk, client: Client, given: dict[str, Any], status: int
) -> None:
    for address in (CONFIRM, DECIDE):
        answer = client.post(address, given)
        assert answer.status_code in {status, 200 if address == DECIDE else status}, (address, given)
        assert b"<script>" not in answer.content
    assert client.get(CONFIRM, given).status_code == status
    assert not Decision.objects.exists()


def test_what_another_has_claimed_is_not_selected_unasked(desk: factories.Desk, client: Client) -> None:
    rows = escalate(desk, 2)
    olivia = User.objects.get(username="olivia")
    Escalation.objects.filter(pk=rows[0].pk).update(claimed_by=olivia, claimed_until=clock.now() + HOUR)
    assert confirmed(client, "ABORT", rows)["escalation"] == [str(rows[1].pk)]


def test_a_question_about_the_back_link_keeps_the_filter(desk: factories.Desk, client: Client) -> None:
    rows = escalate(desk, 1)
    page = client.post(
        CONFIRM,
        {"action": "ABORT", "escalation": str(rows[0].pk), "from": "impact=LOW_IMPACT&next=//evil.example"},
    )
    assert b'href="/escalations/?impact=LOW_IMPACT"' in page.content
    assert b'href="//evil' not in page.content


def failed(desk: factories.Desk, number: int, state: str = "FAILED") -> list[Escalation]:
    """Calls that failed too often at the same target, or are in doubt."""
    reason = Reason.IN_DOUBT if state == "UNKNOWN" else Reason.REPEATED_FAILURE
    return [called(desk, state, reason) for _ in range(number)]


def test_a_resume_needs_a_good_test_of_the_last_minute(
    desk: factories.Desk, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.configure_target()
    rows = failed(desk, 2)
    asked = {"action": "RESUME", "escalation": [str(row.pk) for row in rows]}
    opened = client.get(CONFIRM, asked).content.decode()
    assert "Test broker first" in opened
    assert not LedgerEntry.objects.filter(kind="target:checked").exists()
    form = {**fields_of(opened), "justification": "The broker is back."}
    assert results(client.post(DECIDE, form)) == ["TARGET_UNTESTED", "TARGET_UNTESTED"]
    # The target listens on no port: a bad test permits nothing.
    assert b"cannot be called" in client.post(CONFIRM, asked).content
    assert results(client.post(DECIDE, form)) == ["TARGET_UNTESTED", "TARGET_UNTESTED"]
    refused = LedgerEntry.objects.filter(kind="escalation:refused", stream=str(rows[0].flow_id))
    assert refused.count() == 2
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as target:
        factories.configure_target(base_url=target.base_url)
        assert b"can be called" in client.post(CONFIRM, asked).content
        assert target.seen == []
    later = clock.now() + HOUR
    with monkeypatch.context() as patched:
        patched.setattr(clock, "now", lambda: later)
        assert results(client.post(DECIDE, form)) == ["TARGET_UNTESTED", "TARGET_UNTESTED"]
    assert results(client.post(DECIDE, form)) == ["", ""]
    assert set(Intent.objects.values_list("state", flat=True)) == {IntentState.PENDING}


def test_calls_in_doubt_are_resumed_together_only_where_the_target_honours_keys(
    desk: factories.Desk, client: Client
) -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as target:
        factories.configure_target(base_url=target.base_url, honours_keys=False)
        rows = failed(desk, 2, "UNKNOWN")
        asked = {"action": "RESUME", "escalation": [str(row.pk) for row in rows]}
        page = client.post(CONFIRM, asked).content.decode()
        assert "does not honour keys" in page
        bound = {f"{name}:{row.pk}": value for row in rows for name, value in (
            ("hash", row.evidence_hash), ("version", row.version), ("impact", row.impact)
        )}  # fmt: skip
        form = {**asked, **bound, "justification": "It answers again."}
        assert results(client.post(DECIDE, form)) == ["SETTLE_ALONE", "SETTLE_ALONE"]
        factories.configure_target(honours_keys=True)
        client.post(CONFIRM, asked)
        assert results(client.post(DECIDE, form)) == ["", ""]
        assert target.seen == []


def test_one_target_down_is_one_heading_over_its_calls(desk: factories.Desk, client: Client) -> None:
    rows = failed(desk, 3)
    page = text_of(client, "/escalations/")
    assert page.count('<details class="q-group incident"') == 1
    assert "broker fails with FAILED" in page
    assert ": 3 calls" in page
    for row in rows:
        assert f'id="row-{row.pk}"' in page
    everything = urlencode([("action", "RESUME"), *(("escalation", str(row.pk)) for row in rows)])
    assert f'href="{CONFIRM}?{everything.replace("&", "&amp;")}"' in page


def test_a_closed_market_is_one_heading_and_offers_no_override(desk: factories.Desk, client: Client) -> None:
    rows = escalate(desk, 2)
    factories.write("market.state", "CLOSED")
    olivia = User.objects.get(username="olivia")
    for row in rows:
        factories.decide(row, olivia)
    page = text_of(client, "/escalations/")
    assert "2 cannot be overridden now" in page
    assert "action=ABORT" in page
    assert "action=OVERRIDE" not in page


def test_a_group_holds_over_the_page_and_names_only_what_differs(
    desk: factories.Desk, client: Client
) -> None:
    other = factories.desk(agent_id="other-trader")
    rows, cents = [], (150_000, 160_000, 170_000)
    for value in cents:
        rows += escalate(desk, 1, params={**factories.OVER_LIMIT, "notional_cents": value})
        rows += [other.escalate()] if value == cents[0] else []
    first, stranger, *rest = rows
    Escalation.objects.filter(pk=rest[0].pk).update(waiting_until=clock.now() + HOUR)
    page = text_of(client, "/escalations/")
    order = re.findall(r'data-row="([^"]+)"', page)
    assert order == [str(row.pk) for row in (first, *rest, stranger)]
    assert "3 similar, differing in notional_cents" in page
    assert page.count('class="differs"') == 3
    assert page.count("Waiting for the agent") == 1
    assert "Stop this agent" in page
    assert "action=OVERRIDE" in page

"""Kinds on their pages: the editor checks and drafts, another admin activates, an auditor reads."""

import html
import json
from typing import Any

import pytest
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from runtime.core import clock
from runtime.flows.models import Proposal
from runtime.registry.models import PolicyKind, Target
from runtime.registry.services import document_writing
from tests.support import factories, gate_cases
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
KIND = "ADJUST_POSITION"
PAGE = f"/kinds/{KIND}/"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def desk() -> factories.Desk:
    Target.objects.create(
        tenant=factories.TENANT, name="broker", base_url="http://127.0.0.1:1", configured_at=clock.now()
    )
    return factories.desk()


@pytest.fixture
def ada() -> Client:
    return sign_in(Role.ADMIN, name="ada")


def text(**fields: Any) -> str:
    return document_writing.as_yaml(gate_cases.kind(**{"version": "1.3.0", **fields}))


def send(client: Client, action: str, document: str, page: str = f"{PAGE}new/") -> tuple[int, str]:
    # Browsers send the lines of a textarea with CR and LF.
    answer = client.post(page, {"action": action, "document": document.replace("\n", "\r\n")})
    return answer.status_code, answer.get("Location") or answer.content.decode()


def field(page: str, name: str) -> str:
    return page.split(f'name="{name}"')[1].split(">", 1)[1].split("</textarea>")[0]


def test_the_editor_begins_with_the_next_version_of_the_one_in_force(
    desk: factories.Desk, ada: Client
) -> None:
    page = text_of(ada, f"{PAGE}new/?as=document")
    assert "kind: ADJUST_POSITION\nversion: 1.3.0\n" in field(page, "document")
    as_json = text_of(ada, f"{PAGE}new/?as=json")
    assert "&quot;version&quot;: &quot;1.3.0&quot;" in field(as_json, "document")
    assert ada.get(f"{PAGE}new/?from=9.9.9").status_code == 404
    assert ada.get("/kinds/NO_SUCH/new/").status_code == 404
    assert ada.post("/kinds/NO_SUCH/new/", {"document": text()}).status_code == 404
    assert "kind: NAME_IN_CAPITALS" in text_of(ada, "/kinds/new/?as=document")


def test_the_outline_of_a_new_kind_can_be_saved_as_it_is(ada: Client) -> None:
    outline = html.unescape(field(text_of(ada, "/kinds/new/?as=document"), "document"))
    status, page = send(ada, "check", outline, "/kinds/new/")
    assert (status, "Ready to save" in page) == (200, True)
    assert "No proposal of this kind is stored yet" in page
    status, location = send(ada, "save", outline, "/kinds/new/")
    assert (status, location) == (302, "/kinds/NAME_IN_CAPITALS/?version=1.0.0")
    assert "no active or earlier version to compare it with" in text_of(ada, location)
    # Nothing is in force, so the newest version is what to begin with.
    assert "version: 1.1.0" in text_of(ada, "/kinds/NAME_IN_CAPITALS/new/?as=document")


def test_a_check_says_everything_and_stores_nothing(desk: factories.Desk, ada: Client) -> None:
    desk.propose(desk.open(), params={**gate_cases.PARAMS, "quantity": 7})
    rule = {"id": "R_FEW", "require": "params.quantity < 5", "message": "Too many"}
    draft = text(
        rules=[*gate_cases.KIND["rules"], rule], effect="Really {action} {quantity}", red_lines=["Never"]
    )
    status, page = send(ada, "check", draft)
    assert status == 200
    for words in (
        "Ready to save",
        "recorded, not enforced",
        "rules.R_FEW",
        "2 tightened",
        "Would have changed 1 verdict of the last 1.",
        "Really <bdi><code>BUY</code></bdi> <bdi><code>7</code></bdi>",
        "REJECT",
        'name="param:quantity" type="number" value="7"',
    ):
        assert words in page.replace("\n", ""), words
    assert "Really {action}" in field(page, "document")
    assert not code_in(page)
    assert PolicyKind.objects.count() == 1


def test_a_text_that_is_wrong_comes_back_with_line_and_field(desk: factories.Desk, ada: Client) -> None:
    for action, status in (("check", 200), ("save", 422)):
        for wrong in ("kind: [", text(effect="{nobody}"), HOSTILE, text().replace("T1", "T7")):
            found, page = send(ada, action, wrong)
            assert (found, "Cannot be saved yet" in page) == (status, True), wrong
            assert "line " in page
            assert not code_in(page)
    broken = text().replace("type: object", "type: 5", 1)
    assert send(ada, "check", broken)[0] == 200
    assert PolicyKind.objects.count() == 1


def test_a_draft_is_shown_and_activated_by_another_admin(desk: factories.Desk, ada: Client) -> None:
    desk.propose(desk.open())
    desk.escalate()
    limits = [{**gate_cases.KIND["limits"][0], "on_exceed": "REJECT"}]
    _, location = send(ada, "save", text(limits=limits, rules=[], title=HOSTILE))
    assert location == f"{PAGE}?version=1.3.0"
    own = text_of(ada, location)
    # Alone, the author may; there is a second admin from here on.
    assert "As the only admin" in own
    alan = sign_in(Role.ADMIN, name="alan")
    assert "You wrote ADJUST_POSITION 1.3.0: another admin must activate it." in text_of(ada, location)
    form = {"seen_active": "1.2.0", "reason": "Agreed with the desk"}
    refused = ada.post(f"{PAGE}1.3.0/activate/", form)
    assert (refused.status_code, "another admin must" in refused.content.decode()) == (403, True)
    page = text_of(alan, f"{location}&trial=1")
    for words in (
        "limits.max_notional.on_exceed",
        "<b>Loosens</b>",
        "rules.R_MARKET_OPEN",
        "Would have changed 1 verdict of the last 2.",
        "Discard this draft",
        "Activate 1.3.0",
    ):
        assert words in page, words
    assert not code_in(page)
    done = alan.post(f"{PAGE}1.3.0/activate/", form)
    assert (done.status_code, done["Location"]) == (302, location)
    page = text_of(alan, PAGE)
    assert "ADJUST_POSITION 1.3.0 is active." in page
    assert "Agreed with the desk" in page
    back = text_of(alan, f"{PAGE}?version=1.2.0")
    assert "Roll back to this version" in back
    assert "Discard this draft" not in back
    moved = alan.post(f"{PAGE}1.2.0/activate/", form)
    assert (moved.status_code, "1.3.0 is active now" in moved.content.decode()) == (409, True)


def test_a_draft_is_discarded_and_stays_to_be_read(desk: factories.Desk, ada: Client) -> None:
    send(ada, "save", text())
    assert "ADJUST_POSITION 1.3.0" in text_of(ada, "/kinds/")
    assert ada.post(f"{PAGE}1.3.0/discard/", {"reason": " "}).status_code == 422
    assert ada.post(f"{PAGE}1.3.0/discard/", {"reason": "Not yet"}).status_code == 302
    page = text_of(ada, f"{PAGE}?version=1.3.0")
    assert "Discarded" in page
    assert "Not yet" in page
    assert "Activate 1.3.0" not in page
    assert "No drafts." in text_of(ada, "/kinds/")
    for action in ("activate", "discard"):
        assert ada.post(f"{PAGE}9.9.9/{action}/", {"reason": "x"}).status_code == 404


def test_everybody_reads_and_only_an_admin_changes(desk: factories.Desk, ada: Client) -> None:
    send(ada, "save", text())
    for role in (Role.OPERATOR, Role.SENIOR, Role.AUDITOR):
        client = sign_in(role, name=f"{role.value}-only")
        assert "New kind" not in text_of(client, "/kinds/")
        page = text_of(client, f"{PAGE}?version=1.3.0&trial=1")
        assert "Only an admin can activate a version." in page
        assert "<form" not in page.split("<main")[1].split("</main>")[0]
        for address in ("/kinds/new/", f"{PAGE}new/"):
            assert client.get(address).status_code == 403
            assert send(client, "save", text(version="1.4.0"), address)[0] == 403
        for action in ("activate", "discard"):
            assert client.post(f"{PAGE}1.3.0/{action}/", {"reason": "x"}).status_code == 403
    assert set(PolicyKind.objects.values_list("version", "activated_by")) == {
        ("1.2.0", "system"),
        ("1.3.0", ""),
    }


def test_json_is_taken_too_and_the_draft_is_the_same_document(desk: factories.Desk, ada: Client) -> None:
    plain = gate_cases.kind(version="1.3.0").model_dump(mode="json", exclude_defaults=True)
    status, _ = send(ada, "save", json.dumps(plain, indent=2))
    assert status == 302
    assert canonical.decode(bytes(PolicyKind.objects.get(version="1.3.0").body))["version"] == "1.3.0"
    assert PolicyKind.objects.get(version="1.3.0").digest == gate_cases.kind(version="1.3.0").digest


def test_a_proposal_of_which_the_past_is_lost_shows_no_verdict(desk: factories.Desk, ada: Client) -> None:
    desk.propose(desk.open())
    rule = {"id": "R_SELDOM", "require": "history.proposals_1h < 100"}
    _, page = send(ada, "check", text(rules=[rule]))
    assert "1 could not be re-evaluated: the counts over the agent&#x27;s history were not stored." in page
    assert Proposal.objects.count() == 1


def test_what_a_kind_asks_for_stands_on_its_page(desk: factories.Desk, ada: Client) -> None:
    factories.policy_kind(
        gate_cases.kind(
            version="1.9.0",
            red_lines=[
                {"id": "L_NEVER", "forbid": "params.quantity > 999", "message": "Too many."},
                "a note",
            ],
            required_evidence=[{"fact": "price.${params.symbol}", "max_age_s": 60}],
            approval_mode="destructive",
            gate_id="GATE_DESK",
            jurisdiction=["EU", "US-NY"],
            subjects=["position:${params.symbol}"],
            scorecard={"targets": {"wall_clock_s": 90, "cost_usd": "0.05"}, "minimum": {"policy": "0.75"}},
            retention_days=400,
            redact=[
                {"id": "pan", "pattern": "card_number", "of": ["explain"]},
                {"id": "who", "field": "payer.*"},
            ],
        )
    )
    page = ada.get("/kinds/ADJUST_POSITION/").content.decode()
    for words in (
        "L_NEVER",
        "params.quantity &gt; 999",
        "Too many.",
        "required fact, at most 60 s old",
        "A person must let it run, as of high impact at least.",
        "GATE_DESK",
        "US-NY",
        "position:${params.symbol}",
        "/records/?decision_key=ADJUST_POSITION",
        "within 90 s",
        "within 0.05 USD",
        "at least 0.75",
        "kept for 400 days after the",
        "replaced before anything is stored",
        "card_number in explanations",
        "payer.* in receipts",
    ):
        assert words in page, words

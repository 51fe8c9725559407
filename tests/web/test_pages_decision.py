"""The decision page: the order of the evidence, what binds the form to it, and what is not allowed."""

import html
import json
import re
from pathlib import Path

import pytest
from django.test import Client

from audit.access.roles import Role
from escalations import contracts
from escalations.models import Escalation
from escalations.presenters import RESOLUTIONS
from escalations.services import drift_scan
from runtime.proposals.views import schema_form
from runtime.registry.models import Agent
from runtime.state.services import facts
from tests.support import demo_scenes, markup
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def case() -> Escalation:
    demo_scenes.load_pack()
    said = demo_scenes.propose(
        demo_scenes.session_of("ambitious-trader"),
        "ADJUST_POSITION",
        demo_scenes.order("BUY", 40, "NVDA", 485600),
        explain="The trend is clear.",
    )
    return Escalation.objects.get(pk=said["escalation_id"])


def test_shows_the_evidence_in_its_order_and_the_claim_last(case: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{case.pk}/")
    places = [
        page.index(words)
        for words in (
            "What will happen",
            "Which limit was exceeded",
            "Facts and constraints",
            "This agent's history",
            "What the agent says",
            "The trend is clear.",
            "Your decision",
        )
    ]
    assert places == sorted(places)
    assert re.search(r'<details data-pane="explain" class="claim"><summary>', page)
    assert page.count("The trend is clear.") == 2  # in the claim, and after it in the bundle as stored


def test_the_form_carries_what_was_seen(case: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{case.pk}/")
    assert f'name="evidence_hash" value="{case.evidence_hash}"' in page
    assert f'name="version" value="{case.version}"' in page
    assert 'name="impact" value="HIGH_IMPACT"' in page
    assert f'action="/escalations/{case.pk}/decision/"' in page
    for name in ("justification", "conditions", "params", "typed_again", "param:quantity", "param:symbol"):
        assert f'name="{name}"' in page, name
    assert "Type <code>4,856.00 USD</code> to confirm" in page
    assert "Confirm your password first" in page


def test_compares_the_value_with_the_limit(case: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{case.pk}/")
    assert "<b>4,856.00 USD</b>; limit 1,000.00 USD (385 % above)" in page
    assert "RISK_LIMIT_EXCEEDED" in page
    assert "can be overridden" in page


def test_people_without_the_role_read_and_decide_nothing(case: Escalation) -> None:
    page = text_of(sign_in(Role.AUDITOR), f"/escalations/{case.pk}/")
    assert "Deciding requires the operator or senior role" in page
    assert "evidence_hash" not in page.split('<section class="decide"')[1]


def test_a_forbidden_action_is_disabled_with_the_reason(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR, name="owner")
    sign_in(Role.OPERATOR, name="another")
    Agent.objects.filter(agent_id="ambitious-trader").update(owner="owner")
    page = text_of(client, f"/escalations/{case.pk}/")
    assert re.search(r'value="OVERRIDE" disabled', page)
    assert "You own this agent: someone else must decide." in page
    assert not re.search(r'value="ABORT" disabled', page)


def test_a_price_within_its_bounds_is_told_from_one_that_moved(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    facts.write(tenant="default", path="price.NVDA", value=12141, writer="feed:test", expected_version=None)
    assert "now 121.41 USD, within limits" in text_of(client, f"/escalations/{case.pk}/")
    facts.write(tenant="default", path="price.NVDA", value=15000, writer="feed:test", expected_version=None)
    assert "changed to 150.00 USD" in text_of(client, f"/escalations/{case.pk}/")


def test_what_is_expected_to_change_has_its_source_and_tells_when_it_moved(case: Escalation) -> None:
    client, path = sign_in(Role.OPERATOR), f"/escalations/{case.pk}/"
    head = text_of(client, path).split("Which limit was exceeded")[0]
    for words in ("Expected change", "position.NVDA", "cash.operations", "Source", "v1"):
        assert words in head
    facts.write(tenant="default", path="position.NVDA", value=203, writer="feed:test", expected_version=None)
    facts.write(tenant="default", path="cash.operations", value=9, writer="feed:test", expected_version=None)
    head = text_of(client, path).split("Which limit was exceeded")[0]
    assert "now 203, within limits" in head
    assert "changed to 0.09 USD" in head
    assert "Your decision signs the values as captured." in head
    row = head.split("position.NVDA")[1].split("</tr>")[0]
    # 40 more than there were, and than there are: what is signed stays as it was captured.
    assert [int(number) for number in re.findall(r">(?:with today's facts )?([0-9]+) ?<", row)] == [
        200,
        240,
        243,
    ]
    assert case.evidence_hash == Escalation.objects.get(pk=case.pk).evidence_hash


def test_headline_impact_and_friction_follow_the_live_price_and_the_claim_stands_beside() -> None:
    demo_scenes.load_pack()
    order = demo_scenes.order("BUY", 5, "MSFT", 207_920)
    said = demo_scenes.propose(demo_scenes.session_of("ambitious-trader"), "ADJUST_POSITION", order)
    client, path = sign_in(Role.OPERATOR), f"/escalations/{said['escalation_id']}/"
    assert 'name="impact" value="LOW_IMPACT"' in text_of(client, path)
    facts.write(tenant="default", path="price.MSFT", value=60_000, writer="feed:test", expected_version=None)
    assert drift_scan.revise_open() == 1
    page = text_of(client, path)
    assert "<code>3,000.00</code>" in page.split("facts-line")[0]
    assert re.search(
        r"the agent states <b><bdi>2,079\.20 USD</bdi></b>; current facts give <b><bdi>3,000\.00 USD<", page
    )
    assert "Rules that use the calculated value take the greater of the two." in page
    assert 'name="impact" value="HIGH_IMPACT"' in page
    assert "Confirm your password first" in page
    queue = text_of(client, "/escalations/")
    assert "<b>3,000.00 USD</b>; limit 1,000.00 USD (200 % above)" in queue
    assert "<code>3,000.00</code>" in queue


def test_the_dry_run_of_a_change_says_what_it_is_worth_by_the_live_price(case: Escalation) -> None:
    fields = {"evidence_hash": case.evidence_hash, "version": case.version, "impact": case.impact}
    params = {f"param:{name}": value for name, value in demo_scenes.order("BUY", 2, "NVDA", 56_841).items()}
    answer = sign_in(Role.OPERATOR).post(
        f"/escalations/{case.pk}/dry-run/", {**fields, "action": "MODIFY", **params}
    )
    page = markup.tight(answer.content.decode())
    assert "BUY 2 NVDA for 242.80 USD" in page
    assert "you state <b><bdi>568.41 USD</bdi></b>; current facts give <b><bdi>242.80 USD</bdi></b>" in page


def changed(case: Escalation, **fields: str | int) -> dict[str, str | int]:
    """What the form sends when two shares are asked for in place of forty, and the amount stays."""
    seen = {"evidence_hash": case.evidence_hash, "version": case.version, "impact": case.impact}
    order = demo_scenes.order("BUY", 2, "NVDA", 485_600)
    return {**seen, "action": "MODIFY", **{f"param:{name}": value for name, value in order.items()}, **fields}


def amount_in(page: str) -> str:
    field = re.search(r'<input id="param:notional_cents"[^>]*? value="(.*?)"', page)
    assert field is not None
    return field[1]


def test_a_dry_run_offers_the_runtimes_figure_and_puts_it_in_only_when_asked(case: Escalation) -> None:
    client, path = sign_in(Role.OPERATOR), f"/escalations/{case.pk}/dry-run/"
    page = client.post(path, changed(case, justification="Two will do")).content.decode()
    assert "Your decision" in page  # without script the whole page comes again
    assert re.search(r"The runtime calculates Amount as <b><bdi>242\.80 USD<", page)
    assert amount_in(page) == "485600"  # as it was typed
    assert re.search(r'value="MODIFY"[^>]* checked', page)
    assert "Two will do</textarea>" in page
    offer = re.search(r'name="put_in" value="(.*?)"', page)
    assert offer is not None
    page = client.post(path, changed(case, put_in=offer[1])).content.decode()
    assert amount_in(page) == "24280"
    assert "BUY 2 NVDA for 242.80" in re.sub(r"<.*?>", "", page)
    assert "put_in" not in page
    assert "you state" not in page


def test_a_figure_is_put_into_the_text_where_the_parameters_are_given_as_json(case: Escalation) -> None:
    client, path = sign_in(Role.OPERATOR), f"/escalations/{case.pk}/dry-run/"
    text = json.dumps(demo_scenes.order("BUY", 2, "NVDA", 485_600))
    page = client.post(path, changed(case, params=text, put_in="notional_cents=24280")).content.decode()
    typed = re.search(r'<textarea id="params".*?>(.*?)</textarea>', page, re.DOTALL)
    assert typed is not None
    assert json.loads(html.unescape(typed[1])) == demo_scenes.order("BUY", 2, "NVDA", 24_280)
    assert amount_in(page) == "485600"
    assert "put_in" not in page
    broken = client.post(path, changed(case, params="{", put_in="notional_cents=24280"))
    assert broken.status_code == 400
    assert "Nothing was decided." in broken.content.decode()


def test_after_a_conflict_the_page_shows_what_changed(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    facts.write(tenant="default", path="price.NVDA", value=15000, writer="feed:test", expected_version=None)
    answer = client.post(
        f"/escalations/{case.pk}/decision/",
        {
            "action": "OVERRIDE",
            "evidence_hash": case.evidence_hash,
            "version": case.version,
            "impact": case.impact,
            "justification": "Too large for the desk today",
        },
    )
    page = answer.content.decode()
    case.refresh_from_db()
    assert answer.status_code == 409
    assert case.revision == 2
    assert "Nothing was decided." in page
    assert "What changed since revision 1" in page
    assert "fact price.NVDA: 121.40 USD" in page
    assert "fact price.NVDA: 150.00 USD" in page
    assert f'value="{case.evidence_hash}"' in page
    assert "Too large for the desk today" in page
    assert not re.search(r'value="OVERRIDE"[^>]* checked', page)


def test_a_refused_form_keeps_what_was_typed(case: Escalation) -> None:
    answer = sign_in(Role.OPERATOR).post(
        f"/escalations/{case.pk}/decision/",
        {
            "action": "ABORT",
            "evidence_hash": "",
            "version": case.version,
            "impact": case.impact,
            "justification": "<b>no</b>",
            "param:quantity": "7",
        },
    )
    page = answer.content.decode()
    assert answer.status_code in (400, 409)
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "<b>no</b>" not in page


def test_an_open_page_is_told_when_it_is_out_of_date(case: Escalation) -> None:
    client, path = sign_in(Role.OPERATOR), f"/escalations/{case.pk}/state/"
    assert text_of(client, f"{path}?version={case.version}&revision=1").strip() == ""
    assert "The evidence has changed" in text_of(client, f"{path}?version={case.version}&revision=0")
    assert "Someone changed this" in text_of(client, f"{path}?version=0&revision=1")


def test_a_closed_case_shows_its_end_and_no_form(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    fields = {"evidence_hash": case.evidence_hash, "version": case.version, "impact": case.impact}
    answer = client.post(
        f"/escalations/{case.pk}/decision/", {**fields, "action": "ABORT", "justification": ""}
    )
    assert answer.status_code == 302
    page = text_of(client, f"/escalations/{case.pk}/")
    assert '<h2 id="decide-title">Decision</h2>' in page
    assert "Aborted" in page
    assert 'name="evidence_hash"' not in page
    assert "Aborted" in text_of(client, "/escalations/?show=closed")


def test_unknown_cases_are_not_found(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    for path in (f"/escalations/{case.flow_id}/", f"/escalations/{case.flow_id}/state/", "/escalations/x/"):
        assert client.get(path).status_code == 404


def test_every_action_of_every_family_has_words() -> None:
    assert set(contracts.ACTIONS) == set(contracts.Action)
    assert set(contracts.Action) <= set(RESOLUTIONS)
    offered = {action for family in contracts.Family for action in contracts.offered(family)}
    assert offered == set(contracts.Action)


def test_every_part_of_an_action_has_its_style() -> None:
    style = Path("static/css/decision.css").read_text(encoding="utf-8")
    parts = {part for spec in contracts.ACTIONS.values() for part in (*spec.parts, "typed")}
    for part in parts:
        assert f'[data-parts~="{part}"]:checked) .only.with-{part}' in style


def test_fields_follow_the_schema() -> None:
    schema = {
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "title": "Count"},
            "ratio": {"type": "number"},
            "really": {"type": "boolean"},
            "colour": {"enum": ["red", "blue"]},
            "note": {"type": ["string", "null"], "maxLength": 5},
            "nested": {"type": "object"},
        },
        "required": ["count"],
    }
    made = {field.name: field for field in schema_form.fields(schema, {"count": 3, "really": False}, None)}
    assert list(made) == ["param:count", "param:ratio", "param:really", "param:colour", "param:note"]
    assert made["param:count"].attributes == {"min": "1", "max": "9", "inputmode": "numeric"}
    assert made["param:ratio"].attributes == {"step": "any"}
    assert made["param:really"].options == [("true", False), ("false", True)]
    assert made["param:colour"].control == "select"
    assert made["param:note"].attributes == {"maxlength": "5"}
    kept = schema_form.fields(schema, {"count": 3}, {"param:count": "8"})
    assert kept[0].value == "8"
    assert kept[0].proposed == "3"


@pytest.mark.parametrize("act", ["decision", "dry-run", "claim", "release", "take-back"])
def test_an_address_that_takes_posts_links_to_the_page_when_opened(case: Escalation, act: str) -> None:
    client, path = sign_in(Role.OPERATOR), f"/escalations/{case.pk}/"
    answer = client.get(f"{path}{act}/")
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert f'href="{path}"' in answer.content.decode()
    assert client.head(f"{path}{act}/").status_code == 405
    assert client.put(f"{path}{act}/").status_code == 405
    case.refresh_from_db()
    assert case.state == "OPEN"
    assert case.claimed_by is None


def test_a_dry_run_that_cannot_be_judged_is_shown_by_script_too(case: Escalation) -> None:
    client, path = sign_in(Role.OPERATOR), f"/escalations/{case.pk}/dry-run/"
    fields = {"evidence_hash": case.evidence_hash, "version": case.version, "impact": case.impact}
    body = {**fields, "action": "MODIFY", "params": "{"}
    assert client.post(path, body).status_code == 400
    swapped = client.post(path, body, headers={"HX-Request": "true"})
    assert swapped.status_code == 200  # htmx leaves other answers out of the page
    assert "params:" in swapped.content.decode()


def test_a_form_of_an_ended_session_leads_back_to_its_page(case: Escalation) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post(f"/escalations/{case.pk}/decision/", {"action": "ABORT"})
    assert answer.status_code == 403
    assert f'href="/escalations/{case.pk}/decision/"' in answer.content.decode()


def test_the_closed_list_says_when_it_was_decided(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    fields = {"evidence_hash": case.evidence_hash, "version": case.version, "impact": case.impact}
    client.post(f"/escalations/{case.pk}/decision/", {**fields, "action": "ABORT", "justification": ""})
    row = text_of(client, "/escalations/?show=closed").split('data-open="0"')[1]
    assert re.search(r"decided <time", row)
    assert "opened <time" not in row

"""Amounts on the pages: each once, with one unit, wherever a kind says what its numbers count."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from escalations.evidence_contracts import read_evidence
from escalations.models import Escalation
from escalations.presenters import crossed
from escalations.views import evidence_page
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Impact
from runtime.proposals.views import schema_form
from runtime.registry.models import PolicyKind
from runtime.registry.services import document_writing
from runtime.state.models import Fact
from tests.support import demo_scenes, factories, gate_cases, markup
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
AGENT = "ambitious-trader"
# 485600 cents as no reader should meet them, beside 4,856.00 USD.
RAW = ("485600", "485,600")


@pytest.fixture
def case() -> Escalation:
    demo_scenes.load_pack()
    said = demo_scenes.propose(
        demo_scenes.session_of(AGENT), "ADJUST_POSITION", demo_scenes.order("BUY", 40, "NVDA", 485_600)
    )
    return Escalation.objects.get(pk=said["escalation_id"])


def tag(page: str, pattern: str) -> str:
    found = re.search(pattern, page, re.DOTALL)
    assert found is not None, pattern
    return found[1] if found.groups() else found[0]


def test_the_decision_page_shows_an_amount_in_one_unit(case: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{case.pk}/")
    words = markup.words(page)
    assert [raw for raw in RAW if raw in words] == []
    assert "for 4,856.00 USD" in words
    assert "4,856.00 USD ; limit 1,000.00 USD (385 % above)" in words
    assert "notional_cents 4,856.00 USD" in words
    assert re.search(r"validity_window_sec [0-9]+ s\b", words)
    assert "Type 4,856.00 USD to confirm" in words
    assert "A value is above a limit of the active manifest." in words


def test_the_field_keeps_the_integer_and_shows_its_unit_and_what_it_is_worth(case: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{case.pk}/")
    field = tag(page, r'<input id="param:notional_cents".*?>')
    for attribute in (
        'value="485600"',
        'type="number"',
        'data-unit="USD"',
        'data-shift="2"',
        'data-decimals="2"',
        'aria-describedby="param:notional_cents-unit param:notional_cents-hint"',
    ):
        assert attribute in field
    assert 'id="param:notional_cents-unit">cents USD<' in page
    assert tag(page, r'<output [^>]*for="param:notional_cents"[^>]*>(.*?)<') == "4,856.00 USD"
    assert tag(page, r'<output [^>]*for="param:limit_price_cents"[^>]*>(.*?)<') == ""
    assert "data-unit" not in tag(page, r'<input id="param:quantity".*?>')
    assert not code_in(page)


def test_a_dry_run_writes_its_amounts_like_the_page(case: Escalation) -> None:
    order = demo_scenes.order("BUY", 30, "NVDA", 485_600)
    body = {
        "evidence_hash": case.evidence_hash,
        "version": case.version,
        "impact": case.impact,
        "action": "MODIFY",
        **{f"param:{name}": value for name, value in order.items()},
    }
    client = sign_in(Role.OPERATOR)
    answer = client.post(f"/escalations/{case.pk}/dry-run/", body, headers={"HX-Request": "true"})
    words = markup.words(answer.content.decode())
    assert [raw for raw in RAW if raw in words] == []
    assert "you state 4,856.00 USD ; current facts give 3,642.00 USD" in words
    assert "Use 3,642.00 USD" in words
    assert 'data-value="364200"' in answer.content.decode()


def test_the_queue_and_the_timeline_write_it_the_same(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    queue = markup.words(text_of(client, "/escalations/"))
    assert "4,856.00 USD ; limit 1,000.00 USD (385 % above)" in queue
    flow = markup.words(text_of(client, f"/flows/{case.flow_id}/"))
    assert "notional_cents 4,856.00 USD" in flow
    assert "4,856.00 USD; limit 1,000.00 USD (385 % above)" in flow
    for page in (queue, flow):
        assert [raw for raw in RAW if raw in page] == []


def test_evidence_of_before_there_were_units_is_shown_as_it_was(case: Escalation) -> None:
    shown = factories.evidence_of(case)
    assert shown.amounts.limits == {"max_notional": "cents USD"}
    earlier = shown.model_copy(update={"units": None})
    assert b'"units":' not in earlier.to_bytes()
    assert read_evidence(earlier.to_bytes()) == earlier
    bound = crossed(earlier)
    assert bound is not None
    assert (bound.value, bound.limit) == ("485,600", "100,000 (385 % above)")
    view = evidence_page.read(earlier, body=earlier.to_bytes())
    assert ("notional_cents", "485600") in view.params


def test_facts_have_their_unit_too(case: Escalation) -> None:
    shown = factories.evidence_of(case)
    assert shown.amounts.facts == {"price.NVDA": "cents USD", "cash.operations": "cents USD"}
    client = sign_in(Role.OPERATOR)
    words = markup.words(text_of(client, f"/escalations/{case.pk}/"))
    assert "price.NVDA 121.40 USD" in words
    assert "cash.operations 250,000.00 USD 245,144.00 USD" in words
    for raw in ("25,000,000", "24,514,400", "12,140"):
        assert raw not in words
    Fact.objects.filter(path="price.NVDA").update(value=b"12141")
    assert "now 121.41 USD" in markup.words(text_of(client, f"/escalations/{case.pk}/"))
    flow = markup.words(text_of(client, f"/flows/{case.flow_id}/"))
    assert "25,000,000" not in flow


def test_a_kind_without_units_gives_the_evidence_of_before() -> None:
    escalation = factories.desk().escalate()
    assert factories.evidence_of(escalation).units is None


def test_a_change_of_evidence_names_its_amounts(case: Escalation) -> None:
    after = factories.evidence_of(case)
    before = type(after).from_bytes(after.to_bytes().replace(b"485600", b"300000"))
    lines = {line.path: (line.was, line.now) for line in evidence_page.compare(before, after)}
    assert lines["finding RISK_LIMIT_EXCEEDED max_notional"] == (
        "REFER: 3,000.00 USD; limit 1,000.00 USD (200 % above)",
        "REFER: 4,856.00 USD; limit 1,000.00 USD (385 % above)",
    )


def test_a_limit_that_could_not_be_worked_out_has_no_amount(case: Escalation) -> None:
    shown = factories.evidence_of(case)
    findings = tuple(item.model_copy(update={"proposed_value": None}) for item in shown.findings)
    without = shown.model_copy(update={"findings": findings})
    assert crossed(without) is None
    less = without.model_copy(update={"impact": Impact.LOW_IMPACT})
    assert [line.path for line in evidence_page.compare(less, without)] == ["impact"]


def test_a_manifest_shows_its_limits_in_the_unit_of_its_kinds(case: Escalation) -> None:
    ada = sign_in(Role.ADMIN, name="ada")
    assert "max_notional_cents 1,000.00 USD" in markup.words(text_of(ada, f"/agents/{AGENT}/"))
    page = f"/agents/{AGENT}/manifests/new/"
    area = tag(text_of(ada, f"{page}?as=document"), r'<textarea id="document".*?>(.*?)</textarea>')
    text = json.loads(area.replace("&quot;", '"'))
    text["limits"]["max_notional_cents"] = 250_000
    checked = ada.post(page, {"document": json.dumps(text), "action": "check"}).content.decode()
    assert "limits.max_notional_cents" in checked
    assert "limits.max_notional_cents Loosened 1,000.00 USD 2,500.00 USD" in markup.words(checked)


def draft(client: Client, **amount: Any) -> str:
    """The editor's check of a new version of the transfer, with another schema of its amount."""
    row = PolicyKind.objects.get(kind="TRANSFER_FUNDS")
    document = canonical.decode(bytes(row.body))
    document["version"] = "9.0.0"
    document["params_schema"]["properties"]["amount_cents"] |= amount
    text = document_writing.as_yaml(KindDocument.from_bytes(canonical.encode(document)))
    answer = client.post("/kinds/TRANSFER_FUNDS/new/", {"document": text, "action": "check"})
    return markup.words(answer.content.decode())


def test_a_kind_and_its_changes_show_bounds_in_their_unit(case: Escalation) -> None:
    ada = sign_in(Role.ADMIN, name="ada")
    words = markup.words(text_of(ada, "/kinds/TRANSFER_FUNDS/"))
    assert "amount_cents integer in cents USD, required" in words
    assert "maximum 1,000,000,000.00 USD, minimum 0.01 USD" in words
    assert "params.amount_cents in cents USD" in words
    assert "Tightened 1,000,000,000.00 USD 5,000.00 USD" in draft(ada, maximum=500_000)
    # Each side in the unit of its own version.
    assert "minimum Tightened 0.01 USD 5 USD" in draft(ada, **{"x-unit": "USD", "minimum": 5})
    assert "params_schema.properties.amount_cents.x-unit" in draft(ada, **{"x-unit": "cents EUR"})
    refused = draft(ada, **{"x-unit": "cents JPY"})
    assert '"cents JPY" is wrong, since JPY has no cents: write JPY' in refused


@pytest.mark.parametrize(
    ("schema", "unit", "amount"),
    [
        ({"type": "integer", "x-unit": "cents USD"}, "cents USD", "0.05 USD"),
        ({"type": "integer", "x-unit": "bps"}, "bps", None),
        ({"type": "integer", "enum": [5, 9], "x-unit": "minor KWD"}, "minor KWD", "0.005 KWD"),
        ({"type": "integer", "x-unit": "cents"}, "", None),
        ({"type": "integer"}, "", None),
    ],
)
def test_a_field_knows_what_its_value_counts(schema: dict[str, Any], unit: str, amount: str | None) -> None:
    (field,) = schema_form.fields({"type": "object", "properties": {"n": schema}}, {"n": 5}, None)
    assert (field.unit, field.amount, field.value) == (unit, amount, "5")
    assert field.described_by == ("param:n-unit" if unit else "")


def test_a_field_that_was_refused_shows_what_was_typed() -> None:
    properties = {"n": {"type": "integer", "x-unit": "cents USD", "description": "What it costs"}}
    (field,) = schema_form.fields({"type": "object", "properties": properties}, {"n": 5}, {"param:n": "many"})
    assert (field.value, field.amount) == ("many", "many")
    assert field.described_by == "param:n-unit param:n-hint"


def test_amounts_of_a_resource_are_written_with_its_unit(case: Escalation) -> None:
    page = markup.words(text_of(sign_in(Role.ADMIN), "/budgets/"))
    assert "of 1,000,000.00 USD allocated" in page
    assert "0.00 USD used up" in page
    assert "Capacity in cents USD" in page
    assert gate_cases.kind().limits[0].unit is None


def test_a_kind_that_was_changed_in_the_database_lends_no_unit(case: Escalation) -> None:
    row = PolicyKind.objects.get(kind="ADJUST_POSITION", active=True)
    body = bytes(row.body).replace(b"cents USD", b"cents EUR")
    assert body != bytes(row.body)
    PolicyKind.objects.filter(pk=row.pk).update(body=body)
    words = markup.words(text_of(sign_in(Role.ADMIN), f"/agents/{AGENT}/"))
    assert "max_notional_cents 100,000" in words
    assert "EUR" not in words

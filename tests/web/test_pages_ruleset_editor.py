"""The editor of a ruleset: a decision table is a table of fields, tried on history, saved as a draft."""

from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.advice.views import ruleset_tables
from runtime.kernel.rulesets import cedar
from runtime.registry.models import Ruleset
from runtime.registry.queries import ruleset_versions
from tests.support import api_client, markup, records_desk, sent_form, underwriting
from tests.support.own_words import stands
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/rulesets/motor-underwriting/"
EDITOR = f"{PAGE}new/"
HIT = "tables.0.hit"
# The premium of the first rule, and its cell about age.
PREMIUM, AGE = "tables.0.0.then.params.premium_cents", "tables.0.0.when.0"


@pytest.fixture
def ada() -> Client:
    underwriting.load_packs()
    sign_in(Role.ADMIN, name="another")
    return sign_in(Role.ADMIN, name="ada")


def page_of(answer: Any, status: int = 200) -> str:
    page: str = answer.content.decode()
    # Not the page: pytest would print all of it.
    assert answer.status_code == status, markup.words(page)[:2000]
    return page


def opened(client: Client, address: str = EDITOR) -> dict[str, list[str]]:
    return sent_form.fields(client.get(address).content.decode())


def send(client: Client, fields: dict[str, Any], **changes: Any) -> str:
    """The page that answers a form with some fields changed."""
    return page_of(client.post(EDITOR, {**fields, **changes}))


def refused(client: Client, fields: dict[str, Any], **changes: Any) -> str:
    """The page that says what is wrong with it."""
    return page_of(client.post(EDITOR, {**fields, **changes}), 422)


def document_of(client: Client, fields: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The document that the form makes, as its text view has it."""
    page = send(client, fields, view="document", **changes)
    found: dict[str, Any] = yaml.safe_load(sent_form.fields(page, marker="document")["document"][0])
    return found


def rules_of(client: Client, fields: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    """The rules of the first table of that document."""
    rules: list[dict[str, Any]] = document_of(client, fields, **changes)["tables"][0]["rules"]
    return rules


def ask(*drivers: dict[str, Any]) -> None:
    """Outputs of the active version about these drivers, each in a flow of its own."""
    agent = api_client.session(underwriting.AGENT)
    for changes in drivers:
        underwriting.driver_rules(agent, agent.open_flow(), **changes)


# the form


def test_a_table_is_a_table_of_fields(ada: Client) -> None:
    page = page_of(ada.get(EDITOR))
    assert f'name="{AGE}"' in page
    assert 'value="[18..25)" class="mono" aria-label="age, rule 1"' in markup.tight(page)
    assert 'value="90000" class="mono" aria-label="premium_cents, rule 1"' in markup.tight(page)
    assert "Also in the document" in page  # the rules and guardrails, which have no fields


def test_an_untouched_form_changes_nothing_but_the_version(ada: Client) -> None:
    written = ruleset_versions.contract_of(Ruleset.objects.get(ruleset="motor-underwriting"))
    found = document_of(ada, opened(ada))
    assert found == {**written.model_dump(mode="json", exclude_defaults=True), "version": "1.1.0"}


def test_cells_results_and_the_hit_policy_are_changed_in_place(ada: Client) -> None:
    found = document_of(
        ada,
        opened(ada),
        **{HIT: "FIRST"},
        **{AGE: "[17..25)", PREMIUM: "91000", "tables.0.0.certainty": "0.5", "tables.0.0.mandatory": "on"},
    )
    table = found["tables"][0]
    assert table["hit"] == "FIRST"
    assert table["rules"][0] == {
        "id": "YOUNG",
        "when": ["[17..25)", "0", "-"],
        "then": {"action": "ISSUE_POLICY", "params": {"premium_cents": 91000}},
        "certainty": 0.5,
        "mandatory": True,
        "justification": "Young and without claims",
    }


def test_rules_come_and_go_without_a_script(ada: Client) -> None:
    more = sent_form.fields(send(ada, opened(ada), add="tables.0"))
    assert more["tables.0.rows"] == ["", "0", "1", "2", "new1"]
    assert more["tables.0.new1.when.2"] == ["-"]
    # A new rule in which nothing is entered is none yet.
    assert len(rules_of(ada, more)) == 3
    new = {"tables.0.new1.id": "OLD", "tables.0.new1.when.0": "> 70", "tables.0.new1.then.action": "REVIEW"}
    fewer = sent_form.fields(send(ada, {**more, **new}, remove="tables.0:0"))
    assert [rule["id"] for rule in rules_of(ada, fewer)] == ["ADULT", "ADULT_AT_THE_COAST", "OLD"]
    assert rules_of(ada, fewer)[2] == {
        "id": "OLD",
        "when": ["> 70", "-", "-"],
        "then": {"action": "REVIEW"},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5", 1.5), ("true", True), ("soon", "soon"), ('"7"', "7"), ("[1, 2]", [1, 2]), ("", None)],
)
def test_a_parameter_is_any_value(ada: Client, text: str, value: Any) -> None:
    params = rules_of(ada, opened(ada), **{PREMIUM: text})[0]["then"].get("params", {})
    assert params.get("premium_cents") == value


def test_a_ruleset_too_large_for_a_form_is_left_to_the_document(
    ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ruleset_tables, "MOST_FIELDS", 20)
    fields = opened(ada)
    assert AGE not in fields
    assert len(rules_of(ada, fields, version="3.0.0")) == 3


@pytest.mark.parametrize(
    "document",
    [
        "tables: 5",
        "tables: [5, {table: t, inputs: [a], rules: [5]}]",
        "tables: [{table: t, inputs: [[]], rules: []}, {inputs: [a], rules: [{when: [1, 2], then: {}}]}]",
        "tables: [{table: t, inputs: [a], hit: [x], rules: [{when: [{}], then: {params: 5}}]}]",
        "version: [1]",
    ],
)
def test_what_fields_cannot_show_stays_in_the_document(ada: Client, document: str) -> None:
    page = send(ada, {"document": document}, view="form")
    fields = sent_form.fields(page)
    assert document_of(ada, fields) == yaml.safe_load(document)


# what is wrong


def test_a_bad_cell_is_shown_at_the_cell_and_nothing_is_saved(ada: Client) -> None:
    for action in ("check", "save"):
        page = refused(ada, opened(ada), action=action, **{AGE: "[25..18]"})
        assert "the interval is empty" in sent_form.wrong_at(page, AGE)
        assert "premiums, rule 1: age" in markup.words(page)
    assert Ruleset.objects.filter(ruleset="motor-underwriting").count() == 1


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (AGE, " ", "Enter a test; - holds for anything."),
        ("tables.0.0.certainty", "sure", "Enter a number, such as 0.8."),
        ("tables.0.0.certainty", "2", "less than or equal to 1"),
        (PREMIUM, "1e400", "Not every reader has this number or text exactly."),
        ("tables.0.0.id", "", "is required"),
        ("tables.0.0.id", "ADULT", "ADULT is the id of 2 rules"),
        ("tables.0.0.then.action", "no action", "pattern"),
        ("version", "1.0.0", "1.0.0 is registered already; give the change a new version"),
        ("high_confidence", "7", "less than or equal to 1"),
    ],
)
def test_each_error_is_at_its_field(ada: Client, field: str, value: str, said: str) -> None:
    page = refused(ada, opened(ada), action="check", **{field: value})
    assert said in sent_form.wrong_at(page, field)


def test_what_is_about_a_whole_table_is_said_at_its_head(ada: Client) -> None:
    page = refused(ada, opened(ada), action="check", **{HIT: "PRIORITY"})
    assert "output_values belongs to the hit policy PRIORITY, which needs it" in page
    assert "Trial on history" not in page


def test_a_rule_that_never_fires_is_a_warning_beside_its_row(ada: Client) -> None:
    page = send(ada, opened(ada), action="check", **{HIT: "FIRST", AGE: "-", "tables.0.0.when.1": "-"})
    assert "rules that count before it match wherever it does" in markup.words(page)
    assert "Ready to save" in page


def test_information_is_shown_as_information_and_a_warning_as_a_warning(ada: Client) -> None:
    hides = {HIT: "FIRST", AGE: ">= 18", "tables.0.0.when.1": "-"}
    words = markup.words(send(ada, opened(ada), action="check", **hides))
    assert "Information premiums : no rule matches for example age" in words
    assert "Warning premiums, rule 2: Rule : ADULT can never fire" in words
    page = markup.tight(send(ada, opened(ada), action="check", **hides))
    notes = [part.split(">")[0] for part in page.split('<span class="note" ')[1:]]
    assert notes == ['data-tone="info"', 'data-tone="warn"', 'data-tone="warn"']
    assert "Information: no rule matches" in words


# saving


def test_a_draft_is_saved_once_and_activated_by_another_admin(ada: Client) -> None:
    fields = {**opened(ada), "action": "save", PREMIUM: "91000"}
    for _ in range(2):
        answer = ada.post(EDITOR, fields)
        assert (answer.status_code, answer["Location"]) == (302, f"{PAGE}?version=1.1.0")
    row = Ruleset.objects.get(version="1.1.0")
    assert (row.active, row.created_by) == (False, f"user:{User.objects.get(username='ada').pk}")
    entries = LedgerEntry.objects.filter(kind="ruleset:registered")
    said = [entry.payload for entry in entries if entry.payload["version"] == "1.1.0"]
    assert [payload["digest"] for payload in said] == [row.digest]
    form = {"seen_active": "1.0.0", "reason": "Premiums of the new year"}
    assert ada.post(f"{PAGE}1.1.0/activate/", form).status_code == 403
    bea = sign_in(Role.ADMIN, name="bea")
    assert bea.post(f"{PAGE}1.1.0/activate/", form).status_code == 302
    assert Ruleset.objects.get(ruleset="motor-underwriting", active=True).version == "1.1.0"


def test_an_operator_edits_nothing(ada: Client) -> None:
    operator = sign_in(Role.OPERATOR, name="olga")
    assert "Draft from this version" not in text_of(operator, PAGE)
    assert operator.get(EDITOR).status_code == 403
    assert operator.post(EDITOR, {"document": "x", "action": "save"}).status_code == 403
    assert "Draft from this version" in text_of(ada, PAGE)


def test_what_is_not_there_has_no_editor(ada: Client) -> None:
    for address in ("/rulesets/nothing/new/", f"{EDITOR}?from=9.9.9"):
        assert ada.get(address).status_code == 404
        assert ada.post("/rulesets/nothing/new/", {"document": ""}).status_code == 404


def test_bytes_that_are_not_the_recorded_ones_begin_no_draft(ada: Client) -> None:
    row = Ruleset.objects.get(ruleset="motor-underwriting")
    Ruleset.objects.filter(pk=row.pk).update(body=bytes(row.body).replace(b"90000", b"10000"))
    assert not stands("10000", ada.get(EDITOR).content.decode())


def test_another_ruleset_has_a_page_of_its_own(ada: Client) -> None:
    text = canonical.encode(yaml.safe_load(underwriting.CREDIT)["rulesets"][0]).decode()
    page = refused(ada, {"document": text}, action="save")
    assert "this is the page of motor-underwriting" in page


# the trial


def test_the_check_says_what_would_change_and_in_which_flows(ada: Client) -> None:
    ask({"age": 20, "claims": 0}, {"age": 40}, {"age": 17})
    words = markup.words(send(ada, opened(ada), action="check", **{AGE: "[17..25)", PREMIUM: "91000"}))
    assert "Would change 1 of the last 3." in words
    assert "premium: ISSUE_POLICY: premium_cents 90000" in words
    assert "premium: ISSUE_POLICY: premium_cents 91000" in words


def test_a_driver_that_nobody_decided_about_is_decided(ada: Client) -> None:
    ask({"age": 17, "claims": 0, "sanctioned": True})
    words = markup.words(send(ada, opened(ada), action="check", **{AGE: "[17..25)"}))
    assert "Would change 1 of the last 1." in words
    assert "NO_MATCH premium: undecided" in words
    assert "HIGH_CONFIDENCE_MATCH premium: ISSUE_POLICY: premium_cents 90000" in words


def test_the_page_of_a_draft_offers_the_trial(ada: Client) -> None:
    ask({"age": 20, "claims": 0})
    ada.post(EDITOR, {**opened(ada), "action": "save", PREMIUM: "91000"})
    at = f"{PAGE}?version=1.1.0"
    assert "Start trial" in text_of(ada, at)
    assert "Would change" not in text_of(ada, at)
    assert "Would change 1 of the last 1." in text_of(ada, f"{at}&trial=1")


# the document


def test_policies_are_edited_as_text_and_get_the_installed_version(ada: Client) -> None:
    records_desk.load_pack()
    at = "/rulesets/record-access/new/"
    fields = sent_form.fields(page_of(ada.get(f"{at}?as=document")), marker="document")
    text = fields["document"][0]
    assert "cedarpy" not in text
    bad = page_of(ada.post(at, {**fields, "document": text.replace("resource.ward", "resource.wrd")}))
    assert "it does not fit cedar_request" in bad
    assert ada.post(at, {**fields, "action": "save"}).status_code == 302
    row = Ruleset.objects.get(ruleset="record-access", version="1.1.0")
    request = ruleset_versions.contract_of(row).cedar_request
    assert request is not None
    assert request.cedarpy == cedar.VERSION
    assert "C_BILLING" in text_of(ada, "/rulesets/record-access/?version=1.1.0")

"""The editor of a ruleset: rules in another order, and tables with other inputs and parameters."""

import re

import pytest
from django.test import Client

from audit.access.roles import Role
from runtime.advice.views import ruleset_tables
from runtime.registry.models import Ruleset
from tests.support import markup, sent_form, underwriting
from tests.web.test_pages import sign_in
from tests.web.test_pages_ruleset_editor import AGE, PREMIUM, document_of, opened, refused, rules_of, send

pytestmark = pytest.mark.django_db
INPUT, PARAMETER = "tables.0.input", "tables.0.parameter"


@pytest.fixture
def ada() -> Client:
    underwriting.load_packs()
    return sign_in(Role.ADMIN, name="ada")


# the order of rules


def test_a_rule_moves_up_with_what_was_typed_in_it(ada: Client) -> None:
    page = send(ada, opened(ada), up="tables.0:2", **{"tables.0.2.id": "COAST", AGE: "[17..25)"})
    moved = sent_form.fields(page)
    assert moved["tables.0.rows"] == ["", "0", "2", "1"]
    # The focus stays on the button of the rule, which is called by its number and its id.
    (button,) = re.findall(r'<button[^>]*aria-label="Move up rule 2, COAST"[^>]*>', page)
    assert "autofocus" in button
    rules = rules_of(ada, moved)
    assert [rule["id"] for rule in rules] == ["YOUNG", "COAST", "ADULT"]
    assert rules[0]["when"][0] == "[17..25)"
    assert rules[1]["then"]["params"] == {"premium_cents": 61000}
    assert Ruleset.objects.filter(ruleset="motor-underwriting").count() == 1


def test_the_first_rule_has_no_button_and_its_id_gets_the_focus(ada: Client) -> None:
    page = send(ada, opened(ada), up="tables.0:1")
    assert sent_form.fields(page)["tables.0.rows"] == ["", "1", "0", "2"]
    assert "Move up rule 1" not in page
    (focused,) = re.findall(r"<input[^>]*autofocus[^>]*>", page)
    assert 'name="tables.0.1.id"' in focused


def test_a_new_rule_moves_too(ada: Client) -> None:
    more = sent_form.fields(send(ada, opened(ada), add="tables.0"))
    new = {"tables.0.new1.id": "FIRST_OF_ALL", "tables.0.new1.then.action": "REVIEW"}
    for _ in range(3):
        more = sent_form.fields(send(ada, {**more, **new}, up="tables.0:new1"))
    assert [rule["id"] for rule in rules_of(ada, more)] == [
        "FIRST_OF_ALL",
        "YOUNG",
        "ADULT",
        "ADULT_AT_THE_COAST",
    ]


@pytest.mark.parametrize("said", ["tables.0:0", "tables.0:9", "tables.7:1", "rules:1", ""])
def test_what_is_no_rule_below_another_stays_where_it_is(ada: Client, said: str) -> None:
    assert sent_form.fields(send(ada, opened(ada), up=said))["tables.0.rows"] == ["", "0", "1", "2"]


def test_a_finding_about_a_moved_rule_is_at_its_field(ada: Client) -> None:
    moved = sent_form.fields(send(ada, opened(ada), up="tables.0:2"))
    page = refused(ada, moved, action="check", **{"tables.0.2.when.0": "[25..18]"})
    assert "the interval is empty" in sent_form.wrong_at(page, "tables.0.2.when.0")
    assert "premiums, rule 2: age" in markup.words(page)


# the inputs of a table


def test_a_feature_becomes_an_input_of_which_each_rule_allows_anything(ada: Client) -> None:
    typed = {AGE: "[17..25", PREMIUM: "91000", "tables.0.0.mandatory": "on", "version": "2.0.0"}
    page = send(ada, opened(ada), add_input="tables.0", **{INPUT: "sanctioned"}, **typed)
    more = sent_form.fields(page)
    assert {name: more[name] for name in typed} == {name: [value] for name, value in typed.items()}
    assert more[INPUT] == [""]
    (focused,) = re.findall(r"<input[^>]*autofocus[^>]*>", page)
    assert 'name="tables.0.0.when.3"' in focused
    found = document_of(ada, more, **{AGE: "[17..25)", "tables.0.1.when.3": "false"})
    assert (found["version"], found["tables"][0]["inputs"]) == (
        "2.0.0",
        ["age", "claims", "region", "sanctioned"],
    )
    rules = found["tables"][0]["rules"]
    assert [rule["when"] for rule in rules] == [
        ["[17..25)", "0", "-", "-"],
        ["[25..70]", "<= 2", "not('coast')", "false"],
        ["[25..70]", "<= 2", "'coast'", "-"],
    ]
    assert (rules[0]["then"]["params"], rules[0]["mandatory"]) == ({"premium_cents": 91000}, True)


def test_only_features_that_are_no_input_yet_are_offered(ada: Client) -> None:
    page = markup.tight(send(ada, opened(ada)))
    options = page.split(f'name="{INPUT}"')[1].split("</select>")[0]
    assert re.findall(r'value="([^"]*)"', options) == ["", "sanctioned"]
    assert "sanctioned (boolean)" in options


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        ("", "Choose a feature of the ruleset."),
        ("nothing", "Choose a feature of the ruleset."),
        ("age", "age is an input already."),
    ],
)
def test_what_cannot_be_an_input_is_said_at_the_field_and_nothing_is_lost(
    ada: Client, feature: str, said: str
) -> None:
    page = refused(ada, opened(ada), add_input="tables.0", **{INPUT: feature, AGE: "[17..25)"})
    assert sent_form.wrong_at(page, INPUT).endswith(said)
    fields = sent_form.fields(page)
    assert fields[AGE] == ["[17..25)"]
    assert "tables.0.0.when.3" not in fields


def test_an_input_goes_with_its_cells_and_the_others_keep_theirs(ada: Client) -> None:
    more = sent_form.fields(send(ada, opened(ada), add="tables.0"))
    typed = {AGE: "[17..25)", "tables.0.0.when.2": "'north'", "tables.0.new1.when.2": "'south'"}
    left = sent_form.fields(send(ada, {**more, **typed, "tables.0.new1.id": "S"}, remove_input="tables.0:1"))
    table = document_of(ada, left, **{"tables.0.new1.then.action": "REVIEW"})["tables"][0]
    assert table["inputs"] == ["age", "region"]
    assert [rule["when"] for rule in table["rules"]] == [
        ["[17..25)", "'north'"],
        ["[25..70]", "not('coast')"],
        ["[25..70]", "'coast'"],
        ["-", "'south'"],
    ]


def test_a_table_keeps_one_input(ada: Client) -> None:
    fields = opened(ada)
    for _ in range(2):
        page = send(ada, fields, remove_input="tables.0:0")
        fields = sent_form.fields(page)
    assert 'name="remove_input"' not in page
    page = refused(ada, fields, remove_input="tables.0:0")
    assert "A table needs at least one input." in sent_form.wrong_at(page, INPUT)
    assert [rule["when"] for rule in rules_of(ada, fields)] == [["-"], ["not('coast')"], ["'coast'"]]


# the parameters of a table


def test_a_parameter_gets_a_column_and_keeps_it_while_it_has_no_value(ada: Client) -> None:
    page = send(ada, opened(ada), add_parameter="tables.0", **{PARAMETER: " excess_cents ", AGE: "[17..25)"})
    (focused,) = re.findall(r"<input[^>]*autofocus[^>]*>", page)
    assert 'name="tables.0.0.then.params.excess_cents"' in focused
    # Another button, and the check: the column and what was typed are still there.
    again = sent_form.fields(send(ada, sent_form.fields(page), up="tables.0:1"))
    again = sent_form.fields(send(ada, again, action="check"))
    assert (again[PARAMETER], again[AGE]) == ([""], ["[17..25)"])
    rules = rules_of(ada, again, **{"tables.0.1.then.params.excess_cents": "5000"})
    assert [rule["then"]["params"] for rule in rules] == [
        {"premium_cents": 48000, "excess_cents": 5000},
        {"premium_cents": 90000},
        {"premium_cents": 61000},
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "Enter a name of letters, digits and _, such as limit_cents."),
        ("two words", "Enter a name of letters, digits and _, such as limit_cents."),
        ("premium_cents", "premium_cents has a column already."),
    ],
)
def test_what_cannot_be_a_parameter_is_said_at_the_field_and_nothing_is_lost(
    ada: Client, name: str, said: str
) -> None:
    page = refused(ada, opened(ada), add_parameter="tables.0", **{PARAMETER: name, AGE: "[17..25)"})
    assert sent_form.wrong_at(page, PARAMETER).endswith(said)
    assert sent_form.fields(page)[AGE] == ["[17..25)"]
    assert sent_form.fields(page)[PARAMETER] == [name]


def test_a_parameter_goes_with_its_values(ada: Client) -> None:
    fields = sent_form.fields(send(ada, opened(ada), add_parameter="tables.0", **{PARAMETER: "excess_cents"}))
    for name in ("premium_cents", "excess_cents"):
        page = send(ada, fields, remove_parameter=f"tables.0:{name}", **{AGE: "[17..25)"})
        fields = sent_form.fields(page)
    assert not [name for name in fields if ".params." in name]
    rules = rules_of(ada, fields)
    assert [rule["then"].get("params", {}) for rule in rules] == [{}, {}, {}]
    assert rules[0]["when"][0] == "[17..25)"


# what has no room, or is not there


@pytest.mark.parametrize(
    ("button", "field", "value"),
    [
        ("add_input", INPUT, "sanctioned"),
        ("add_parameter", PARAMETER, "excess_cents"),
        ("add", "", ""),
    ],
)
def test_what_has_no_room_in_a_request_is_refused_and_the_table_stays(
    ada: Client, monkeypatch: pytest.MonkeyPatch, button: str, field: str, value: str
) -> None:
    fields = {**opened(ada), **({field: value} if field else {}), AGE: "[17..25)"}
    monkeypatch.setattr(ruleset_tables, "MOST_FIELDS", 41)
    page = refused(ada, fields, **{button: "tables.0"})
    assert "The form has no room for more fields. Edit the document instead." in markup.words(page)
    assert sent_form.fields(page)[AGE] == ["[17..25)"]


@pytest.mark.parametrize(
    "pressed",
    [
        {"add_input": "tables.9"},
        {"remove_input": "tables.0:9"},
        {"remove_input": "tables.0:x"},
        {"remove_parameter": "tables.0:nothing"},
        {"add_parameter": "features"},
        {"add": "tables.9"},
    ],
)
def test_a_button_for_what_is_not_there_changes_nothing(ada: Client, pressed: dict[str, str]) -> None:
    fields = {name: values for name, values in opened(ada).items() if name != "csrfmiddlewaretoken"}
    after = sent_form.fields(send(ada, fields, **pressed))
    assert {name: after[name] for name in fields} == fields


def test_a_document_in_the_making_gets_columns_too(ada: Client) -> None:
    document = (
        "{features: {b: 5, c: {type: string}}, other: 7, tables: [7, {table: t, inputs: [a], rules: []}]}"
    )
    fields = sent_form.fields(send(ada, {"document": document}, view="form"))
    page = send(ada, fields, add_input="tables.1", **{"tables.1.input": "b"})
    (focused,) = re.findall(r"<select[^>]*autofocus[^>]*>", page)
    assert 'name="tables.1.input"' in focused
    made = document_of(ada, sent_form.fields(page))
    assert (made["other"], made["tables"]) == (7, [7, {"table": "t", "inputs": ["a", "b"], "rules": []}])
    text = "{features: 5, tables: [{inputs: [a], rules: []}]}"
    nameless = sent_form.fields(send(ada, {"document": text}, view="form"))
    page = refused(ada, nameless, add_input="tables.0", **{INPUT: "b"})
    assert sent_form.wrong_at(page, INPUT).endswith("Choose a feature of the ruleset.")

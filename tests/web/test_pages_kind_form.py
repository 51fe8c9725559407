"""The form of a policy kind: its fields, limits and rules, with rows that come and go without a script."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit import canonical
from audit.access.roles import Role
from runtime.core import clock
from runtime.registry.models import PolicyKind, Target
from runtime.registry.services import document_reading, document_writing
from tests.support import demo_scenes, factories, gate_cases, markup, sent_form
from tests.web.test_pages import code_in, sign_in

pytestmark = pytest.mark.django_db
EDITOR = "/kinds/ADJUST_POSITION/new/"
HOSTILE = demo_scenes.HOSTILE
PACK = Path(__file__).parents[2] / "demo" / "paper-brokerage.yaml"


@pytest.fixture
def desk() -> factories.Desk:
    Target.objects.create(
        tenant=factories.TENANT, name="broker", base_url="http://127.0.0.1:1", configured_at=clock.now()
    )
    return factories.desk()


@pytest.fixture
def ada(desk: factories.Desk) -> Client:
    return sign_in(Role.ADMIN, name="ada")


def send(client: Client, fields: dict[str, Any], **changes: Any) -> Any:
    return client.post(EDITOR, {**fields, **changes})


def page_of(answer: Any, status: int = 200) -> str:
    page: str = answer.content.decode()
    # Not the page: pytest would print all of it.
    assert answer.status_code == status, markup.words(page)[:2000]
    return page


def opened(client: Client) -> dict[str, list[str]]:
    return sent_form.fields(client.get(EDITOR).content.decode())


def document_of(client: Client, fields: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The document that the form makes, as its text view has it."""
    page = page_of(send(client, fields, view="document", **changes))
    text = sent_form.fields(page, marker="document")["document"][0]
    source = document_reading.Source(name="draft")
    found = document_reading.read_value(text=text.replace("\r\n", "\n"), source=source)
    assert isinstance(found, dict), found
    return found


def as_form(client: Client, document: dict[str, Any]) -> str:
    """The form of a document that was typed."""
    text = document_writing.value_as_yaml(document)
    return page_of(client.post(EDITOR, {"view": "form", "document": text.replace("\n", "\r\n")}))


WORDS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=12),
    st.sampled_from([HOSTILE, "5", "true", "a\nb", " x ", "\u2028", "\x85", "a == 'b' ? 1 : 2"]),
)
ANY = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), WORDS, st.lists(WORDS, max_size=2)
)
ROW = st.dictionaries(
    st.sampled_from(
        ["id", "value", "limit", "require", "on_fail", "on_exceed", "fact", "unless", "priority"]
    ),
    st.one_of(WORDS, WORDS, ANY),
    max_size=4,
)
LISTS = st.lists(st.one_of(ROW, ROW, ROW, WORDS), max_size=3)
FIELDS = st.dictionaries(
    st.sampled_from(
        [
            "title",
            "description",
            "risk_tier",
            "impact",
            "effect",
            "reversible",
            "on_unknown",
            "sla_s",
            "approvals",
            "reading_s",
            "undo_s",
            "cooling_s",
            "steps",
            "outputs_schema",
            "category",
            "unknown",
        ]
    ),
    ANY,
    max_size=5,
)
ROWS = st.dictionaries(
    st.sampled_from(["limits", "rules", "constraints", "depends_on", "claims"]), LISTS, max_size=3
)


@pytest.mark.once  # a form and a document: no row is asked for either
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changed=FIELDS, rows=ROWS)
def test_a_form_that_is_opened_and_sent_back_is_the_same_document(
    ada: Client, changed: dict[str, Any], rows: dict[str, Any]
) -> None:
    document = {"kind": "ADJUST_POSITION", "version": "1.3.0", **gate_cases.KIND, **changed, **rows}
    page = as_form(ada, document)
    assert not code_in(page)
    found = document_of(ada, sent_form.fields(page))
    assert canonical.encode(found) == canonical.encode(document)
    assert list(found) == list(document)


def test_the_kinds_of_the_demo_come_back_as_they_are(ada: Client) -> None:
    pack = yaml.safe_load(PACK.read_text())
    for document in pack["policy_kinds"]:
        page = as_form(ada, document)
        assert len(sent_form.ids(page)) > 30
        assert document_of(ada, sent_form.fields(page)) == document


def test_the_form_is_what_opens_and_keeps_what_it_has_no_field_for(ada: Client) -> None:
    page = ada.get(EDITOR).content.decode()
    rest = markup.words(page.split('id="rest"')[1].split("</details>")[0])
    for name in ("params_schema", "constraints_schema", "steps"):
        assert name in rest
    fields = sent_form.fields(page)
    assert fields["limits.0.value"] == ["params.notional_cents"]
    assert fields["depends_on.1.fact"] == ["market.state"]
    assert send(ada, fields, action="save").status_code == 302
    stored = PolicyKind.objects.get(version="1.3.0")
    assert stored.digest == gate_cases.kind(version="1.3.0").digest


@pytest.mark.parametrize(
    ("changes", "member", "value"),
    [
        ({"title": "Adjust"}, "title", "Adjust"),
        ({"risk_tier": "T2"}, "risk_tier", "T2"),
        ({"sla_s": "1,200"}, "sla_s", 1200),
        ({"undo_s": "0"}, "undo_s", 0),
        ({"reading_s": "20"}, "reading_s", 20),
        ({"approvals": "2"}, "approvals", 2),
        ({"cooling_s": "60"}, "cooling_s", 60),
        ({"effect": "{action}\r\n{quantity}"}, "effect", "{action}\n{quantity}"),
        ({"confidence_waiver": "on"}, "confidence_waiver", True),
        ({"on_unknown": "probe"}, "on_unknown", "probe"),
        (
            {"limits.0.on_exceed": "REJECT"},
            "limits",
            [{**gate_cases.KIND["limits"][0], "on_exceed": "REJECT"}],
        ),
        ({"rules.rows": ["1"]}, "rules", gate_cases.KIND["rules"][1:]),
    ],
)
def test_a_change_of_one_field_changes_exactly_its_member(
    ada: Client, changes: dict[str, Any], member: str, value: Any
) -> None:
    fields = opened(ada)
    before, after = document_of(ada, fields), document_of(ada, fields, **changes)
    assert after[member] == value
    assert {**after, member: None} == {**before, member: None}


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("sla_s", "soon", "Enter a whole number, such as 12."),
        ("undo_s", "301", "less than or equal to 300"),
        ("risk_tier", "T7", "'T0', 'T1', 'T2' or 'T3'"),
        ("version", "1.2.0", "1.2.0 is registered already"),
        ("effect", "{nobody}", "nobody"),
        ("impact", "params.", "cannot be read"),
        ("limits.0.value", "", "is required"),
        ("limits.0.limit", "params.nothing", "nothing"),
        ("limits.0.unit", "cents", "has no currency"),
        ("rules.1.require", "1 +", "cannot be read"),
        ("rules.0.id", "not an id", "must match pattern"),
        ("depends_on.0.fact", "price", "two segments"),
    ],
)
@pytest.mark.parametrize("action", ["check", "save"])
def test_what_is_wrong_stands_at_its_field_and_what_was_typed_stays(
    ada: Client, field: str, typed: str, words: str, action: str
) -> None:
    page = page_of(send(ada, opened(ada), action=action, title="Kept", **{field: typed}), 422)
    assert words in sent_form.wrong_at(page, field)
    kept = sent_form.fields(page)
    assert (kept["title"], kept[field]) == (["Kept"], [typed])
    top = page.split('id="check"')[1].split("</section>")[0]
    assert set(re.findall(r'href="#([^"]+)"', top)) <= sent_form.ids(page)
    assert not code_in(page)
    assert PolicyKind.objects.count() == 1


def test_rows_come_and_go_by_plain_buttons_and_a_finding_follows_its_row(ada: Client) -> None:
    fields = sent_form.fields(page_of(send(ada, opened(ada), add="rules")))
    assert fields["rules.rows"] == ["", "0", "1", "new1"]
    fields |= {"rules.new1.id": ["R_FEW"], "rules.new1.require": ["params.quantity <"]}
    fields = sent_form.fields(page_of(send(ada, fields, remove="rules:0")))
    assert fields["rules.rows"] == ["", "1", "new1"]
    page = page_of(send(ada, fields, action="check"), 422)
    assert sent_form.wrong_at(page, "rules.new1.require")
    assert not sent_form.wrong_at(page, "rules.1.require")
    fields |= {"rules.new1.require": ["params.quantity < 5"]}
    # A row in which nothing was entered is none.
    fields = sent_form.fields(page_of(send(ada, fields, add="limits")))
    assert send(ada, fields, action="save").status_code == 302
    stored = canonical.decode(bytes(PolicyKind.objects.get(version="1.3.0").body))
    assert [rule["id"] for rule in stored["rules"]] == ["R_BUYS_ONLY", "R_FEW"]
    assert len(stored["limits"]) == 1


def test_what_a_row_has_no_field_for_stays_with_it(ada: Client) -> None:
    document = document_of(ada, opened(ada))
    document["rules"][0] |= {"priority": 7, "mandatory": False}
    page = as_form(ada, document)
    assert "rules[0]" in page
    changed = document_of(ada, sent_form.fields(page), **{"rules.0.message": "Shut"})
    assert changed["rules"][0] == document["rules"][0] | {"message": "Shut"}
    assert changed["rules"][1:] == document["rules"][1:]


def test_a_check_shows_the_changes_the_preview_and_the_dry_run(desk: factories.Desk, ada: Client) -> None:
    desk.propose(desk.open())
    page = page_of(send(ada, opened(ada), action="check", effect="Really {action}"))
    for words in ("Ready to save", "Changes from", "Preview", "of the last 1.", "Really"):
        assert words in page, words
    assert len(sent_form.ids(page)) > 30


def test_a_new_kind_begins_as_a_form_too(ada: Client) -> None:
    page = ada.get("/kinds/new/").content.decode()
    fields = sent_form.fields(page) | {"kind": ["MOVE_MONEY"]}
    answer = ada.post("/kinds/new/", {**fields, "action": "save"})
    assert answer["Location"] == "/kinds/MOVE_MONEY/?version=1.0.0"


def test_only_who_manages_the_registry_may_open_check_and_save(ada: Client) -> None:
    fields = opened(ada)
    for role in set(Role) - {Role.ADMIN}:
        client = sign_in(role, name=f"{role.value}-form")
        for address in (EDITOR, "/kinds/new/"):
            assert client.get(address).status_code == 403
            assert client.post(address, {**fields, "action": "save"}).status_code == 403
    assert PolicyKind.objects.count() == 1

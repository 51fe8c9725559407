"""The form of a manifest: opened, changed, checked and saved, with what is wrong at its field."""

import json
import re
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit import canonical
from audit.access.roles import Role
from runtime.registry.models import Agent, Manifest, PolicyKind
from runtime.registry.services import document_writing
from tests.support import demo_scenes, markup, sent_form, worlds
from tests.web.test_pages import code_in, sign_in, text_of

AGENT = "ambitious-trader"
EDITOR = f"/agents/{AGENT}/manifests/new/"
HOSTILE = demo_scenes.HOSTILE

scene = worlds.shared(demo_scenes.build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("scene")]


@pytest.fixture
def ada() -> Client:
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
    found: dict[str, Any] = json.loads(sent_form.fields(page, marker="document")["document"][0])
    return found


def as_form(client: Client, document: Any) -> str:
    """The form of a document that was typed."""
    return page_of(
        client.post(EDITOR, {"view": "form", "document": document_writing.value_as_json(document)})
    )


def saved(client: Client, fields: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The stored document of a form that was saved."""
    answer = send(client, fields, action="save", **changes)
    assert answer.status_code == 302, markup.words(answer.content.decode())[:2000]
    found: dict[str, Any] = canonical.decode(bytes(Manifest.objects.latest("pk").body))
    return found


PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
WORDS = st.one_of(
    PLAIN, st.sampled_from([HOSTILE, "5", "true", '"', "a\nb", "\n", " x ", "\u2028", "\x85", "1,000.00"])
)
NUMBERS = st.one_of(st.integers(-(2**53) + 1, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS)
ANY = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What belongs there; rarely anything else, as a person may have typed it."""
    return st.one_of(usual, usual, usual, ANY)


MANIFESTS = st.fixed_dictionaries(
    {"version": mostly(st.just("1.1.0"))},
    optional={
        "policy_kinds": mostly(
            st.lists(st.sampled_from(["ADJUST_POSITION", "TRANSFER_FUNDS", "NOPE"]), max_size=4)
        ),
        "limits": mostly(
            st.dictionaries(
                st.one_of(IDS, st.sampled_from(["max_notional_cents", "max_transfer_cents"]), WORDS),
                st.one_of(SCALARS, st.lists(SCALARS, max_size=3)),
                max_size=4,
            )
        ),
        "scope": mostly(st.dictionaries(WORDS, mostly(st.lists(SCALARS, max_size=3)), max_size=3)),
        "subscribes": mostly(st.lists(WORDS, max_size=3)),
        "escalate_below_confidence": mostly(NUMBERS),
        "escalations_per_hour": mostly(NUMBERS),
        "waive_tier3_review": mostly(st.booleans()),
        "compute": mostly(
            st.fixed_dictionaries({}, optional={"tokens": ANY, "cost_usd": WORDS, "other": ANY})
        ),
        "hours": mostly(
            st.fixed_dictionaries({}, optional={"days": st.lists(WORDS, max_size=3), "opens": ANY})
        ),
        "memory_scopes": mostly(
            st.lists(
                st.one_of(
                    WORDS, st.fixed_dictionaries({"scope": ANY}, optional={"access": ANY, "more": ANY})
                ),
                max_size=3,
            )
        ),
        "label_rules": mostly(
            st.lists(
                st.fixed_dictionaries(
                    {"id": ANY, "after": mostly(st.lists(WORDS, max_size=2))},
                    optional={"kinds": ANY, "on_fail": ANY, "message": WORDS, "more": ANY},
                ),
                max_size=2,
            )
        ),
        "labels_end_after_s": mostly(st.dictionaries(WORDS, mostly(NUMBERS), max_size=2)),
        "autonomy": mostly(
            st.fixed_dictionaries(
                {},
                optional={
                    "supervised_at": ANY,
                    "rejections": mostly(st.just({"points": 1})),
                    "labels": mostly(
                        st.fixed_dictionaries({"points": st.dictionaries(WORDS, mostly(NUMBERS))})
                    ),
                },
            )
        ),
        "model_profile": ANY,
        "annotations": ANY,
    },
)


@pytest.mark.once  # a form and a document: no row is asked for either
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=MANIFESTS)
def test_a_form_that_is_opened_and_sent_back_is_the_same_document(
    ada: Client, document: dict[str, Any]
) -> None:
    page = as_form(ada, document)
    assert not code_in(page)
    found = document_of(ada, sent_form.fields(page))
    assert canonical.encode(found) == canonical.encode(document)
    assert list(found) == list(document)


def test_the_form_is_what_opens_and_covers_the_whole_of_a_usual_manifest(ada: Client) -> None:
    page = ada.get(EDITOR).content.decode()
    assert 'name="document"' not in page
    assert "Also in the document" not in page
    assert not code_in(page)
    assert len(sent_form.ids(page)) > 20
    fields = sent_form.fields(page)
    assert fields["limits.max_notional_cents"] == ["1,000.00"]
    assert fields["policy_kinds"] == ["ADJUST_POSITION", "TRANSFER_FUNDS", "UPDATE_WATCHLIST"]
    assert fields["compute.tokens"] == ["20,000"]
    assert Manifest.objects.filter(agent__agent_id=AGENT).count() == 1


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"limits.max_notional_cents": "1,551.69 USD"}, "limits.max_notional_cents", 155_169),
        ({"limits.max_notional_cents": "1551.69"}, "limits.max_notional_cents", 155_169),
        ({"limits.max_notional_cents": " 2,000 usd "}, "limits.max_notional_cents", 200_000),
        ({"limits.transfers_without_person": "true"}, "limits.transfers_without_person", True),
        ({"policy_kinds": ["ADJUST_POSITION"]}, "policy_kinds", ["ADJUST_POSITION"]),
        ({"escalate_below_confidence": "0.85"}, "escalate_below_confidence", 0.85),
        ({"escalations_per_hour": "1,200"}, "escalations_per_hour", 1200),
        ({"proposals_per_minute": "6"}, "proposals_per_minute", 6),
        ({"compute.cost_usd": "1.25"}, "compute.cost_usd", "1.25"),
        ({"waive_tier3_review": "on"}, "waive_tier3_review", True),
        ({"subscribes": "price.\r\n\r\n cash. \r\n"}, "subscribes", ["price.", "cash."]),
        ({"model_profile": "small"}, "model_profile", "small"),
        (
            {
                "scope.rows": ["new1"],
                "scope.new1.parameter": "symbol",
                "scope.new1.values": 'AAPL\r\n5\r\n"5"',
            },
            "scope",
            {"symbol": ["AAPL", 5, "5"]},
        ),
        (
            {
                "memory_scopes.rows": ["new1"],
                "memory_scopes.new1.scope": "desk",
                "memory_scopes.new1.access": "WRITE",
            },
            "memory_scopes",
            [{"scope": "desk", "access": "WRITE"}],
        ),
        ({"autonomy.supervised_at": "30"}, "autonomy.supervised_at", 30),
        (
            {"autonomy.labels.points": "untrusted: 5\r\n\r\nsecret :12 "},
            "autonomy.labels.points",
            {"untrusted": 5, "secret": 12},
        ),
        (
            {
                "label_rules.rows": ["new1"],
                "label_rules.new1.id": "no_wires",
                "label_rules.new1.after": "untrusted\r\nsecret",
                "label_rules.new1.kinds": "TRANSFER_FUNDS",
                "label_rules.new1.on_fail": "REJECT",
            },
            "label_rules",
            [
                {
                    "id": "no_wires",
                    "after": ["untrusted", "secret"],
                    "kinds": ["TRANSFER_FUNDS"],
                    "on_fail": "REJECT",
                }
            ],
        ),
        (
            {
                "labels_end_after_s.rows": ["new1"],
                "labels_end_after_s.new1.label": "untrusted",
                "labels_end_after_s.new1.seconds": "86,400",
            },
            "labels_end_after_s",
            {"untrusted": 86_400},
        ),
    ],
)
def test_a_change_of_one_field_changes_exactly_its_member(
    ada: Client, changes: dict[str, Any], place: str, value: Any
) -> None:
    fields = opened(ada)
    before, after = document_of(ada, fields), document_of(ada, fields, **changes)
    holder = after
    *above, name = place.split(".")
    for step in above:
        before, holder = before.get(step, {}), holder[step]
    assert holder[name] == value
    assert type(holder[name]) is type(value)
    assert {key: one for key, one in holder.items() if key != name} == {
        key: one for key, one in before.items() if key != name
    }
    stored = saved(ada, fields, **changes)
    for step in above:
        stored = stored[step]
    assert stored[name] == value


def test_hours_are_made_and_taken_away_as_a_whole(ada: Client) -> None:
    fields = opened(ada)
    hours = {
        "hours.opens": "08:00",
        "hours.closes": "17:30",
        "hours.zone": "Europe/Zurich",
        "hours.days": ["MON"],
    }
    made = document_of(ada, fields, **hours)
    assert made["hours"] == {"opens": "08:00", "closes": "17:30", "zone": "Europe/Zurich", "days": ["MON"]}
    again = sent_form.fields(as_form(ada, made))
    empty = {name: "" for name in hours if name != "hours.days"}
    del again["hours.days"]
    assert document_of(ada, {**again, **empty}).get("hours", {"days": []}) == {"days": []}


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("limits.max_notional_cents", "a lot", "Enter an amount as a number, such as 1,551.69 USD."),
        ("limits.max_notional_cents", "1551,69", "Enter an amount as a number"),
        ("limits.max_notional_cents", "12.345", "The smallest amount is 0.01 USD"),
        ("limits.max_notional_cents", "99,999,999,999,999,999", "The number is too large"),
        ("limits.max_notional_cents", "", "is not set, and ADJUST_POSITION reads it"),
        ("autonomy.supervised_at", "102", "less than or equal to 101"),
        ("autonomy.rejections.points", "101", "less than or equal to 100"),
        ("autonomy.labels.points", "untrusted", "Enter a name and a whole number in each line"),
        ("autonomy.labels.points", ": 5", "Enter a name and a whole number in each line"),
        ("autonomy.labels.points", "secret: 1.5", "Enter a name and a whole number in each line"),
        ("autonomy.labels.points", "secret: 1\r\nsecret: 2", "secret has a line already."),
        ("autonomy.labels.points", "secret: 101", "less than or equal to 100"),
        ("escalate_below_confidence", "high", "Enter a number, such as 0.8."),
        ("escalate_below_confidence", "1.5", "less than or equal to 1"),
        ("compute.tokens", "1.5", "Enter a whole number, such as 12."),
        ("compute.cost_usd", "free", "Enter an amount in USD, such as 0.50."),
        ("version", "", "is required"),
        ("version", "<b>", "must match pattern"),
        ("hours.opens", "8", "must match pattern"),
        ("policy_kinds", ["ADJUST_POSITION", "NOPE"], "no policy kind is called NOPE"),
        ("may_delegate_to", "nobody", "no agent is called nobody"),
    ],
)
@pytest.mark.parametrize("action", ["check", "save"])
def test_what_is_wrong_stands_at_its_field_and_what_was_typed_stays(
    ada: Client, field: str, typed: Any, words: str, action: str
) -> None:
    fields = opened(ada) | {"model_profile": ["kept-as-typed"]}
    page = page_of(send(ada, fields, action=action, **{field: typed}), 422)
    assert words in sent_form.wrong_at(page, field)
    kept = sent_form.fields(page)
    assert kept["model_profile"] == ["kept-as-typed"]
    assert kept.get(field, []) == ([typed] if isinstance(typed, str) else typed)
    assert kept["base"] == fields["base"]
    assert "Cannot be saved yet" in page
    assert not code_in(page)
    assert Manifest.objects.filter(agent__agent_id=AGENT).count() == 1


def test_two_wrong_fields_are_both_said_and_linked_from_the_top(ada: Client) -> None:
    wrong = {"limits.max_notional_cents": "much", "compute.tokens": "many", "may_delegate_to": "nobody"}
    page = page_of(send(ada, opened(ada), action="check", **wrong), 422)
    top = page.split('id="check"')[1].split("</section>")[0]
    targets = list(dict.fromkeys(re.findall(r'href="#([^"]+)"', top)))
    assert targets == ["f-limits-max_notional_cents", "f-compute-tokens", "f-may_delegate_to"]
    assert set(targets) <= sent_form.ids(page)
    for field in wrong:
        assert sent_form.wrong_at(page, field)
    # A refused field is not part of the document, so no difference and no dry run is shown of it.
    assert "Dry run on its recent proposals" not in page


def test_a_finding_that_no_field_shows_stands_at_the_top_with_its_pointer(ada: Client) -> None:
    document = document_of(ada, opened(ada)) | {"annotations": {"by": HOSTILE}}
    page = as_form(ada, document)
    assert "Also in the document" in page
    page = page_of(send(ada, sent_form.fields(page), action="check"), 422)
    top = markup.words(page.split('id="check"')[1].split("</section>")[0])
    assert "annotations is not a known field" in top
    assert HOSTILE not in page
    assert not code_in(page)


def test_a_warning_stands_at_its_field_and_hinders_nothing(ada: Client) -> None:
    page = page_of(send(ada, opened(ada), action="check", subscribes="nowhere."))
    assert "Ready to save" in page
    note = page.split('id="f-subscribes-note"')[1].split("</div>")[0]
    assert "no fact begins with nowhere. yet" in note
    assert not sent_form.wrong_at(page, "subscribes")
    assert "Dry run on its recent proposals" in page


def test_a_kind_that_is_chosen_brings_the_limits_that_it_reads(ada: Client) -> None:
    document = document_of(ada, opened(ada)) | {"policy_kinds": [], "limits": {}}
    fields = sent_form.fields(as_form(ada, document))
    assert not [name for name in fields if name.startswith("limits.")]
    page = page_of(send(ada, fields, action="check", policy_kinds=["ADJUST_POSITION"]), 422)
    assert "ADJUST_POSITION reads it" in sent_form.wrong_at(page, "limits.max_notional_cents")
    filled = sent_form.fields(page) | {"limits.max_notional_cents": ["750.5"]}
    assert saved(ada, filled)["limits"] == {"max_notional_cents": 75_050}


def test_an_amount_is_read_in_the_unit_beside_which_it_was_typed(ada: Client) -> None:
    fields = opened(ada)
    # Without the kind that names the unit, the limit would be a plain number.
    fields["policy_kinds"] = ["ADJUST_POSITION"]
    page = page_of(send(ada, fields, action="check"))
    assert document_of(ada, sent_form.fields(page))["limits"]["max_transfer_cents"] == 500_000
    plain = document_of(ada, fields)
    fields = sent_form.fields(as_form(ada, plain))
    assert fields["limits.max_transfer_cents"] == ["500,000"]
    fields["policy_kinds"] = ["ADJUST_POSITION", "TRANSFER_FUNDS"]
    page = page_of(send(ada, fields, action="check", **{"limits.max_transfer_cents": "400,000"}))
    assert "cents USD" in page.split('id="f-limits-max_transfer_cents-unit"')[1][:40]
    assert saved(ada, sent_form.fields(page))["limits"]["max_transfer_cents"] == 400_000


def test_rows_come_and_go_by_plain_buttons_and_keep_what_was_typed(ada: Client) -> None:
    fields = opened(ada) | {"compute.tokens": ["not yet"]}
    page = page_of(send(ada, fields, add="memory_scopes"))
    page = page_of(
        send(ada, sent_form.fields(page) | {"memory_scopes.new1.scope": ["desk"]}, add="memory_scopes")
    )
    fields = sent_form.fields(page)
    assert fields["memory_scopes.rows"] == ["", "new1", "new2"]
    assert fields["memory_scopes.new1.scope"] == ["desk"]
    assert fields["compute.tokens"] == ["not yet"]
    assert re.search(r'name="memory_scopes.new2.scope"[^>]*autofocus', page)
    fields |= {"memory_scopes.new2.scope": ["lab"], "compute.tokens": ["7"]}
    fields = sent_form.fields(page_of(send(ada, fields, remove="memory_scopes:new1")))
    assert fields["memory_scopes.rows"] == ["", "new2"]
    made = document_of(ada, fields)
    assert made["memory_scopes"] == [{"scope": "lab"}]
    assert made["compute"]["tokens"] == 7
    # An element of the document goes too, and the rest of the list stays as it is.
    held = made | {"memory_scopes": ["desk", {"scope": "lab", "access": "WRITE", "more": 1}]}
    fields = sent_form.fields(
        page_of(send(ada, sent_form.fields(as_form(ada, held)), remove="memory_scopes:0"))
    )
    assert document_of(ada, fields)["memory_scopes"] == held["memory_scopes"][1:]
    assert Manifest.objects.filter(agent__agent_id=AGENT).count() == 1


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["symbol", "symbol"], "symbol has a row already."),
        (["symbol", ""], "Enter a name, or remove the row."),
    ],
)
def test_a_name_that_a_row_has_already_or_lacks_loses_no_row(
    ada: Client, names: list[str], words: str
) -> None:
    rows = {"scope.rows": ["new1", "new2"]}
    typed = {f"scope.new{at}.parameter": name for at, name in enumerate(names, start=1)}
    values = {f"scope.new{at}.values": f"V{at}" for at in (1, 2)}
    page = page_of(send(ada, opened(ada), action="save", **rows, **typed, **values), 422)
    assert sent_form.wrong_at(page, "scope.new2.parameter") == words
    kept = sent_form.fields(page)
    assert (kept["scope.new1.values"], kept["scope.new2.values"]) == (["V1"], ["V2"])


def test_rows_that_nobody_offered_are_not_read(ada: Client) -> None:
    sent = {"memory_scopes.rows": ["99", "x", "new1", HOSTILE], "memory_scopes.99.scope": "a"}
    page = page_of(send(ada, opened(ada), add="nothing", remove="subscribes:1", **sent))
    assert sent_form.fields(page)["memory_scopes.rows"] == ["", "new1"]
    assert not code_in(page)


def test_the_views_change_with_what_was_typed_and_a_text_that_is_no_document_stays(ada: Client) -> None:
    page = page_of(send(ada, opened(ada), view="document", **{"limits.max_notional_cents": "5"}))
    text = sent_form.fields(page, marker="document")["document"][0]
    assert json.loads(text)["limits"]["max_notional_cents"] == 500
    back = page_of(ada.post(EDITOR, {"document": text, "view": "form"}))
    assert sent_form.fields(back)["limits.max_notional_cents"] == ["5.00"]
    refused = page_of(send(ada, opened(ada), view="document", **{"compute.tokens": "x"}), 422)
    assert sent_form.wrong_at(refused, "compute.tokens")
    for broken in ("{", "[1]", HOSTILE):
        page = page_of(ada.post(EDITOR, {"document": broken, "view": "form"}), 422)
        assert sent_form.fields(page, marker="document")["document"] == [broken]
        assert "Cannot be saved yet" in page
        page = page_of(ada.post(EDITOR, {"base": broken, "action": "save"}), 422)
        assert sent_form.fields(page, marker="document")["document"] == [broken]
        assert not code_in(page)


def test_hostile_text_comes_back_as_text(ada: Client) -> None:
    fields = opened(ada)
    for name in fields:
        if name in {"base", "csrfmiddlewaretoken"} or name.startswith("unit:"):
            continue
        # A row that nobody offered is none, so nothing is wrong with it.
        status = 200 if name.endswith(".rows") else 422
        assert not code_in(page_of(send(ada, fields, action="check", **{name: HOSTILE}), status))


def test_only_who_manages_the_registry_may_open_check_and_save(ada: Client) -> None:
    fields = opened(ada)
    for role in set(Role) - {Role.ADMIN}:
        client = sign_in(role, name=f"{role.value}-form")
        assert client.get(EDITOR).status_code == 403
        for sent in ({"action": "check"}, {"action": "save"}, {"add": "scope"}, {"view": "document"}):
            assert send(client, fields, **sent).status_code == 403
    assert Manifest.objects.filter(agent__agent_id=AGENT).count() == 1


def test_a_kind_that_does_not_match_the_ledger_has_no_limits_here(ada: Client) -> None:
    PolicyKind.objects.filter(kind="TRANSFER_FUNDS").update(body=b'{"forged":1}')
    page = markup.words(text_of(ada, EDITOR))
    assert "Read by ADJUST_POSITION." in page
    assert "Read by TRANSFER_FUNDS." not in page
    assert Agent.objects.get(agent_id=AGENT).active_manifest is not None

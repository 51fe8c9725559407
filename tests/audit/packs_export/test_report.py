"""The page of a pack for people: in words, complete in itself, and safe to open whatever agents wrote."""

import re
from html.parser import HTMLParser

import pytest
from django.db.models import Model

from audit.models import Payload
from audit.packs import report
from escalations.contracts import Action
from runtime.flows.models import Verdict
from tests.audit.packs_export.test_packs_of_flows import Flows, opened
from tests.support import exported_packs, factories, markup, worlds

pytestmark = pytest.mark.django_db
flows = worlds.opened(opened)
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe {{ found.tenant }}"
ACTIVE = {"script", "img", "link", "iframe", "object", "embed", "form", "base", "svg"}
LOADING = {"src", "href", "srcset", "action", "style", "background", "data", "poster"}


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_says_what_the_flow_was_and_who_decided_what_on_which_evidence(flows: Flows) -> None:
    pack = exported_packs.make(flows.overridden)
    words = markup.words(pack.report())
    decided = pack.entries("escalation:decided")[0]
    for said in (
        str(flows.overridden),
        "Agent analyst",
        "Policy kind ADJUST_POSITION 1.2.0",
        "State ACCEPTED",
        "Verdict given Verdict: ESCALATE: RISK_LIMIT_EXCEEDED.",
        "max_notional: 150000 is above the limit of 100000",
        f"olivia ({decided['actor']}) OVERRIDE {factories.JUSTIFICATION}",
        decided["payload"]["evidence_hash"],
        decided["payload"]["statement_digest"],
        decided["payload"]["key_id"],
        pack.read("manifest.json")["origin"],
        "python3 -I verify.py",
    ):
        assert said in words, said
    assert "<pre" in pack.report()
    assert "Explanation, claimed by the agent" in words
    assert "The trend is clear." in pack.report()


@pytest.mark.parametrize("name", ["accepted", "modified", "aborted", "undone", "asked", "stated", "begun"])
def test_every_entry_has_its_line_in_words(flows: Flows, name: str) -> None:
    pack = exported_packs.make(getattr(flows, name))
    page = pack.report()
    timeline = page[page.index('id="timeline"') : page.index('id="verdicts"')]
    assert len(re.findall(r'<th scope="row">', timeline)) == len(pack.flow())
    assert "cannot be put into words" not in page
    assert "Entry of another version" not in page
    for line in pack.lines("entries.jsonl")[: len(pack.flow())]:
        assert line["hash"] in timeline


def test_questions_and_answers_are_told_apart(flows: Flows) -> None:
    words = markup.words(exported_packs.make(flows.aborted).report())
    assert "REQUEST" not in words.partition("What people decided")[2].partition("What was said")[0]
    assert "Question to the agent" in words
    assert "Answer, claimed by the agent" in words
    stated = markup.words(exported_packs.make(flows.stated).report())
    assert "the call: NOT_HAPPENED The broker has no such order." in stated


def test_the_page_loads_nothing_and_runs_nothing(flows: Flows) -> None:
    desk = factories.desk(agent_id="hostile")
    escalation = desk.escalate(explain=HOSTILE)
    person = factories.user(f"<b>{HOSTILE[:40]}", "senior")
    factories.decide(escalation, person, Action.ABORT, justification=HOSTILE)
    page = exported_packs.make(escalation.flow_id).report()
    tags = Tags(page).found
    assert {tag for tag, _ in tags}.isdisjoint(ACTIVE)
    for tag, attributes in tags:
        assert not LOADING & attributes.keys(), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
    assert "url(" not in page
    assert "@import" not in page
    assert "\u202e" not in page
    assert page.count("⟨U+202E⟩gnp.exe {{ found.tenant }}") >= 2
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2


def test_the_page_has_a_language_a_title_and_headed_tables(flows: Flows) -> None:
    tags = Tags(page := exported_packs.make(flows.overridden).report()).found
    assert ("html", {"lang": "en"}) in tags
    assert f"<title>Evidence: flow {flows.overridden}</title>" in page
    names = [tag for tag, _ in tags]
    assert names.count("h1") == names.count("main") == 1
    assert names.count("table") == names.count("caption") == names.count("thead") >= 4
    assert all(attributes.get("scope") for tag, attributes in tags if tag == "th")
    assert "@media print" in page


@pytest.mark.parametrize(
    ("model", "column", "why"),
    [
        (Verdict, "body", "The words of the verdict are not in the pack"),
        (Payload, "content", "Not in the pack"),
    ],
)
def test_the_page_says_what_is_not_there(flows: Flows, model: type[Model], column: str, why: str) -> None:
    exported_packs.make(flows.overridden)
    model._default_manager.exclude(**{column: None}).update(**{column: b"{}"})
    words = markup.words(exported_packs.again(flows.overridden).report())
    assert f"{why}: the stored bytes do not match the ledger." in words
    # What the entry says is still told.
    assert "RISK_LIMIT_EXCEEDED" in words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 漢\n\tlines", "plain ä 漢\n\tlines"),
        ("a\u200bb\u2028c\x00d\ud800", "a⟨U+200B⟩b⟨U+2028⟩c⟨U+0000⟩d⟨U+D800⟩"),
    ],
)
def test_what_is_invisible_is_shown_as_its_number(text: str, shown: str) -> None:
    assert report.visible(text) == shown

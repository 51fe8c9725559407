"""docs/glossary.md defines every word of an enum that the pages show, in order, and links to what exists."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from audit.access.roles import Role
from escalations import contracts
from runtime.contracts import guard, receipt, states, task_schemas, verdict
from tests.architecture import tree

PAGE = Path("docs/glossary.md")
NOT_ON_PAGES = (guard.GuardKind, guard.FindingCode, task_schemas.ContextPart, task_schemas.LinkTarget)
SHOWN: list[type[StrEnum]] = [Role, receipt.FailureClass, verdict.FindingOutcome]
# Those of escalations and of guards are among them: each is a Choice.
SHOWN += [words for words in states.Choice.__subclasses__() if words not in NOT_ON_PAGES]


def test_the_enums_of_escalations_and_guards_are_among_them() -> None:
    assert {contracts.Action, contracts.Family, contracts.State, guard.ReviewState} <= set(SHOWN)


@pytest.mark.parametrize("words", SHOWN, ids=lambda words: words.__name__)
def test_every_word_of_the_pages_is_defined(words: type[StrEnum]) -> None:
    page = tree.text(PAGE)
    assert [str(word) for word in words if f"`{word}`" not in page] == []


def test_the_words_are_sorted_and_defined_once() -> None:
    terms = re.findall(r"^\*\*(.+?)\*\*", tree.text(PAGE), re.MULTILINE)
    assert len(terms) > 100
    assert terms == sorted(set(terms), key=str.casefold)


def test_a_word_that_another_entry_refers_to_is_defined() -> None:
    page = " ".join(tree.text(PAGE).split())
    terms = {term.casefold() for term in re.findall(r"\*\*(.+?)\*\*", page)}
    named = set(re.findall(r"[Ss]ee (?:[^.*]* and )?\*([^*]+)\*", page))
    assert named
    assert {name for name in named if name.casefold() not in terms} == set()


def test_every_link_leads_to_a_page_and_a_heading() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", tree.text(PAGE))
    assert links
    lost = {
        f"{name}#{heading}"
        for name, heading in links
        if not (tree.ROOT / "docs" / name).is_file() or (heading and heading not in headings(name))
    }
    assert lost == set()


def test_the_readme_links_to_it() -> None:
    assert f"]({PAGE})" in tree.text(Path("README.md"))


def headings(name: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", (tree.ROOT / "docs" / name).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

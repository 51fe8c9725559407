"""The glossary in the console: a page with every word, and the words of a page at its foot."""

import re

import pytest
from django.test import Client

from audit.access.roles import Role
from dir_console import glossary
from tests.architecture import tree
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
USED = re.compile(r"{% terms ((?:\"[^\"]+\" ?)+)%}")


def test_the_page_defines_every_word_once() -> None:
    page = text_of(sign_in(Role.OPERATOR), "/glossary/")
    anchors = re.findall(r'<dt id="([^"]+)">', page)
    assert len(anchors) == len(set(anchors)) == len(glossary.terms()) > 100


def test_the_text_is_html_and_holds_nothing_of_markdown() -> None:
    for term in glossary.terms():
        assert not re.search(r"\]\(|`|\*\*", term.meaning), term.name
        assert term.meaning.count("<code>") == term.meaning.count("</code>"), term.name
        assert re.search(r"\w", term.meaning), term.name


def test_markup_in_the_file_is_shown_and_not_run() -> None:
    assert glossary._html(": a `<b>` of *this* <script>") == (
        "A <code>&lt;b&gt;</code> of <em>this</em> &lt;script&gt;"
    )


def test_every_word_that_a_page_explains_is_defined() -> None:
    named = [
        (path, name)
        for path in tree.files()
        if path.suffix == ".html"
        for words in USED.findall(tree.text(path))
        for name in re.findall(r'"([^"]+)"', words)
    ]
    assert len({path for path, _ in named}) > 10
    assert [one for one in named if one[1] not in glossary.by_name()] == []


def test_a_page_ends_with_its_words_each_with_a_meaning_of_its_own() -> None:
    page = sign_in(Role.OPERATOR).get("/flows/").content.decode()
    targets = re.findall(r'popovertarget="(term-[^"]+)"', page)
    assert targets
    assert all(page.count(f'id="{target}"') == 1 for target in targets)
    assert str(glossary.by_name()["DFID"].meaning) in page


def test_a_stranger_is_asked_to_sign_in() -> None:
    assert Client().get("/glossary/").status_code == 302

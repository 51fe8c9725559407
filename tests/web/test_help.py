"""Help: the pages of docs/ in the console, without a broken link and without anything that runs."""

import re
from html.parser import HTMLParser

import pytest
from django.test import Client

from audit.access.roles import Role
from dir_console import handbook
from tests.architecture import tree
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
WEB = ("https://", "http://")


class _Links(HTMLParser):
    """The addresses that a page leads to, and the places in it that can be led to."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        if tag == "a":
            self.hrefs.append(given.get("href") or "")
        if given.get("id"):
            self.ids.append(given["id"] or "")


def read(html: str) -> _Links:
    found = _Links()
    found.feed(html)
    return found


def rendered(text: str) -> str:
    return handbook.render("trial", text).html


def test_every_page_of_the_docs_is_there_and_listed() -> None:
    client = sign_in(Role.AUDITOR)
    listed = set(read(text_of(client, "/help/")).hrefs)
    assert {path.stem for path in tree.files() if path.parent.as_posix() == "docs"} - {
        "glossary"
    } == handbook.names()
    for name in handbook.names():
        assert f"/help/{name}/" in listed
        page = text_of(client, f"/help/{name}/")
        assert f"<h1>{name and handbook.get(name).title}</h1>".replace("'", "&#x27;") in page
        assert code_in(page) == []


def test_no_link_of_a_page_is_broken() -> None:
    client = sign_in(Role.OPERATOR)
    pages = {f"/help/{name}/": read(handbook.get(name).html) for name in handbook.names()}
    pages["/glossary/"] = read(text_of(client, "/glossary/"))
    links = 0
    for place, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), place
        for href in page.hrefs:
            if href.startswith(WEB):
                continue
            target, _, anchor = href.partition("#")
            if target in ("", place) or target.startswith(("/help/", "/glossary/")):
                links += 1
                known = pages[target or place] if target != "/help/" else None
                assert known is None or not anchor or anchor in known.ids, (place, href)
    assert links > 150


def test_the_contents_lead_to_the_headings() -> None:
    page = handbook.get("escalations")
    assert {heading.slug for heading in page.headings} <= set(read(page.html).ids)
    assert "families-and-actions" in {heading.slug for heading in page.headings}


@pytest.mark.parametrize(
    "hostile",
    [
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](&#106;avascript:alert(1))",
        "[a](data:text/html;base64,PHNjcmlwdD4=)",
        "[a](vbscript:x)",
        "<javascript:alert(1)>",
        "[a](//evil.example/x)",
        "[a](flows.md/../../../etc/passwd)",
        "[a](../../admin)",
        "[a](/accounts/logout/)",
        "[a]: javascript:alert(1)\n\n[a]",
    ],
)
def test_a_hostile_link_becomes_words(hostile: str) -> None:
    assert [href for href in read(rendered(hostile)).hrefs if href] == []
    assert 'href=""' not in rendered(hostile)


def test_html_and_pictures_are_shown_as_text() -> None:
    html = rendered("# T\n\n<script>alert(1)</script>\n\na <img src=x onerror=alert(1)> b ![cat](x.png)\n")
    assert read(html).tags == {"p", "em"}
    assert "&lt;script&gt;" in html


def test_a_known_page_is_linked_here_and_an_unknown_one_is_not() -> None:
    html = rendered(
        "[one](flows.md#searching) [two](decisions/0001-x.md) [three](glossary.md) [four](https://a.example)"
    )
    assert read(html).hrefs == ["/help/flows/#searching", "/glossary/", "https://a.example"]
    assert "two" in html


def test_a_diagram_is_text_with_a_caption() -> None:
    html = rendered("```mermaid\nflowchart LR\n  a --> b\n```\n\n```sh\nls\n```\n")
    assert html.count("<figcaption>") == 1
    assert "a --&gt; b" in html


def test_the_same_heading_twice_has_two_anchors() -> None:
    assert re.findall(r'id="([^"]+)"', rendered("# T\n\n## A b\n\n## A b\n\n## A b\n")) == [
        "a-b",
        "a-b-1",
        "a-b-2",
    ]


@pytest.mark.parametrize(
    "address", ["/help/nothing/", "/help/glossary/", "/help/..%2Fsettings/", "/help/README/"]
)
def test_what_is_no_page_is_not_found(address: str) -> None:
    assert sign_in(Role.ADMIN).get(address).status_code == 404


def test_a_stranger_is_asked_to_sign_in() -> None:
    assert Client().get("/help/").status_code == 302
    assert Client().get("/help/flows/").status_code == 302


def test_the_image_holds_the_pages() -> None:
    assert "!docs/*.md" in (tree.ROOT / ".dockerignore").read_text().splitlines()

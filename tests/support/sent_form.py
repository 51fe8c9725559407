"""A page's form as a browser would send it back, and what the page says about one of its fields."""

import html
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class _Form(HTMLParser):
    """The controls of the form that holds a field of the given name."""

    marker: str
    sent: dict[str, list[str]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    _open: dict[str, list[str]] | None = None
    _area: str = ""
    _select: str = ""
    _text: str = ""
    _is_text: bool = False
    _options: list[tuple[str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            assert given["id"] not in self.ids, f"the id {given['id']} is on the page twice"
            self.ids.add(given["id"])
        if tag == "form":
            self._open = {}
        elif self._open is None:
            return
        elif tag == "input" and "name" in given:
            if given.get("type") != "checkbox" or "checked" in given:
                self._add(given["name"], given.get("value", ""))
        elif tag == "textarea":
            self._area, self._text = given["name"], ""
        elif tag == "select":
            self._select, self._options = given["name"], []
        elif tag == "option":
            # Without a value of its own, an option is sent as its text.
            self._is_text = "value" not in given
            self._options.append((given.get("value", ""), "selected" in given))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._open is not None:
            if self.marker in self._open:
                self.sent = self._open
            self._open = None
        elif tag == "textarea" and self._area:
            # The first end of line belongs to the mark-up.
            self._add(self._area, self._text.removeprefix("\n"))
            self._area = ""
        elif tag == "select" and self._select:
            chosen = [value for value, is_chosen in self._options if is_chosen] or [self._options[0][0]]
            self._add(self._select, chosen[0])
            self._select = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self._text += data
        elif self._select and self._is_text:
            self._options[-1] = (data.strip(), self._options[-1][1])
            self._is_text = False

    def _add(self, name: str, value: str) -> None:
        assert self._open is not None
        lines = value.replace("\r\n", "\n").replace("\r", "\n")
        self._open.setdefault(name, []).append(lines.replace("\n", "\r\n"))


def fields(page: str, *, marker: str = "base") -> dict[str, list[str]]:
    """What a browser sends of the form that has a field `marker`, with CR and LF at each end of line."""
    reader = _Form(marker)
    reader.feed(page)
    assert reader.sent, f"no form has a field {marker}"
    return reader.sent


def ids(page: str) -> set[str]:
    """Every id on the page; each may be there once."""
    reader = _Form("")
    reader.feed(page)
    return reader.ids


def wrong_at(page: str, name: str) -> str:
    """The text that is shown as wrong at the invalid field `name`; empty where it is not invalid."""
    for tag in re.findall(rf'<(?:input|select|textarea)\b[^>]*\bname="{re.escape(name)}"[^>]*>', page):
        said = re.search(r'aria-describedby="([^"]*)"', tag)
        if 'aria-invalid="true"' not in tag or said is None:
            continue
        (place,) = (one for one in said[1].split() if one.endswith("-wrong"))
        part = page.split(f'id="{place}"', 1)[1].split(">", 1)[1]
        words = re.sub(r"<[^>]+>", " ", part.split("</div>")[0].split("</fieldset>")[0])
        return " ".join(html.unescape(words).split())
    return ""

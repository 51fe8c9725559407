"""Pages without what only lays out their templates, and without the words that the glossary explains."""

import re
from html.parser import HTMLParser

_BLOCKS = (
    "article aside blockquote body caption dd details div dl dt fieldset footer form h1 h2 h3 header"
    " html legend li main nav noscript ol option p pre section select summary table tbody td th thead tr ul"
).replace(" ", "|")
_KEPT = re.compile(r"(<(pre|textarea)\b.*?</\2>)", re.DOTALL)
_BESIDE_A_BLOCK = re.compile(rf"\s*(</?(?:{_BLOCKS})\b[^>]*>)\s*")
_AFTER_A_START = re.compile(r"(<[a-z][^>]*>)\s+")
_BEFORE_AN_END = re.compile(r"\s+(</)")
# The meanings of words would answer every question about what a page says.
_TERMS = re.compile(r'<footer class="terms">.*?</footer>|<span class="pop word".*?</a></span>', re.DOTALL)
_ENDS_A_LINE = re.compile(r"(</(?:article|form|header|li|section|tr)>)")


def tight(page: str) -> str:
    """The page with single spaces, none where a browser shows none, and a line for each row and section.

    The meanings at its foot and in its text are left out.
    """
    parts = _KEPT.split(_TERMS.sub("", page))
    return "".join(
        part if number % 3 == 1 else _tight(part) for number, part in enumerate(parts) if number % 3 != 2
    )


def _tight(part: str) -> str:
    part = _BESIDE_A_BLOCK.sub(r"\1", re.sub(r"\s+", " ", part))
    part = _BEFORE_AN_END.sub(r"\1", _AFTER_A_START.sub(r"\1", part))
    return _ENDS_A_LINE.sub(r"\1\n", part)


class _Words(HTMLParser):
    """Collects the text of a page that a reader sees without opening what is stored as it is."""

    _SKIPPED = frozenset({"pre", "script", "style", "textarea", "title"})

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._within = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within += tag in self._SKIPPED

    def handle_endtag(self, tag: str) -> None:
        self._within -= tag in self._SKIPPED

    def handle_data(self, data: str) -> None:
        if not self._within:
            self.words.append(data)


def words(page: str) -> str:
    """The text of a page with single spaces; without stored documents, scripts and text areas."""
    reader = _Words()
    reader.feed(page)
    return " ".join(" ".join(reader.words).split())

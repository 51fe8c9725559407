"""What live.js finds on a page: its live regions, and the rows of the queue."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlencode, urlsplit

_ROW = re.compile(r'<article\b[^>]*\bdata-row="([^"]+)"[^>]*\bdata-open="([01])"')
MOST_KEPT = 200


@dataclass(eq=False)
class Region:
    """One element with `data-live`: the stream it waits for, and the address of its fragment.

    `part` is its name, and `brings` names those that come with its answer. `rows` are those that the page
    shows, with whether each is open; of the queue only.
    """

    stream: str
    url: str
    mode: str
    is_queue: bool
    takes_feeds: bool
    part: str = ""
    brings: frozenset[str] = frozenset()
    rows: dict[str, bool] = field(default_factory=dict)

    def wants(self, stream: str) -> bool:
        """Whether a hint for the stream concerns it; a price, only where prices are listed."""
        is_tick = stream.startswith("feed:")
        return self.stream == stream or (self.stream == "*" and (not is_tick or self.takes_feeds))

    def address(self) -> str:
        """The path and query that its next refresh asks for."""
        path, query = urlsplit(self.url).path, dict(parse_qsl(urlsplit(self.url).query))
        shown = [row for row, is_open in self.rows.items() if is_open]
        if self.is_queue and shown:
            query["have"] = ",".join(shown[:MOST_KEPT])
        return f"{path}?{urlencode(query)}" if query else path

    def take(self, html: str) -> set[str]:
        """Show an answer as the page does; the rows that it names, whether shown or behind the pill."""
        if self.mode != "queue":
            return set()
        found = read_rows(html)
        if not self.rows:
            self.rows = found  # nothing can jump
        else:
            self.rows |= {row: is_open for row, is_open in found.items() if row in self.rows}
        return set(found)


def read_rows(html: str) -> dict[str, bool]:
    """The rows of a page or fragment by id, with whether each is open."""
    return {row: is_open == "1" for row, is_open in _ROW.findall(html)}


def read_regions(html: str) -> list[Region]:
    """The live regions of a page that ask for themselves, in its order."""
    reader = _Reader()
    reader.feed(html)
    for region in reader.found:
        if region.is_queue:
            region.rows = read_rows(html)
    brought = {part for region in reader.found for part in region.brings}
    return [region for region in reader.found if region.part not in brought]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Region] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "data-live-url" in given:
            mode = given["data-live-mode"]
            is_queue = mode == "queue" and "queue" in given.get("class", "").split()
            takes_feeds = "data-live-feeds" in given
            self.found.append(
                Region(
                    stream=given["data-live"],
                    url=given["data-live-url"],
                    mode=mode,
                    is_queue=is_queue,
                    takes_feeds=takes_feeds,
                    part=given.get("data-live-part", ""),
                    brings=frozenset(given.get("data-live-brings", "").split()),
                )
            )

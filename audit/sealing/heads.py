"""The ends of all streams, under a checkpoint: what shows that a stream had no more entries by then.

A proof of inclusion cannot show that nothing came after an entry. So once an hour a checkpoint also commits
to the sorted list of all streams, each with its last number and hash.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from audit import canonical, cells
from audit.models import Checkpoint, HeadPage
from audit.sealing import merkle
from audit.sealing.merkle import Frontier
from audit.sealing.notes import Heads

EVERY: Final = timedelta(hours=1)
WIDTH: Final = 256

# Tenant, stream, number and hash (32 bytes) of a stream's last entry.
Head = tuple[str, str, int, bytes]


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of all streams, in pages of lines; what a checkpoint says of them is `commitment`."""

    pages: Sequence[Sequence[bytes]]
    commitment: Heads


def line(head: Head) -> bytes:
    """The canonical JSON of one head, which is hashed as a leaf."""
    tenant, stream, seq, last_hash = head
    return canonical.encode({"tenant": tenant, "stream": stream, "seq": seq, "hash": last_hash.hex()})


def gather(heads: Iterable[Head]) -> Ends:
    """Sort the heads, page them and compute their root; streams without an entry are left out."""
    lines = [line(head) for head in sorted(head for head in heads if head[2] > 0)]
    frontier = Frontier()
    for each in lines:
        frontier.push(merkle.hash_leaf(each))
    pages = [lines[start : start + WIDTH] for start in range(0, len(lines), WIDTH)]
    return Ends(pages, Heads(len(lines), frontier.root()))


def are_due(at: datetime) -> bool:
    """Whether the newest commitment is too old, or there is none."""
    row = committing()
    return row is None or at - row.at >= EVERY


def committing() -> Checkpoint | None:
    """The checkpoint whose pages are kept; None where there is none."""
    return Checkpoint.objects.filter(pk__in=HeadPage.objects.values("checkpoint_id")).order_by("-id").first()


def store(ends: Ends, checkpoint: Checkpoint) -> None:
    """Keep the pages of this checkpoint, in the place of those of an earlier one."""
    HeadPage.objects.all().delete()
    HeadPage.objects.bulk_create(
        [_page(number, lines, checkpoint.pk) for number, lines in enumerate(ends.pages)]
    )


def committed() -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Every line that the newest commitment is over, and the head that it is; None where it is none."""
    for lines in HeadPage.objects.order_by("number").values_list("lines", flat=True).iterator(chunk_size=50):
        for each in (cells.bytes_of(lines) or b"").split(b"\n"):
            yield each, _read(each)


def misplaced() -> Iterator[int]:
    """The numbers of pages by which a stream would not be found: a page before is missing, or its first
    stream is not the one that its columns name.
    """
    rows = HeadPage.objects.order_by("number")
    for position, page in enumerate(rows.iterator(chunk_size=50)):
        first = _read((cells.bytes_of(page.lines) or b"").split(b"\n")[0]) or {}
        named = (page.first_tenant, page.first_stream)
        if page.number != position or (first.get("tenant"), first.get("stream")) != named:
            yield page.number


def find(*, tenant: str, stream: str) -> tuple[int, dict[str, Any]] | None:
    """The index of a stream's committed head, and the head; None where there is none."""
    before = Q(first_tenant__lt=tenant) | Q(first_tenant=tenant, first_stream__lte=stream)
    page = HeadPage.objects.filter(before).order_by("-number").first()
    if page is None:
        return None
    for offset, each in enumerate(bytes(page.lines).split(b"\n")):
        head = _read(each)
        if head is not None and (head.get("tenant"), head.get("stream")) == (tenant, stream):
            return page.number * WIDTH + offset, head
    return None


class Reader:
    """Reads nodes of the committed tree from its pages. Raises LookupError for a page that is missing."""

    def __init__(self) -> None:
        self._roots: dict[int, bytes] = {}

    def __call__(self, level: int, number: int) -> bytes:
        first, count = number << level, 1 << level
        if count >= WIDTH:
            pages = range(first // WIDTH, (first + count) // WIDTH)
            return _root(self._root_of(page) for page in pages)
        start = first % WIDTH
        return _root(_leaves(first // WIDTH)[start : start + count])

    def _root_of(self, page: int) -> bytes:
        if page not in self._roots:
            self._roots[page] = _root(_leaves(page))
        return self._roots[page]


def _page(number: int, lines: Sequence[bytes], checkpoint_id: int) -> HeadPage:
    first = canonical.decode(lines[0])
    return HeadPage(
        number=number,
        checkpoint_id=checkpoint_id,
        first_tenant=first["tenant"],
        first_stream=first["stream"],
        lines=b"\n".join(lines),
    )


def _leaves(page: int) -> list[bytes]:
    lines = HeadPage.objects.filter(number=page).values_list("lines", flat=True).first()
    if lines is None:
        raise LookupError(f"page {page} of the heads is missing")
    return [merkle.hash_leaf(each) for each in bytes(lines).split(b"\n")]


def _root(hashes: Iterable[bytes]) -> bytes:
    frontier = Frontier()
    for each in hashes:
        frontier.push(each)
    return frontier.root()


def _read(each: bytes) -> dict[str, Any] | None:
    try:
        head = canonical.decode(each)
    except canonical.CanonicalError:
        return None
    return head if isinstance(head, dict) else None

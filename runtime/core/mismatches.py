"""Rows that differ from what the ledger recorded: their bytes are compared with its digests.

A digest column beside the bytes proves nothing, since whoever changes one can change the other. So the digest
comes from the entry, which is found by its stream and the ids in its payload: no row says itself where its
entry is, and rows of every age can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from audit import canonical, cells, queries
from audit.events import Kind, RowMismatched

NOT_RECORDED = ""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """Bytes of a row that are not what was recorded; `recorded` is empty where no entry is about them."""

    row: str
    row_id: str
    recorded: str
    found: str

    def event(self) -> RowMismatched:
        """The entry that tells it."""
        return RowMismatched(
            row=self.row, row_id=self.row_id, recorded_digest=self.recorded, found_digest=self.found
        )


def list_unsaid(found: Sequence[Mismatch], *, tenant: str, stream: str) -> list[Mismatch]:
    """Those that no entry of the stream tells yet."""
    said = queries.list_payloads(tenant=tenant, stream=stream, kinds=[Kind.ROW_MISMATCHED]) if found else ()
    known = {(payload["row"], payload["row_id"]) for _, payload in said}
    return [item for item in found if (item.row, item.row_id) not in known]


class TamperedError(Exception):
    """A page was to show rows that are not what was recorded: it names them instead."""

    def __init__(self, found: Sequence[Mismatch]) -> None:
        super().__init__(", ".join(f"{item.row} {item.row_id}" for item in found))
        self.found = found


def require(*compared: Mismatch | None) -> None:
    """For a page that has nothing to show without these rows.

    Raises:
        TamperedError: where one of them is not what was recorded.
    """
    found = [item for item in compared if item is not None]
    if found:
        raise TamperedError(found)


def compare(row: str, row_id: str, recorded: str, body: object) -> Mismatch | None:
    """Compare a cell's bytes with the digest that an entry holds (empty for none); None where equal."""
    return compare_digests(row, row_id, recorded, cells.digest_of(body))


def compare_committed(
    row: str, row_id: str, *, tenant: str, commitment: str | None, body: object
) -> Mismatch | None:
    """Whether a cell holds the bytes behind an entry's commitment, which is None where no entry has one."""
    if commitment and queries.is_committed(tenant=tenant, commitment=commitment, body=body):
        return None
    found = cells.digest_of(body)
    return Mismatch(row=row, row_id=row_id, recorded=commitment or NOT_RECORDED, found=found)


def of_values(row: str, row_id: str, recorded: object, found: object) -> Mismatch:
    """Two values of a column that are not bytes, compared by the digests of their texts."""
    before, after = (canonical.digest(str(value).encode()) for value in (recorded, found))
    return Mismatch(row=row, row_id=row_id, recorded=before, found=after)


def compare_digests(row: str, row_id: str, recorded: str, found: str) -> Mismatch | None:
    if found and recorded == found:
        return None
    return Mismatch(row=row, row_id=row_id, recorded=recorded, found=found)

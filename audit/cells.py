"""What a cell of a database holds where bytes belong: SQLite lets anybody write another type."""

from audit import canonical


def bytes_of(cell: object) -> bytes | None:
    """The bytes of a cell, which PostgreSQL returns as a memoryview; None for a cell of another type."""
    return bytes(cell) if isinstance(cell, bytes | bytearray | memoryview) else None


def digest_of(cell: object) -> str:
    """The digest of a cell's bytes; empty for a cell of another type."""
    held = bytes_of(cell)
    return "" if held is None else canonical.digest(held)

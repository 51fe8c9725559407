"""What a cell of a database holds where bytes belong: SQLite lets anybody write another type."""


def bytes_of(cell: object) -> bytes | None:
    """The bytes of a cell, which PostgreSQL returns as a memoryview; None for a cell of another type."""
    return bytes(cell) if isinstance(cell, bytes | bytearray | memoryview) else None

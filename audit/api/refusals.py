"""Why a call of the audit API is refused. Whoever mounts the calls turns it into a problem document."""

from enum import StrEnum


class Why(StrEnum):
    """What is wrong with what was asked for."""

    UNKNOWN = "UNKNOWN"
    NOT_SEALED = "NOT_SEALED"
    NO_SUCH_SIZE = "NO_SUCH_SIZE"
    TAMPERED = "TAMPERED"


class RefusedError(Exception):
    """`detail` is for the caller: what to do next."""

    def __init__(self, why: Why, detail: str) -> None:
        super().__init__(why)
        self.why, self.detail = why, detail

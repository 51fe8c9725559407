"""What a conversation with an MCP server goes through: one request at a time, each answer bounded."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from runtime.contracts.problem import ProblemError
from runtime.contracts.receipt import FailureCategory
from runtime.kernel import ijson

# Of one answer, and of one list of tools: MCP has no way to ask for less.
MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_LIST_BYTES: Final = 512 * 1024

Gate = Callable[[], AbstractContextManager[None]]


class WireError(Exception):
    """No answer. `sent` is true where a byte of the request may have left; the words are ours."""

    def __init__(
        self,
        category: FailureCategory,
        words: str,
        *,
        sent: bool,
        status_code: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(words)
        self.category = category
        self.words = words
        self.sent = sent
        self.status_code = status_code
        self.retry_after_s = retry_after_s


class Wire(Protocol):
    """A way to one server, used by one thread."""

    def ask(self, message: dict[str, Any], *, gate: Gate, most_bytes: int) -> dict[str, Any]:
        """Send a request, its first bytes inside `gate`, and wait for the answer with its id.

        Raises:
            WireError: when there is none.
        """

    def tell(self, message: dict[str, Any]) -> None:
        """Send a notification. Raises `WireError`."""

    def agree(self, version: str) -> None:
        """Speak this version of the protocol from now on."""

    def close(self) -> None:
        """End the conversation; fails at nothing."""


def read(raw: bytes, *, sent_words: str) -> dict[str, Any]:
    """A message as a checked JSON object. Raises `WireError`: by then the request was sent."""
    try:
        value = ijson.parse(raw).value
    except ProblemError:
        value = None
    if not isinstance(value, dict):
        raise WireError(FailureCategory.ANSWER_UNREADABLE, sent_words, sent=True)
    return value


def is_answer_to(message: dict[str, Any], asked: Any) -> bool:
    """Whether a message answers the request with this id; a server's own requests and notices do not."""
    return "method" not in message and message.get("id") == asked

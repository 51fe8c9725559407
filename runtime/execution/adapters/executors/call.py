"""One call to a target, as an executor gets it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from runtime.contracts.kind_steps import OnToolError
from runtime.contracts.receipt import CallResult
from runtime.contracts.tool import ToolDefinition


@dataclass(frozen=True, kw_only=True)
class RawAnswer:
    """An answer as it came, for people; `is_cut`: there was more of the body, or it stopped coming."""

    status_code: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    is_cut: bool


@dataclass(frozen=True, kw_only=True)
class TargetCall:
    """`body` is the canonical JSON that was rendered at ACCEPT; `key` is the same at every attempt.

    A GET has no body and no effect: its `key` only names the message. An executor sends the first bytes
    inside `gate`, and lets through what that raises: a stop that was pressed in between ends the call there.
    `refuses` are the statuses by which the target reports that it has not done it. `observe` is given the
    answer as it came, whatever it means. With `may_take_on`, a 202 needs no receipt: the result comes later.
    With `reuses_connection` it may go over one of an earlier call, whose end at that moment makes a doubt.
    """

    base_url: str
    secret_env: str
    method: str
    path: str
    body: bytes
    key: str
    traceparent: str
    timeout_s: float
    gate: Callable[[], AbstractContextManager[None]] = nullcontext
    refuses: frozenset[int] = frozenset()
    observe: Callable[[RawAnswer], None] | None = None
    may_take_on: bool = False
    reuses_connection: bool = False
    # Of a tool: the digest of its pinned description, who is told of another one (None: it is not listed),
    # and what an error means that it reports itself.
    pin: str | None = None
    note_tool: Callable[[ToolDefinition | None], None] | None = None
    on_tool_error: OnToolError = OnToolError.UNKNOWN


class Executor(Protocol):
    """Carries out one call. Everything that can happen is a value; an exception is a bug."""

    def __call__(self, call: TargetCall) -> CallResult: ...

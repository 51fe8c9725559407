"""The steps of a policy kind: who carries one out, what is asked around it, and what undoes it."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from runtime.contracts.document import Contract, Id, Words, is_empty, is_none
from runtime.contracts.kind_types import (
    MAX_EXPRESSION_CHARS,
    MAX_PRECONDITIONS,
    JsonSchema,
    OnFail,
    Severity,
    Source,
    TargetName,
    Template,
    ToolName,
)


class ExecutorKind(StrEnum):
    """Who carries a step out: a module of this name in `execution/adapters/executors/`, or a person."""

    HTTP = "http"
    SIMULATED = "simulated"
    HUMAN = "human"
    MCP = "mcp"

    @property
    def calls_target(self) -> bool:
        """Whether it calls a target; the others touch nothing outside."""
        return self in (ExecutorKind.HTTP, ExecutorKind.MCP)

    @property
    def is_called(self) -> bool:
        """Whether a worker carries it out; a person does the rest."""
        return self is not ExecutorKind.HUMAN


class Method(StrEnum):
    """HTTP methods a step may use."""

    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


class Request(Contract):
    """One HTTP call. `path` may hold `${CEL}`; `body` is a CEL map, by default the standard body."""

    method: Method = Method.POST
    path: Annotated[str, StringConstraints(pattern=r"^/", max_length=MAX_EXPRESSION_CHARS)]
    body: Source | None = None


class Probe(Contract):
    """A GET that asks a target by the key of a call whose result is unknown; `path` holds `${key}`."""

    path: Annotated[str, StringConstraints(pattern=r"^/", max_length=MAX_EXPRESSION_CHARS)]


class Write(Contract):
    """A fact taken from the receipt."""

    fact: Template
    value: Source


class Precondition(Contract):
    """What must be exactly true right before a step; `steps` holds the receipts of those before it.

    REJECT undoes what is done; ESCALATE pauses, and a person decides.
    """

    id: Id
    require: Source
    on_fail: OnFail = OnFail.REJECT
    message: Words | None = Field(default=None, exclude_if=is_none)


class ReceiptCheck(Contract):
    """How grave a receipt that does not fit `receipt_schema` is, and what a person is told to do about it."""

    severity: Severity = Severity.HIGH
    remediation: Words | None = Field(default=None, exclude_if=is_none)


class HumanWork(Contract):
    """What a person of `group` is asked to do, and for how long; `{name}` in the texts is a parameter.

    `undo` is what is asked where a later step fails. Without it the step has no effect on the world: it is a
    check, or a word that is needed, and nothing of it is undone.
    """

    group: Annotated[str, StringConstraints(min_length=1, max_length=150)]
    instructions: Template
    deadline_s: Annotated[int, Field(ge=1, le=2_592_000)]
    undo: Template | None = Field(default=None, exclude_if=is_none)


class CallbackWait(Contract):
    """A target that answers 202 reports the result later, until `deadline_s` seconds after the call.

    The body of the call gets the member `callback_url`, where the target sends it.
    """

    deadline_s: Annotated[int, Field(ge=1, le=2_592_000)]


class ResultAsked(Contract):
    """A target that answers 202 names with `Location` where its result is asked for, every `every_s` seconds.

    Asked until `deadline_s` seconds after the call. `done` and `failed` are conditions over `answer`
    (`status_code` and `body`, which is empty where it is no JSON object). Without `done`, every JSON object
    with a 2xx status other than 202 is the result. What is neither is asked for again.
    """

    deadline_s: Annotated[int, Field(ge=1, le=2_592_000)]
    every_s: Annotated[int, Field(ge=1, le=3600)] = 30
    done: Source | None = Field(default=None, exclude_if=is_none)
    failed: Source | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _is_asked_before_the_deadline(self) -> Self:
        if self.every_s >= self.deadline_s:
            raise ValueError("every_s must be below deadline_s: nobody would ask before the deadline")
        return self


class Meter(Contract):
    """What a call has used, as its answer says: expressions over `answer` (`status_code` and `body`).

    `tokens` gives a number, `cost_usd` dollars as a number or a decimal text. Both are rounded up, to whole
    tokens and micro-dollars.
    """

    tokens: Source | None = Field(default=None, exclude_if=is_none)
    cost_usd: Source | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _reads_something(self) -> Self:
        if self.tokens is None and self.cost_usd is None:
            raise ValueError("a meter reads tokens, cost_usd or both")
        return self


class ToolCall(Contract):
    """A tool of an MCP server; `arguments` is a CEL map, by default the parameters as they are."""

    name: ToolName
    arguments: Source | None = Field(default=None, exclude_if=is_none)


class OnToolError(StrEnum):
    """What it means that a tool reports an error of its own.

    UNKNOWN: it may have done some of it, and a person is asked. FAILED: it has done nothing.
    """

    UNKNOWN = "unknown"
    FAILED = "failed"


class ToolUse(ToolCall):
    """The tool that a step calls, and the one that undoes it."""

    undo: ToolCall | None = Field(default=None, exclude_if=is_none)
    on_error: OnToolError = OnToolError.UNKNOWN


class Step(Contract):
    """One call to the outside world and what undoes it.

    A receipt that does not fit `receipt_schema` is a deviation, as grave as `on_misfit` says.
    """

    id: Id
    executor: ExecutorKind = ExecutorKind.HTTP
    target: TargetName | None = None
    request: Request | None = None
    compensate: Request | None = None
    timeout_s: Annotated[int, Field(ge=1, le=300)] | None = None
    writes: tuple[Write, ...] = ()
    probe: Probe | None = Field(default=None, exclude_if=is_none)
    preconditions: Annotated[tuple[Precondition, ...], Field(max_length=MAX_PRECONDITIONS)] = Field(
        default=(), exclude_if=is_empty
    )
    receipt_schema: JsonSchema | None = Field(default=None, exclude_if=is_none)
    on_misfit: ReceiptCheck | None = Field(default=None, exclude_if=is_none)
    human: HumanWork | None = Field(default=None, exclude_if=is_none)
    callback: CallbackWait | None = Field(default=None, exclude_if=is_none)
    follow: ResultAsked | None = Field(default=None, exclude_if=is_none)
    meter: Meter | None = Field(default=None, exclude_if=is_none)
    tool: ToolUse | None = Field(default=None, exclude_if=is_none)

    @property
    def is_undone(self) -> bool:
        """Whether something undoes it."""
        undoing = (
            self.compensate,
            None if self.human is None else self.human.undo,
            None if self.tool is None else self.tool.undo,
        )
        return any(one is not None for one in undoing)

    @property
    def misfit(self) -> ReceiptCheck:
        """What a receipt that does not fit means."""
        return self.on_misfit or ReceiptCheck()

    @model_validator(mode="after")
    def _misfit_is_asked(self) -> Self:
        if self.on_misfit is not None and self.receipt_schema is None:
            raise ValueError("on_misfit needs a receipt_schema that a receipt may not fit")
        return self

    @model_validator(mode="after")
    def _person_is_asked(self) -> Self:
        if (self.executor is ExecutorKind.HUMAN) is not (self.human is not None):
            raise ValueError("a human step needs human, and only that has it")
        if self.human is None:
            return self
        if self.receipt_schema is None:
            raise ValueError("a human step needs a receipt_schema: its form is made from it")
        of_calls = (self.target, self.request, self.compensate, self.probe, self.timeout_s, self.on_misfit)
        if any(part is not None for part in (*of_calls, self.meter)):
            raise ValueError(
                "target, request, compensate, probe, timeout_s, on_misfit and meter are of calls"
            )
        return self

    @model_validator(mode="after")
    def _later_result_is_of_a_target(self) -> Self:
        is_later = self.callback is not None or self.follow is not None
        if is_later and self.executor is not ExecutorKind.HTTP:
            raise ValueError("callback and follow are of http steps")
        if self.callback is not None and self.follow is not None:
            raise ValueError("the result is either reported (callback) or asked for (follow)")
        return self

    @model_validator(mode="after")
    def _call_is_named(self) -> Self:
        if self.executor is ExecutorKind.HTTP and (self.target is None or self.request is None):
            raise ValueError("an http step needs target and request")
        return self

    @model_validator(mode="after")
    def _tool_is_named(self) -> Self:
        if (self.executor is ExecutorKind.MCP) is not (self.tool is not None):
            raise ValueError("an mcp step needs tool, and only that has it")
        if self.tool is None:
            return self
        if self.target is None:
            raise ValueError("an mcp step needs the target whose tool it calls")
        if any(part is not None for part in (self.request, self.compensate, self.probe)):
            raise ValueError("request, compensate and probe are of http steps; a tool has undo")
        return self

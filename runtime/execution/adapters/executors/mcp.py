"""The `mcp` executor: one call of a tool of an MCP server.

Before each call, in the same conversation, the server lists its tools: one whose description is not what was
pinned is not called. No MCP server knows a key, so a request that has left is never sent again: whatever but
an answer follows it is unknown.
"""

from contextlib import closing

from audit import canonical
from runtime.contracts.kind_steps import OnToolError
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.execution.adapters.executors.call import TargetCall
from runtime.execution.adapters.tool_servers import wires
from runtime.execution.adapters.tool_servers.conversation import Conversation, ToolAnswer
from runtime.execution.adapters.tool_servers.wire import WireError
from runtime.kernel import answers

C = FailureCategory
# By these codes of JSON-RPC a server says that it did not begin.
_NOT_BEGUN = frozenset({-32700, -32600, -32601, -32602})
_OK = 200


def execute(call: TargetCall) -> CallResult:
    """Call one tool; every ending is a value."""
    try:
        wire = wires.open_wire(
            base_url=call.base_url,
            secret_env=call.secret_env,
            traceparent=call.traceparent,
            timeout_s=call.timeout_s,
        )
    except WireError as error:
        return _before(error)
    with closing(wire):
        conversation = Conversation(wire)
        try:
            conversation.greet(gate=call.gate)
            listed = conversation.list_tools().tools.get(call.path)
        except WireError as error:
            return _before(error)
        if call.pin is None or listed is None or listed.digest != call.pin:
            if call.note_tool is not None:
                call.note_tool(listed)
            words = "the server does not describe the tool as it was pinned; it was not called"
            return Failure(category=C.TOOL_QUARANTINED, failure_class=FailureClass.TERMINAL, detail=words)
        try:
            answer = conversation.call(call.path, canonical.decode(call.body), gate=call.gate)
        except WireError as error:
            return _after(error) if error.sent else _before(error)
    return _result(answer, on_error=call.on_tool_error)


def _result(answer: ToolAnswer, *, on_error: OnToolError) -> CallResult:
    if answer.receipt is not None:
        return Receipt(status_code=_OK, body=canonical.encode(answer.receipt))
    if answer.is_error:
        if on_error is OnToolError.FAILED:
            words, what = "the tool reports an error", FailureClass.TERMINAL
        else:
            words, what = "the tool reports an error; it may have taken effect", FailureClass.UNKNOWN
        return Failure(category=C.TOOL_FAILED, failure_class=what, detail=words)
    if answer.error_code in _NOT_BEGUN:
        words = f"the server refuses the call with error {answer.error_code}"
        return Failure(category=C.TARGET_REFUSED, failure_class=FailureClass.TERMINAL, detail=words)
    words = f"the server answered with error {answer.error_code}; it may have taken effect"
    return Failure(category=C.TARGET_ERROR, failure_class=FailureClass.UNKNOWN, detail=words)


def _before(error: WireError) -> Failure:
    """The tool was not called. What may be otherwise in a minute is tried again."""
    fixed = error.category in (C.SECRET_MISSING, C.REQUEST_INVALID, C.TARGET_UNKNOWN)
    refused = error.status_code is not None and answers.class_of(error.status_code) is FailureClass.TERMINAL
    return Failure(
        category=C.TARGET_REFUSED if refused else error.category,
        failure_class=FailureClass.TERMINAL if fixed or refused else FailureClass.TRANSIENT,
        detail=f"{error.words}; the tool was not called",
        status_code=error.status_code,
        retry_after_s=error.retry_after_s,
    )


def _after(error: WireError) -> Failure:
    """The request to call the tool was sent. Only a refusal is an answer, and even that is not sent again."""
    status = error.status_code
    refused = status is not None and (
        status in answers.REFUSALS or answers.class_of(status) is FailureClass.TERMINAL
    )
    if refused:
        return Failure(
            category=C.TARGET_REFUSED,
            failure_class=FailureClass.TERMINAL,
            detail=error.words,
            status_code=status,
        )
    return Failure(
        category=error.category,
        failure_class=FailureClass.UNKNOWN,
        detail=f"{error.words}; it may have taken effect",
        status_code=status,
    )

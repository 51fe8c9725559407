"""The wire to a server by its address: Streamable HTTP, or a command of this installation."""

from django.conf import settings

from runtime.contracts.receipt import FailureCategory
from runtime.execution.adapters.tool_servers.http_wire import HttpWire
from runtime.execution.adapters.tool_servers.stdio_wire import StdioWire
from runtime.execution.adapters.tool_servers.wire import Wire, WireError
from runtime.registry.queries.target_endpoints import COMMAND


def open_wire(*, base_url: str, secret_env: str, traceparent: str, timeout_s: float) -> Wire:
    """A wire that ends `timeout_s` from now; nothing is sent yet.

    Raises:
        WireError: where the address names a command that the deployment does not declare.
    """
    if not base_url.startswith(COMMAND):
        return HttpWire(
            base_url=base_url, secret_env=secret_env, traceparent=traceparent, timeout_s=timeout_s
        )
    declared = settings.DIR_TOOL_COMMANDS.get(base_url.removeprefix(COMMAND))
    if declared is None:
        words = "the deployment declares no such command"
        raise WireError(FailureCategory.TARGET_UNKNOWN, words, sent=False)
    return StdioWire(
        command=declared.words,
        variables=declared.variables,
        user=settings.DIR_TOOL_USER,
        timeout_s=timeout_s,
    )

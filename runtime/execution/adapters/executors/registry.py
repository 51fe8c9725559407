"""Executors by the name that a policy kind's step gives."""

from collections.abc import Mapping
from types import MappingProxyType

from runtime.contracts.policy_kind import ExecutorKind
from runtime.execution.adapters.executors import http, simulated
from runtime.execution.adapters.executors.call import Executor

EXECUTORS: Mapping[str, Executor] = MappingProxyType(
    {ExecutorKind.HTTP.value: http.execute, ExecutorKind.SIMULATED.value: simulated.execute}
)
# These need a target row; the others call nobody.
REMOTE = frozenset({ExecutorKind.HTTP.value})

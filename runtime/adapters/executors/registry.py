"""Executors by the name that a policy kind's step gives."""

from collections.abc import Mapping
from types import MappingProxyType

from runtime.adapters.executors import http, simulated
from runtime.adapters.executors.call import Executor
from runtime.contracts.policy_kind import ExecutorKind

EXECUTORS: Mapping[str, Executor] = MappingProxyType(
    {ExecutorKind.HTTP.value: http.execute, ExecutorKind.SIMULATED.value: simulated.execute}
)
# These need a target row; the others call nobody.
REMOTE = frozenset({ExecutorKind.HTTP.value})

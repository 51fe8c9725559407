"""Executors by the name that a policy kind's step gives: for each a module of that name, with `execute`.

A person's step has none: `services.human_steps` waits for the answer.
"""

from collections.abc import Mapping
from types import MappingProxyType

from django.utils.module_loading import import_string

from runtime.contracts.kind_steps import ExecutorKind
from runtime.execution.adapters.executors.call import Executor

EXECUTORS: Mapping[str, Executor] = MappingProxyType(
    {
        kind.value: import_string(f"{__package__}.{kind.value}.execute")
        for kind in ExecutorKind
        if kind.is_called
    }
)
# These need a target row; the others call nobody.
REMOTE = frozenset(kind.value for kind in ExecutorKind if kind.calls_target)

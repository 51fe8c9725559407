"""Execution: the only road to a side effect.

`attempt` claims an intent, calls its target once, and records what came of it. Every ending is written by
`endings`, which `recovery` and `sweeping` share.
"""

from runtime.execution.services.attempting import AttemptResult, Status, attempt
from runtime.execution.services.circuit import close_circuit
from runtime.execution.services.connectivity import TargetCheck, check_target, list_targets

__all__ = [
    "AttemptResult",
    "Status",
    "TargetCheck",
    "attempt",
    "check_target",
    "close_circuit",
    "list_targets",
]

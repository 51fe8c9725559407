"""Execution: the only road to a side effect.

`attempt` claims an intent, calls its target once, and records what came of it. Every ending is written by
`endings`, which `recovery` and `sweeping` share.
"""

from runtime.services.execution.attempting import AttemptResult, Status, attempt
from runtime.services.execution.breaking import close_circuit
from runtime.services.execution.probing import TargetCheck, check_target, list_targets

__all__ = [
    "AttemptResult",
    "Status",
    "TargetCheck",
    "attempt",
    "check_target",
    "close_circuit",
    "list_targets",
]

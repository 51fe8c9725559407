"""The one table of names that expressions may use.

Who builds the values (`runtime.queries.facts`) and who checks the expressions (`linter`) both read it here.
`params` and `constraints` have the fields of the kind's schemas; `context.facts` the facts by namespace.
"""

from collections.abc import Mapping
from types import MappingProxyType

from runtime.contracts.manifest import Manifest

# The moment of the judgement in UTC; weekday counts from Monday = 1.
TIME_FIELDS = frozenset({"epoch_ms", "iso", "hour", "minute", "weekday"})

FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "context": frozenset({"facts"}),
        "manifest": frozenset(Manifest.model_fields),
        "flow": frozenset({"dfid", "state", "attempts_used", "age_s", "trigger"}),
        "agent": frozenset({"agent_id", "role", "status", "owner"}),
        "history": frozenset(
            {"proposals_1m", "proposals_1h", "accepted_1h", "accepted_24h", "rejected_24h", "escalated_24h"}
        ),
        "budget": frozenset({"escalation_tokens", "tokens_left", "cost_left_micros", "tool_calls_left"}),
        "time": TIME_FIELDS,
        "intent": frozenset({"intent_id", "step"}),
        "outcome": frozenset({"status", "error_category", "status_code", "step", "attempts", "failures"}),
    }
)
PARAMS = frozenset({"params"})
# Rules, limits, impact, constraints, predicted values and claims.
JUDGED = frozenset(
    {"params", "constraints", "context", "manifest", "flow", "agent", "history", "budget", "time"}
)
# `unless` compares the value that was seen with the live one, and nothing else.
UNLESS = frozenset({"seen", "current", "params", "constraints"})
# The path and body of a request are made once, at ACCEPT.
REQUEST = JUDGED | {"intent"}
# What undoes a step, and what asks for it: `key` is the key of the call in question.
BY_KEY = REQUEST | {"key"}
# What a step writes back.
RECEIPT = JUDGED | {"receipt"}
# Where the result of a step is routed to; `receipt` is empty where there is none.
ROUTED = RECEIPT | {"outcome"}

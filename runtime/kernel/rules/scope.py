"""The one table of names that expressions may use.

Who builds the values (`runtime.proposals.queries.gate_facts`) and who checks the expressions (`linter`) both
read it here.
`params` and `constraints` have the fields of the kind's schemas; `context.facts` the facts by namespace.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from runtime.contracts.manifest import ManifestDocument
from runtime.kernel import step_history
from runtime.kernel.rules import shapes

# The moment of the judgement in UTC; weekday counts from Monday = 1.
TIME_FIELDS = frozenset({"epoch_ms", "iso", "hour", "minute", "weekday"})

# The fields of `history` that are about the steps of a flow in its workflow.
STEPS = frozenset({"steps", "last", "truncated"})
FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "context": frozenset({"facts"}),
        # Without the fields that are not there where they have no value.
        "manifest": frozenset(ManifestDocument.model_fields)
        - {
            "retry_window_s",
            "workflow",
            "confidence",
            "messages_to",
            "message_key",
            "proposal_key",
            "advertises",
            "autonomy",
            "environments",
            "label_rules",
            "consultations",
            "labels_end_after_s",
        },
        "flow": frozenset({"dfid", "state", "attempts_used", "age_s", "trigger"}),
        "agent": frozenset({"agent_id", "role", "status", "owner"}),
        "history": frozenset(
            {"proposals_1m", "proposals_1h", "accepted_1h", "accepted_24h", "rejected_24h", "escalated_24h"}
        )
        | STEPS,
        "budget": frozenset({"escalation_tokens", "tokens_left", "cost_left_micros", "tool_calls_left"}),
        "time": TIME_FIELDS,
        "intent": frozenset({"intent_id", "step"}),
        "answer": frozenset({"status_code", "body"}),
        "result": frozenset({"status", "deviations"}),
        "outcome": frozenset(
            {"status", "error_category", "status_code", "step", "attempts", "failures", "deviation"}
        ),
    }
)
PARAMS = frozenset({"params"})
# What the runtime works out for itself (`figures`), which everything after it may read.
WORKED_OUT = frozenset(
    {"params", "constraints", "context", "manifest", "flow", "agent", "history", "budget", "time", "labels"}
)
# Rules, limits, impact, constraints, predicted values and claims.
JUDGED = WORKED_OUT | {"figures"}
# `unless` compares the value that was seen with the live one, and nothing else.
UNLESS = frozenset({"seen", "current", "params", "constraints"})
# The path and body of a request are made once, at ACCEPT.
REQUEST = JUDGED | {"intent"}
# What undoes a step, and what asks for it: `key` is the key of the call in question.
BY_KEY = REQUEST | {"key"}
# What a step writes back.
RECEIPT = JUDGED | {"receipt"}
# What the whole execution came to: `receipt` is that of its last step, `steps` has those of all by step.
ENDED = RECEIPT | {"steps"}
# What a target says where its result is asked for.
ANSWERED = frozenset({"answer"})
# What must hold before a step: `steps` has the receipts of those that are done.
BEFORE_STEP = JUDGED | {"steps"}
# Where the result of a step is routed to; `receipt` is empty where there is none.
ROUTED = RECEIPT | {"outcome"}
# What became of a proposal: `result` of its execution, and `decision`, what a person chose or nothing.
SETTLED = frozenset({"params", "result", "decision"})
# How large the fields of `history` can be: its counts are numbers.
HISTORY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        **{name: {"type": "integer"} for name in sorted(FIELDS["history"] - STEPS)},
        "steps": {"type": "array", "maxItems": step_history.MOST_STEPS, "items": step_history.STEP_SCHEMA},
        "last": step_history.STEP_SCHEMA,
        "truncated": {"type": "boolean"},
    },
    "additionalProperties": False,
}
# A list of names; how many there can be hangs on the kinds that give them.
LABELS_SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "maxItems": 200,
    "items": {"type": "string", "maxLength": 128},
}
# Of a flow only its trigger is more than a few characters.
_FLOW_SCHEMA = {
    "type": "object",
    "properties": {
        name: {} if name == "trigger" else {"type": "string", "maxLength": 64} for name in FIELDS["flow"]
    },
    "additionalProperties": False,
}
_FLOW = replace(shapes.of_schema(_FLOW_SCHEMA, _FLOW_SCHEMA), copy=shapes.FACT.copy, lacks="")


def sizes(
    *, params_schema: Mapping[str, Any] | None, constraints_schema: Mapping[str, Any] | None
) -> dict[str, shapes.Shape]:
    """How large the value of each name can be."""
    of_kind = {"params": params_schema, "constraints": constraints_schema}
    return {
        **dict.fromkeys(JUDGED | {"intent", "outcome", "key", "result", "decision"}, shapes.OWN),
        "context": shapes.WORLD,
        "flow": _FLOW,
        "history": shapes.of_schema(HISTORY_SCHEMA, HISTORY_SCHEMA),
        "labels": shapes.of_schema(LABELS_SCHEMA, LABELS_SCHEMA),
        "seen": shapes.FACT,
        "current": shapes.FACT,
        "receipt": shapes.FACT,
        "answer": shapes.FACT,
        "steps": shapes.FACT,
        **{
            name: shapes.ANYTHING if schema is None else shapes.of_schema(schema, schema)
            for name, schema in of_kind.items()
        },
    }

"""The JSON Schema of a DecisionRecord, for the OpenAPI document; docs/records.md says what each field is."""

from collections.abc import Mapping
from typing import Any, Final

from audit.assessments import Assessment, Correction
from audit.records import evaluators, fold
from audit.records.statuses import Status

_Schema = dict[str, Any]


_NONE: Final[Mapping[str, _Schema]] = {}


def members(of: Mapping[str, _Schema], optional: Mapping[str, _Schema] = _NONE, **more: Any) -> _Schema:
    """An object that has all of these members, perhaps the optional ones, and may have others."""
    return {"type": "object", "required": list(of), "properties": {**of, **optional}, **more}


def listed(items: _Schema) -> _Schema:
    """An array of these."""
    return {"type": "array", "items": items}


_TEXT: Final[_Schema] = {"type": "string"}
_TEXT_OR_NULL: Final[_Schema] = {"type": ["string", "null"]}
_COUNT: Final[_Schema] = {"type": "integer", "minimum": 0}
_HASH: Final[_Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TIME: Final[_Schema] = {"type": "string", "format": "date-time"}
_MODE: Final[_Schema] = {"type": "string", "enum": list(fold.MODES)}
_SCORE: Final[_Schema] = {
    "type": ["string", "null"],
    "pattern": r"^(0(\.[0-9]{1,4})?|1)$",
    "description": "A decimal from 0 to 1; null where the evaluator could give no value.",
}
_DETAIL: Final[_Schema] = members(
    {"version": _TEXT, "minimum": _TEXT, "passed": {"type": ["boolean", "null"]}, "reason": _TEXT}
)

RECORD: Final[_Schema] = members(
    {
        "schema_version": _TEXT,
        "record_id": _TEXT,
        "decision_key": _TEXT_OR_NULL,
        "decision_version": _TEXT_OR_NULL,
        "timestamp": _TIME,
        "status": {"type": "string", "enum": [status.value for status in Status]},
        "terminal": {"type": "boolean"},
        "supersedes": _TEXT_OR_NULL,
        "actor": members(
            {
                "type": _TEXT,
                "id": _TEXT,
                "workload_identity": _TEXT,
                "delegated_user_id": _TEXT_OR_NULL,
            },
            # Not in records of earlier versions. Whom an agent claims to act for is not verified.
            {
                "delegated_user_source": {
                    "type": ["string", "null"],
                    "enum": [fold.BY_DECISION, fold.BY_CLAIM, None],
                }
            },
        ),
        "intent_ref": _TEXT_OR_NULL,
        "subject_ids": listed(_TEXT),
        "inputs_refs": members(
            {
                "request": _TEXT_OR_NULL,
                "session": _TEXT,
                "trigger": _TEXT_OR_NULL,
                "attachments": listed(_TEXT),
            }
        ),
        # `result` is there where the kind has an outcome of its own.
        "outputs": {
            "type": "object",
            "required": ["outcome", "reason", "effect"],
            "properties": {
                "outcome": _TEXT,
                "reason": _TEXT,
                "effect": _TEXT_OR_NULL,
                "result": members(
                    {
                        "outcome": _TEXT_OR_NULL,
                        "outputs": listed(_TEXT),
                        "commitment": _TEXT_OR_NULL,
                        "findings": listed(_TEXT),
                    }
                ),
            },
        },
        "evidence_refs": listed(_TEXT),
        "policy_decisions": listed(
            members(
                {
                    "policy_decision_id": _TEXT,
                    "bundle_id": _TEXT,
                    "rule_ids": listed(_TEXT),
                    "verdict": {"type": "string", "enum": list(fold.DECISIONS.values())},
                }
            )
        ),
        "approvals": listed(
            members(
                {
                    "gate_id": _TEXT_OR_NULL,
                    "approver": _TEXT,
                    "approval_mode_effective": _MODE,
                    "evidence_snapshot_hash": _HASH,
                    "decided_at": _TIME,
                }
            )
        ),
        "approval_mode_effective": _MODE,
        "controls_active": members(
            {
                "must_refuse": listed(_TEXT),
                "must_escalate": listed(_TEXT),
                "approval_gates_active": listed(_TEXT),
                "redaction_rules_active": listed(_TEXT),
            }
        ),
        "tool_lineage": listed(
            members(
                {
                    "tool_call_id": _TEXT,
                    "tool_result_id": _TEXT_OR_NULL,
                    "approval_mode_effective": _MODE,
                    "idempotency_key": _TEXT,
                    "reversal_token": _TEXT_OR_NULL,
                }
            )
        ),
        "scorecard": {
            "type": "object",
            "properties": {
                **dict.fromkeys(evaluators.NAMES, _SCORE),
                "suite": _TEXT,
                "result": {"type": "string", "enum": list(evaluators.RESULTS)},
                "reason": _TEXT,
                "details": {"type": "object", "additionalProperties": _DETAIL},
            },
            "description": "Empty until the record of an end is scored, which gives another record.",
        },
        "budget_usage": members(
            {"tokens": _COUNT, "tool_calls": _COUNT, "cost_usd_cents": _TEXT, "wall_clock_ms": _COUNT}
        ),
        "lineage": members(
            {
                "pack_version": _TEXT_OR_NULL,
                "policy_versions": listed(_TEXT),
                "decision_spec": _TEXT_OR_NULL,
                "kg_snapshot": _TEXT_OR_NULL,
                "model_profile": _TEXT_OR_NULL,
                "evaluator_suite": _TEXT_OR_NULL,
                "unpinned": listed(_TEXT),
            }
        ),
        "trace_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "replay": members(
            {
                "replay_packet_id": _TEXT,
                "compiled_context_hash": _TEXT_OR_NULL,
                "tool_transcript_chain_hash": _TEXT_OR_NULL,
            }
        ),
        "flow": members({"dfid": {"type": "string", "format": "uuid"}, "from_seq": _COUNT, "to_seq": _COUNT}),
        "audit": members({"prev_hash": _HASH, "record_hash": _HASH, "signed_by": _TEXT}),
    }
)
MISMATCHES: Final[_Schema] = listed(
    members(
        {"record_id": _TEXT, "mismatch": _TEXT},
        description="A record that is not what was emitted: its id, and why it is not shown.",
    )
)
SUPERSEDED: Final[_Schema] = {
    "type": "object",
    "additionalProperties": _TEXT,
    "description": "Of the records here that another one has superseded: its id, by the id of the record.",
}
RECORDS: Final[_Schema] = members(
    {"records": listed(RECORD), "mismatches": MISMATCHES, "superseded_by": SUPERSEDED}
)
PAGE: Final[_Schema] = members(
    {
        "records": listed(RECORD),
        "mismatches": MISMATCHES,
        "superseded_by": SUPERSEDED,
        "next": {"type": ["string", "null"], "description": "The cursor `after` which the next page begins."},
    }
)
DSSE: Final[_Schema] = members(
    {
        "payload": {"type": "string", "contentEncoding": "base64"},
        "payloadType": _TEXT,
        "signatures": listed(
            members({"keyid": _TEXT, "sig": {"type": "string", "contentEncoding": "base64"}})
        ),
    }
)
FEEDBACK: Final[_Schema] = members(
    {
        "record_id": _TEXT,
        "feedback": listed(
            members(
                {
                    "feedback_id": {"type": "string", "format": "uuid"},
                    "author": _TEXT,
                    "at": _TIME,
                    "assessment": {"type": "string", "enum": [item.value for item in Assessment]},
                    "correction": {"type": "string", "enum": ["", *(item.value for item in Correction)]},
                    "reason": {**_TEXT_OR_NULL, "description": "Null where it was erased."},
                    "has_decided": {"type": "boolean"},
                    "counts": {"type": "boolean", "description": "Whether it is the newest of its author."},
                    "entry": {**_COUNT, "description": "The number of its entry in the flow's stream."},
                    "mismatch": {
                        "type": "boolean",
                        "description": "Whether its row is not what was recorded.",
                    },
                }
            )
        ),
    }
)

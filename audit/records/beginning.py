"""A decision record before the first entry of its flow."""

from typing import Any, Final

# Without what the kind declares about scores, and without what became of calls in doubt.
FIRST_VERSION: Final = "1"
# Also without what rules and the recommender advised, what was read of memory, and for whom the agent acts.
SECOND_VERSION: Final = "2"


def record(dfid: str, *, version: str) -> dict[str, Any]:
    """Every member of it, with nothing in it; `flow` is what the fold goes on from."""
    scoring = {} if version == FIRST_VERSION else {"scoring": None}
    is_earlier = version in (FIRST_VERSION, SECOND_VERSION)
    source: dict[str, None] = {} if is_earlier else {"delegated_user_source": None}
    claimed: dict[str, None] = {} if is_earlier else {"delegated_user_claim": None}
    return {
        "schema_version": version,
        "record_id": "",
        "decision_key": None,
        "decision_version": None,
        "timestamp": "",
        "status": "",
        "terminal": False,
        "supersedes": None,
        "actor": {"type": "AGENT", "id": "", "workload_identity": "", "delegated_user_id": None, **source},
        "intent_ref": None,
        "subject_ids": [],
        "inputs_refs": {"request": None, "session": f"flow:{dfid}", "trigger": None, "attachments": []},
        "outputs": {},
        "evidence_refs": [],
        "policy_decisions": [],
        "approvals": [],
        "approval_mode_effective": "none",
        "controls_active": {
            "must_refuse": [],
            "must_escalate": [],
            "approval_gates_active": [],
            "redaction_rules_active": [],
        },
        "tool_lineage": [],
        "scorecard": {},
        "budget_usage": {"tokens": 0, "tool_calls": 0, "cost_usd_cents": "0", "wall_clock_ms": 0},
        "lineage": {
            "pack_version": None,
            "policy_versions": [],
            "decision_spec": None,
            "kg_snapshot": None,
            "model_profile": None,
            "evaluator_suite": None,
            "gate_version": None,
            "unpinned": [],
        },
        "trace_id": dfid.replace("-", ""),
        "replay": {
            "replay_packet_id": dfid,
            "compiled_context_hash": None,
            "tool_transcript_chain_hash": None,
        },
        "flow": {
            "dfid": dfid,
            "opened_at": "",
            "state": "CREATED",
            "reason": "",
            "from_seq": 0,
            "to_seq": 0,
            "verdict": None,
            "action": None,
            "outcome": None,
            "gates": {},
            "asked": False,
            "reversals": {},
            "approvals": 1,
            "lone_mode": "person",
            "mode_before": None,
            **scoring,
            **claimed,
        },
    }

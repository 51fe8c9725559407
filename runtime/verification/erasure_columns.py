"""The runtime's tables: where words of flows are stored, and why other texts and bytes stay.

A test walks every text and byte column of every table: one that is in neither list fails it.
"""

from typing import Final

from audit.erasure_columns import ColumnTable, OtherColumns, WordColumns
from runtime.contracts.states import ERASED_FEEDBACK

_RULES: Final = "rules that admins write; no words of a flow"
_NAME: Final = "a name, address or version that admins choose"
_HASH: Final = "a digest or a signature"
_REASON: Final = "the reason of an admin, of no flow; its entry repeats it"

TABLE: Final = ColumnTable(
    words=(
        WordColumns(model="runtime.Flow", flow="pk", columns={"trigger": "why the agent opened the flow"}),
        WordColumns(model="runtime.Snapshot", flow="flow", columns={"body": "the facts that it was shown"}),
        WordColumns(
            model="runtime.Proposal",
            flow="flow",
            columns={
                "body": "the parameters",
                "explain": "the agent's explanation",
                "retry_key": "a digest of its subjects, which could be guessed",
            },
        ),
        WordColumns(
            model="runtime.Verdict",
            flow="proposal__flow",
            columns={"input": "what the gate judged", "body": "what it found, with values and calls"},
        ),
        WordColumns(
            model="runtime.Intent",
            flow="flow",
            columns={
                "requests": "the calls as they were sent",
                "lifted": "findings that a person lifted",
                "undo": "what a take-back would have restored",
            },
        ),
        WordColumns(
            model="runtime.Attempt", flow="intent__flow", columns={"detail": "error messages of targets"}
        ),
        WordColumns(
            model="runtime.StepReceipt", flow="intent__flow", columns={"receipt": "what a target answered"}
        ),
        WordColumns(
            model="runtime.TargetCallback",
            flow="intent__flow",
            columns={"location": "where a target said that its result is"},
        ),
        WordColumns(
            model="runtime.HumanTask",
            flow="intent__flow",
            columns={
                "body": "everything that the person was shown",
                "answer": "what the person answered",
                "statement": "what the person signed",
            },
        ),
        WordColumns(
            model="runtime.Outcome",
            flow="intent__flow",
            columns={
                "receipt": "what the target answered",
                "expected": "the effects that were expected",
                "deviations": "how the observed ones differ",
                "writes": "the facts that were taken from receipts",
            },
            left={"receipt": None},
        ),
        WordColumns(
            model="runtime.Feedback",
            flow="flow",
            columns={"body": "what the agent was told", "salt": "what made its commitment unguessable"},
            left={"body": ERASED_FEEDBACK},
        ),
        WordColumns(
            model="runtime.GuardRun",
            flow="proposal__flow",
            columns={"result": "what a soft guard found", "detail": "error messages of guards"},
            left={"result": None},
        ),
        WordColumns(
            model="runtime.Review", flow="flow", columns={"findings": "what a soft guard found, with quotes"}
        ),
        WordColumns(
            model="runtime.DecisionPackageRow",
            flow="flow",
            columns={"input": "the options and objectives", "body": "what was recommended"},
        ),
        WordColumns(
            model="runtime.RuleOutput",
            flow="flow",
            columns={"input": "the features that rules were asked about", "body": "what the rules said"},
        ),
        WordColumns(
            model="runtime.WorkflowPosition",
            flow="flow",
            columns={"fold": "the last step, as it was reported", "permits": "when steps were allowed"},
        ),
        WordColumns(
            model="runtime.StepCheck",
            flow="flow",
            columns={"input_digest": "a digest of its input, which could be guessed"},
        ),
        WordColumns(
            model="runtime.ReplayFinding",
            flow="dfid",
            columns={"recorded": "a value as it was recorded", "found": "the value that was found instead"},
        ),
    ),
    others=(
        OtherColumns(
            model="runtime.Agent",
            columns={
                "mission": _RULES,
                "owner": _NAME,
                "status_reason": _REASON,
                "autonomy_reason": _REASON,
                "locked_from_reason": "a code",
                "stop_reason": _REASON,
            },
        ),
        OtherColumns(model="runtime.HumanTask", columns={"signature": _HASH}),
        OtherColumns(model="runtime.Workflow", columns={"body": _RULES}),
        OtherColumns(model="runtime.Manifest", columns={"body": _RULES, "reason": _REASON}),
        OtherColumns(
            model="runtime.PolicyKind", columns={"title": _RULES, "body": _RULES, "reason": _REASON}
        ),
        OtherColumns(model="runtime.Ontology", columns={"body": _RULES, "reason": _REASON}),
        OtherColumns(model="runtime.Ruleset", columns={"body": _RULES, "reason": _REASON}),
        OtherColumns(
            model="runtime.CalibrationMap",
            columns={"body": "sums over many flows, no words of one", "reason": _REASON},
        ),
        OtherColumns(
            model="runtime.Capability",
            columns={
                "body": "what an agent says that it offers, of no flow; it overwrites it",
                "override_reason": _REASON,
            },
        ),
        OtherColumns(model="runtime.Consultation", columns={"capability": _NAME}),
        OtherColumns(model="runtime.Key", columns={"fact_prefix": _NAME, "issuer": _NAME, "subject": _NAME}),
        OtherColumns(
            model="runtime.Receiver",
            columns={
                "patterns": _RULES,
                "place": _NAME,
                "paused_why": _REASON,
                "error": "why sending failed",
            },
        ),
        OtherColumns(model="runtime.IncidentRuleRow", columns={"body": _RULES}),
        OtherColumns(
            model="runtime.LegalHold",
            columns={"name": _NAME, "subject": "an id as decision records name it; its entry repeats it"},
        ),
        OtherColumns(model="runtime.OwnerChange", columns={"owner_before": _NAME, "owner_after": _NAME}),
        OtherColumns(model="runtime.Resource", columns={"name": _NAME, "unit": _NAME}),
        OtherColumns(model="runtime.Bundle", columns={"body": f"{_RULES}; shared by many flows"}),
        OtherColumns(
            model="runtime.Target",
            columns={"base_url": _NAME, "refuses": "status codes", "deep_link": _NAME, "health": _NAME},
        ),
        OtherColumns(
            model="runtime.ToolServer",
            columns={"switch_reason": _REASON, "trouble": "why a look failed, in our words"},
        ),
        OtherColumns(
            model="runtime.UpstreamTool",
            columns={
                "pinned": "what a server says of a tool, no words of a flow",
                "found": "what a server says of a tool, no words of a flow",
                "reason": _REASON,
            },
        ),
        OtherColumns(model="runtime.Guard", columns={"body": _RULES, "switch_reason": _REASON}),
        OtherColumns(
            model="runtime.Review",
            columns={
                "note": "a reviewer's words; the ledger's entry repeats them, so they stay",
                "request_reason": "why a person asked for it; the ledger's entry repeats it, so it stays",
            },
        ),
        OtherColumns(model="runtime.Stop", columns={"reason": _REASON}),
        OtherColumns(model="runtime.Flow", columns={"head_hash": _HASH}),
        OtherColumns(model="runtime.Inbox", columns={"fact_versions": "numbers of versions, by path"}),
        OtherColumns(
            model="runtime.AgentEvent",
            columns={"body": "what concerns an agent, of no flow; only its newest events are kept"},
        ),
        OtherColumns(
            model="runtime.Timer", columns={"label": "an agent's alarm, of no flow; gone once rung"}
        ),
        OtherColumns(
            model="runtime.Answer",
            columns={
                "body": "emptied beside this table: the stored responses to the calls of a flow",
                "request_digest": "emptied beside this table, with the response",
                "salt": "emptied beside this table, with the response",
                "path": "an address of the API",
                "key": "an Idempotency-Key",
            },
        ),
        OtherColumns(
            model="runtime.ReplayFinding",
            columns={
                "path": "the place of a value: names of tables, columns and members, as entries repeat them",
                "row_id": "the name of a row",
            },
        ),
        OtherColumns(model="runtime.Epoch", columns={"missing": "counts and ids of what a restore lost"}),
        OtherColumns(
            model="runtime.Fact",
            columns={
                "path": "the name of a fact, as entries repeat it",
                "value": "a fact of the world, of no flow; a feed overwrites it",
            },
        ),
        OtherColumns(
            model="runtime.FactVersion",
            columns={
                "path": "the name of a fact, as entries repeat it",
                "value": "a fact of the world, of no flow; kept as long as DIR_FACT_RETENTION says",
            },
        ),
        OtherColumns(
            model="runtime.FactRound", columns={"path": "the name of the fact that a round has come to"}
        ),
        OtherColumns(
            model="runtime.MemoryItem",
            columns={
                "value": "what an agent remembers, of no flow; an admin discards it",
                "source": "where it says that it learned it",
                "reasons": "codes of what was found, without words of the value",
                "labels": "names of labels that its writer had",
                "decision_reason": "an admin's words; the ledger's entry repeats them, so they stay",
            },
        ),
        OtherColumns(
            model="runtime.Artifact",
            columns={"location": "an address outside the console", "title": "a title that an agent gave"},
        ),
    ),
)

"""The tables of escalations: where words of flows are stored, and why other texts and bytes stay."""

from typing import Final

from audit.erasure_columns import ColumnTable, OtherColumns, WordColumns

# A row's constraint asks for a reason.
ERASED_REASON: Final = "(erased)"
_SIGNATURE: Final = "a signature; it says nothing of what was signed"

TABLE: Final = ColumnTable(
    words=(
        WordColumns(
            model="escalations.Escalation",
            flow="flow",
            columns={
                "effect": "what the decision would do, in one sentence",
                "proposed_value": "the value that exceeded a limit",
                "limit": "the limit",
            },
        ),
        WordColumns(
            model="escalations.Evidence",
            flow="escalation__flow",
            columns={"body": "everything that the person was shown"},
        ),
        WordColumns(
            model="escalations.Decision",
            flow="escalation__flow",
            columns={"statement": "what the person signed", "justification": "the person's reason"},
        ),
        WordColumns(
            model="escalations.EffectStatement",
            flow="escalation__flow",
            columns={"statement": "what the person signed", "reason": "the person's reason"},
            left={"reason": ERASED_REASON},
        ),
        WordColumns(
            model="escalations.Question",
            flow="escalation__flow",
            columns={
                "text": "the question",
                "statement": "what the person signed",
                "answer": "the agent's answer",
            },
        ),
    ),
    others=(
        OtherColumns(
            model="escalations.Escalation",
            columns={"rule": "the id of a rule", "incident": "a code and names that admins choose"},
        ),
        OtherColumns(
            model="escalations.Evidence",
            columns={"why": "why there is a new revision; the ledger's entry repeats it"},
        ),
        OtherColumns(model="escalations.Decision", columns={"signature": _SIGNATURE}),
        OtherColumns(model="escalations.EffectStatement", columns={"signature": _SIGNATURE}),
        OtherColumns(
            model="escalations.Question",
            columns={
                "signature": _SIGNATURE,
                "payload_ref": "an address that the agent gave; the ledger's entry repeats it",
            },
        ),
        OtherColumns(
            model="escalations.NotificationRoute",
            columns={"address": "a sealed address, of no flow", "host": "its host"},
        ),
        OtherColumns(model="escalations.Notice", columns={"error": "why a notice could not be sent"}),
        OtherColumns(model="escalations.SavedView", columns={"query": "a filter that a person saved"}),
    ),
)

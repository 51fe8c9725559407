"""What a tool tells the model of an agent, and what its framework is told while a person decides."""

import json
from collections.abc import Mapping
from typing import Any, Final

from dir_console_client.models import Result, Status, Verdict

HELD: Final = "AWAITING_HUMAN_INPUT"


def rejected(reasons: str) -> str:
    """The reasons, so that the model can mend its call."""
    return json.dumps({"status": Status.REJECTED, "reasons": reasons})


def ended(result: Result) -> str:
    """What became of an action that was not rejected."""
    return json.dumps(
        {
            "status": result.status,
            "effect": result.effect,
            "receipt": result.receipt,
            "decision": result.decision,
            "params": result.params,
            "reason": result.reason,
        }
    )


def held(verdict: Verdict, kind: str, params: Mapping[str, Any], *, page: str) -> dict[str, Any]:
    """What waits for a person, why, and on which page it is decided."""
    return {
        "status": HELD,
        "dfid": verdict.dfid,
        "escalation_id": verdict.escalation_id,
        "page": page,
        "kind": kind,
        "params": dict(params),
        "reasons": verdict.words(),
    }

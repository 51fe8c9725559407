"""How entries about workflows, and about steps of the flows that follow one, are shown."""

from collections.abc import Mapping
from typing import Any, Final

from audit.events import Kind
from audit.lanes import Lane, Presenter
from audit.sentences import says


def _taken(payload: Mapping[str, Any]) -> str:
    then = payload.get("next")
    return f"The agent reported {payload['instruction']}" + (f"; {then} comes next." if then else ".")


def _refused(payload: Mapping[str, Any]) -> str:
    verb = "asked for" if payload["asked"] == "check" else "reported"
    return f"The agent {verb} {payload['instruction']}, refused by {', '.join(payload['policies'])}."


def _continued(payload: Mapping[str, Any]) -> str:
    then, allowed = payload.get("next"), payload.get("allows")
    if then:
        chosen = f"with {then}"
    else:
        chosen = f"and allowed {allowed} once" if allowed else "without what its router demanded"
    return f"A person let the flow continue in {payload['workflow']} {payload['version']}, {chosen}."


PRESENTERS: Final[Mapping[Kind, Presenter]] = {
    Kind.WORKFLOW_REGISTERED: Presenter(
        "flow", Lane.SYSTEM, "Workflow registered", says("{workflow} version {version}.")
    ),
    Kind.STEP_TAKEN: Presenter("thought", Lane.REASONING, "Step taken", _taken),
    Kind.STEP_REFUSED: Presenter("cross", Lane.REASONING, "Step refused", _refused),
    Kind.FLOW_CONTINUED: Presenter("play", Lane.DECISION, "Flow continued", _continued),
}

"""How entries about rulesets, their outputs and recommendations are shown."""

from collections.abc import Mapping
from typing import Any, Final

from audit.events import Kind
from audit.lanes import Lane, Presenter
from audit.sentences import says


def _recommended(payload: Mapping[str, Any]) -> str:
    who = "A person should decide" if payload.get("needs_person") else "Advice for the agent"
    return f"{who}: {payload.get('method') or '-'}."


PRESENTERS: Final[Mapping[Kind, Presenter]] = {
    Kind.RULESET_REGISTERED: Presenter(
        "kind", Lane.SYSTEM, "Ruleset registered", says("{ruleset} {version} was registered.")
    ),
    Kind.RULESET_ACTIVATED: Presenter(
        "check", Lane.SYSTEM, "Ruleset activated", says("{ruleset} {version} is active.")
    ),
    Kind.RULESET_DISCARDED: Presenter(
        "cross", Lane.SYSTEM, "Ruleset draft discarded", says("{ruleset} {version}: {reason}.")
    ),
    Kind.RULES_EVALUATED: Presenter(
        "layers", Lane.REASONING, "Rules evaluated", says("{ruleset} {version}: {status}.")
    ),
    Kind.DECISION_RECOMMENDED: Presenter("thought", Lane.REASONING, "Decision recommended", _recommended),
}

"""How entries about rulesets, their outputs, recommendations and calibration maps are shown."""

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
    Kind.CALIBRATION_DRAFTED: Presenter(
        "kind",
        Lane.SYSTEM,
        "Calibration map drafted",
        says("Map {version} for {policy_kind} at {impact}, from {pairs} proposals."),
    ),
    Kind.CALIBRATION_ACTIVATED: Presenter(
        "check",
        Lane.SYSTEM,
        "Calibration map activated",
        says("Map {version} for {policy_kind} at {impact} is active."),
    ),
    Kind.CALIBRATION_DISCARDED: Presenter(
        "cross", Lane.SYSTEM, "Calibration map discarded", says("Map {version}: {reason}.")
    ),
    Kind.CALIBRATION_RETIRED: Presenter(
        "clock",
        Lane.SYSTEM,
        "Calibration map retired",
        says("Map {version} for {policy_kind} at {impact} is no longer asked: {because}."),
    ),
}

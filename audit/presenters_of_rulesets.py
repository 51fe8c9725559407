"""How entries about rulesets, their outputs, recommendations, the ontology and calibration maps are shown."""

from collections.abc import Mapping
from typing import Any, Final

from audit.events import Kind
from audit.lanes import Lane, Presenter
from audit.sentences import says


def _recommended(payload: Mapping[str, Any]) -> str:
    method = payload.get("method") or "-"
    who = "A person should decide" if payload.get("needs_person") else "Advice for the agent"
    said = "Other agents are heard first." if method == "consult" else f"{who}: {method}."
    if not payload.get("asked"):
        return said
    answered, agreeing = payload.get("answered", 0), payload.get("agreeing", 0)
    return f"{said} Of {payload['asked']} consulted, {answered} answered and {agreeing} agree: their claims."


_ENDS: Final[Mapping[str, str]] = {
    "ANSWERED": "{provider} answered. What it says is its claim.",
    "DECLINED": "{provider} said that it cannot answer.",
    "OVERDUE": "{provider} did not answer in time, so it counts as abstained.",
}


def _ended(payload: Mapping[str, Any]) -> str:
    return says(_ENDS.get(str(payload.get("state")), "{provider}: {state}."))(payload)


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
    Kind.ONTOLOGY_REGISTERED: Presenter(
        "kind", Lane.SYSTEM, "Ontology registered", says("Version {version} was registered.")
    ),
    Kind.ONTOLOGY_ACTIVATED: Presenter(
        "check", Lane.SYSTEM, "Ontology activated", says("Version {version} is active.")
    ),
    Kind.ONTOLOGY_DISCARDED: Presenter(
        "cross", Lane.SYSTEM, "Ontology draft discarded", says("Version {version}: {reason}.")
    ),
    Kind.RULES_EVALUATED: Presenter(
        "layers", Lane.REASONING, "Rules evaluated", says("{ruleset} {version}: {status}.")
    ),
    Kind.DECISION_RECOMMENDED: Presenter("thought", Lane.REASONING, "Decision recommended", _recommended),
    Kind.CONSULTATION_ASKED: Presenter(
        "send", Lane.REASONING, "Agent consulted", says("{provider} was asked, for its {capability}.")
    ),
    Kind.CONSULTATION_ENDED: Presenter("thought", Lane.REASONING, "Consultation ended", _ended),
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

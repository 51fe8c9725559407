"""Cedar policies: whether a policy can be read, and what each says of a request. The one door to cedarpy.

Each policy is asked alone, so that what held and what failed is known by its id. The words of the library are
never read, stored or shown. Its version is part of the ruleset: what another version would say is not known
here, so answers are facts that are stored with what was made of them (`CedarAnswers`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any

import cedarpy

from audit import canonical
from runtime.contracts.ruleset import (
    CedarAnswers,
    CedarEntity,
    CedarPolicy,
    CedarRequest,
    FeatureType,
    PolicyAnswer,
    RulesetDocument,
)

VERSION = metadata.version("cedarpy")
ACTION = "Action"
# The parser of the library goes as deep as its text does, and ends the process where its stack ends.
MAX_DEPTH = 20
MAX_IFS = 20
# `a && b && c`, `a.b.c` and the like nest as well, by a level for each operator.
MAX_SIGNS = 200

_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|[A-Za-z_][A-Za-z0-9_]*|.', re.DOTALL)
_SIGNS = frozenset("&|+-*!.[<>=")
_CEDAR_TYPES = {
    FeatureType.INTEGER: "Long",
    FeatureType.STRING: "String",
    FeatureType.BOOLEAN: "Boolean",
}


def pin(ruleset: RulesetDocument) -> RulesetDocument:
    """The ruleset with the installed version of cedarpy, where it has policies and names none."""
    request = ruleset.cedar_request
    if request is None or request.cedarpy is not None:
        return ruleset
    pinned = request.model_copy(update={"cedarpy": VERSION})
    return ruleset.model_copy(update={"cedar_request": pinned})


def ask(
    ruleset: RulesetDocument, features: Mapping[str, Any], *, agent_id: str, policy_kind: str
) -> CedarAnswers | None:
    """What the policies of a ruleset say of an agent that thinks of proposing a kind; None without policies.

    `features` are those that have a value of their type. Nothing is asked where one of the request is
    missing, or where the ruleset was written for another version of cedarpy.
    """
    request = ruleset.cedar_request
    if request is None:
        return None
    answers = {}
    if request.cedarpy == VERSION and all(name in features for name in request.features):
        principal = {"type": request.principal.type, "id": agent_id}
        resource = {"type": request.resource.type, "id": str(features[request.resource.id])}
        asked = {
            "principal": principal,
            "action": {"type": ACTION, "id": policy_kind},
            "resource": resource,
            "context": {name: features[name] for name in request.context},
        }
        entities = cedarpy.Entities.from_json_str(
            canonical.encode(
                [
                    _entity(principal, request.principal, features),
                    _entity(resource, request.resource, features),
                ]
            ).decode()
        )
        answers = {policy.id: _answer(policy.cedar, asked, entities) for policy in ruleset.policies}
    return CedarAnswers(agent_id=agent_id, policy_kind=policy_kind, answers=answers)


def why_unsound(policy: CedarPolicy, request: CedarRequest, types: Mapping[str, FeatureType]) -> str:
    """Why a policy cannot be asked the requests of its ruleset; empty where it can.

    `types` are those of the features that the request is made of.
    """
    if _is_too_deep(policy.cedar):
        return f"it nests deeper than {MAX_DEPTH}, or has more than {MAX_IFS} times if or {MAX_SIGNS} signs"
    parsed = _parsed(policy.cedar)
    if parsed is None:
        return "it cannot be read as one Cedar policy without slots"
    schema = _schema(request, types, set(_actions(parsed)))
    if not cedarpy.validate_policies(policy.cedar, schema).validation_passed:
        return (
            "it does not fit cedar_request: it names a type or an attribute that is not there, or compares "
            "values of unlike types"
        )
    return ""


def _entity(uid: Mapping[str, str], given: CedarEntity, features: Mapping[str, Any]) -> dict[str, Any]:
    return {"uid": uid, "attrs": {name: features[name] for name in given.attributes}, "parents": []}


def _answer(text: str, asked: dict[str, Any], entities: cedarpy.Entities) -> PolicyAnswer:
    policies = _compiled(text)
    if policies is None:
        return PolicyAnswer.FAILED
    result = cedarpy.is_authorized(asked, policies, entities)
    # An error is the policy's own, since it was asked alone; without a decision nothing was asked at all.
    if result.diagnostics.errors or result.decision is cedarpy.Decision.NoDecision:
        return PolicyAnswer.FAILED
    if not result.diagnostics.reasons:
        return PolicyAnswer.SILENT
    return PolicyAnswer.PERMITS if result.allowed else PolicyAnswer.FORBIDS


@lru_cache(maxsize=1024)
def _compiled(text: str) -> cedarpy.PolicySet | None:
    return None if _parsed(text) is None else cedarpy.PolicySet.from_str(text)


def _parsed(text: str) -> dict[str, Any] | None:
    """The one policy of a text as Cedar's JSON has it; None for any other text."""
    if _is_too_deep(text):
        return None
    try:
        found = json.loads(cedarpy.policies_to_json_str(text))
    except ValueError:
        return None
    policies: list[dict[str, Any]] = list(found["staticPolicies"].values())
    return policies[0] if len(policies) == 1 and not found["templates"] else None


def _is_too_deep(text: str) -> bool:
    depth = deepest = ifs = signs = 0
    for piece in _PIECES.findall(text):
        if piece in ("(", "[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif piece in (")", "]", "}"):
            depth -= 1
        ifs += piece == "if"
        signs += piece in _SIGNS
    return deepest > MAX_DEPTH or ifs > MAX_IFS or signs > MAX_SIGNS


def _actions(value: Any) -> Iterator[str]:
    """The actions that a policy names, wherever it does."""
    if isinstance(value, list):
        for item in value:
            yield from _actions(item)
    elif isinstance(value, dict):
        if value.get("type") == ACTION and isinstance(value.get("id"), str):
            yield value["id"]
        for item in value.values():
            yield from _actions(item)


def _schema(request: CedarRequest, types: Mapping[str, FeatureType], actions: set[str]) -> str:
    """What the requests look like, in Cedar's own words, for a policy that names these actions."""
    principal, resource = request.principal.type, request.resource.type
    entities = {
        principal: {"shape": _record(request.principal.attributes, types)},
        resource: {"shape": _record(request.resource.attributes, types)},
    }
    applies = {
        "principalTypes": [principal],
        "resourceTypes": [resource],
        "context": _record(request.context, types),
    }
    # Which kinds there are is not known here: each action that is named is one.
    named = {name: {"appliesTo": applies} for name in sorted(actions | {"ANY"})}
    return canonical.encode({"": {"entityTypes": entities, "actions": named}}).decode()


def _record(names: tuple[str, ...], types: Mapping[str, FeatureType]) -> dict[str, Any]:
    return {"type": "Record", "attributes": {name: {"type": _CEDAR_TYPES[types[name]]} for name in names}}

"""Whether an entry matches a rule, and what it is counted with. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.contracts.incident import IncidentRule, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An entry as a rule sees it: `dfid`, `agent_id` and `policy_kind` are empty where it is about none."""

    kind: str
    payload: Mapping[str, Any]
    dfid: str = ""
    agent_id: str = ""
    policy_kind: str = ""


def matches(rule: IncidentRule, seen: Seen) -> bool:
    """Whether the entry meets every condition of the rule."""
    if seen.kind not in rule.kinds:
        return False
    if rule.reason and rule.reason not in codes_of(seen.payload):
        return False
    if rule.agent_id and rule.agent_id != seen.agent_id:
        return False
    if rule.policy_kind and rule.policy_kind != seen.policy_kind:
        return False
    if rule.impact is not None and seen.payload.get("impact") != rule.impact.value:
        return False
    return all(_has(seen.payload, condition) for condition in rule.where)


def group_of(rule: IncidentRule, seen: Seen) -> str | None:
    """What the entry is counted with; None where the rule counts by something that the entry is not about."""
    if rule.per is Scope.AGENT:
        return seen.agent_id or None
    if rule.per is Scope.FLOW:
        return seen.dfid or None
    return ""


def codes_of(payload: Mapping[str, Any]) -> frozenset[str]:
    """Every code that an entry gives as a reason."""
    single = {payload.get(name) for name in ("reason", "code", "why")}
    listed = [item for name in ("reasons", "codes") for item in payload.get(name) or ()]
    named = {item.get("code") if isinstance(item, Mapping) else item for item in listed}
    return frozenset(code for code in single | named if isinstance(code, str) and code)


def _has(payload: Mapping[str, Any], condition: str) -> bool:
    name, equals, wanted = condition.partition("=")
    held = payload.get(name)
    if not equals:
        return held not in (None, "", False, 0, [], {})
    if isinstance(held, bool):
        return wanted == str(held).lower()
    return held is not None and str(held) == wanted

"""Labels, icons and tones of incidents and of the rules that open them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from audit import actors
from audit.events import Kind
from runtime.contracts.incident import IncidentRule, IncidentState, LinkKind, RuleState, Scope, Severity
from runtime.core.views import labels, query_params
from runtime.core.views.labels import Badge
from runtime.incidents.models import Incident, IncidentLink

S = IncidentState

STATES: Mapping[str, Badge] = {
    S.OPEN: Badge("danger", "high", "Open"),
    S.MITIGATED: Badge("warn", "wait", "Mitigated", "The effect is contained; the cause is not removed yet"),
    S.RESOLVED: Badge("info", "check", "Resolved", "The cause is removed"),
    S.CLOSED: Badge("idle", "lock", "Closed"),
}
SEVERITIES: Mapping[str, Badge] = {
    Severity.SEV1: Badge("danger", "critical", "SEV1", "Critical: harm is being done, or nothing works"),
    Severity.SEV2: Badge("danger", "high", "SEV2", "High: harm is likely, or much does not work"),
    Severity.SEV3: Badge("warn", "low", "SEV3", "Medium: something does not work"),
    Severity.SEV4: Badge("idle", "low", "SEV4", "Low: to be looked at"),
}
RULE_STATES: Mapping[str, Badge] = {
    RuleState.DRAFT: Badge("info", "edit", "Draft"),
    RuleState.ACTIVE: Badge("ok", "check", "Active"),
    RuleState.OFF: Badge("idle", "cross", "Off"),
}
KINDS: Mapping[str, str] = {
    LinkKind.FLOW: "Flow",
    LinkKind.RECORD: "Decision record",
    LinkKind.ESCALATION: "Escalation",
    LinkKind.AGENT: "Agent",
    LinkKind.TARGET: "Target",
    LinkKind.PERSON: "Person",
}
SCOPES: Mapping[str, str] = {
    Scope.EVERYTHING: "all together",
    Scope.AGENT: "each agent on its own",
    Scope.FLOW: "each flow on its own",
}
# What a person does to move it there, and what is asked for.
MOVES: Mapping[IncidentState, tuple[str, str]] = {
    S.OPEN: ("Open again", "Why is it open again?"),
    S.MITIGATED: ("Mark as mitigated", "What contains the effect?"),
    S.RESOLVED: ("Mark as resolved", "What removed the cause?"),
    S.CLOSED: ("Close", "What is there to say at the end?"),
}


@dataclass(frozen=True, slots=True)
class LinkShown:
    """A link: what it is, how it is called, and where it leads."""

    pk: int
    kind: str
    word: str
    ref: str
    url: str


def link(row: IncidentLink, names: Mapping[str, str]) -> LinkShown:
    """How a link is shown."""
    word = names.get(row.ref, row.ref) if row.kind == LinkKind.PERSON else row.ref
    return LinkShown(row.pk, row.kind, KINDS.get(row.kind, row.kind), labels.visible_lines(word), _url(row))


def _url(row: IncidentLink) -> str:
    pk = query_params.uuid(row.ref)
    match row.kind:
        case LinkKind.FLOW:
            return reverse("flow", args=[row.flow_id])
        case LinkKind.RECORD:
            return reverse("record", args=[row.ref])
        case LinkKind.ESCALATION if pk is not None:
            return reverse("escalation", args=[pk])
        case LinkKind.AGENT:
            return reverse("agent", args=[row.ref])
        case LinkKind.TARGET:
            return reverse("targets")
        case LinkKind.PERSON:
            return reverse("person", args=[row.ref.removeprefix(actors.USER)])
        case _:
            return ""


def lead(incident: Incident) -> str:
    """Who leads it, by name; empty for nobody."""
    return "" if incident.lead is None else incident.lead.get_username()


def rule_words(rule: IncidentRule) -> Sequence[str]:
    """What a rule asks for, condition by condition."""
    words = [f"{' or '.join(rule.kinds)}"]
    for what, value in (
        ("with the reason", rule.reason),
        ("of the agent", rule.agent_id),
        ("of the policy kind", rule.policy_kind),
        ("of the impact", rule.impact.value if rule.impact else ""),
    ):
        if value:
            words.append(f"{what} {value}")
    words += [f"with {item}" if "=" in item else f"with a value for {item}" for item in rule.where]
    if rule.times > 1:
        words.append(f"{rule.times} times within {rule.within_s} s, {SCOPES[rule.per]}")
    else:
        words.append(f"counted {SCOPES[rule.per]}")
    return words


def countable_kinds() -> Sequence[str]:
    """The kinds of entries that a rule may name."""
    own = ("incident", "post_mortem")
    return sorted(kind.value for kind in Kind if not kind.value.startswith(own))

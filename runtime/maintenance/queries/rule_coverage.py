"""Which rules of the active rulesets fire, and what people made of it where the gate asked them.

Reads only. Outputs, verdicts and decisions count as the ledger recorded them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from audit import canonical, queries
from audit.events import Kind
from runtime.advice.queries import rule_outputs
from runtime.contracts.ruleset import RuleOutputDocument, RulesetDocument
from runtime.contracts.states import Decision
from runtime.core import clock
from runtime.flows.models import Proposal
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.kernel.gate.findings import CheckName
from runtime.registry.models import Ruleset
from runtime.registry.queries import recorded_versions, ruleset_versions

MOST: Final = 1_000
DAYS: Final = 30
MOST_DAYS: Final = 366
# What a person may choose about a proposal (`escalations.contracts.Action`).
OVERRIDE, MODIFY, ABORT = "OVERRIDE", "MODIFY", "ABORT"


@dataclass(frozen=True, kw_only=True)
class RuleUse:
    """One rule or guardrail of an active ruleset.

    `fired` is in how many of the `outputs` it held (a guardrail: was triggered), and `contradicted` in how
    many another rule said something else. At the gate it `refused` proposals, or `asked` a person, who
    overrode it, changed the proposal, or aborted it.
    """

    ruleset: str
    rule_id: str
    place: str
    outputs: int
    fired: int
    contradicted: int
    refused: int
    asked: int
    overridden: int
    changed: int
    aborted: int

    @property
    def often(self) -> str:
        """Whether it never fires, or always does; empty otherwise, and where nobody has asked."""
        return rule_outputs.often(self.fired, self.outputs)


@dataclass(frozen=True, kw_only=True)
class RuleCoverage:
    """The rules of the active rulesets. `is_complete`: no output or proposal of the window was left out."""

    days: int
    rules: tuple[RuleUse, ...]
    untrusted: tuple[str, ...]
    is_complete: bool


def measure(*, tenant: str, days: int = DAYS) -> RuleCoverage:
    """Every rule of the active rulesets over the last `days`, by the newest MOST proposals and outputs."""
    since = clock.now() - timedelta(days=days)
    rows = Proposal.objects.filter(
        flow__tenant=tenant, received_at__gte=since, flow__erased_at__isnull=True
    ).select_related("verdict")
    read = list(rows.order_by("-received_at", "-proposal_id")[:MOST])
    at_gate = _at_gate(tenant, read)
    found, untrusted, is_complete = list[RuleUse](), list[str](), len(read) < MOST
    for row in Ruleset.objects.of(tenant).filter(active=True).order_by("ruleset"):
        if recorded_versions.compare_ruleset(row) is not None:
            untrusted.append(row.ruleset)
            continue
        outputs = rule_outputs.list_newest(row, since=since, most=MOST).documents
        is_complete = is_complete and len(outputs) < MOST
        found.extend(_uses(ruleset_versions.contract_of(row), outputs, at_gate))
    return RuleCoverage(days=days, rules=tuple(found), untrusted=tuple(untrusted), is_complete=is_complete)


def _at_gate(tenant: str, read: Sequence[Proposal]) -> Mapping[tuple[str, str], Counter[str]]:
    """By ruleset and rule: how often it refused a proposal, asked a person, and what that person chose."""
    verdicts: dict[str, Mapping[str, Any]] = {}
    chosen: dict[str, str] = {}
    for stream, entries in queries.list_dated_by_stream(
        tenant=tenant,
        streams={str(row.flow_id) for row in read},
        kinds=(Kind.VERDICT_GIVEN, Kind.ESCALATION_DECIDED),
    ).items():
        for kind, _, said in sorted(entries, key=lambda entry: entry[1]):
            if kind is Kind.VERDICT_GIVEN:
                verdicts.setdefault(str(said.get("proposal_id")), said)
            elif said.get("action") in (OVERRIDE, MODIFY, ABORT):
                chosen[stream] = str(said["action"])  # the last one counts: others were taken back
    recorded = RecordedFlow(verdicts=verdicts)
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in read:
        verdict = row.verdict
        if recorded.compare_verdict(verdict) is not None:
            continue
        for finding in canonical.decode(bytes(verdict.body))["findings"]:
            if finding["check"] != CheckName.RULESETS or ":" not in finding["subject"]:
                continue
            ruleset, _, rule_id = finding["subject"].partition(":")
            uses = found[ruleset, rule_id]
            if finding["outcome"] == "FAIL":
                uses["refused"] += 1
            elif finding["outcome"] == "REFER":
                uses["asked"] += 1
                if verdict.decision == Decision.ESCALATE:
                    uses[chosen.get(str(row.flow_id), "")] += 1
    return found


def _uses(
    document: RulesetDocument,
    outputs: Sequence[RuleOutputDocument],
    at_gate: Mapping[tuple[str, str], Counter[str]],
) -> Iterator[RuleUse]:
    fired = rule_outputs.count_fired(outputs)
    contradicted: Counter[str] = Counter()
    for output in outputs:
        contradicted.update({rule for conflict in output.conflicts for rule in conflict.rule_ids})
    for rule_id, place in _declared(document):
        uses = at_gate.get((document.ruleset, rule_id), Counter())
        yield RuleUse(
            ruleset=document.ruleset,
            rule_id=rule_id,
            place=place,
            outputs=len(outputs),
            fired=fired[rule_id],
            contradicted=contradicted[rule_id],
            refused=uses["refused"],
            asked=uses["asked"],
            overridden=uses[OVERRIDE],
            changed=uses[MODIFY],
            aborted=uses[ABORT],
        )


def _declared(document: RulesetDocument) -> Iterator[tuple[str, str]]:
    for table in document.tables:
        yield from ((rule.id, f"table {table.table}") for rule in table.rules)
    yield from ((rule.id, "rule") for rule in document.rules)
    yield from ((guard.id, "guardrail") for guard in document.guardrails)
    yield from ((policy.id, "policy") for policy in document.policies)

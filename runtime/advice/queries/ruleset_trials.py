"""What a draft of a ruleset would have said: the stored inputs of the newest outputs, asked again.

Writes nothing.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from audit import cells, queries
from audit.events import Kind
from runtime.advice.models import RuleOutput
from runtime.advice.queries import rule_outputs
from runtime.contracts.ruleset import ProposedAction, RuleInput, RuleResult, RulesetDocument
from runtime.kernel.rulesets import cedar, evaluate
from runtime.registry.models import Ruleset
from runtime.registry.queries import ruleset_versions

MOST: Final = 1_000
# Outputs of so many versions are looked for, those that were active last first.
MOST_VERSIONS: Final = 20
# A ruleset may take up to 50 ms: a request waits so many seconds, and then says how far it came.
MOST_S: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a ruleset said, as far as anybody goes by it: certainties and texts are left out."""

    status: str
    decided: tuple[tuple[str, tuple[ProposedAction, ...]], ...]
    guardrails: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class OutputChange:
    """An output that would have been another one."""

    rule_output_id: UUID
    dfid: UUID
    agent_id: str
    at: datetime
    was: Said
    now: Said


@dataclass(frozen=True, kw_only=True)
class TrialReport:
    """What became of the `looked_at` newest outputs; `untold` counts, by reason, those not asked again.

    `is_cut`: there was no time for all of them.
    """

    looked_at: int
    changes: tuple[OutputChange, ...]
    untold: tuple[tuple[str, int], ...]
    is_cut: bool


def ask_again(*, tenant: str, draft: RulesetDocument) -> TrialReport:
    """Ask a draft that the linter accepts what was asked of its ruleset, newest first, MOST at most."""
    rows = _list_newest(tenant, draft.ruleset)
    recorded = _recorded(tenant, rows)
    changes, untold, looked_at = list[OutputChange](), Counter[str](), 0
    ends_at = time.monotonic() + MOST_S
    for row in rows:
        if time.monotonic() >= ends_at:
            break
        looked_at += 1
        if cells.bytes_of(row.body) == b"":
            untold["what was asked has been erased"] += 1
            continue
        if recorded.get(str(row.pk)) != (cells.digest_of(row.input), cells.digest_of(row.body)):
            untold["what is stored does not match the ledger"] += 1
            continue
        now = _ask(draft, row)
        if isinstance(now, str):
            untold[now] += 1
            continue
        was = _said(rule_outputs.document_of(row))
        if was != now:
            changes.append(
                OutputChange(
                    rule_output_id=row.pk,
                    dfid=row.flow_id,
                    agent_id=row.flow.agent.agent_id,
                    at=row.created_at,
                    was=was,
                    now=now,
                )
            )
    return TrialReport(
        looked_at=looked_at,
        changes=tuple(changes),
        untold=tuple(untold.most_common()),
        is_cut=looked_at < len(rows),
    )


def _list_newest(tenant: str, ruleset: str) -> list[RuleOutput]:
    """The newest outputs of the versions that were active last."""
    versions = Ruleset.objects.of(tenant).filter(ruleset=ruleset, activated_at__isnull=False)
    found = list[UUID]()
    for version in versions.order_by("-activated_at", "-id")[:MOST_VERSIONS]:
        outputs = RuleOutput.objects.filter(ruleset=version).order_by("-rule_output_id")
        found += outputs.values_list("pk", flat=True)[:MOST]
    newest = sorted(found, reverse=True)[:MOST]
    rows = RuleOutput.objects.select_related("flow__agent", "ruleset").filter(pk__in=newest)
    return list(rows.order_by("-rule_output_id"))


def _recorded(tenant: str, rows: Sequence[RuleOutput]) -> Mapping[str, tuple[str, str]]:
    """The digests of input and body as the ledger has them, by the id of the output."""
    streams = {str(row.flow_id) for row in rows}
    told = queries.list_payloads_of_streams(tenant=tenant, streams=streams, kinds=(Kind.RULES_EVALUATED,))
    return {said["rule_output_id"]: (said["input_digest"], said["output_digest"]) for _, said in told}


def _ask(draft: RulesetDocument, row: RuleOutput) -> Said | str:
    """What the draft says of a stored input; or why that cannot be known."""
    asked, then = RuleInput.from_bytes(bytes(row.input)), ruleset_versions.contract_of(row.ruleset)
    for name in draft.features:
        if name not in then.features:
            return f"the feature {name} was not asked for then"
    features = {name: value for name, value in asked.features.items() if name in draft.features}
    for name, _ in evaluate.misfits(draft, features):
        return f"the feature {name} had another type then"
    ages_s = {name: age for name, age in asked.ages_s.items() if name in draft.features}
    said = None
    if draft.policies:
        if asked.cedar is None:
            return "the policy kind was not asked for then"
        said = cedar.ask(
            draft,
            evaluate.current(draft, features, ages_s),
            agent_id=asked.cedar.agent_id,
            policy_kind=asked.cedar.policy_kind,
        )
    return _said(evaluate.evaluate(draft, features, ages_s, said))


def _said(result: RuleResult) -> Said:
    return Said(
        status=str(result.status),
        decided=tuple((aspect.aspect, aspect.actions) for aspect in result.decided),
        guardrails=tuple(sorted(guard.invariant_id for guard in result.guardrails_triggered)),
    )

"""The exact inputs that a decision was made from, compared with its entries before anything is shown.

A decision is a verdict on a proposal, by the proposal's id, or a recommendation, by the id of its package.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from audit import canonical, cells, queries
from audit.events import Kind
from runtime.advice.models import DecisionPackageRow
from runtime.flows.models import Flow, Proposal, Verdict
from runtime.flows.queries import recorded_flow
from runtime.state.queries.sight import Sight

_FACT: Final = "fact:"


class DecidedBy(StrEnum):
    """What made a decision."""

    GATE = "gate"
    RECOMMENDER = "recommender"


class NotShown(StrEnum):
    """Why the inputs of a decision cannot be shown."""

    NOT_THERE = "NOT_THERE"
    ERASED = "ERASED"
    TAMPERED = "TAMPERED"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInputs:
    """What a decision was made from: `input` is the stored document, and so is `rules`, of the gate alone.

    `digests` are those of its entries, each compared with the bytes; `answer` is what was decided.
    """

    decision_id: str
    flow: Flow
    decided_by: DecidedBy
    action: str | None
    answer: str
    decided_at: datetime
    input: dict[str, Any]
    rules: dict[str, Any] | None
    digests: Mapping[str, str]


def find(*, tenant: str, decision_id: UUID, agent_pk: int | None) -> DecisionInputs | NotShown:
    """The inputs of a decision; with `agent_pk` only one in a flow of that agent."""
    verdicts = Verdict.objects.select_related("proposal__flow__agent", "bundle").filter(
        pk=decision_id, proposal__flow__tenant=tenant
    )
    verdict = verdicts.first()
    if verdict is not None:
        flow = verdict.proposal.flow
        return _judged(verdict) if agent_pk in (None, flow.agent_id) else NotShown.NOT_THERE
    rows = DecisionPackageRow.objects.select_related("flow__agent").filter(tenant=tenant)
    row = rows.filter(pk=decision_id).first()
    if row is None or agent_pk not in (None, row.flow.agent_id):
        return NotShown.NOT_THERE
    return _recommended(row)


def seen_by_agent(found: DecisionInputs, sight: Sight) -> tuple[dict[str, Any], list[str]]:
    """The input without what its agent may not see, and which members have less in them than the stored one.

    Facts outside its sight are left out with their paths; so is what other flows hold, and what a person
    attached or allowed.
    """
    if found.decided_by is DecidedBy.RECOMMENDER:
        return found.input, []
    proposal, facts = dict(found.input["proposal"]), dict(found.input["facts"])
    left_out = [f"/proposal/{name}" for name in ("salt", "conditions") if proposal.pop(name, None)]
    left_out += [f"/facts/{name}" for name in ("resources", "lifts") if facts.pop(name, None)]
    snapshot = facts.get("snapshot")
    if snapshot is not None:
        shown = _covered(snapshot["facts"], sight)
        if shown != snapshot["facts"]:
            facts["snapshot"] = {**snapshot, "facts": shown}
            left_out.append("/facts/snapshot/facts")
    for name in ("world", "world_versions", "evidence", "max_ages"):
        if facts.get(name):
            kept = _covered(facts[name], sight)
            if kept != facts[name]:
                facts[name] = kept
                left_out.append(f"/facts/{name}")
    return {**found.input, "proposal": proposal, "facts": facts}, left_out


def _covered(by_path: Mapping[str, Any], sight: Sight) -> dict[str, Any]:
    """What is about facts in sight, by path or as `fact:PATH`; a name of another sort is no fact's."""
    kept = {}
    for name, value in by_path.items():
        sort, _, rest = name.partition(":")
        path = rest if name.startswith(_FACT) else name
        is_fact = name.startswith(_FACT) or "." in sort
        if not is_fact or sight.covers(path):
            kept[name] = value
    return kept


def _judged(verdict: Verdict) -> DecisionInputs | NotShown:
    proposal: Proposal = verdict.proposal
    flow = proposal.flow
    if flow.erased_at is not None and not cells.bytes_of(verdict.input):
        return NotShown.ERASED
    recorded = recorded_flow.of_flow(tenant=flow.tenant, dfid=flow.dfid)
    if recorded.compare_proposal(proposal) or recorded.compare_verdict(verdict):
        return NotShown.TAMPERED
    said = recorded.verdicts[str(verdict.pk)]
    digests = {
        "proposal_digest": recorded.proposals[str(proposal.pk)],
        **{name: str(said[name]) for name in ("input_digest", "policy_bundle_hash", "verdict_digest")},
    }
    return DecisionInputs(
        decision_id=str(verdict.pk),
        flow=flow,
        decided_by=DecidedBy.GATE,
        action=proposal.policy_kind,
        answer=str(said["verdict"]),
        decided_at=verdict.judged_at,
        input=canonical.decode(bytes(verdict.input)),
        rules=canonical.decode(bytes(verdict.bundle.body)),
        digests=digests,
    )


def _recommended(row: DecisionPackageRow) -> DecisionInputs | NotShown:
    flow = row.flow
    if flow.erased_at is not None and not cells.bytes_of(row.input):
        return NotShown.ERASED
    told = queries.list_payloads(tenant=row.tenant, stream=str(flow.dfid), kinds=[Kind.DECISION_RECOMMENDED])
    said = next((said for _, said in told if said["decision_id"] == str(row.pk)), None)
    if (
        said is None
        or said["input_digest"] != cells.digest_of(row.input)
        or said["package_digest"] != cells.digest_of(row.body)
    ):
        return NotShown.TAMPERED
    package = canonical.decode(bytes(row.body))
    selected = package.get("selected_action")
    return DecisionInputs(
        decision_id=str(row.pk),
        flow=flow,
        decided_by=DecidedBy.RECOMMENDER,
        action=None if selected is None else selected["name"],
        answer=str(said["method"]),
        decided_at=row.created_at,
        input=canonical.decode(bytes(row.input)),
        rules=None,
        digests={name: str(said[name]) for name in ("input_digest", "package_digest")},
    )

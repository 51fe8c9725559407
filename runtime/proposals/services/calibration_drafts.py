"""Draft calibration maps from what became of an agent's proposals; another admin activates them."""

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.contracts import timestamps
from runtime.contracts.calibration import LEAST_PAIRS, CalibrationDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Impact
from runtime.core import clock, transactions
from runtime.kernel import calibration
from runtime.proposals.queries import calibration_pairs
from runtime.proposals.queries.calibration_pairs import Alike, Pairs
from runtime.registry.models import Agent
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.queries import agent_list, calibration_maps, granted_kinds
from runtime.registry.services import agents
from runtime.registry.services.calibration_maps import VersionedCalibration

NOTHING_TO_DRAFT = ProblemCode.CALIBRATION_NOT_POSSIBLE


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """The drafts that were made, and of how many pairs the other impacts have, which got none.

    `unchanged` are the impacts whose newest draft or active map says the same already.
    """

    maps: tuple[CalibrationMap, ...]
    too_few: Mapping[Impact, int]
    unchanged: tuple[Impact, ...]


def draft(*, tenant: str, agent_id: str, policy_kind: str, actor: str) -> Drafted | Problem:
    """Draft a map of an agent and kind for each impact that has at least LEAST_PAIRS pairs.

    Only proposals count that were judged by the active version of the kind and under the model profile that
    the agent has now. 404 for no such agent, 409 where there is no active kind or no manifest.
    """
    agent = agent_list.get_agent(tenant=tenant, agent_id=agent_id)
    if agent is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No agent has this id.")
    standing = _standing(agent, policy_kind)
    if standing is None:
        return _impossible(f"{policy_kind} is not active, or {agent_id} has no manifest.")
    # Read before the transaction: it takes a while, in which no one else could write.
    kind_digest, model_profile = standing
    found = {
        impact: calibration_pairs.of_agent(
            agent=agent, kind=policy_kind, alike=Alike(impact, kind_digest, model_profile)
        )
        for impact in Impact
    }

    @transactions.retried
    def work() -> Drafted | Problem:
        locked = agents.lock_by_pk(pk=agent.pk)
        if _standing(locked, policy_kind) != standing:
            return _impossible("The kind or the manifest has changed meanwhile. Draft again.")
        made, unchanged = list[CalibrationMap](), list[Impact]()
        for impact, pairs in found.items():
            contract = _document(locked, policy_kind, impact, kind_digest, model_profile, pairs)
            if contract is None:
                continue
            if _is_known(locked, contract):
                unchanged.append(impact)
                continue
            versioned = VersionedCalibration(locked, policy_kind=policy_kind, impact=impact)
            made.append(versioned.store(contract, actor=actor, at=clock.now()))
        few = {impact: len(pairs.pairs) for impact, pairs in found.items() if len(pairs.pairs) < LEAST_PAIRS}
        return Drafted(maps=tuple(made), too_few=few, unchanged=tuple(unchanged))

    return work()


def _standing(agent: Agent, policy_kind: str) -> tuple[str, str | None] | None:
    """The digest of the active kind and the agent's model profile; None where one of both is missing."""
    if "\x00" in policy_kind:
        return None
    kind = granted_kinds.get_version(tenant=agent.tenant, kind=policy_kind, version=None)
    manifest = granted_kinds.manifest_of(agent)
    if kind is None or manifest is None:
        return None
    return kind.digest, manifest.model_profile


def _document(
    agent: Agent,
    policy_kind: str,
    impact: Impact,
    kind_digest: str,
    model_profile: str | None,
    found: Pairs,
) -> CalibrationDocument | None:
    """The next map of the agent; None where there are too few pairs."""
    if len(found.pairs) < LEAST_PAIRS:
        return None
    return CalibrationDocument(
        agent_id=agent.agent_id,
        version=calibration_maps.next_version(agent=agent),
        policy_kind=policy_kind,
        impact=impact,
        kind_digest=kind_digest,
        model_profile=model_profile,
        pairs=len(found.pairs),
        good=sum(pair.good for pair in found.pairs),
        first_ms=timestamps.to_ms(min(found.came_at)),
        last_ms=timestamps.to_ms(max(found.came_at)),
        map=calibration.isotonic(found.pairs),
    )


def _is_known(agent: Agent, contract: CalibrationDocument) -> bool:
    """Whether the newest draft, or else the active map, says the same of the same proposals."""
    known = calibration_maps.newest_draft(
        agent=agent, policy_kind=contract.policy_kind, impact=contract.impact
    ) or calibration_maps.get_active(agent=agent, policy_kind=contract.policy_kind, impact=contract.impact)
    if known is None:
        return False
    return calibration_maps.contract_of(known).model_copy(update={"version": contract.version}) == contract


def _impossible(detail: str) -> Problem:
    return Problem(code=ProblemCode.CALIBRATION_NOT_POSSIBLE, detail=detail)


def sentence(found: Drafted) -> str:
    """What was drafted and what was not, in one line for people."""
    said = [f"map {row.version} drafted for {row.impact} from {row.pairs} proposals" for row in found.maps]
    said += [f"nothing new for {impact}" for impact in found.unchanged]
    said += [
        f"not enough for {impact}: {count} of {LEAST_PAIRS} proposals with a known end"
        for impact, count in found.too_few.items()
    ]
    return "; ".join(said) + "."

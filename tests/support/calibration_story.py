"""Calibration maps of one agent in every state, made without the proposals behind them."""

from django.db import transaction

from audit import actors
from runtime.contracts.calibration import CalibrationDocument, Knot
from runtime.contracts.problem import Problem
from runtime.contracts.states import Impact
from runtime.core import clock
from runtime.registry.models import Agent
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.queries import calibration_maps as maps
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents, calibration_maps
from runtime.registry.services.calibration_maps import VersionedCalibration

TENANT = "default"
KNOTS = (Knot(500_000, 400_000), Knot(950_000, 980_000))


def write(agent_id: str, *, policy_kind: str = "ADJUST_POSITION", by: str = "user:1") -> None:
    """One map that is retired, one active, one discarded, and a draft."""
    retired = draft(agent_id, policy_kind=policy_kind, impact=Impact.HIGH_IMPACT)
    activate(retired, by=by)
    with transaction.atomic():
        agent = agents.lock_by_name(tenant=TENANT, agent_id=agent_id)
        assert isinstance(agent, Agent)
        calibration_maps.retire_of_agent(agent, model_profile="frontier-2", actor=by, at=clock.now())
    activate(draft(agent_id, policy_kind=policy_kind), by=by)
    discarded = draft(agent_id, policy_kind=policy_kind)
    done = calibration_maps.discard(
        tenant=TENANT, agent_id=agent_id, version=str(discarded.version), reason="Too few", actor=by
    )
    assert not isinstance(done, Problem), done
    draft(agent_id, policy_kind=policy_kind)


def draft(
    agent_id: str,
    *,
    policy_kind: str = "ADJUST_POSITION",
    impact: Impact = Impact.LOW_IMPACT,
    knots: tuple[Knot, ...] = KNOTS,
) -> CalibrationMap:
    """A draft of the agent for the active version of a kind and its present model profile."""
    with transaction.atomic():
        agent = agents.lock_by_name(tenant=TENANT, agent_id=agent_id)
        assert isinstance(agent, Agent)
        kind = granted_kinds.get_version(tenant=TENANT, kind=policy_kind, version=None)
        manifest = granted_kinds.manifest_of(agent)
        assert kind is not None
        assert manifest is not None
        contract = CalibrationDocument(
            agent_id=agent_id,
            version=maps.next_version(agent=agent),
            policy_kind=policy_kind,
            impact=impact,
            kind_digest=kind.digest,
            model_profile=manifest.model_profile,
            pairs=31,
            good=22,
            first_ms=1_795_000_000_000,
            last_ms=1_795_000_900_000,
            map=knots,
        )
        versioned = VersionedCalibration(agent, policy_kind=policy_kind, impact=impact)
        return versioned.store(contract, actor=actors.SYSTEM, at=clock.now())


def activate(row: CalibrationMap, *, by: str = "user:1") -> None:
    """Another admin activates a draft in place of the one that is active."""
    active = maps.get_active(agent=row.agent, policy_kind=row.policy_kind, impact=row.impact)
    done = calibration_maps.activate(
        tenant=TENANT,
        agent_id=row.agent.agent_id,
        version=str(row.version),
        seen_active="" if active is None else str(active.version),
        reason="It states too much",
        actor=by,
    )
    assert not isinstance(done, Problem), done

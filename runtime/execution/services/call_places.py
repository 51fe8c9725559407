"""Where a call goes: a target, or a command of this installation; of a tool, with the pin that it needs."""

from dataclasses import dataclass

from runtime.contracts.kind_steps import ExecutorKind
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import StepRequest
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Intent
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.registry.queries import target_endpoints, tool_pins
from runtime.registry.queries.target_endpoints import TargetEndpoint


@dataclass(frozen=True, kw_only=True)
class CallPlace:
    """Where a call goes, or why it is not made: a row that is not as recorded, or a tool without a pin.

    `pin` is the digest of a tool's pinned description.
    """

    place: TargetEndpoint | None = None
    pin: str | None = None
    refused: Reason | None = None
    mismatch: Mismatch | None = None


def find(recorded: RecordedFlow, intent: Intent, step: StepRequest) -> CallPlace:
    """The place of a step's call, its target compared with the ledger, and its tool as well."""
    place = target_endpoints.get_command(step.target)
    if place is None:
        target = target_endpoints.get_target(tenant=intent.tenant, name=step.target)
        if target is not None and (moved := recorded.compare_target(target)) is not None:
            return CallPlace(mismatch=moved)
        place = None if target is None else target_endpoints.place_of(target)
    if step.executor != ExecutorKind.MCP:
        return CallPlace(place=place)
    pin = tool_pins.find_pin(tenant=intent.tenant, server=step.target, tool=step.path)
    return CallPlace(place=place, pin=pin.digest, refused=pin.refused, mismatch=pin.mismatch)

"""All contracts, by their names."""

from collections.abc import Mapping
from typing import Final

from audit.contracts import (
    agent_message,
    decision_package,
    execution_outcome_package,
    hitl_decision,
    ledger_event,
    policy_decision,
    reasoning_trace,
    replay_trace,
    rule_engine_output,
    structured_context,
    tool_request,
    tool_response,
)
from audit.contracts.fields import Contract

CONTRACTS: Final[Mapping[str, Contract]] = {
    module.CONTRACT.name: module.CONTRACT
    for module in (
        structured_context,
        rule_engine_output,
        decision_package,
        execution_outcome_package,
        reasoning_trace,
        tool_request,
        tool_response,
        policy_decision,
        ledger_event,
        replay_trace,
        agent_message,
        hitl_decision,
    )
}

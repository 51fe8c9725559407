"""What appending to the ledger costs of the transaction that takes in a proposal, in CPU time of its thread.

On SQLite that has the database in it, on PostgreSQL it has not: the server's own CPU is not counted there.
"""

import time
import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any
from unittest import mock
from uuid import UUID

PROPOSALS = 200


def share() -> dict[str, float]:
    """Milliseconds of CPU of one intake and of its appends, and the share; each a mean of many."""
    from audit import ledger

    spent = [0.0]

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def run(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return work(*args, **kwargs)
            finally:
                spent[0] += time.thread_time() - began

        return run

    submit = _intake()
    calls = [submit() for _ in range(PROPOSALS)]
    whole = 0.0
    with mock.patch.object(ledger, "append", timed(ledger.append)):
        for call in calls:
            began = time.thread_time()
            call()
            whole += time.thread_time() - began
    intake_ms, append_ms = (1000 * seconds / PROPOSALS for seconds in (whole, spent[0]))
    return {"intake_ms": intake_ms, "append_ms": append_ms, "share": append_ms / intake_ms}


def _intake() -> Callable[[], Callable[[], object]]:
    """Opens a flow with a context, and gives the call that submits its proposal."""
    from audit import canonical
    from runtime.contexts.services import contexts
    from runtime.contracts.envelope import ProposalEnvelope
    from runtime.contracts.problem import Problem
    from runtime.flows.services import flows
    from runtime.proposals.services import intake
    from runtime.registry.models import Session

    session = Session.objects.select_related("agent").latest("pk")

    def ready() -> Callable[[], object]:
        opened = flows.open_flow(agent=session.agent, trigger="bench")
        if isinstance(opened, Problem):
            raise RuntimeError(opened.detail)
        seen = contexts.compile_context(agent=session.agent, dfid=UUID(opened.dfid))
        if isinstance(seen, Problem):
            raise RuntimeError(seen.detail)
        body = canonical.encode(
            {
                "policy_kind": "BENCH_ORDER",
                "params": {"symbol": "ACME", "quantity": 5, "notional_cents": 50000},
                "execution_constraints": {"validity_window_sec": 3600, "max_slippage_bps": 50},
                "context_ref": seen.context_ref,
                "confidence": 0.9,
            }
        )

        def submit() -> object:
            answer = intake.submit(
                session=session,
                dfid=UUID(opened.dfid),
                envelope=ProposalEnvelope.model_validate_json(body),
                body=body,
                idempotency_key=uuid.uuid4().hex,
                path=f"/api/v1/flows/{opened.dfid}/proposals",
            )
            if isinstance(answer, Problem):
                raise RuntimeError(answer.detail)
            return answer

        return submit

    return ready

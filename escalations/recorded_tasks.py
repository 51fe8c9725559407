"""Tasks of people as the ledger recorded them: what one shows, and whether its row is still that."""

from typing import Any

from audit import canonical, cells, queries
from audit.events import Kind
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.execution.models import HumanTask
from runtime.flows.queries import recorded_flow


def shown_of(task: HumanTask) -> dict[str, Any]:
    """What the task shows; empty where its words were erased, or cannot be read."""
    try:
        body = canonical.decode(cells.bytes_of(task.body) or b"")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def compare(task: HumanTask) -> list[Mismatch]:
    """What of a task, or of the intent that it belongs to, is not as the ledger has it."""
    kinds = (Kind.TASK_OPENED, Kind.TASK_ANSWERED)
    told = queries.list_payloads(tenant=task.tenant, stream=str(task.intent.flow_id), kinds=kinds)
    own = {kind: said for kind, said in told if said["task_id"] == str(task.pk)}
    recorded, answered = own.get(Kind.TASK_OPENED, {}), own.get(Kind.TASK_ANSWERED)
    digest = recorded.get("task_hash", mismatches.NOT_RECORDED)
    found = [mismatches.compare("humantask.body", str(task.pk), digest, task.body)]
    held = {
        "task_hash": task.task_hash,
        "group": task.group,
        "step": task.step,
        "direction": task.direction,
        "number": task.number,
        "intent_id": str(task.intent_id),
    }
    for name, value in held.items():
        if recorded.get(name) != value:
            found.append(
                mismatches.of_values(f"humantask.{name}", str(task.pk), recorded.get(name, ""), value)
            )
    if answered is not None:
        found += [
            mismatches.compare(
                "humantask.statement", str(task.pk), answered["statement_digest"], task.statement
            ),
            mismatches.compare_committed(
                "humantask.answer",
                str(task.pk),
                tenant=task.tenant,
                commitment=answered["receipt_commitment"],
                body=task.answer,
            ),
        ]
    known = recorded_flow.of_flow(tenant=task.tenant, dfid=task.intent.flow_id)
    found.append(known.compare_intent(task.intent))
    return [mismatch for mismatch in found if mismatch is not None]

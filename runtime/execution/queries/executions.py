"""An intent as its agent or an auditor may read it: where it stands, and its attempts."""

from uuid import UUID

from audit import queries
from audit.events import Kind
from runtime.flows.models import Attempt, Intent, Outcome
from runtime.state.queries import world


def get_execution(*, tenant: str, intent_id: UUID, agent_pk: int | None) -> Intent | None:
    """An intent with its flow and proposal; with `agent_pk` only one of that agent's own flows."""
    rows = Intent.objects.of(tenant).select_related("flow", "proposal").filter(pk=intent_id)
    return (rows if agent_pk is None else rows.filter(flow__agent=agent_pk)).first()


def list_attempts(intent: Intent) -> list[Attempt]:
    """Its calls, in order; an intent has a bounded number of them."""
    return list(Attempt.objects.filter(intent=intent).order_by("number"))


def get_outcome(intent: Intent) -> Outcome | None:
    """What came of it, once that is known."""
    return Outcome.objects.filter(intent=intent).first()


def world_around(intent: Intent) -> tuple[int | None, int | None]:
    """The versions of the world before and after an intent; None without an outcome, or not numbered yet.

    Where it wrote facts, those around its writes; else both are the last when its outcome was recorded.
    """
    ended = queries.list_payloads(
        tenant=intent.tenant, stream=str(intent.flow_id), kinds=[Kind.OUTCOME_RECORDED]
    )
    recorded = next((said for _, said in ended if said["intent_id"] == str(intent.pk)), None)
    if recorded is None:
        return None, None
    written = world.versions_of_writer(tenant=intent.tenant, writer=f"intent:{intent.pk}")
    if not written:
        last = recorded.get("world_version_id")
        return last, last
    if None in written:
        return None, None
    numbers = [number for number in written if number is not None]
    return min(numbers) - 1, max(numbers)

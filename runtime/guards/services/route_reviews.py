"""Reviews that a router asks for: it would have demanded another step, but the flow had already proposed."""

from audit import events
from runtime.contracts.guard import WHOLE_BPS, ReviewOrigin
from runtime.contracts.workflow import Next, WorkflowDocument
from runtime.flows.services.flow_transaction import Journal
from runtime.guards.models import Review

MAX_REASON_CHARS = 500


def request(*, journal: Journal, workflow: WorkflowDocument, instruction: str, routed: Next) -> None:
    """Open a review of the flow, once for each router: see `ports.request_route_review`."""
    flow, reason = journal.flow, routed.reason[:MAX_REASON_CHARS]
    if Review.objects.filter(flow=flow, router=routed.policy).exists():
        return
    review = Review.objects.create(
        tenant=flow.tenant,
        flow=flow,
        agent=flow.agent,
        origin=ReviewOrigin.ROUTER,
        router=routed.policy,
        request_reason=reason,
        confidence_bps=WHOLE_BPS,
        findings=b"[]",
        flagged_at=journal.at,
    )
    journal.add(
        events.ReviewRouted(
            review_id=str(review.pk),
            workflow=workflow.workflow,
            version=workflow.version,
            instruction=instruction,
            router=routed.policy,
            next=routed.instruction,
            reason=reason,
        )
    )

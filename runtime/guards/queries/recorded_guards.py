"""Soft guards and what they found, compared with the ledger entries about them."""

from collections.abc import Mapping
from typing import Any

from audit import queries
from audit.events import Kind
from runtime.core import mismatches
from runtime.guards.models import Guard, Review


def compare_guard(row: Guard) -> mismatches.Mismatch | None:
    """Whether a soft guard is the one that was configured last, in one query."""
    said = queries.list_payloads_of_kind(tenant=row.tenant, kind=Kind.GUARD_CONFIGURED)
    recorded = [payload["digest"] for _, payload in said if payload["guard_id"] == row.guard_id]
    return mismatches.compare(
        "guard.body", row.guard_id, recorded[-1] if recorded else mismatches.NOT_RECORDED, row.body
    )


def compare_request(row: Review) -> mismatches.Mismatch | None:
    """Whether a review that a person requested is the one that the flow's entry records, in one query."""
    kinds = (Kind.REVIEW_REQUESTED,)
    told = queries.list_payloads(tenant=row.tenant, stream=str(row.flow_id), kinds=kinds)
    recorded = [said["reason"] for _, said in told if said["review_id"] == str(row.pk)]
    if recorded and recorded[0] == row.request_reason:
        return None
    return mismatches.of_values(
        "review.request_reason", str(row.pk), recorded[0] if recorded else "", row.request_reason
    )


def get_route(row: Review) -> dict[str, Any]:
    """What the entry of a router's review says: `ReviewRouted`; empty where there is none."""
    told = queries.list_payloads(tenant=row.tenant, stream=str(row.flow_id), kinds=(Kind.REVIEW_ROUTED,))
    return next((dict(said) for _, said in told if said["review_id"] == str(row.pk)), {})


def compare_route(row: Review, said: Mapping[str, Any]) -> mismatches.Mismatch | None:
    """Whether a review that a router asked for is the one of its entry, which says `said`."""
    for column, name in (("request_reason", "reason"), ("router", "router")):
        recorded, stored = said.get(name, ""), getattr(row, column)
        if recorded != stored:
            return mismatches.of_values(f"review.{column}", str(row.pk), recorded, stored)
    return None


def compare_findings(row: Review) -> mismatches.Mismatch | None:
    """Whether what a guard found is what was committed to, in two queries."""
    kinds = (Kind.REVIEW_FLAGGED,)
    told = queries.list_payloads(tenant=row.tenant, stream=str(row.flow_id), kinds=kinds)
    commitments = [said["findings_commitment"] for _, said in told if said["review_id"] == str(row.pk)]
    return mismatches.compare_committed(
        "review.findings",
        str(row.pk),
        tenant=row.tenant,
        commitment=commitments[0] if commitments else None,
        body=row.findings,
    )

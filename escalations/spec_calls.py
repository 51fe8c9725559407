"""`GET /audit/specs`: the DecisionSpecs in force, for auditors."""

from typing import Any, Final, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema

from audit import canonical
from audit.access import readers
from audit.api.calls import describe
from audit.api.record_schema import listed, members
from escalations import decision_specs
from escalations.decision_specs import DecisionSpec, SpecFilter
from runtime.contracts import timestamps
from runtime.core import clock

router = Router(tags=["Audit"])

_LONGEST: Final = 200
_JSON: Final = "application/json"
_TEXT: Final = {"type": "string"}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_COUNT: Final = {"type": "integer", "minimum": 0}
_COUNTS: Final = {"type": "object", "additionalProperties": _COUNT}
_SPEC: Final = members(
    {
        "decision_key": _TEXT,
        "version": _TEXT,
        "digest": _TEXT,
        "activated_by": _TEXT,
        "activated_at": _TEXT_OR_NULL,
        "agents": listed(members({"agent_id": _TEXT, "owner": _TEXT})),
        "last_30_days": members(
            {"flows": _COUNT, "by_status": _COUNTS, "by_outcome": _COUNTS, "overridden": _COUNT}
        ),
        "mismatch": {"type": "boolean", "description": "Whether its row is not what the ledger recorded."},
    }
)
_SPECS: Final = members({"specs": listed(_SPEC), "next": _TEXT_OR_NULL})


class SpecQuery(Schema):
    """What is asked for. A field that is missing or empty asks nothing."""

    q: str = Field("", max_length=_LONGEST, description="Words of the key or the title.")
    approval_mode: Literal["", "none", "person", "destructive", "two_persons"] = ""
    agent_id: str = Field("", max_length=_LONGEST, description="An agent that may use it.")
    after: str = Field("", max_length=_LONGEST, description="`next` of the page before.")


@router.get(
    "/specs",
    openapi_extra=describe({422: "A parameter is not of its form."}, media_type=_JSON, schema=_SPECS),
)
def list_specs(request: HttpRequest, asked: Query[SpecQuery]) -> HttpResponse:
    """The policy kinds in force by key, with what each allows and asks for, and what it decided lately."""
    wanted = SpecFilter(
        text=_printable(asked.q),
        approval_mode=asked.approval_mode,
        agent_id=_printable(asked.agent_id),
    )
    found = decision_specs.search(
        tenant=readers.reader_of(request).tenant, wanted=wanted, at=clock.now(), after=_printable(asked.after)
    )
    told = {"specs": [_plain(spec) for spec in found.specs], "next": found.following}
    return HttpResponse(canonical.encode(told), content_type=_JSON)


def _printable(text: str) -> str:
    # PostgreSQL cannot even compare a text that has a NUL.
    return text.replace("\x00", "\ufffd")


def _plain(spec: DecisionSpec) -> dict[str, Any]:
    row, contract, lately = spec.row, spec.contract, spec.activity
    told: dict[str, Any] = {
        "decision_key": row.kind,
        "version": row.version,
        "digest": row.digest,
        "activated_by": row.activated_by,
        "activated_at": None if row.activated_at is None else timestamps.iso(row.activated_at),
        "agents": [{"agent_id": agent.agent_id, "owner": agent.owner} for agent in spec.agents],
        "last_30_days": {
            "flows": lately.flows,
            "by_status": dict(lately.by_status),
            "by_outcome": dict(lately.by_outcome),
            "overridden": lately.overridden,
        },
        "mismatch": contract is None,
    }
    if contract is None:
        return told
    return told | {
        "title": contract.title,
        "category": contract.category,
        "impact": contract.impact,
        "approval_mode": contract.least_approval.value,
        "people_needed": contract.people_needed,
        "gate_id": contract.gate_id,
        "allowed_outcomes": list(contract.allowed_outcomes),
        "outcome": contract.outcome,
        "outputs": sorted(contract.outputs),
        "required_evidence": [need.model_dump(mode="json") for need in contract.needs],
        "red_lines": [line.model_dump(mode="json") for line in contract.forbidden],
        "subjects": list(contract.subjects),
        "jurisdiction": list(contract.jurisdiction),
    }

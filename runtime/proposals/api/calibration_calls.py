"""`GET .../agents/{agent_id}/calibration`: stated confidence beside what came of it."""

from typing import Annotated, Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from audit.access import readers
from audit.api.calls import JSON, canonical_json, describe
from audit.api.record_schema import listed, members
from audit.api.refusals import RefusedError, Why
from runtime.contracts.calibration import Knot
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.kernel.calibration import WHOLE, Bin, report
from runtime.proposals.queries import calibration_pairs
from runtime.proposals.queries.calibration_pairs import Pairs
from runtime.registry.api import auth
from runtime.registry.queries import agent_list

# For auditors, and for the agent itself.
router = Router(tags=["Audit"])
own_router = Router(tags=["Agents"], auth=auth.SessionToken())

NOT_ENOUGH: Final = "not enough"
_LONGEST: Final = 128
_COUNT: Final = {"type": "integer", "minimum": 0}
_SHARE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_SHARE_OR_NULL: Final = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_PARTS: Final = {
    "type": ["object", "null"],
    "required": ["reliability", "resolution", "uncertainty", "within"],
    "properties": {
        "reliability": _SHARE,
        "resolution": _SHARE,
        "uncertainty": _SHARE,
        "within": {"type": "number"},
    },
    "description": "brier = reliability - resolution + uncertainty + within",
}
_BIN: Final = members(
    {
        "low": _SHARE,
        "high": _SHARE,
        "pairs": _COUNT,
        "stated": _SHARE_OR_NULL,
        "good": _SHARE_OR_NULL,
        "least": _SHARE_OR_NULL,
        "most": _SHARE_OR_NULL,
    }
)
_KNOT: Final = members({"stated": {"type": "string"}, "good": {"type": "string"}})
_SCHEMA: Final[dict[str, Any]] = members(
    {
        "agent_id": {"type": "string"},
        "kind": {"type": ["string", "null"]},
        "days": _COUNT,
        "pairs": _COUNT,
        "note": {"type": ["string", "null"]},
        "brier": _SHARE_OR_NULL,
        "brier_parts": _PARTS,
        "ece": _SHARE_OR_NULL,
        "ece_mass": _SHARE_OR_NULL,
        "bins": listed(_BIN),
        "map": {"type": ["array", "null"], "items": _KNOT},
        "left_out": members({"unsettled": _COUNT, "unstated": _COUNT, "mismatches": _COUNT}),
        "complete": {"type": "boolean"},
    }
)
Kind = Annotated[str, Query(max_length=_LONGEST, description="A policy kind; without it, all of them.")]


@router.get(
    "/agents/{agent_id}/calibration",
    openapi_extra=describe(
        {404: "No agent has this id.", 422: "A parameter is not of its form."},
        media_type=JSON,
        schema=_SCHEMA,
    ),
)
def show_calibration(request: HttpRequest, agent_id: str, kind: Kind = "") -> HttpResponse:
    """Stated confidence beside what came of it: scores, ten bins, and the map that never falls.

    Below thirty pairs the numbers are null, and `note` says "not enough".
    """
    agent = agent_list.get_agent(tenant=readers.reader_of(request).tenant, agent_id=agent_id)
    if agent is None:
        raise RefusedError(Why.UNKNOWN, "No agent has this id.")
    return canonical_json(_answer(agent_id, kind, calibration_pairs.of_agent(agent=agent, kind=kind)))


@own_router.get(
    "/agents/{agent_id}/calibration",
    openapi_extra={"responses": {200: {"content": {JSON: {"schema": _SCHEMA}}}}},
)
def show_own_calibration(request: HttpRequest, agent_id: str, kind: Kind = "") -> HttpResponse:
    """The same for the agent of the session itself; of another one it is told nothing."""
    agent = auth.session_of(request).agent
    if agent.agent_id != agent_id:
        detail = "An agent reads its own calibration only."
        raise ProblemError(Problem(code=ProblemCode.NOT_FOUND, detail=detail))
    return canonical_json(_answer(agent_id, kind, calibration_pairs.of_agent(agent=agent, kind=kind)))


def _answer(agent_id: str, kind: str, found: Pairs) -> dict[str, Any]:
    said = report(found.pairs)
    return {
        "agent_id": agent_id,
        "kind": kind or None,
        "days": calibration_pairs.DAYS,
        "pairs": len(found.pairs),
        "note": NOT_ENOUGH if said is None else None,
        "brier": None if said is None else said.brier,
        "brier_parts": None
        if said is None
        else {
            "reliability": said.parts.reliability,
            "resolution": said.parts.resolution,
            "uncertainty": said.parts.uncertainty,
            "within": said.parts.within,
        },
        "ece": None if said is None else said.ece,
        "ece_mass": None if said is None else said.ece_mass,
        "bins": [] if said is None else [_bin(each) for each in said.bins],
        "map": None if said is None else [_knot(each) for each in said.map],
        "left_out": {
            "unsettled": found.unsettled,
            "unstated": found.unstated,
            "mismatches": found.unlike,
        },
        "complete": not found.is_cut,
    }


def _bin(found: Bin) -> dict[str, Any]:
    return {
        "low": found.low / WHOLE,
        "high": found.high / WHOLE,
        "pairs": found.pairs,
        "stated": found.stated,
        "good": found.good,
        "least": found.least,
        "most": found.most,
    }


def _knot(found: Knot) -> dict[str, str]:
    """Exact decimals as text: nothing that is compared goes through a float."""
    return {
        "stated": f"{found.stated // WHOLE}.{found.stated % WHOLE:06}",
        "good": f"{found.good // WHOLE}.{found.good % WHOLE:06}",
    }

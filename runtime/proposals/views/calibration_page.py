"""The page of an agent's calibration: its curve, its scores, and what another threshold would have done."""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in
from runtime.contracts.calibration import LEAST_PAIRS
from runtime.core.views import query_params
from runtime.kernel import calibration
from runtime.kernel.calibration import WHOLE, Bin
from runtime.proposals.queries import calibration_pairs
from runtime.proposals.views import calibration_map_pages
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.registry.views import agent_lookup

_LONGEST: Final = 128
# The chart in its own units: the square from 0 to 1, with room for the numbers beside and below it.
_LEFT, _TOP, _SIDE = 36, 10, 300
_WIDTH, _HEIGHT = _LEFT + _SIDE + 14, _TOP + _SIDE + 24
_DEFAULT_NOW, _DEFAULT_THEN = "0.7", "0.8"


@dataclass(frozen=True, slots=True)
class Point:
    """A bin of the curve: where it is drawn, with its interval."""

    x: float
    y: float
    least_y: float
    most_y: float
    radius: float


@require_safe
@signed_in
def show(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show how far the stated confidence of an agent agrees with what came of its proposals."""
    agent = agent_lookup.get_or_404(request, agent_id)
    kind = query_params.text(request.GET.get("kind", ""), longest=_LONGEST)
    found = calibration_pairs.of_agent(agent=agent, kind=kind)
    said = calibration.report(found.pairs)
    context = {
        "agent": agent,
        "kind": kind,
        "kinds": sorted(granted_kinds.granted(agent) | ({kind} if kind else set())),
        "found": found,
        "days": calibration_pairs.DAYS,
        "most": calibration_pairs.MOST,
        "least_pairs": LEAST_PAIRS,
        "count": len(found.pairs),
        "report": said,
        "good": sum(pair.good for pair in found.pairs),
        "rows": [] if said is None else [_row(each) for each in said.bins],
        "chart": None if said is None else _chart(said.bins),
        "scores": [] if said is None else _scores(said),
        "map": [] if said is None else [(_text(knot.stated), _text(knot.good)) for knot in said.map],
        "what_if": _what_if(request, agent, found.pairs),
        **calibration_map_pages.shown(request, agent),
    }
    return render(request, "runtime/calibration.html", context)


def _scores(said: calibration.Report) -> list[tuple[str, str, str]]:
    return [
        ("Brier score", f"{said.brier:.4f}", "how far all of it was off, squared, on average; 0 is best"),
        ("Reliability", f"{said.parts.reliability:.4f}", "how far the bins are from the diagonal; 0 is best"),
        ("Resolution", f"{said.parts.resolution:.4f}", "how far the bins are apart; more is better"),
        ("Uncertainty", f"{said.parts.uncertainty:.4f}", "how mixed the results are, whatever is stated"),
        ("Within bins", f"{said.parts.within:z.4f}", "what bins of this width cannot tell"),
        ("Calibration error", f"{said.ece:.4f}", "the mean distance over ten bins of equal width"),
        ("The same, by equal numbers", f"{said.ece_mass:.4f}", "over ten bins with as many proposals each"),
    ]


def _row(each: Bin) -> dict[str, Any]:
    return {
        "range": f"{each.low / WHOLE:.1f} to {each.high / WHOLE:.1f}",
        "pairs": each.pairs,
        "stated": "" if each.stated is None else f"{each.stated:.3f}",
        "good": "" if each.good is None else f"{each.good:.1%}",
        "interval": "" if each.least is None or each.most is None else f"{each.least:.1%} to {each.most:.1%}",
    }


def _chart(bins: tuple[Bin, ...]) -> dict[str, Any]:
    total = sum(each.pairs for each in bins)
    points = [
        Point(
            x=_x(each.stated),
            y=_y(each.good),
            least_y=_y(each.least or 0),
            most_y=_y(each.most or 0),
            radius=round(3 + 5 * (each.pairs / total) ** 0.5, 1),
        )
        for each in bins
        if each.stated is not None and each.good is not None
    ]
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": _LEFT + _SIDE,
        "top": _TOP,
        "base": _TOP + _SIDE,
        "points": points,
        "line": " ".join(f"{point.x},{point.y}" for point in points),
        "x_ticks": [(_x(at / 4), f"{at / 4:g}") for at in range(5)],
        "y_ticks": [(_y(at / 4), f"{at / 4:.0%}") for at in range(5)],
        "tick_y": _TOP + _SIDE + 16,
    }


def _x(share: float) -> float:
    return round(_LEFT + share * _SIDE, 1)


def _y(share: float) -> float:
    return round(_TOP + (1 - share) * _SIDE, 1)


def _text(millionths: int) -> str:
    return f"{millionths / WHOLE:.3f}"


def _what_if(request: HttpRequest, agent: Agent, pairs: tuple[calibration.Pair, ...]) -> dict[str, Any]:
    """The form with what was typed, and its answer where both thresholds can be read."""
    in_force = _in_force(agent)
    typed = {
        "now": query_params.text(request.GET.get("now", in_force)),
        "then": query_params.text(request.GET.get("then", _DEFAULT_THEN)),
    }
    read = {name: _threshold(text) for name, text in typed.items()}
    wrong = {
        name: f"{typed[name] or 'An empty field'} is not a number from 0 to 1."
        for name, value in read.items()
        if value is None
    }
    now, then = read["now"], read["then"]
    if now is None or then is None or len(pairs) < LEAST_PAIRS:
        return {"typed": typed, "wrong": wrong, "answer": None}
    found = calibration.what_if(pairs, now=now, then=then)
    return {
        "typed": typed,
        "wrong": wrong,
        "answer": found,
        "times": abs(found.more),
        "is_fewer": found.more < 0,
    }


def _in_force(agent: Agent) -> str:
    manifest = granted_kinds.manifest_of(agent)
    wanted = None if manifest is None else manifest.escalate_below_confidence
    return _DEFAULT_NOW if wanted is None else f"{wanted:g}"


def _threshold(text: str) -> int | None:
    try:
        return calibration.millionths(Decimal(text))
    except (InvalidOperation, ValueError):
        return None

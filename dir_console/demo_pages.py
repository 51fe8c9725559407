"""Demo scenarios: an admin makes something go wrong in the demo and watches what the console does."""

from math import ceil
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from dir_console import demo_control
from dir_console.demo_control import BoardState, DemoUnreachableError
from dir_console.demo_words import SCENARIOS, SCENES, ScenarioWords
from escalations import queries
from escalations.evidence_contracts import DecisionEvidence
from escalations.queue_filter import QueueFilter
from runtime.maintenance.services import demo_record


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the scenarios with their states; 404 where no demo runs."""
    _require_demo()
    problem, board = "", None
    try:
        board = demo_control.read()
    except DemoUnreachableError as trouble:
        problem = str(trouble)
    context = {
        "problem": problem,
        "scenes": SCENES,
        "rows": [_row(name, words, board) for name, words in SCENARIOS.items()],
        "symbols": board.symbols if board else (),
        "symbol": _likely_symbol(tenant_of(request.user)),
        "may_run": may(request.user, Permission.RUN_SCENARIOS),
    }
    swapped = "HX-Request" in request.headers
    return render(request, "console/_demo.html" if swapped else "console/demo.html", context)


@require_POST
@require(Permission.RUN_SCENARIOS)
def start(request: HttpRequest, scenario: str) -> HttpResponse:
    """Start a scenario in the demo, and record that it was started."""
    words = _words_of(scenario)
    symbol = request.POST.get("symbol", "")[:16] if words.has_symbol else ""
    try:
        board = demo_control.start(scenario, symbol=symbol)
    except DemoUnreachableError as trouble:
        messages.error(request, f"{words.title}: not started. {trouble}")
        return redirect("demo")
    lasts_s = board.lasts_s[scenario]
    demo_record.record_start(
        tenant=tenant_of(request.user),
        actor=actor_of(request.user),
        scenario=scenario,
        lasts_s=lasts_s,
        symbol=symbol,
    )
    messages.success(request, f"{words.title}: started. It ends by itself after {lasts_s} seconds.")
    return redirect("demo")


@require_POST
@require(Permission.RUN_SCENARIOS)
def end(request: HttpRequest, scenario: str) -> HttpResponse:
    """End a scenario before its time, and record it."""
    words = _words_of(scenario)
    try:
        demo_control.end(scenario)
    except DemoUnreachableError as trouble:
        messages.error(request, f"{words.title}: not ended. {trouble}")
        return redirect("demo")
    demo_record.record_end(tenant=tenant_of(request.user), actor=actor_of(request.user), scenario=scenario)
    messages.success(request, f"{words.title}: ended.")
    return redirect("demo")


def _require_demo() -> None:
    if not demo_control.is_offered():
        raise Http404


def _words_of(scenario: str) -> ScenarioWords:
    _require_demo()
    if scenario not in SCENARIOS:
        raise Http404
    return SCENARIOS[scenario]


def _row(name: str, words: ScenarioWords, board: BoardState | None) -> dict[str, Any]:
    left_s = board.left_s.get(name, 0.0) if board else 0.0
    return {
        "name": name,
        "words": words,
        "left_s": ceil(left_s),
        "lasts_s": board.lasts_s.get(name, 0) if board else 0,
        "symbol": board.symbol if board and words.has_symbol and left_s else "",
    }


def _likely_symbol(tenant: str) -> str:
    """The symbol of the first open escalation that has one: moving its price shows something."""
    wanted = QueueFilter(kind="ADJUST_POSITION")
    rows = queries.list_decisions(tenant=tenant, wanted=wanted, after=None, size=5).rows
    for evidence in queries.get_evidence(tenant=tenant, escalations=rows).values():
        if isinstance(evidence, DecisionEvidence):
            symbol = evidence.proposal.params.get("symbol")
            if isinstance(symbol, str):
                return symbol
    return ""

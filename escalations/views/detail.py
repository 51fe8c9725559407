"""The decision page: the stored evidence, then the decision form. A GET never decides."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access.permissions import may, signed_in, tenant_of
from audit.access.roles import Permission
from audit.verification import verify
from escalations import (
    contracts,
    held_back,
    past_outcomes,
    patterns,
    policy,
    presenters,
    queries,
    questioned,
)
from escalations.contracts import Action
from escalations.evidence_contracts import InterruptEvidence, JudgedEvidence, SilenceEvidence
from escalations.models import Escalation
from escalations.services import (
    comparing,
    taking_back,
)
from escalations.views import (
    bench,
    decision_form,
    drafts,
    erased_page,
    evidence_page,
    interrupt_view,
    queue_walk,
    silence_evidence,
    two_people,
)
from runtime.contracts import recorded_only
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import Difference
from runtime.core import clock
from runtime.core.views import labels, query_params
from runtime.flows.queries import calls_in_doubt, recorded_flow
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.rules import evaluate
from runtime.proposals.queries import gate_facts, stored_cases
from runtime.proposals.views import predicted_effects, proposal_presenters

CONFLICT = 409
# Live parts of the page beside the questions to the agent.
PARTS: Mapping[str, str] = {"clock": "_clock.html", "claim": "_claim.html", "over": "_over_claim.html"}
# How long a page shows what was just decided, and which decisions it shows.
JUST_NOW = timedelta(minutes=15)
# Rules whose fields are looked through once for the same bytes.
MOST_BUNDLES = 64
COUNTING = frozenset({contracts.DecisionState.IN_EFFECT, contracts.DecisionState.AWAITING_SECOND})


@require_safe
@signed_in
def show(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Show one escalation; with `done=` and what became of the one that the person just decided."""
    return page(request, escalation_id)


@require_safe
@signed_in
def strip(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Return what the person decided here a moment ago and what came of it; empty for anyone else."""
    return render(request, "escalations/_strip.html", {"just": _just_decided(request, escalation_id)})


@require_safe
@signed_in
def state(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Return a banner if the escalation changed since the open page was loaded; empty otherwise."""
    escalation = _get(request, escalation_id)
    changed = str(escalation.version) != request.GET.get("version")
    revised = str(escalation.revision) != request.GET.get("revision")
    context = {
        "escalation": escalation,
        "row": _row(request, escalation),
        "changed": changed or revised,
        "revised": revised,
        "ended": labels.badge(presenters.RESOLUTIONS, escalation.resolution)
        if escalation.resolved_at
        else None,
        "decision": escalation.decision,
        "here": queue_walk.item_url(escalation_id, queue_walk.read_query(request)),
    }
    return render(request, "escalations/_state.html", context)


@require_safe
@signed_in
def questions(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Return the questions to the agent; with `part=` the deadline, the claim, or its confirmation."""
    escalation = _get(request, escalation_id)
    template = PARTS.get(request.GET.get("part", ""), "_asked.html")
    context = {**_asked(request, escalation), "may_decide": may(request.user, Permission.DECIDE)}
    return render(request, f"escalations/{template}", context)


def page(
    request: HttpRequest,
    escalation_id: UUID,
    *,
    problem: Problem | None = None,
    entered: Mapping[str, str] | None = None,
    answered: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """Render the page, after a refusal with its message, status and input; or with a dry run's result.

    After a 409 the person must review again: the chosen action and the retyped amount are not kept.
    """
    escalation = _get(request, escalation_id)
    erased = erased_page.answer(request, escalation, status=200 if problem is None else problem.status)
    if erased is not None:
        return erased
    basis = comparing.check_basis(escalation)
    kept = dict(entered.items()) if entered is not None else drafts.get(request, escalation_id)
    if entered is None and not kept.get("receipt"):
        receipt = questioned.recorded_receipt(escalation)
        kept = {**kept, "receipt": receipt} if receipt else kept
    # After CLAIMED_BY_ANOTHER alone nothing has to be reviewed again.
    over_claim = problem is not None and problem.code is ProblemCode.CLAIMED_BY_ANOTHER
    if problem is not None and problem.status == CONFLICT and not over_claim:
        kept = {name: value for name, value in kept.items() if name not in ("action", "typed_again")}
    asked = _asked(request, escalation)
    place = queue_walk.find_place(request, queue_walk.read_query(request), escalation_id)
    done = query_params.uuid(request.GET.get("done", ""))
    context = {
        "place": place,
        "here": queue_walk.item_url(escalation_id, place.query),
        "just": None if done is None else _just_decided(request, done),
        "after_choices": queue_walk.AFTER_WORDS.items(),
        "after_chosen": queue_walk.choice_of(request),
        **asked,
        # Of these at most one is there; a name that no part gives would be looked for through all of them.
        "silence": None,
        "interrupt": None,
        **_about(escalation, basis),
        "untrusted": basis.mismatches,
        "history": _history(escalation),
        "problem": problem,
        "answered": answered,
        "entered": kept,
        **_decision(escalation, basis),
        "firsts": two_people.list_ended(escalation, basis.known),
        **decision_form.context(request, escalation, basis, kept, questions_asked=len(asked["asked"])),
        **decision_form.pace(request, escalation, kept, problem),
        "bench": _bench(escalation, basis),
    }
    status = 200 if problem is None else problem.status
    return render(request, "escalations/detail.html", context, status=status)


def _about(escalation: Escalation, basis: comparing.CheckedBasis) -> dict[str, Any]:
    """Return the trusted evidence and its changes since the last revision; `silence` is of a silent agent."""
    shown, known = basis.evidence, basis.known
    if isinstance(shown, SilenceEvidence):
        return {"silence": silence_evidence.read(shown, body=basis.body)}
    if isinstance(shown, InterruptEvidence):
        return {"interrupt": interrupt_view.read(shown, body=basis.body)}
    if shown is None or escalation.proposal is None:
        return {}
    before = None
    if shown.revision > 1:
        before = comparing.read_revision(escalation, known, shown.revision - 1)
    wrong = comparing.compare_verdict(known, escalation.proposal)
    recorded: Sequence[str] = ()
    if wrong is None:
        recorded = _recorded_only(bytes(escalation.proposal.verdict.bundle.body))
    return {
        "case": _case(escalation, shown, basis.body, is_judged=wrong is None),
        "patterns": _patterns(escalation, shown),
        "changes": evidence_page.compare(before, shown) if isinstance(before, JudgedEvidence) else [],
        "untrusted_verdict": [] if wrong is None else [wrong],
        "held_back": held_back.list_reasons(escalation) if wrong is None else [],
        "recorded": recorded,
        "expected": proposal_presenters.expected(escalation.proposal, shown.amounts.facts),
    }


@lru_cache(maxsize=MOST_BUNDLES)
def _recorded_only(bundle: bytes) -> Sequence[str]:
    """List what the rules of a verdict record but do not enforce: no decision may rely on it."""
    rules = PolicyBundle.from_bytes(bundle)
    of_kind = () if rules.kind is None else recorded_only.names(rules.kind)
    of_manifest = () if rules.manifest is None else recorded_only.names(rules.manifest)
    return (*of_kind, *(f"manifest.{name}" for name in of_manifest))


def _bench(escalation: Escalation, basis: comparing.CheckedBasis) -> bench.BenchView | None:
    """Return what helps to find out about the call in doubt; None if none is, or the case is not trusted."""
    if escalation.intent is None or escalation.state != contracts.State.OPEN or basis.mismatches:
        return None
    call = calls_in_doubt.get_newest(intent=escalation.intent)
    if call is None:
        return None
    return bench.of_calls([call], tenant=escalation.tenant)[call.intent_id, call.number]


def _get(request: HttpRequest, escalation_id: UUID) -> Escalation:
    escalation = queries.get(tenant=tenant_of(request.user), escalation_id=escalation_id)
    if escalation is None:
        raise Http404
    return escalation


def _row(request: HttpRequest, escalation: Escalation) -> presenters.QueueRow:
    return presenters.row(item=escalation, evidence=None, now=clock.now(), user_pk=request.user.pk or 0)


def _asked(request: HttpRequest, escalation: Escalation) -> dict[str, Any]:
    """Return the questions to the agent; the newest is shown beside the decision, answered ones below."""
    row = _row(request, escalation)
    over = "" if row.waiting_until else contracts.Closing.WAIT_ENDED  # the sweeper may run a little later
    asked: list[dict[str, Any]] = [
        {
            "question": item,
            "text": labels.visible_lines(item.text),
            "badge": labels.badge(presenters.CLOSINGS, item.closed_why or over),
        }
        for item in queries.list_questions(escalation=escalation)
    ]
    return {
        "escalation": escalation,
        "row": row,
        "is_open": row.open,
        "asked": asked,
        "most_questions": policy.MAX_QUESTIONS,
        "never_answered": queries.count_unanswered(tenant=escalation.tenant, agent_id=escalation.agent_id),
        "newest": asked[-1] if asked else None,
        "unanswered": [item for item in asked if item["question"].answered_at is None],
    }


def _case(
    escalation: Escalation, shown: JudgedEvidence, body: bytes, *, is_judged: bool
) -> evidence_page.EvidenceView:
    """Return the evidence beside the current facts, marking those that changed materially.

    Uses the active rules, like the drift scan; without a kind every change is material. `is_judged`: the
    stored verdict matches the ledger, so what it would predict now can be worked out of it.
    """
    seen = shown.seen_facts
    if escalation.state != contracts.State.OPEN:
        return evidence_page.read(shown, body=body)
    paths = {*seen, *(item.fact for item in shown.difference)}
    live = queries.live_facts(tenant=escalation.tenant, paths=sorted(paths))
    rules = gate_facts.get_rules(agent=escalation.flow.agent, kind_name=shown.kind.kind)
    material: Iterable[str] = live
    if rules.kind is not None:
        material = evaluate.list_moved(
            rules.kind,
            params=shown.proposal.params,
            constraints=shown.proposal.execution_constraints,
            seen=seen,
            current=live,
        )
    predicted: Sequence[Difference] = ()
    if is_judged and escalation.proposal is not None and live != seen:
        predicted = stored_cases.predict_now(proposal=escalation.proposal, rules=rules)
    found = evidence_page.LiveFacts(values=live, material=frozenset(material), predicted=predicted)
    return evidence_page.read(shown, body=body, live=found)


def _patterns(escalation: Escalation, shown: JudgedEvidence) -> dict[str, Any]:
    """Return what stands out beside earlier proposals; none of it is evidence."""
    found = patterns.find(escalation=escalation, shown=shown, at=clock.now())
    return {
        "compared": patterns.COMPARED,
        "same": found.same,
        "similar": found.similar,
        "earlier": [
            {
                "dfid": item.dfid,
                "received_at": item.received_at,
                "same": item.same,
                "ended": labels.badge(labels.OUTCOMES, item.outcome)
                if item.outcome
                else labels.badge(labels.FLOW_STATES, item.flow_state),
            }
            for item in found.earlier
        ],
        "suspects": [presenters.suspect(item) for item in found.suspects],
        "rate": found.rate,
        "usual": presenters.per_hour(found.rate.usual_tenths),
        "days": found.rate.hours // 24,
    }


def _history(escalation: Escalation) -> dict[str, Any]:
    """Return how the agent's closed escalations ended: what became of what people let run, not how often."""
    history = past_outcomes.get_history(
        tenant=escalation.tenant, agent_id=escalation.agent_id, besides=escalation.pk
    )
    newest = history.cases[: past_outcomes.NEWEST]
    evidence = queries.get_evidence(tenant=escalation.tenant, escalations=[case.row for case in newest])
    return {
        "total": len(history.cases),
        "let_run": sum(history.endings.values()),
        "endings": [
            (badge, history.endings[ending])
            for ending, badge in presenters.ENDINGS.items()
            if ending in history.endings
        ],
        "deviating": history.deviating,
        "stopped": [
            (labels.badge(presenters.RESOLUTIONS, name), count)
            for name, count in sorted(history.stopped.items(), key=lambda item: -item[1])
        ],
        "newest": [
            {
                "row": case.row,
                "effect": presenters.segments(evidence[case.row.pk]) if case.row.pk in evidence else [],
                "erased": case.row.pk not in evidence and case.row.flow.erased_at is not None,
                "decision": labels.badge(presenters.RESOLUTIONS, case.resolution),
                "ending": None if case.ending is None else presenters.ENDINGS[case.ending],
                "deviations": case.deviations,
            }
            for case in newest
        ],
    }


def _decision(escalation: Escalation, basis: comparing.CheckedBasis) -> dict[str, Any]:
    """Return the decision from its signed statement, and what ran after it beside what was predicted.

    Of each, if its rows do not match the ledger, only the mismatches.
    """
    known, decision = basis.known, escalation.decision
    if decision is None:
        return {"decision": None, "untrusted_decision": ["decision"] if known.decided else []}
    wrong = comparing.compare_decision(known, decision)
    if wrong:
        return {"decision": None, "untrusted_decision": wrong}
    statement = canonical.decode(bytes(decision.statement))
    waiting = taking_back.get_open_window(escalation=escalation, at=clock.now())
    # Read rows and entries in one snapshot: concurrent writes of a worker are no mismatch.
    ran: dict[str, Any] = {"ran": None}
    with verify.snapshot():
        intent = queries.get_intent(escalation=escalation, proposal_id=statement.get("proposal_id"))
        if intent is not None:
            unlike = recorded_flow.of_flow(tenant=intent.tenant, dfid=intent.flow_id).list_unlike(intent)
            if unlike:
                ran["untrusted_ran"] = unlike
            else:
                units = AmountUnits() if basis.evidence is None else basis.evidence.amounts
                shown = proposal_presenters.intent_shown(intent, units.facts)
                ran["ran"] = shown
                signed = basis.evidence.difference if isinstance(basis.evidence, JudgedEvidence) else ()
                ran["came_out"] = predicted_effects.beside_signed(shown.effects, signed, units.facts)
    return {
        "decision": decision,
        "decision_badge": labels.badge(presenters.RESOLUTIONS, decision.action),
        "effect_badge": presenters.EFFECT_BADGES.get(statement.get("effect", "")),
        "in_force": statement.get("revision_in_force"),
        "undo_until": None if waiting is None else waiting.not_before,
        **ran,
        "statement_digest": canonical.digest(bytes(decision.statement)),
        "signature": bytes(decision.signature).hex(),
    }


def _just_decided(request: HttpRequest, escalation_id: UUID) -> dict[str, Any] | None:
    """Return the newest decision on the escalation, if it counts, is this person's own and recent."""
    escalation = queries.get(tenant=tenant_of(request.user), escalation_id=escalation_id)
    if escalation is None or escalation.flow.erased_at is not None:
        return None
    newest = max(escalation.all_decisions, key=lambda row: row.sequence, default=None)
    if (
        newest is None
        or newest.approver_id != request.user.pk
        or newest.state not in COUNTING
        or clock.now() - newest.decided_at > JUST_NOW
    ):
        return None
    basis = comparing.check_basis(escalation)
    read = _decision(escalation, basis)
    return {
        **read,
        "escalation": escalation,
        "decision": newest,
        "spec": Action(newest.action).spec,
        "is_first": newest.state == contracts.DecisionState.AWAITING_SECOND,
        "effect": [] if basis.evidence is None else presenters.segments(basis.evidence),
        "untrusted": [*basis.mismatches, *read.get("untrusted_decision", ())],
    }

"""Ask a ruleset, or for a recommendation, in a flow: stored with its input, it moves nothing."""

import secrets
from collections import Counter
from collections.abc import Collection
from uuid import UUID

from audit import actors, canonical, events, statements
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.advice.queries import action_facts, consultations, packages, rule_outputs
from runtime.advice.services import consultations as consulting
from runtime.contexts.models import Snapshot
from runtime.contracts import timestamps
from runtime.contracts.advice import DecideRequest, RulesRequest
from runtime.contracts.decision import (
    ConsultationInput,
    DecisionInput,
    DecisionPackage,
    Method,
    RuleOutputFacts,
)
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.ruleset import RuleInput, RuleOutputDocument, RuleResult, RulesetDocument
from runtime.core import clock, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.core.ids import new_id
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import recommender
from runtime.kernel.rulesets import cedar, evaluate
from runtime.registry.models import Agent
from runtime.registry.queries import ruleset_versions
from runtime.resources.queries import compute_left

# Each is kept with its words until retention: a flow that asks for more has lost its way.
MOST_IN_FLOW = 100
_ENDED = " and gives no more advice. Open a new flow."


@transactions.retried
def ask_rules(
    *, agent: Agent, dfid: UUID, asked: RulesRequest, repeatable: IdempotentRequest | None = None
) -> RuleOutputDocument | Problem:
    """Evaluate a ruleset over features in a flow of the agent that has not ended.

    With `repeatable`, a repeat of the call gets the same output, and another body under the same key 422. 404
    for a ruleset that was never active, 422 for features that do not fit it, 429 past MOST_IN_FLOW.
    """
    flow = flows.lock_for_call(
        agent=agent, dfid=dfid, call=repeatable, makes="rule output", once_ended=_ENDED
    )
    if isinstance(flow, bytes):
        return RuleOutputDocument.from_bytes(flow)
    if isinstance(flow, Problem):
        return flow
    row = ruleset_versions.find_usable(tenant=agent.tenant, name=asked.ruleset)
    if row is None:
        detail = (
            f"No ruleset {asked.ruleset} is active. Name one that is, or a version that was, as name@version."
        )
        return Problem(code=ProblemCode.RULESET_NOT_FOUND, detail=detail, dfid=str(dfid))
    ruleset = ruleset_versions.contract_of(row)
    refused = (
        _refuse_features(evaluate.misfits(ruleset, asked.features))
        or _refuse_without_kind(ruleset, asked)
        or _refuse_more(flow, rule_outputs.count_in(flow))
    )
    if refused is not None:
        return refused
    given = RuleInput(
        rule_output_id=str(new_id()),
        dfid=str(flow.dfid),
        ruleset_digest=row.digest,
        features=asked.features,
        ages_s=asked.ages_s,
        salt=secrets.token_hex(16),
        cedar=cedar.ask(
            ruleset,
            evaluate.current(ruleset, asked.features, asked.ages_s),
            agent_id=agent.agent_id,
            policy_kind=asked.policy_kind or "",
        ),
    ).to_bytes()
    # Evaluated from the bytes that are stored, so that a replay sees exactly this.
    output = evaluate.output(ruleset, RuleInput.from_bytes(given))
    body = output.to_bytes()
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    stored = RuleOutput(
        rule_output_id=UUID(output.rule_output_id),
        tenant=flow.tenant,
        flow=flow,
        ruleset=row,
        status=output.status,
        input=given,
        body=body,
        created_at=journal.at,
    )
    statements.insert([stored])
    journal.add(
        events.RulesEvaluated(
            rule_output_id=output.rule_output_id,
            ruleset=row.ruleset,
            version=row.version,
            ruleset_digest=row.digest,
            input_digest=canonical.digest(given),
            output_digest=canonical.digest(body),
            status=output.status,
        )
    )
    told = output.model_copy(update={"salt": None})
    if repeatable is not None:
        journal.keep_answer(agent_pk=agent.pk, call=repeatable, body=told.to_bytes())
    journal.write()
    return told


@transactions.retried
def decide(
    *,
    agent: Agent,
    dfid: UUID,
    asked: DecideRequest,
    repeatable: IdempotentRequest | None = None,
    planner: consulting.Planner | None = None,
) -> DecisionPackage | Problem:
    """Recommend an action in a flow of the agent that has not ended, or say that a person must decide.

    Where the agent lets others be consulted, `planner` says whom the registry names, and the choice is not
    clear, they are asked in the same transaction: the package says so, and the next one has their answers.

    `repeatable` as in `ask_rules`. 404 for a rule output that is not of this flow, 409 for one that is not as
    it was recorded, 422 for ids that are given twice, 429 past MOST_IN_FLOW.
    """
    flow = flows.lock_for_call(agent=agent, dfid=dfid, call=repeatable, makes="decision", once_ended=_ENDED)
    if isinstance(flow, bytes):
        return DecisionPackage.from_bytes(flow)
    if isinstance(flow, Problem):
        return flow
    refused = _refuse_repeated(asked) or _refuse_more(flow, packages.count_in(flow))
    if refused is not None:
        return refused
    built_on = None
    if asked.rule_output_id is not None:
        built_on = rule_outputs.get_output(flow=flow, rule_output_id=UUID(asked.rule_output_id))
        if built_on is None:
            detail = "The flow has no rule output of this id. Ask its rules first."
            return Problem(code=ProblemCode.RULE_OUTPUT_NOT_FOUND, detail=detail, dfid=str(dfid))
        if rule_outputs.compare(built_on) is not None:
            detail = "The stored rule output does not match the ledger. Ask its rules again."
            return Problem(code=ProblemCode.TAMPERED, detail=detail, dfid=str(dfid))
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    overdue = consulting.end_overdue_in(journal, at=journal.at)
    planned = _plan(journal, agent, asked, planner)
    given = _input(
        agent, journal, asked, built_on, _consultation(journal, asked, planned, overdue)
    ).to_bytes()
    package = recommender.recommend(DecisionInput.from_bytes(given))
    body = package.to_bytes()
    stored = DecisionPackageRow(
        decision_id=UUID(package.decision_id),
        tenant=flow.tenant,
        flow=flow,
        rule_output=built_on,
        method=package.method,
        needs_person=package.human_review_required,
        input=given,
        body=body,
        created_at=journal.at,
    )
    statements.insert([stored])
    journal.add(
        events.DecisionRecommended(
            decision_id=package.decision_id,
            input_digest=canonical.digest(given),
            package_digest=canonical.digest(body),
            method=package.method,
            needs_person=package.human_review_required,
            rule_output_id=None if built_on is None else str(built_on.pk),
            **_counts(package),
        )
    )
    if package.method is Method.CONSULT and isinstance(planned, consulting.Plan) and not _has_asked(package):
        planned.send()
    told = package.model_copy(update={"salt": None})
    if repeatable is not None:
        journal.keep_answer(agent_pk=agent.pk, call=repeatable, body=told.to_bytes())
    journal.write()
    return told


def _plan(
    journal: Journal, agent: Agent, asked: DecideRequest, planner: consulting.Planner | None
) -> consulting.Plan | Problem | None:
    """Who could be consulted about the options; None where the agent asks for nobody."""
    if asked.consult is None or planner is None:
        return None
    if not asked.options:
        detail = "There are no options to ask about."
        return Problem(code=ProblemCode.NOT_CONSULTED, detail=detail)
    return planner(journal, agent, asked.consult, consultations.plain(asked.options))


def _counts(package: DecisionPackage) -> dict[str, int]:
    """How many were consulted, answered and agree, for the entry of a package."""
    found = package.consensus
    if found is None:
        return {}
    agreeing = found.answered - len(found.dissent)
    return {"asked": found.asked, "answered": found.answered, "agreeing": agreeing}


def _has_asked(package: DecisionPackage) -> bool:
    return package.consensus is not None and package.consensus.asked > 0


def _input(
    agent: Agent,
    journal: Journal,
    asked: DecideRequest,
    built_on: RuleOutput | None,
    consultation: ConsultationInput,
) -> DecisionInput:
    flow, options = journal.flow, asked.options or ()
    result = None if built_on is None else _result(rule_outputs.document_of(built_on))
    named = {option.action.name for option in options}
    if result is not None:
        named |= {action.action for aspect in result.decided for action in aspect.actions}
    known = action_facts.read(agent=agent, names=named, options=options)
    context = Snapshot.objects.filter(flow=flow).order_by("-created_at").first()
    left = compute_left.left_in(flow, at=journal.at)
    return DecisionInput(
        decision_id=str(new_id()),
        dfid=str(flow.dfid),
        at_ms=timestamps.to_ms(journal.at),
        objectives=asked.objectives,
        options=options,
        rule_output=None
        if built_on is None or result is None
        else RuleOutputFacts(
            rule_output_id=str(built_on.pk), ruleset_version=built_on.ruleset.version, result=result
        ),
        actions=known.actions,
        unfit=known.unfit,
        contact=agent.owner,
        context_id=None if context is None else context.context_ref,
        world_version_id=None if context is None else _world_version(context),
        time_left_s=left.get("wall_clock_left_s"),
        cost_left_usd=left.get("cost_left_usd"),
        salt=secrets.token_hex(16),
        consultation=consultation,
    )


def _consultation(
    journal: Journal,
    asked: DecideRequest,
    planned: consulting.Plan | Problem | None,
    overdue: Collection[str],
) -> ConsultationInput:
    opened = consultations.open_all(journal.flow, overdue=overdue)
    consulted = tuple(each.seen(asked.options or ()) for each in opened)
    return ConsultationInput(
        wanted=asked.consult is not None,
        providers=planned.providers if isinstance(planned, consulting.Plan) else (),
        why_none=planned.detail if isinstance(planned, Problem) else "",
        consulted=consulted,
    )


def _result(output: RuleOutputDocument) -> RuleResult:
    return RuleResult(**{name: getattr(output, name) for name in RuleResult.model_fields})


def _world_version(context: Snapshot) -> str:
    """As the contracts of auditors name it: the digest of the versions of the facts that were shown."""
    versions = canonical.decode(bytes(context.body)).get("versions", {})
    return canonical.digest(canonical.encode(versions))


def _refuse_features(wrong: tuple[tuple[str, str], ...]) -> Problem | None:
    if not wrong:
        return None
    return Problem(
        code=ProblemCode.INVALID_REQUEST,
        detail="The features do not fit the ruleset. See `violations`.",
        violations=tuple(Violation(pointer=f"/features/{name}", message=said) for name, said in wrong),
    )


def _refuse_without_kind(ruleset: RulesetDocument, asked: RulesRequest) -> Problem | None:
    if not ruleset.policies or asked.policy_kind is not None:
        return None
    said = "is required: it is the action that the Cedar policies of this ruleset are asked about"
    return Problem(
        code=ProblemCode.INVALID_REQUEST,
        detail="Name the policy kind that you think of proposing. See `violations`.",
        violations=(Violation(pointer="/policy_kind", message=said),),
    )


def _refuse_repeated(asked: DecideRequest) -> Problem | None:
    lists = {
        "objectives": [objective.id for objective in asked.objectives],
        "options": [option.id for option in asked.options or ()],
    }
    violations = tuple(
        Violation(pointer=f"/{name}", message=f"{one} is the id of {count}")
        for name, ids in lists.items()
        for one, count in Counter(ids).items()
        if count > 1
    )
    if not violations:
        return None
    detail = "Give each objective and each option an id of its own. See `violations`."
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail, violations=violations)


def _refuse_more(flow: Flow, count: int) -> Problem | None:
    if count < MOST_IN_FLOW:
        return None
    detail = (
        f"A flow has at most {MOST_IN_FLOW} rule outputs, and as many decision packages. Open a new flow."
    )
    return Problem(code=ProblemCode.TOO_MUCH_ADVICE, detail=detail, dfid=str(flow.dfid))

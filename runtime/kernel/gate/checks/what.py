"""What is proposed: does it fit the schema, the rules and the limits, and does a person have to see it?"""

from collections.abc import Iterable

from runtime.contracts import reasons
from runtime.contracts.kind_types import OnFail, Severity
from runtime.contracts.policy_kind import InvariantPlace, RiskTier
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel import versions
from runtime.kernel.calibration import WHOLE
from runtime.kernel.gate import findings
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import evaluate, language
from runtime.kernel.rules.evaluate import EvaluationStatus
from runtime.kernel.rules.language import ExpressionError


def check_schema(case: Case) -> Iterable[Finding]:
    """Do params and constraints fit the policy kind's JSON Schema? (DIR paper, 6.2, first layer)

    INVALID_SCHEMA with a JSON pointer in the message; without a known, safe kind the walk ends here.
    """
    kind = case.rules.kind
    asked = case.proposal.policy_version
    if kind is None:
        yield findings.fail(
            CheckName.SCHEMA,
            Reason.CAPABILITY_NOT_FOUND,
            f"No active policy kind is called {case.proposal.policy_kind}.",
        )
        return
    if case.facts.unsafe is not None:
        said = f"{kind.kind} {kind.version} is not evaluated until a new version is in force"
        yield findings.fail(CheckName.SCHEMA, Reason.KIND_UNSAFE, f"{said}: {case.facts.unsafe}.")
        return
    if asked is not None and not versions.compatible(asked=asked, active=kind.version):
        yield findings.fail(
            CheckName.SCHEMA,
            Reason.VERSION_UNSUPPORTED,
            f"Version {asked} of {kind.kind} is not supported; {kind.version} is in force.",
        )
        return
    for part, violation in case.misfits:
        yield findings.fail(
            CheckName.SCHEMA, Reason.INVALID_SCHEMA, f"{part}{violation.pointer} {violation.message}"
        )


def check_constraints(case: Case) -> Iterable[Finding]:
    """Do the agent's own bounds hold now? (DIR paper, 3.3: constraints over deadlines)

    CONSTRAINT_VIOLATED for each bound that is not exactly true against the live facts.
    """
    for condition in evaluate.judge_constraints(case.kind, case.names):
        if condition.status is not EvaluationStatus.PASSED:
            yield findings.fail(
                CheckName.CONSTRAINTS, Reason.CONSTRAINT_VIOLATED, f"{condition.id}: {condition.message}"
            )


def check_conditions(case: Case) -> Iterable[Finding]:
    """Do the conditions hold that a person attached to the decision?

    CONDITION_FAILED for each condition that is not exactly true.
    """
    for condition in case.proposal.conditions:
        try:
            holds, words = language.require(condition, case.names), "does not hold"
        except ExpressionError as error:
            holds, words = False, error.message
        if not holds:
            yield findings.fail(
                CheckName.CONDITIONS,
                Reason.CONDITION_FAILED,
                f"The condition {condition} {words}.",
                subject=condition,
            )


def check_red_lines(case: Case) -> Iterable[Finding]:
    """Would anything happen that the policy kind forbids?

    RED_LINE_CROSSED for each red line that is not exactly false; no person can lift it.
    """
    for line in case.kind.forbidden:
        try:
            is_crossed, words = language.require(line.forbid, case.names), line.message
        except ExpressionError as error:
            is_crossed, words = True, f"could not be evaluated: {error.message}"
        if is_crossed:
            yield findings.fail(
                CheckName.RED_LINES,
                Reason.RED_LINE_CROSSED,
                f"{line.id}: {words or 'the policy kind forbids it'}",
                subject=line.id,
            )


def check_invariants(case: Case) -> Iterable[Finding]:
    """Do the invariants hold that the policy kind asserts at the gate?

    INVARIANT_VIOLATED for each that is not exactly true: a Fail where it is HIGH or CRITICAL or cannot be
    evaluated, else a Refer.
    """
    return violated(case, InvariantPlace.GATE)


def violated(case: Case, place: InvariantPlace) -> Iterable[Finding]:
    """A finding for each invariant that is asked at a place and does not hold there."""
    for one in case.kind.asserted(place):
        try:
            holds, words = language.require(one.require, case.names), one.message
            is_grave = one.severity in {Severity.HIGH, Severity.CRITICAL}
        except ExpressionError as error:
            holds, words, is_grave = False, f"could not be evaluated: {error.message}", True
        if not holds:
            yield findings.by_rule(
                OnFail.REJECT if is_grave else OnFail.ESCALATE,
                CheckName.INVARIANTS,
                Reason.INVARIANT_VIOLATED,
                f"{one.invariant_id} ({one.severity}): {words or 'it does not hold'}",
                subject=one.invariant_id,
            )


def check_evidence(case: Case) -> Iterable[Finding]:
    """Is the evidence there that the policy kind requires, and new enough?

    INVALID_EVIDENCE for each part that is missing or too old.
    """
    known = case.facts.evidence or {}
    for need in case.kind.needs:
        key = evaluate.evidence_key(need, case.proposal.params)
        came_ms = None if key is None else known.get(key)
        age_s = None if came_ms is None else max(0, case.now_ms - came_ms) / 1000
        most_s = (case.facts.max_ages or {}).get(key or "") if need.max_age_s is None else need.max_age_s
        if age_s is None:
            said = f"The {need.sort} {need.name} is missing."
        elif most_s is not None and age_s > most_s:
            said = f"The {need.sort} {need.name} is older than {most_s} s."
        else:
            continue
        yield findings.fail(
            CheckName.EVIDENCE, Reason.INVALID_EVIDENCE, said, subject=f"{need.sort}:{need.name}"
        )


def check_tools(case: Case) -> Iterable[Finding]:
    """Are the tools of MCP servers that the policy kind calls described as an admin pinned them? (DARE)

    TOOL_NOT_PINNED, TOOL_QUARANTINED and TOOL_SERVER_OFF are Fails, for each tool.
    """
    known = {(item.server, item.tool): item.refused for item in case.facts.tools or ()}
    for server, tool in case.kind.tools:
        refused = known.get((server, tool), Reason.TOOL_NOT_PINNED)
        if refused is not None:
            said = f"{tool} of {server} is not called: {reasons.MEANINGS[refused]}"
            yield findings.fail(CheckName.TOOLS, refused, said, subject=f"{server}:{tool}")


def check_limits(case: Case) -> Iterable[Finding]:
    """Is every value within the manifest's authority bounds? (DIR paper, 9.2: authority violation)

    RISK_LIMIT_EXCEEDED, a Refer unless the kind says REJECT; an expression that errors is a Fail.
    """
    for bound in evaluate.judge_limits(case.kind, case.names):
        if bound.status is not EvaluationStatus.PASSED:
            yield findings.by_rule(
                OnFail.REJECT if bound.status is EvaluationStatus.ERROR else bound.on_exceed,
                CheckName.LIMITS,
                Reason.RISK_LIMIT_EXCEEDED,
                f"{bound.id}: {bound.message}",
                subject=bound.id,
                proposed_value=bound.value,
                limit=bound.limit,
            )


def check_rules(case: Case) -> Iterable[Finding]:
    """Do the policy kind's rules hold? A rule's own id is the code of its finding.

    One finding a broken rule; a rule that errors is a Fail, whatever its `on_fail` says.
    """
    for condition in evaluate.judge_rules(case.kind, case.names):
        if condition.status is not EvaluationStatus.PASSED:
            yield findings.by_rule(
                OnFail.REJECT if condition.status is EvaluationStatus.ERROR else condition.on_fail,
                CheckName.RULES,
                condition.id,
                condition.message,
            )


def check_confidence(case: Case) -> Iterable[Finding]:
    """Is the agent sure enough, and does anybody ask for a person? (DIR paper, 9.2: model uncertainty)

    LOW_CONFIDENCE, REVIEW_REQUESTED, REVIEW_REQUIRED; confidence is not asked of a person. Where the manifest
    asks for calibrated confidence and a map is active, the smaller of what was stated and what it maps to
    counts.

    The stricter of the manifest's threshold and the tier's counts, and no confidence counts as low. But a T0
    or T1 kind asks for it only where the manifest sets a threshold: the paper's own example proposal (5.2)
    carries none.
    """
    proposed = case.proposal
    if proposed.by_person:
        return
    given, wanted = proposed.confidence, case.manifest.escalate_below_confidence
    threshold = max(case.kind.confidence_threshold, wanted or 0.0)
    is_spared = given is None and wanted is None and case.kind.risk_tier in {RiskTier.T0, RiskTier.T1}
    used = case.calibrated
    if used is not None and used.used < used.stated:
        given = used.used / WHOLE
    is_low = given is None or given < threshold
    if is_low and not is_spared and not case.kind.confidence_waiver:
        words = "No confidence was given" if given is None else "The confidence is low"
        if used is not None and used.used < used.stated:
            words = f"The confidence that was stated, {proposed.confidence}, is worth less by calibration"
        yield findings.refer(
            CheckName.CONFIDENCE,
            Reason.LOW_CONFIDENCE,
            f"{words}; a person decides below the threshold.",
            proposed_value=given,
            limit=threshold,
        )
    if proposed.human_review_required:
        yield findings.refer(CheckName.CONFIDENCE, Reason.REVIEW_REQUESTED, "The agent asked for a person.")
    if case.kind.risk_tier is RiskTier.T3 and not case.manifest.waive_tier3_review:
        yield findings.refer(
            CheckName.CONFIDENCE, Reason.REVIEW_REQUIRED, "Risk tier T3 always needs a person."
        )

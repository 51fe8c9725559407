"""The metrics over recorded facts: each share with its numerator and denominator, or "not enough"."""

from typing import Any

from runtime.kernel import decision_metrics
from runtime.kernel.decision_metrics import (
    LEAST,
    FlowFacts,
    Metric,
    MetricName,
    OutcomeFacts,
    ProposalFacts,
    RuleFacts,
    Unit,
)


def proposal(**fields: Any) -> ProposalFacts:
    known: dict[str, Any] = {
        "is_rejected": False,
        "asked_person": False,
        "stated": 900_000,
        "good": True,
        "has_trace": True,
        "was_consulted": False,
        "is_safe": None,
        "is_equal": True,
    }
    return ProposalFacts(**{**known, **fields})


def flow(**fields: Any) -> FlowFacts:
    known: dict[str, Any] = {
        "to_intent_ms": None,
        "was_rejected": False,
        "to_success_ms": None,
        "kept_budget": None,
        "has_usage": None,
    }
    return FlowFacts(**{**known, **fields})


def measured(**given: Any) -> dict[MetricName, Metric]:
    nothing: dict[str, Any] = {"proposals": [], "flows": [], "outcomes": [], "rules": []}
    return {each.name: each for each in decision_metrics.measure(**{**nothing, **given})}


def seen(metric: Metric) -> tuple[int | None, int, float | None]:
    return metric.numerator, metric.denominator, metric.value


def test_of_nothing_nothing_is_said() -> None:
    found = measured()
    assert list(found) == list(MetricName)
    assert {each.value for each in found.values()} == {None}
    assert {each.denominator for each in found.values()} == {0}


def test_below_the_least_the_counts_are_given_and_no_value() -> None:
    few = measured(proposals=[proposal()] * (LEAST - 1))
    assert seen(few[MetricName.DECISION_ACCURACY]) == (29, 29, None)
    assert seen(few[MetricName.CALIBRATION_ERROR]) == (None, 29, None)
    enough = measured(proposals=[proposal()] * LEAST)
    assert seen(enough[MetricName.DECISION_ACCURACY]) == (30, 30, 1.0)


def test_accuracy_is_over_known_ends_and_selective_over_those_without_a_person() -> None:
    found = measured(
        proposals=[
            *[proposal()] * 30,
            *[proposal(asked_person=True, good=False)] * 10,
            *[proposal(good=None)] * 5,
            *[proposal(good=None, is_rejected=True)] * 15,
        ]
    )
    assert seen(found[MetricName.DECISION_ACCURACY]) == (30, 40, 0.75)
    assert seen(found[MetricName.SELECTIVE_ACCURACY]) == (30, 30, 1.0)
    assert seen(found[MetricName.SELECTIVE_COVERAGE]) == (35, 45, 35 / 45)


def test_calibration_error_is_over_what_stated_a_confidence() -> None:
    found = measured(proposals=[*[proposal(stated=None)] * 5, *[proposal(good=False)] * 30])
    error = found[MetricName.CALIBRATION_ERROR]
    assert (error.unit, error.denominator, error.numerator) == (Unit.ERROR, 30, None)
    assert error.value is not None
    assert abs(error.value - 0.9) < 1e-12


def test_traces_consultations_safety_and_replay_are_shares_of_proposals() -> None:
    found = measured(
        proposals=[
            *[proposal(has_trace=False, was_consulted=True, is_safe=True, is_equal=False)] * 10,
            *[proposal(is_safe=False)] * 30,
        ]
    )
    assert seen(found[MetricName.TRACE_COMPLETENESS]) == (30, 40, 0.75)
    assert seen(found[MetricName.CONSULTATION_RATE]) == (10, 40, 0.25)
    assert seen(found[MetricName.SAFETY_PASS_RATE]) == (10, 40, 0.25)
    assert seen(found[MetricName.REPRODUCIBILITY]) == (30, 40, 0.75)


def test_rule_coverage_is_decided_of_declared_aspects() -> None:
    found = measured(rules=[RuleFacts(decided=1, declared=2)] * 15)
    assert seen(found[MetricName.RULE_COVERAGE]) == (15, 30, 0.5)


def test_times_are_medians() -> None:
    found = measured(
        flows=[flow(to_intent_ms=at, was_rejected=True, to_success_ms=at * 2) for at in range(31)],
        outcomes=[OutcomeFacts(succeeded=at % 3 == 0, after_ms=at) for at in range(30)],
    )
    latency = found[MetricName.DECISION_LATENCY]
    assert (latency.unit, latency.value, latency.denominator) == (Unit.MS, 15.0, 31)
    assert found[MetricName.RE_ENGAGEMENT_TIME].value == 30.0
    # Of two middle ones the shorter.
    assert found[MetricName.COMPLETION_TIME].value == 14.0
    assert seen(found[MetricName.EXECUTION_SUCCESS]) == (10, 30, 1 / 3)


def test_flows_that_were_rejected_keep_budgets_and_report_usage_or_not() -> None:
    found = measured(
        flows=[
            *[flow()] * 7,
            *[flow(was_rejected=True, kept_budget=False, has_usage=False)] * 15,
            *[flow(was_rejected=True, to_success_ms=5, kept_budget=True, has_usage=True)] * 30,
        ]
    )
    assert seen(found[MetricName.RE_ENGAGEMENT_ACCURACY]) == (30, 45, 30 / 45)
    assert seen(found[MetricName.BUDGET_ADHERENCE]) == (30, 45, 30 / 45)
    assert seen(found[MetricName.TELEMETRY_COMPLETENESS]) == (30, 45, 30 / 45)

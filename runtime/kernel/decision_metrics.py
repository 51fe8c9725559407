"""How well agents decide and what they propose is executed: the metrics of the IDE paper (9) and of IEE (8).

Each is a share, a time or an error over facts that were recorded. Below LEAST nothing is said: a number over
a handful would be read as one over many.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runtime.contracts.calibration import LEAST_PAIRS
from runtime.kernel import calibration
from runtime.kernel.calibration import Pair

LEAST: Final = LEAST_PAIRS


class Unit(StrEnum):
    """SHARE is from 0 to 1, ERROR too (0 is best); MS is milliseconds."""

    SHARE = "share"
    ERROR = "error"
    MS = "ms"


class MetricName(StrEnum):
    """The metrics, in the order in which they are shown."""

    DECISION_ACCURACY = "decision_accuracy"
    DECISION_LATENCY = "decision_latency"
    RULE_COVERAGE = "rule_coverage"
    CONSULTATION_RATE = "consultation_rate"
    CALIBRATION_ERROR = "calibration_error"
    TRACE_COMPLETENESS = "trace_completeness"
    REPRODUCIBILITY = "reproducibility"
    SELECTIVE_COVERAGE = "selective_coverage"
    SELECTIVE_ACCURACY = "selective_accuracy"
    EXECUTION_SUCCESS = "execution_success"
    COMPLETION_TIME = "completion_time"
    SAFETY_PASS_RATE = "safety_pass_rate"  # noqa: S105  # a rate, not a password
    RE_ENGAGEMENT_ACCURACY = "re_engagement_accuracy"
    RE_ENGAGEMENT_TIME = "re_engagement_time"
    TELEMETRY_COMPLETENESS = "telemetry_completeness"
    BUDGET_ADHERENCE = "budget_adherence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalFacts:
    """What is known of one proposal of an agent.

    `stated` is its confidence in millionths. `good` is how it ended, None where that is not known.
    `asked_person`: a person decided, or is to decide, on it. `is_safe` is whether no invariant and no red
    line spoke against it, None where the kind asks none. `is_equal`: judged again, its verdict has the same
    bytes.
    """

    is_rejected: bool
    asked_person: bool
    stated: int | None
    good: bool | None
    has_trace: bool
    was_consulted: bool
    is_safe: bool | None
    is_equal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFacts:
    """What is known of one flow. Times are in milliseconds.

    `to_intent_ms`: from its first proposal to what was let through, None where nothing was. `was_rejected`: a
    proposal of the agent was; `to_success_ms`: from that to a later one that was not rejected, None where
    there is none. `kept_budget`: it has ended within its caps, None where it has no cap or has not ended.
    `has_usage` is whether usage was reported, None where nothing was executed.
    """

    to_intent_ms: int | None
    was_rejected: bool
    to_success_ms: int | None
    kept_budget: bool | None
    has_usage: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeFacts:
    """What was executed: whether it succeeded as expected, and when, after its flow's first proposal."""

    succeeded: bool
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """Of one rule output: how many aspects were decided, and how many its ruleset declares."""

    decided: int
    declared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric. A share is `numerator` of `denominator`; a time is the median of `denominator` times.

    `value` is None where `denominator` is below LEAST. `numerator` is None where the metric is no share.
    """

    name: MetricName
    unit: Unit
    numerator: int | None
    denominator: int
    value: float | None


def measure(
    *,
    proposals: Sequence[ProposalFacts],
    flows: Sequence[FlowFacts],
    outcomes: Sequence[OutcomeFacts],
    rules: Sequence[RuleFacts],
) -> tuple[Metric, ...]:
    """Every metric over what is known, in the order of MetricName."""
    ended = [each for each in proposals if each.good is not None]
    stated = [Pair(each.stated, each.good is True) for each in ended if each.stated is not None]
    judged = [each for each in proposals if not each.is_rejected]
    alone = [each for each in ended if not each.asked_person]
    asked = [each.is_safe for each in proposals if each.is_safe is not None]
    rejected = [each for each in flows if each.was_rejected]
    error = calibration.ece(stated) if stated else 0.0
    N = MetricName
    return (
        _share(N.DECISION_ACCURACY, (each.good is True for each in ended)),
        _median(N.DECISION_LATENCY, (each.to_intent_ms for each in flows)),
        _ratio(N.RULE_COVERAGE, sum(each.decided for each in rules), sum(each.declared for each in rules)),
        _share(N.CONSULTATION_RATE, (each.was_consulted for each in proposals)),
        Metric(
            name=N.CALIBRATION_ERROR,
            unit=Unit.ERROR,
            numerator=None,
            denominator=len(stated),
            value=None if len(stated) < LEAST else error,
        ),
        _share(N.TRACE_COMPLETENESS, (each.has_trace for each in proposals)),
        _share(N.REPRODUCIBILITY, (each.is_equal for each in proposals)),
        _share(N.SELECTIVE_COVERAGE, (not each.asked_person for each in judged)),
        _share(N.SELECTIVE_ACCURACY, (each.good is True for each in alone)),
        _share(N.EXECUTION_SUCCESS, (each.succeeded for each in outcomes)),
        _median(N.COMPLETION_TIME, (each.after_ms for each in outcomes)),
        _share(N.SAFETY_PASS_RATE, asked),
        _share(N.RE_ENGAGEMENT_ACCURACY, (each.to_success_ms is not None for each in rejected)),
        _median(N.RE_ENGAGEMENT_TIME, (each.to_success_ms for each in rejected)),
        _share(N.TELEMETRY_COMPLETENESS, (each.has_usage for each in flows)),
        _share(N.BUDGET_ADHERENCE, (each.kept_budget for each in flows)),
    )


def _share(name: MetricName, answers: Iterable[bool | None]) -> Metric:
    """The share of yes among the answers that there are."""
    given = [answer for answer in answers if answer is not None]
    return _ratio(name, sum(given), len(given))


def _ratio(name: MetricName, numerator: int, denominator: int) -> Metric:
    value = None if denominator < LEAST else numerator / denominator
    return Metric(name=name, unit=Unit.SHARE, numerator=numerator, denominator=denominator, value=value)


def _median(name: MetricName, times: Iterable[int | None]) -> Metric:
    """The median of the times that there are, of two middle ones the shorter."""
    known = sorted(each for each in times if each is not None)
    value = None if len(known) < LEAST else float(known[(len(known) - 1) // 2])
    return Metric(name=name, unit=Unit.MS, numerator=None, denominator=len(known), value=value)

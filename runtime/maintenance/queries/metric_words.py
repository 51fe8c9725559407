"""What each metric of decisions means, for its page, its files and its API."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from runtime.kernel.decision_metrics import LEAST, Metric, MetricName, Unit
from runtime.maintenance.queries.decision_metrics import Measured

NOT_ENOUGH: Final = "not enough"
_MINUTE_MS, _SECOND_MS = 60_000, 1_000
_N = MetricName


@dataclass(frozen=True, slots=True)
class Words:
    """Its name for people, where the papers ask for it, and what is counted of what."""

    title: str
    paper: str
    numerator: str
    denominator: str


WORDS: Final[Mapping[MetricName, Words]] = MappingProxyType(
    {
        _N.DECISION_ACCURACY: Words(
            "Decision accuracy",
            "IDE 9",
            "went well: succeeded as expected and unchanged by a person, or what the kind calls good",
            "proposals with a known end",
        ),
        _N.DECISION_LATENCY: Words(
            "Decision latency",
            "IDE 9",
            "median time from the first proposal of a flow to what was let through, people's time included",
            "flows in which something was let through",
        ),
        _N.RULE_COVERAGE: Words(
            "Rule coverage",
            "IDE 9",
            "aspects that a ruleset decided",
            "aspects that the rulesets declare, over the rule outputs",
        ),
        _N.CONSULTATION_RATE: Words(
            "Consultation rate",
            "IDE 9",
            "a soft guard answered, or an agent that was consulted before the proposal did",
            "proposals",
        ),
        _N.CALIBRATION_ERROR: Words(
            "Calibration error",
            "IDE 9",
            "mean distance of stated confidence from what came of it, over ten bins",
            "proposals with a known end and a stated confidence",
        ),
        _N.TRACE_COMPLETENESS: Words(
            "Trace completeness",
            "IDE 9",
            "name the context that was shown, in a flow with reported steps",
            "proposals",
        ),
        _N.REPRODUCIBILITY: Words(
            "Reproducibility", "IDE 9", "judged again, the verdict has the same bytes", "proposals"
        ),
        _N.SELECTIVE_COVERAGE: Words(
            "Selective prediction: coverage",
            "IDE 9",
            "accepted without a person",
            "proposals that were not rejected",
        ),
        _N.SELECTIVE_ACCURACY: Words(
            "Selective prediction: accuracy",
            "IDE 9",
            "went well",
            "proposals accepted without a person, with a known end",
        ),
        _N.EXECUTION_SUCCESS: Words(
            "Execution success", "IEE 8", "succeeded, every expected effect observed", "outcomes"
        ),
        _N.COMPLETION_TIME: Words(
            "Time to completion", "IEE 8", "median time from what was let through to its outcome", "outcomes"
        ),
        _N.SAFETY_PASS_RATE: Words(
            "Safety pass rate",
            "IEE 8",
            "no invariant and no red line spoke against it",
            "proposals of kinds that have either",
        ),
        _N.RE_ENGAGEMENT_ACCURACY: Words(
            "Re-engagement accuracy",
            "IEE 8",
            "a later proposal of the agent was not rejected",
            "flows in which the gate rejected one and told why",
        ),
        _N.RE_ENGAGEMENT_TIME: Words(
            "Re-engagement time",
            "IEE 8",
            "median time from the first rejection to the later proposal",
            "flows with such a proposal",
        ),
        _N.TELEMETRY_COMPLETENESS: Words(
            "Telemetry completeness",
            "IEE 8",
            "the agent reported what it used",
            "flows in which something was executed",
        ),
        _N.BUDGET_ADHERENCE: Words(
            "Budget adherence", "IEE 8", "ended within every cap", "flows that have ended and have a cap"
        ),
    }
)
# What the papers ask for and nothing stored answers, with the reason.
NOT_MEASURED: Final = (
    ("Cost predictability (IEE 8)", "no expectation of cost is stored to compare with"),
    ("Diagnostic quality (IEE 8)", "nobody records whether an error message led to the cause"),
    (
        "Re-engagement after an execution (IEE 8)",
        "the flow has ended then, and what the agent proposes next is not linked to it",
    ),
)


def shown(metric: Metric) -> dict[str, Any]:
    """Return one metric as a row of the page."""
    words = WORDS[metric.name]
    return {
        "words": words,
        "value": value_words(metric),
        "is_enough": metric.value is not None,
        "numerator": metric.numerator,
        "denominator": metric.denominator,
    }


def value_words(metric: Metric) -> str:
    """Its value for people."""
    if metric.value is None:
        return NOT_ENOUGH
    match metric.unit:
        case Unit.SHARE:
            return f"{metric.value:.1%}"
        case Unit.ERROR:
            return f"{metric.value:.4f}"
        case Unit.MS:
            return _duration(metric.value)


def exported(found: Measured) -> dict[str, Any]:
    """Return the metrics as the API and the files give them."""
    return {
        "agent_id": found.agent_id or None,
        "days": found.days,
        "proposals": found.proposals,
        "flows": found.flows,
        "least": LEAST,
        "mismatches": found.unlike,
        "complete": found.is_complete,
        "metrics": [
            {
                "metric": metric.name.value,
                "paper": WORDS[metric.name].paper,
                "unit": metric.unit.value,
                "value": metric.value,
                "numerator": metric.numerator,
                "denominator": metric.denominator,
                "note": NOT_ENOUGH if metric.value is None else None,
                "numerator_is": WORDS[metric.name].numerator,
                "denominator_is": WORDS[metric.name].denominator,
            }
            for metric in found.metrics
        ],
        "not_measured": [{"metric": name, "why": why} for name, why in NOT_MEASURED],
    }


def _duration(ms: float) -> str:
    if ms < _SECOND_MS:
        return f"{ms:.0f} ms"
    return f"{ms / _SECOND_MS:.1f} s" if ms < _MINUTE_MS else f"{ms / _MINUTE_MS:.1f} min"

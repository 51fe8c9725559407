"""What the linter admits is over soon, whatever the schema lets an agent send: searched for, not listed.

A server answers within two seconds only while nothing holds the interpreter's lock for longer.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from runtime.kernel.rules import condition_linter, linter
from tests.properties import rule_costs

# Ten times what the linter works out at most, and far below two seconds: a busy machine is no defect.
LONGEST_KIND_S = 0.5
LONGEST_CONDITION_S = 0.1
WATCHED_S = 60

pytestmark = pytest.mark.slow

SEARCH = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def evaluator() -> Iterator[rule_costs.Evaluator]:
    found = rule_costs.Evaluator()
    yield found
    found.close()


def look(evaluator: rule_costs.Evaluator, source: str, *, most: int, longest_s: float) -> None:
    linted = rule_costs.linted(source, most=most)
    # Advice about bounds that are missing keeps an honest one out; only the bound on the work matters here.
    if linted.work > most:
        return
    took = evaluator.seconds(source, longest_s=WATCHED_S)
    assert took is not None, f"did not end: {source}"
    assert took < longest_s, f"{took:.3f} s where {linted.work / 1e9:.3f} s was worked out: {source}"


@SEARCH
@given(source=rule_costs.conditions())
def test_no_expression_of_a_kind_takes_long(evaluator: rule_costs.Evaluator, source: str) -> None:
    look(evaluator, source, most=linter.MAX_WORK, longest_s=LONGEST_KIND_S)


@SEARCH
@given(source=rule_costs.conditions())
def test_no_condition_of_a_person_takes_long(evaluator: rule_costs.Evaluator, source: str) -> None:
    look(evaluator, source, most=condition_linter.MAX_WORK, longest_s=LONGEST_CONDITION_S)


def test_the_search_sees_an_expression_that_does_not_end() -> None:
    listed = "[" + "0," * 90 + "]"
    endless = f"{listed}.all(x, {listed}.all(y, !'aaaa'.matches('\\\\w{{200}}')))"
    assert rule_costs.linted(endless).stops
    assert rule_costs.Evaluator().seconds(endless, longest_s=3) is None

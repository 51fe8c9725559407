"""The risk score of an agent, and the level it leads to: exact, bounded and monotone."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.autonomy import DEFAULT_RULE, AutonomyRule, LabelWeights, SignalWeight
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.states import AutonomyLevel
from runtime.kernel import autonomy
from runtime.kernel.autonomy import Signal, Signals
from tests.support import gate_cases

COUNTS = st.integers(0, 1_000)
LABELS = st.dictionaries(st.sampled_from(["untrusted", "secret", "user_input"]), COUNTS)
SIGNALS = st.builds(
    Signals,
    rejections=COUNTS,
    variations=COUNTS,
    ungranted_kinds=COUNTS,
    deviations=COUNTS,
    open_escalations=COUNTS,
    labels=LABELS,
)
POINTS = st.integers(0, 100)
WEIGHTS = st.builds(SignalWeight, points=POINTS, most=POINTS)


@st.composite
def rules(draw: Any) -> AutonomyRule:
    low, high = sorted([draw(st.integers(1, 101)), draw(st.integers(1, 101))])
    weights = {name: draw(WEIGHTS) for name in AutonomyRule.model_fields if name in NUMBERED}
    labels = LabelWeights(points=draw(st.dictionaries(st.just("secret"), POINTS)), most=draw(POINTS))
    return AutonomyRule(supervised_at=low, read_only_at=high, labels=labels, **weights)


NUMBERED = [field.name for field in fields(Signals) if field.name != "labels"]


def test_nothing_counted_is_autonomous() -> None:
    found = autonomy.score(Signals(), DEFAULT_RULE)
    assert (found.total, found.level) == (0, AutonomyLevel.AUTONOMOUS)
    assert [part.signal for part in found.parts] == list(Signal)


def test_each_signal_adds_its_points_up_to_its_most() -> None:
    found = autonomy.score(
        Signals(rejections=30, variations=2, deviations=2, labels={"secret": 2, "user_input": 9}),
        DEFAULT_RULE,
    )
    parts = {part.signal: (part.count, part.points) for part in found.parts}
    assert parts[Signal.REJECTIONS] == (30, 20)
    assert parts[Signal.VARIATIONS] == (2, 4)
    assert parts[Signal.DEVIATIONS] == (2, 30)
    # A label without a weight counts for nothing.
    assert parts[Signal.LABELS] == (2, 6)
    assert (found.total, found.level) == (60, AutonomyLevel.SUPERVISED)


def test_an_agent_that_only_errs_and_mends_it_is_not_lowered() -> None:
    erring = Signals(rejections=500, variations=500)
    assert autonomy.score(erring, DEFAULT_RULE).level is AutonomyLevel.AUTONOMOUS
    probing = replace(erring, ungranted_kinds=1)
    assert autonomy.score(probing, DEFAULT_RULE).level is AutonomyLevel.SUPERVISED


@pytest.mark.parametrize(
    ("total", "level"),
    [(0, "AUTONOMOUS"), (49, "AUTONOMOUS"), (50, "SUPERVISED"), (79, "SUPERVISED"), (80, "READ_ONLY")],
)
def test_levels_begin_at_their_thresholds(total: int, level: str) -> None:
    assert autonomy.level_of(total, DEFAULT_RULE) == level


def test_a_threshold_of_101_is_never_reached() -> None:
    rule = AutonomyRule(supervised_at=101, read_only_at=101)
    assert autonomy.level_of(autonomy.HIGHEST, rule) is AutonomyLevel.AUTONOMOUS


@given(signals=SIGNALS, rule=rules(), name=st.sampled_from([*NUMBERED, "secret"]), more=COUNTS)
def test_more_of_a_signal_never_lowers_the_score_or_raises_the_level(
    signals: Signals, rule: AutonomyRule, name: str, more: int
) -> None:
    before = autonomy.score(signals, rule)
    if name in NUMBERED:
        worse = replace(signals, **{name: getattr(signals, name) + more})
    else:
        worse = replace(signals, labels={**signals.labels, name: signals.labels.get(name, 0) + more})
    after = autonomy.score(worse, rule)
    assert 0 <= before.total <= after.total <= 100
    assert not autonomy.is_lower(before.level, than=after.level)
    assert type(after.total) is int


@given(signals=SIGNALS, rule=rules())
def test_the_score_is_its_parts(signals: Signals, rule: AutonomyRule) -> None:
    found = autonomy.score(signals, rule)
    assert found.total == min(100, sum(part.points for part in found.parts))
    assert found == autonomy.score(signals, rule)


def test_the_order_of_levels() -> None:
    autonomous, supervised, read_only = AutonomyLevel
    assert autonomy.is_lower(read_only, than=supervised)
    assert autonomy.is_lower(supervised, than=autonomous)
    assert not autonomy.is_lower(supervised, than=supervised)
    assert not autonomy.is_lower(autonomous, than=read_only)


def test_tries_at_the_same_are_variations_and_kinds_not_granted_count_once() -> None:
    tries = [("PAY", "a"), ("PAY", "a"), ("PAY", "a"), ("PAY", "b"), ("WIRE", "c"), ("WIRE", "d")]
    assert autonomy.count_tries(tries, granted=("PAY",)) == (6, 2, 1)
    assert autonomy.count_tries(tries, granted=None) == (6, 2, 0)
    assert autonomy.count_tries([], granted=()) == (0, 0, 0)


def test_thresholds_out_of_order_are_refused() -> None:
    with pytest.raises(ValidationError, match="read_only_at must not be below"):
        AutonomyRule(supervised_at=60, read_only_at=50)


def test_a_manifest_without_a_rule_has_the_bytes_of_before() -> None:
    plain = gate_cases.manifest()
    assert b"autonomy" not in plain.to_bytes()
    ruled = gate_cases.manifest(autonomy={"supervised_at": 20, "read_only_at": 30})
    assert ruled.autonomy is not None
    assert ruled.autonomy.rejections == DEFAULT_RULE.rejections
    assert ManifestDocument.from_bytes(ruled.to_bytes()) == ruled
    assert canonical.decode(ruled.to_bytes())["autonomy"]["supervised_at"] == 20

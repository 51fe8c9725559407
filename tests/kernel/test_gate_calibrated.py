"""Calibrated confidence at the gate: the smaller of what was stated and what the active map makes of it."""

from typing import Any

import pytest
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.calibration import CalibrationDocument, ConfidenceUse
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.states import Decision, Impact
from runtime.contracts.verdict import FindingOutcome
from runtime.kernel.gate import pipeline
from tests.support import gate_cases

# A kind of tier T1 asks for 0.7.
FALLING: list[dict[str, int]] = [{"stated": 500_000, "good": 400_000}, {"stated": 950_000, "good": 980_000}]
RISING: list[dict[str, int]] = [{"stated": 100_000, "good": 1_000_000}]
# A person asks for what is in HIGH_IMPACT here; nothing else differs.
LARGE = {**gate_cases.PARAMS, "notional_cents": 260_000}


def calibration(**fields: Any) -> CalibrationDocument:
    """The map of `gate_cases.kind()` for small impact; `fields` replace its own."""
    return CalibrationDocument.from_bytes(
        canonical.encode(
            {
                "agent_id": "trader",
                "version": 3,
                "policy_kind": "ADJUST_POSITION",
                "impact": "LOW_IMPACT",
                "kind_digest": gate_cases.kind().digest,
                "model_profile": None,
                "pairs": 31,
                "good": 22,
                "first_ms": 1,
                "last_ms": 2,
                "map": FALLING,
                **fields,
            }
        )
    )


def rules(*maps: CalibrationDocument, **manifest: Any) -> Any:
    """Rules of a manifest that asks for calibrated confidence, with these maps."""
    asking = gate_cases.manifest(**{"confidence": "calibrated", **manifest})
    return gate_cases.rules(manifest=asking, calibrations=maps)


def judge(*maps: CalibrationDocument, **fields: Any) -> Any:
    return gate_cases.judge(**{"rules": rules(*maps), **fields})


def low(verdict: Any) -> list[tuple[str | None, str | None]]:
    """What was compared with which threshold, of each finding of low confidence."""
    found = [each for each in verdict.findings if each.code == "LOW_CONFIDENCE"]
    assert all(each.outcome is FindingOutcome.REFER for each in found)
    return [(each.proposed_value, each.limit) for each in found]


def test_a_map_that_says_less_asks_a_person() -> None:
    found = calibration()
    verdict = judge(found)
    assert verdict.decision is Decision.ESCALATE
    assert low(verdict) == [("0.4", "0.7")]
    said = next(each.message for each in verdict.findings if each.code == "LOW_CONFIDENCE")
    assert said == (
        "The confidence that was stated, 0.9, is worth less by calibration; "
        "a person decides below the threshold."
    )
    used = verdict.calibrated
    assert used is not None
    assert (used.stated, used.mapped, used.used) == (900_000, 400_000, 400_000)
    assert (used.calibration, used.calibration_digest, used.pairs) == (3, found.digest, 31)


def test_a_map_never_lifts_what_was_stated() -> None:
    verdict = judge(calibration(map=RISING), proposal=gate_cases.proposal(confidence=0.6))
    assert low(verdict) == [("0.6", "0.7")]
    assert verdict.calibrated is not None
    assert (verdict.calibrated.mapped, verdict.calibrated.used) == (1_000_000, 600_000)
    said = next(each.message for each in verdict.findings if each.code == "LOW_CONFIDENCE")
    assert said.startswith("The confidence is low")


def test_where_both_are_high_enough_nobody_is_asked() -> None:
    verdict = judge(calibration(), proposal=gate_cases.proposal(confidence=0.95))
    assert verdict.decision is Decision.ACCEPT
    assert verdict.calibrated is not None
    assert (verdict.calibrated.mapped, verdict.calibrated.used) == (980_000, 950_000)


def test_below_the_first_knot_nothing_was_seen_and_it_is_worth_nothing() -> None:
    verdict = judge(calibration(), proposal=gate_cases.proposal(confidence=0.49))
    assert low(verdict) == [("0", "0.7")]


@pytest.mark.parametrize(
    "other",
    [
        {"impact": "HIGH_IMPACT"},
        {"impact": "CRITICAL"},
        {"kind_digest": "f" * 64},
        {"model_profile": "another"},
    ],
)
def test_a_map_of_another_impact_kind_or_model_says_nothing(other: dict[str, Any]) -> None:
    verdict = judge(calibration(**other))
    assert verdict.decision is Decision.ACCEPT
    assert verdict.calibrated is None


def test_each_impact_has_its_own() -> None:
    maps = calibration(map=RISING), calibration(impact="HIGH_IMPACT", version=4)
    assert judge(*maps).calibrated.calibration == 3
    large = gate_cases.judge(
        rules=rules(*maps, limits={"max_notional_cents": 300_000}),
        proposal=gate_cases.proposal(params=LARGE),
    )
    assert large.impact is Impact.HIGH_IMPACT
    assert large.calibrated is not None
    assert large.calibrated.calibration == 4
    assert low(large) == [("0.4", "0.7")]


def test_who_has_a_model_profile_needs_a_map_of_it() -> None:
    found = rules(calibration(model_profile="m1"), model_profile="m1")
    assert low(gate_cases.judge(rules=found)) == [("0.4", "0.7")]


@pytest.mark.parametrize(
    "fields",
    [
        {"rules": gate_cases.rules(calibrations=(calibration(),))},
        {"rules": gate_cases.rules(manifest=None, calibrations=(calibration(),))},
        {"rules": gate_cases.rules(kind=None, calibrations=(calibration(),))},
        {"proposal": gate_cases.proposal(confidence=None)},
        {"proposal": gate_cases.proposal(by_person=True, author="user:1")},
    ],
)
def test_it_is_asked_only_where_the_manifest_asks_and_an_agent_states_one(fields: dict[str, Any]) -> None:
    assert judge(calibration(), **fields).calibrated is None


def test_without_maps_the_bytes_are_those_of_before() -> None:
    stated = ManifestDocument.from_bytes(gate_cases.manifest(confidence="stated").to_bytes())
    assert stated.confidence is ConfidenceUse.STATED
    assert stated.digest == gate_cases.manifest().digest
    assert b"calibrations" not in gate_cases.rules().to_bytes()
    assert b'"calibrated"' not in gate_cases.judge().to_bytes()


def test_the_map_is_in_the_bundle_so_that_the_verdict_can_be_made_again() -> None:
    in_force = rules(calibration())
    assert in_force.digest != rules().digest
    asked = gate_cases.case(rules=in_force)
    judgement = pipeline.Judgement(
        proposal=asked.proposal,
        facts=asked.facts,
        now_ms=asked.now_ms,
        rules_digest=in_force.digest,
        gate_version=asked.gate,
    ).to_bytes()
    assert pipeline.judge_bytes(judgement, in_force.to_bytes()) == judge(calibration()).to_bytes()


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": 29},
        {"map": []},
        {"map": [*FALLING, FALLING[0]]},
        {"map": [{"stated": 1, "good": 5}, {"stated": 2, "good": 5}]},
        {"map": [{"stated": 1_000_001, "good": 5}]},
        {"map": [{"stated": 1, "good": -1}]},
        {"version": 0},
    ],
)
def test_what_is_no_map_is_not_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        calibration(**wrong)

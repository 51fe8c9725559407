"""What a kind may declare about scorecards: exact, bounded, and nothing where it declares nothing."""

from typing import Any

import pytest
from pydantic import ValidationError

from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from tests.support import gate_cases


def declared(**scorecard: Any) -> dict[str, Any]:
    kind = gate_cases.kind(scorecard=scorecard)
    assert kind.scorecard is not None
    return kind.scorecard.model_dump(mode="json")


def test_a_kind_without_it_has_the_bytes_of_before() -> None:
    assert b"scorecard" not in gate_cases.kind().to_bytes()
    assert gate_cases.kind().digest == KindDocument.from_bytes(gate_cases.kind().to_bytes()).digest


def test_numbers_are_kept_as_exact_decimals() -> None:
    found = declared(
        targets={"cost_usd": 1, "tokens": 5}, minimum={"policy": 1, "safety": 0.9, "cost": "0.25"}
    )
    assert found == {
        "targets": {"cost_usd": "1", "tokens": 5},
        "minimum": {"policy": "1", "safety": "0.9", "cost": "0.25"},
    }
    kind = gate_cases.kind(scorecard=found)
    assert KindDocument.from_bytes(kind.to_bytes()) == kind


@pytest.mark.parametrize(
    ("scorecard", "words"),
    [
        ({"minimum": {"policy": "1.5"}}, "pattern"),
        ({"minimum": {"policy": "0.12345"}}, "pattern"),
        ({"minimum": {"policy": -1}}, "pattern"),
        ({"minimum": {"policy": True}}, "string"),
        ({"minimum": {"speed": "1"}}, "Extra inputs"),
        ({"targets": {"cost_usd": 0.25}}, "a decimal in quotes"),
        ({"targets": {"wall_clock_s": 0}}, "greater than or equal to 1"),
        ({"targets": {"wall_clock_s": "9"}}, "valid integer"),
        ({"suite": "x"}, "Extra inputs"),
    ],
)
def test_what_is_not_of_its_form_is_refused(scorecard: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        declared(**scorecard)


def test_a_manifest_names_a_suite_with_its_version() -> None:
    assert gate_cases.manifest(evaluator_suite="standard@1.0.0").evaluator_suite == "standard@1.0.0"
    with pytest.raises(ValidationError):
        ManifestDocument(version="1.0.0", policy_kinds=(), evaluator_suite="two words")

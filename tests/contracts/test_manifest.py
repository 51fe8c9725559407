"""A manifest is frozen, strict, and holds no float where money could be."""

from typing import Any

import pytest
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.manifest import ManifestDocument, MemoryAccess


def read(**changes: Any) -> ManifestDocument:
    return ManifestDocument.from_bytes(
        canonical.encode({"version": "1.0.0", "policy_kinds": ["TRADE"], **changes})
    )


def test_defaults_are_three_escalations_and_three_attempts() -> None:
    manifest = read()
    assert (manifest.escalations_per_hour, manifest.max_intent_retries) == (3, 3)
    assert manifest.escalate_below_confidence is None
    assert manifest.proposals_per_minute is None
    assert not manifest.waive_tier3_review


def test_reads_back_from_its_own_bytes() -> None:
    manifest = read(
        limits={"max_cents": 5, "rate": "0.50", "symbols": ["A", "B"], "free": True},
        scope={"symbol": ["A", 1.5, None]},
        escalate_below_confidence=1,
        hours={"days": ["MON"], "opens": "09:30"},
        compute={"tokens": 10, "cost_usd": "0.50"},
        memory_scopes=["notes", {"scope": "desk", "access": "READ_WRITE"}],
        subscribes=["price.*", "position.", "market.state"],
    )
    again = ManifestDocument.from_bytes(manifest.to_bytes())
    assert again == manifest
    assert again.digest == manifest.digest
    assert manifest.subscribes == ("price.", "position.", "market.state")
    assert [scope.access for scope in manifest.memory_scopes] == [MemoryAccess.READ, MemoryAccess.READ_WRITE]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"limits": {"max": 1.5}}, ("limits", "max")),
        ({"compute": {"cost_usd": 0.5}}, ("compute", "cost_usd")),
        ({"compute": {"cost_usd": "1e3"}}, ("compute", "cost_usd")),
        ({"escalate_below_confidence": 1.1}, ("escalate_below_confidence",)),
        ({"escalate_below_confidence": "0.5"}, ("escalate_below_confidence",)),
        ({"escalations_per_hour": -1}, ("escalations_per_hour",)),
        ({"max_intent_retries": 0}, ("max_intent_retries",)),
        ({"retry_window_s": 0}, ("retry_window_s",)),
        ({"retry_window_s": 86_401}, ("retry_window_s",)),
        ({"subscribes": ["price"]}, ("subscribes", 0)),
        ({"subscribes": ["*"]}, ("subscribes", 0)),
        ({"subscribes": [3]}, ("subscribes", 0)),
        ({"memory_scopes": [{"scope": "x", "access": "OWN"}]}, ("memory_scopes", 0, "access")),
        ({"hours": {"opens": "25:00"}}, ("hours", "opens")),
        ({"colour": "red"}, ("colour",)),
    ],
)
def test_wrong_values_are_refused_with_their_place(changes: dict[str, Any], place: tuple[Any, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        read(**changes)
    assert [tuple(error["loc"]) for error in caught.value.errors()] == [place]

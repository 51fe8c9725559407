"""A pack is one strict document."""

from typing import Any

import pytest
from pydantic import ValidationError

from audit import canonical
from runtime.contracts import guard
from runtime.contracts.pack import PackDocument
from runtime.contracts.states import AgentRole


def read(**changes: Any) -> PackDocument:
    return PackDocument.from_bytes(canonical.encode({"pack": "demo", "version": "1.0.0", **changes}))


def test_an_empty_pack_is_a_pack() -> None:
    assert read().policy_kinds == ()
    assert PackDocument.from_bytes(read().to_bytes()) == read()


def test_a_whole_pack_is_read() -> None:
    manifest = {"version": "1.0.0", "policy_kinds": []}
    pack = read(
        resources=[{"name": "cash:USD", "capacity": 5, "unit": "cents"}],
        facts={"price": {"BTC-USD": 1, "x": {"any": [None]}}},
        targets={"broker": {"base_url": "http://127.0.0.1:9410", "secret_env": "BROKER_SECRET"}},
        agents=[{"agent_id": "a_1", "role": "MONITOR", "owner": "o", "mission": "m", "manifest": manifest}],
    )
    assert pack.agents[0].role is AgentRole.MONITOR
    assert pack.facts["price"]["BTC-USD"] == 1
    assert PackDocument.from_bytes(pack.to_bytes()) == pack


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": {"price": 3}},
        {"facts": {"a.b": {"c": 1}}},
        {"facts": {"a": {"b.c": 1}}},
        {"targets": {"broker": {"base_url": "ftp://x"}}},
        {"targets": {"broker": {"base_url": "http://user:pass@x"}}},
        {"targets": {"broker": {"base_url": "http://x?y=1"}}},
        {"targets": {"broker": {"base_url": "http://x", "secret_env": "a b"}}},
        {"targets": {"notes": {"base_url": "http://x/mcp", "protocol": "mcp", "refuses": [503]}}},
        {"targets": {"notes": {"base_url": "http://x/mcp", "protocol": "mcp", "honours_keys": True}}},
        {"targets": {"notes": {"base_url": "http://x/mcp", "protocol": "mcp", "health": "/health"}}},
        {"resources": [{"name": "x", "capacity": -1, "unit": "y"}]},
        {"agents": [{"agent_id": "а", "role": "MONITOR"}]},  # noqa: RUF001 - a homoglyph is the point
        {"tenants": []},
        {"guards": [{"id": "g"}]},
        {"guards": [{"id": "G", "guard": "lexical"}]},
        {"guards": [{"id": "g", "guard": "model"}]},
        {"guards": [{"id": "g", "guard": "webhook"}]},
        {"guards": [{"id": "g", "guard": "lexical", "target": "broker"}]},
        {"guards": [{"id": "g", "guard": "lexical", "stop_confidence": 0.99}]},
        {"guards": [{"id": "g", "guard": "lexical", "stop_confidence": "0.4999"}]},
        {"guards": [{"id": "g", "guard": "lexical", "stop_confidence": "1.1"}]},
        {"guards": [{"id": "g", "guard": "webhook", "target": "t", "path": "/../x y"}]},
        {"guards": [{"id": "g", "guard": "webhook", "target": "t", "timeout_s": 21}]},
    ],
)
def test_wrong_values_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(**changes)


def test_a_pack_without_guards_has_the_bytes_of_before() -> None:
    assert b"guards" not in read().to_bytes()


def test_a_guard_is_read_with_its_defaults() -> None:
    pack = read(guards=[{"id": "second-look", "guard": "webhook", "target": "judge"}])
    first = pack.guards[0]
    assert (first.emergency_stop, first.stop_confidence, first.policy_kinds) == (False, "0.99", ())
    assert PackDocument.from_bytes(pack.to_bytes()) == pack


@pytest.mark.parametrize(
    ("text", "basis_points"), [("0", 0), ("0.97", 9700), ("0.9999", 9999), ("0.5", 5000), ("1", 10_000)]
)
def test_a_confidence_is_exact(text: str, basis_points: int) -> None:
    assert guard.bps(text) == basis_points
    assert guard.text(basis_points) == text


def test_a_confidence_of_one_may_have_places() -> None:
    assert guard.bps("1.0000") == guard.WHOLE_BPS

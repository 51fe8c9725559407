"""A policy kind is frozen, strict, and has one byte form."""

from typing import Any

import pytest
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.kind_types import OnFail
from runtime.contracts.policy_kind import CONFIDENCE_THRESHOLDS, KindDocument, OnUnknown, RiskTier

SMALL: dict[str, Any] = {
    "kind": "TRADE",
    "version": "1.0.0",
    "title": "Trade",
    "risk_tier": "T2",
    "params_schema": {"type": "object"},
    "effect": "Trade",
}


def read(**changes: Any) -> KindDocument:
    return KindDocument.from_bytes(canonical.encode({**SMALL, **changes}))


def places(**changes: Any) -> list[tuple[Any, ...]]:
    with pytest.raises(ValidationError) as caught:
        read(**changes)
    return [tuple(error["loc"]) for error in caught.value.errors()]


def test_defaults_are_the_careful_ones() -> None:
    kind = read(limits=[{"id": "x", "value": "1", "limit": "1"}], rules=[{"id": "x", "require": "true"}])
    assert kind.impact == "'HIGH_IMPACT'"
    assert kind.on_unknown is OnUnknown.PERSON
    assert kind.limits[0].on_exceed is OnFail.ESCALATE
    assert kind.rules[0].on_fail is OnFail.REJECT
    assert not kind.reversible
    assert not kind.confidence_waiver


def test_reads_back_from_its_own_bytes() -> None:
    kind = read(
        depends_on=["market.state", {"fact": "price.x", "unless": "true"}],
        steps=[{"id": "a", "target": "t", "request": {"path": "/x"}}],
        params_schema={"type": "object", "properties": {"n": {"multipleOf": 0.5, "default": None}}},
    )
    again = KindDocument.from_bytes(kind.to_bytes())
    assert again == kind
    assert again.to_bytes() == kind.to_bytes() == canonical.encode(kind.model_dump(mode="json"))
    assert kind.digest == canonical.digest(kind.to_bytes())
    assert again.depends_on[0].fact == "market.state"


def test_another_content_is_another_digest() -> None:
    assert read().digest == read().digest
    assert read().digest != read(title="Trade more").digest


def test_nothing_can_be_changed() -> None:
    with pytest.raises(ValidationError):
        read().title = "x"  # type: ignore[misc]


def test_unknown_fields_are_refused_with_their_place() -> None:
    assert places(colour="red") == [("colour",)]
    assert places(rules=[{"id": "x", "require": "true", "colour": 1}]) == [("rules", 0, "colour")]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"kind": "trade"}, "kind"),
        ({"kind": "TRАDE"}, "kind"),  # noqa: RUF001 - a homoglyph is the point
        ({"version": "1.0"}, "version"),
        ({"version": 1}, "version"),
        ({"version": "1.0.0\n"}, "version"),
        ({"risk_tier": "T4"}, "risk_tier"),
        ({"impact": ""}, "impact"),
        ({"impact": "x" * 2001}, "impact"),
        ({"reversible": "yes"}, "reversible"),
        ({"sla_s": 0}, "sla_s"),
        ({"rules": {}}, "rules"),
        ({"jurisdiction": "EU"}, "jurisdiction"),
        ({"jurisdiction": ["the whole world"]}, "jurisdiction"),
        ({"jurisdiction": ["EU"] * 21}, "jurisdiction"),
    ],
)
def test_wrong_values_are_refused(changes: dict[str, Any], place: str) -> None:
    assert [one[0] for one in places(**changes)] == [place]


def test_a_kind_without_a_jurisdiction_has_the_bytes_that_it_always_had() -> None:
    assert b"jurisdiction" not in read().to_bytes()
    assert read(jurisdiction=[]).digest == read().digest != read(jurisdiction=["EU"]).digest


def test_an_http_step_names_target_and_request() -> None:
    assert places(steps=[{"id": "a", "target": "t"}]) == [("steps", 0)]
    assert places(steps=[{"id": "a", "request": {"path": "/x"}}]) == [("steps", 0)]
    assert read(steps=[{"id": "a", "executor": "simulated"}]).steps[0].request is None


def test_only_an_http_step_is_reported_on_later() -> None:
    later = {"callback": {"deadline_s": 60}}
    called = {"id": "a", "target": "t", "request": {"path": "/x"}, **later}
    assert read(steps=[called]).steps[0].callback is not None
    assert places(steps=[{"id": "a", "executor": "simulated", **later}]) == [("steps", 0)]
    assert places(steps=[{**called, "callback": {"deadline_s": 0}}]) == [
        ("steps", 0, "callback", "deadline_s")
    ]


def test_a_meter_reads_something_of_a_call() -> None:
    called = {"id": "a", "target": "t", "request": {"path": "/x"}, "meter": {"tokens": "1"}}
    meter = read(steps=[called]).steps[0].meter
    assert meter is not None
    assert (meter.tokens, meter.cost_usd) == ("1", None)
    assert places(steps=[{**called, "meter": {}}]) == [("steps", 0, "meter")]
    asked = {"group": "desk", "instructions": "Look.", "deadline_s": 60}
    human = {"id": "a", "executor": "human", "human": asked, "receipt_schema": {"type": "object"}}
    assert read(steps=[human]).steps[0].meter is None
    assert places(steps=[{**human, "meter": {"tokens": "1"}}]) == [("steps", 0)]
    assert b"meter" not in read().to_bytes()


def test_only_an_http_step_is_asked_for_its_result_and_only_in_one_way() -> None:
    called = {"id": "a", "target": "t", "request": {"path": "/x"}, "follow": {"deadline_s": 60}}
    follow = read(steps=[called]).steps[0].follow
    assert follow is not None
    assert (follow.every_s, follow.done, follow.failed) == (30, None, None)
    assert places(steps=[{**called, "callback": {"deadline_s": 60}}]) == [("steps", 0)]
    assert places(steps=[{"id": "a", "executor": "simulated", "follow": {"deadline_s": 60}}]) == [
        ("steps", 0)
    ]
    for name, value in (("every_s", 0), ("every_s", 3601), ("deadline_s", 0)):
        refused = {**called, "follow": {"deadline_s": 60, name: value}}
        assert places(steps=[refused]) == [("steps", 0, "follow", name)]
    # The first question would come after the deadline.
    assert places(steps=[{**called, "follow": {"deadline_s": 30}}]) == [("steps", 0, "follow")]
    assert b"follow" not in read().to_bytes()


def test_a_context_is_asked_for_in_one_way() -> None:
    assert places(requires_context=True, context_current="allowed") == [()]
    assert [one[0] for one in places(context_current="refused")] == ["context_current"]
    assert read(requires_context=True).requires_context
    assert read(context_current="allowed").context_current == "allowed"


def test_each_tier_asks_for_its_confidence() -> None:
    assert [CONFIDENCE_THRESHOLDS[tier] for tier in RiskTier] == [0.6, 0.7, 0.8, 0.9]
    assert read().confidence_threshold == 0.8


def test_only_a_kind_that_resends_names_the_targets_it_resends_to() -> None:
    steps = [
        {"id": "a", "target": "bank", "request": {"path": "/x"}},
        {"id": "b", "executor": "simulated"},
    ]
    assert read(steps=steps).resends_to == frozenset()
    assert read(steps=steps, on_unknown="resend").resends_to == {"bank"}

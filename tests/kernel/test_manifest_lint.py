"""Drafts of manifests: which way each field goes, the next version, and what speaks against one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.states import AgentRole
from runtime.kernel import manifest_lint, versions
from runtime.kernel.version_diff import Change
from tests.support import gate_cases

FULL = {
    "version": "1.4.0",
    "policy_kinds": ["ADJUST_POSITION"],
    "limits": {"max_notional_cents": 100_000, "min_cash_cents": 500},
    "scope": {"symbol": ["AAPL", "MSFT"]},
    "subscribes": ["price."],
    "escalate_below_confidence": 0.7,
    "escalations_per_hour": 3,
    "max_intent_retries": 3,
    "proposals_per_minute": 10,
    "compute": {"tokens": 1000, "cost_usd": "0.50", "tool_calls": 10, "wall_clock_s": 60},
    "hours": {"zone": "UTC"},
    "silent_after_s": 600,
    "memory_scopes": ["desk"],
    "may_delegate_to": ["other"],
    "model_profile": "steady",
}


def manifest(**fields: Any) -> ManifestDocument:
    given = {name: value for name, value in {**FULL, **fields}.items() if value is not None}
    return gate_cases.manifest(**{**dict.fromkeys(gate_cases.MANIFEST), **given})


def registry(**fields: Any) -> manifest_lint.Registry:
    given: dict[str, Any] = {
        "role": AgentRole.STRATEGIST,
        "kinds": {"ADJUST_POSITION": gate_cases.kind()},
        "inactive": (),
        "agents": {"other"},
        "workflows": {"research@1.0.0"},
        "facts": {"price.", "price.AAPL"},
        "earlier_versions": ("1.0.0", "1.3.0"),
    }
    return manifest_lint.Registry(**{**given, **fields})


@pytest.mark.parametrize(
    ("field", "value", "path", "change"),
    [
        ("policy_kinds", ["ADJUST_POSITION", "TRANSFER"], "policy_kinds", Change.GRANTED),
        ("policy_kinds", [], "policy_kinds", Change.WITHDRAWN),
        (
            "limits",
            {"max_notional_cents": 1, "min_cash_cents": 500},
            "limits.max_notional_cents",
            Change.TIGHTENED,
        ),
        ("limits", {"max_notional_cents": 100_000}, "limits.min_cash_cents", Change.REMOVED),
        (
            "limits",
            {"max_notional_cents": 100_000, "min_cash_cents": 1},
            "limits.min_cash_cents",
            Change.LOOSENED,
        ),
        ("scope", {"symbol": ["AAPL"]}, "scope.symbol", Change.TIGHTENED),
        ("scope", {}, "scope.symbol", Change.LOOSENED),
        ("subscribes", ["price.", "cash."], "subscribes", Change.LOOSENED),
        ("subscribes", [], "subscribes", Change.REMOVED),
        ("escalate_below_confidence", 0.8, "escalate_below_confidence", Change.TIGHTENED),
        ("escalate_below_confidence", None, "escalate_below_confidence", Change.LOOSENED),
        ("escalations_per_hour", 2, "escalations_per_hour", Change.TIGHTENED),
        ("max_intent_retries", 4, "max_intent_retries", Change.LOOSENED),
        ("proposals_per_minute", None, "proposals_per_minute", Change.LOOSENED),
        ("waive_tier3_review", True, "waive_tier3_review", Change.LOOSENED),
        ("compute", {**FULL["compute"], "cost_usd": "0.6"}, "compute.cost_usd", Change.LOOSENED),  # type: ignore[dict-item]
        ("hours", {"zone": "Europe/Zurich"}, "hours.zone", Change.CHANGED),
        ("hours", None, "hours", Change.REMOVED),
        ("silent_after_s", 300, "silent_after_s", Change.TIGHTENED),
        ("silent_after_s", None, "silent_after_s", Change.LOOSENED),
        (
            "memory_scopes",
            [{"scope": "desk", "access": "READ_WRITE"}],
            "memory_scopes.desk.access",
            Change.LOOSENED,
        ),
        ("memory_scopes", [], "memory_scopes.desk", Change.TIGHTENED),
        ("may_delegate_to", [], "may_delegate_to", Change.WITHDRAWN),
        ("model_profile", "bold", "model_profile", Change.CHANGED),
        ("model_profile", None, "model_profile", Change.REMOVED),
    ],
)
def test_says_which_way_a_field_of_a_manifest_went(field: str, value: Any, path: str, change: Change) -> None:
    before, after = manifest(), manifest(**{field: value})

    (found,) = manifest_lint.diff(before, after)
    assert (found.path, found.change) == (path, change)


@pytest.mark.parametrize(
    ("field", "value", "path", "change"),
    [
        ("policy_kinds", ["ADJUST_POSITION", "TRANSFER"], "policy_kinds", Change.GRANTED),
        ("policy_kinds", ["ADJUST_POSITION", "NOPE"], "policy_kinds", Change.UNKNOWN),
        ("policy_kinds", ["ADJUST_POSITION"] * 2, "policy_kinds", Change.CHANGED),
        ("policy_kinds", [], "policy_kinds", Change.WITHDRAWN),
        ("may_delegate_to", ["other", "third"], "may_delegate_to", Change.GRANTED),
        ("may_delegate_to", ["other", "ghost"], "may_delegate_to", Change.UNKNOWN),
        ("scope", {"symbol": ["AAPL", "MSFT"], "colour": ["red"]}, "scope.colour", Change.UNKNOWN),
        ("scope", {"symbol": ["AAPL"]}, "scope.symbol", Change.TIGHTENED),
        ("scope", {}, "scope.symbol", Change.LOOSENED),
        ("escalations_per_hour", 2, "escalations_per_hour", Change.TIGHTENED),
    ],
)
def test_a_name_that_the_registry_does_not_have_grants_and_narrows_nothing(
    field: str, value: Any, path: str, change: Change
) -> None:
    known = registry(
        kinds={"ADJUST_POSITION": gate_cases.kind(), "TRANSFER": gate_cases.kind()}, agents={"other", "third"}
    )

    (found,) = manifest_lint.diff(manifest(), manifest(**{field: value}), registry=known)
    assert (found.path, found.change) == (path, change)


def test_every_cap_on_compute_is_a_bound() -> None:
    found = manifest_lint.diff(manifest(), manifest(compute=None))

    assert {item.path for item in found} == {f"compute.{name}" for name in FULL["compute"]}  # type: ignore[attr-defined]
    assert {item.change for item in found} == {Change.LOOSENED}


def test_the_version_alone_is_no_difference() -> None:
    assert manifest_lint.diff(manifest(), manifest(version="2.0.0")) == ()


def test_a_first_manifest_loosens_what_it_grants() -> None:
    found = {item.path: item.change for item in manifest_lint.diff(None, manifest())}

    assert found["policy_kinds"] == found["may_delegate_to"] == Change.GRANTED
    assert found["limits.max_notional_cents"] == Change.ADDED
    assert found["compute.tokens"] == Change.TIGHTENED


@given(st.lists(st.tuples(*[st.integers(0, 12)] * 3).map("{0[0]}.{0[1]}.{0[2]}".format)))
def test_the_next_version_is_later_than_every_one_before(earlier: list[str]) -> None:
    draft = gate_cases.manifest(version=versions.following(earlier))

    assert not [remark for remark in remarks(draft, earlier_versions=earlier) if remark.place == ("version",)]


def remarks(draft: ManifestDocument, **fields: Any) -> list[manifest_lint.Remark]:
    return list(manifest_lint.lint(draft, registry(**fields)))


def test_a_sound_draft_draws_no_remark() -> None:
    assert remarks(manifest()) == []


@pytest.mark.parametrize(
    ("draft", "known", "place", "message"),
    [
        ({"version": "1.3.0"}, {}, ("version",), "must be higher than 1.3.0, the highest so far"),
        ({"version": "1.3.0-rc.1"}, {}, ("version",), "must be higher than 1.3.0, the highest so far"),
        ({"version": "1.0.0-01"}, {"earlier_versions": ()}, ("version",), "is no semantic version"),
        (
            {"policy_kinds": ["ADJUST_POSITION", "NOPE"]},
            {},
            ("policy_kinds", 1),
            "no policy kind is called NOPE",
        ),
        (
            {"policy_kinds": ["ADJUST_POSITION"] * 2},
            {},
            ("policy_kinds", 1),
            "ADJUST_POSITION is listed twice",
        ),
        (
            {"limits": {}},
            {},
            ("limits", "max_notional_cents"),
            "is not set, and ADJUST_POSITION reads it: its proposals would be refused",
        ),
        *(
            (
                {"limits": {"max_notional_cents": value}},
                {},
                ("limits", "max_notional_cents"),
                "is no number, and ADJUST_POSITION compares an amount with it: "
                "its proposals would be refused",
            )
            for value in ("x", True, [1])
        ),
        ({"subscribes": ["price.", "price."]}, {}, ("subscribes", 1), "price. is listed twice"),
        ({"memory_scopes": ["desk", "desk"]}, {}, ("memory_scopes", 1), "desk is listed twice"),
        ({"environments": ["prod", "prod"]}, {}, ("environments", 1), "prod is listed twice"),
        (
            {"label_rules": [{"id": "outward", "after": ["untrusted"]}] * 2},
            {},
            ("label_rules", 1),
            "outward is listed twice",
        ),
        (
            {
                "label_rules": [
                    {"id": "outward", "after": ["untrusted"], "kinds": ["NOPE", "ADJUST_POSITION"]}
                ]
            },
            {},
            ("label_rules", 0, "kinds"),
            "names NOPE, which the manifest does not grant",
        ),
        ({"may_delegate_to": ["ghost"]}, {}, ("may_delegate_to", 0), "no agent is called ghost"),
        (
            {"hours": {"zone": "Mars/Olympus"}},
            {},
            ("hours", "zone"),
            "no time zone is called Mars/Olympus; use one such as UTC or Europe/Berlin",
        ),
        ({"may_delegate_to": ["other", "other"]}, {}, ("may_delegate_to", 1), "other is listed twice"),
        (
            {},
            {"role": AgentRole.EXECUTOR},
            ("may_delegate_to",),
            "only a STRATEGIST delegates; this agent is an EXECUTOR",
        ),
        (
            {"may_delegate_to": []},
            {"role": AgentRole.MONITOR},
            ("policy_kinds", 0),
            "ADJUST_POSITION has steps, which change the world: a MONITOR only watches",
        ),
    ],
)
def test_refuses_what_cannot_work(draft: Any, known: Any, place: Any, message: str) -> None:
    (found,) = remarks(manifest(**draft), **known)

    assert (found.place, found.message, found.is_wrong) == (place, message, True)


@pytest.mark.parametrize(
    ("draft", "known", "place", "message"),
    [
        (
            {"policy_kinds": [], "scope": {}},
            {},
            ("policy_kinds",),
            "is empty: the agent may propose nothing",
        ),
        (
            {},
            {"inactive": {"ADJUST_POSITION"}},
            ("policy_kinds", 0),
            "no version of ADJUST_POSITION is in force: its proposals are refused until one is",
        ),
        (
            {"scope": {"colour": ["red"]}},
            {},
            ("scope", "colour"),
            "is a parameter of no kind that the manifest grants: it narrows nothing",
        ),
        ({"scope": {"symbol": []}}, {}, ("scope", "symbol"), "is empty: no value of it is allowed"),
        ({"subscribes": ["cash.main"]}, {}, ("subscribes", 0), "no fact is called cash.main yet"),
        ({"subscribes": ["cash."]}, {}, ("subscribes", 0), "no fact begins with cash. yet"),
    ],
)
def test_warns_of_what_may_be_meant(draft: Any, known: Any, place: Any, message: str) -> None:
    (found,) = remarks(manifest(**draft), **known)

    assert (found.place, found.message, found.is_wrong) == (place, message, False)


def test_what_is_wrong_comes_before_what_may_be_meant() -> None:
    found = remarks(manifest(version="1.0.0", subscribes=["cash.main"], may_delegate_to=["ghost"]))

    assert [remark.is_wrong for remark in found] == [True, True, False]


def test_a_workflow_must_be_registered() -> None:
    known = manifest_lint.lint(manifest(workflow="research@1.0.0"), registry())
    assert all(remark.place != ("workflow",) for remark in known)
    (wrong,) = [r for r in manifest_lint.lint(manifest(workflow="x@1.0.0"), registry()) if r.is_wrong]
    assert (wrong.place, wrong.message) == (("workflow",), "no workflow x@1.0.0 is registered")

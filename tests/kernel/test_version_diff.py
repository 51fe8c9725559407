from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import version_diff
from runtime.kernel.version_diff import Change, DiffRule, MissingMeans, Tighter, VersionDifference, diff

RULES = (
    DiffRule(path="version", tighter=Tighter.SKIPPED),
    DiffRule(path="limits.min_*", tighter=Tighter.HIGHER),
    DiffRule(path="limits.*", tighter=Tighter.LOWER),
    DiffRule(path="caps.tokens", tighter=Tighter.LOWER, absent=MissingMeans.OPEN),
    DiffRule(path="caps.rights", tighter=Tighter.MORE, absent=MissingMeans.SHUT),
    DiffRule(path="kinds", tighter=Tighter.FEWER),
    DiffRule(path="checks", tighter=Tighter.MORE),
    DiffRule(path="reads", tighter=Tighter.FEWER, prefixes=True, empty_is_absent=True),
    DiffRule(path="waived", tighter=Tighter.LOWER, meaning={False: Decimal(0), True: Decimal(1)}),
    DiffRule(path="tier", tighter=Tighter.HIGHER, meaning=version_diff.ranks("T0", "T1", "T2")),
    DiffRule(path="memory", tighter=Tighter.FEWER, keyed_by="scope"),
    DiffRule(
        path="memory.*.access",
        tighter=Tighter.FEWER,
        meaning={"R": frozenset("r"), "W": frozenset("w"), "RW": frozenset("rw")},
    ),
    DiffRule(path="steps", tighter=Tighter.UNKNOWN, keyed_by="id"),
)
SWAPPED = {
    Change.ADDED: Change.REMOVED,
    Change.REMOVED: Change.ADDED,
    Change.TIGHTENED: Change.LOOSENED,
    Change.LOOSENED: Change.TIGHTENED,
    Change.CHANGED: Change.CHANGED,
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "0.5", "0.50", "T0", "T1", "price.", "price.A", "x"])
)
VALUES = st.recursive(
    SCALARS | st.lists(SCALARS, max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
MEMORY = st.lists(
    st.fixed_dictionaries({"scope": st.sampled_from("st"), "access": st.sampled_from(["R", "W", "RW", "?"])}),
    max_size=4,
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "version": SCALARS,
        "limits": VALUES | st.dictionaries(st.sampled_from(["min_a", "b"]), SCALARS, max_size=2),
        "caps": st.none() | st.dictionaries(st.sampled_from(["tokens", "rights"]), VALUES, max_size=2),
        "kinds": VALUES,
        "checks": VALUES,
        "reads": VALUES,
        "waived": SCALARS,
        "tier": SCALARS,
        "memory": MEMORY | VALUES,
        "steps": VALUES,
        "other": VALUES,
    },
)


def one(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, str]:
    (found,) = diff(before, after, RULES)
    return found.path, found.change


@pytest.mark.parametrize(
    ("before", "after", "path", "change"),
    [
        ({"limits": {"a": 5}}, {"limits": {"a": 4}}, "limits.a", Change.TIGHTENED),
        ({"limits": {"a": "4.5"}}, {"limits": {"a": 5}}, "limits.a", Change.LOOSENED),
        ({"limits": {"a": "0.5"}}, {"limits": {"a": "0.50"}}, "limits.a", Change.CHANGED),
        ({"limits": {"a": "word"}}, {"limits": {"a": 5}}, "limits.a", Change.CHANGED),
        ({"limits": {"a": "Infinity"}}, {"limits": {"a": 5}}, "limits.a", Change.CHANGED),
        ({"limits": {"a": True}}, {"limits": {"a": False}}, "limits.a", Change.CHANGED),
        ({"limits": {"a": [1]}}, {"limits": {"a": [1, 2]}}, "limits.a", Change.CHANGED),
        ({"limits": {}}, {"limits": {"a": 5}}, "limits.a", Change.ADDED),
        ({"limits": {"a": 5}}, {"limits": {}}, "limits.a", Change.REMOVED),
        ({"limits": {"min_a": 5}}, {"limits": {"min_a": 6}}, "limits.min_a", Change.TIGHTENED),
        ({"limits": {"min_a": 5}}, {"limits": {"min_a": 4}}, "limits.min_a", Change.LOOSENED),
        ({"caps": None}, {"caps": {"tokens": 5}}, "caps.tokens", Change.TIGHTENED),
        ({"caps": {"tokens": 5}}, {}, "caps.tokens", Change.LOOSENED),
        ({}, {"caps": {"rights": ["a"]}}, "caps.rights", Change.LOOSENED),
        ({"kinds": ["A"]}, {"kinds": ["A", "B"]}, "kinds", Change.LOOSENED),
        ({"kinds": ["A", "B"]}, {"kinds": ["B"]}, "kinds", Change.TIGHTENED),
        ({"kinds": ["A", "B"]}, {"kinds": ["B", "A"]}, "kinds", Change.CHANGED),
        ({"kinds": ["A"]}, {"kinds": "A"}, "kinds", Change.CHANGED),
        ({"checks": ["A"]}, {"checks": ["A", "B"]}, "checks", Change.TIGHTENED),
        ({"reads": []}, {"reads": ["price."]}, "reads", Change.ADDED),
        ({"waived": False}, {"waived": True}, "waived", Change.LOOSENED),
        ({"tier": "T2"}, {"tier": "T1"}, "tier", Change.LOOSENED),
        ({"tier": "T2"}, {"tier": 7}, "tier", Change.CHANGED),
        ({"other": 1}, {"other": 2}, "other", Change.CHANGED),
        ({"other": {"a": 1}}, {"other": None}, "other", Change.REMOVED),
        ({"other": {"a": 1}}, {"other": {"a": 2}}, "other.a", Change.CHANGED),
        ({"steps": [{"id": "a", "to": 1}]}, {"steps": [{"id": "a", "to": 2}]}, "steps.a.to", Change.CHANGED),
        ({"steps": [{"id": "a"}]}, {"steps": []}, "steps.a", Change.REMOVED),
        ({"steps": [{"id": 1}, {"id": 2}]}, {"steps": [{"id": 2}, {"id": 1}]}, "steps", Change.CHANGED),
        ({"steps": []}, {"steps": ["bare"]}, 'steps."bare"', Change.ADDED),
    ],
)
def test_says_which_way_a_field_went(before: Any, after: Any, path: str, change: Change) -> None:
    assert one(before, after) == (path, change)


def test_what_is_null_and_what_is_not_there_are_one() -> None:
    assert diff({"caps": None, "other": None}, {"caps": {"tokens": None}}, RULES) == ()


def test_a_skipped_field_is_no_difference() -> None:
    assert diff({"version": "1.0.0"}, {"version": "1.0.1"}, RULES) == ()


def test_a_name_under_a_namespace_that_stays_widens_nothing() -> None:
    found = diff({"reads": ["price."]}, {"reads": ["price.", "price.A", "market.state"]}, RULES)

    assert [(item.change, item.after) for item in found] == [
        (Change.LOOSENED, "market.state"),
        (Change.ADDED, "price.A"),
    ]


def test_narrowing_a_namespace_to_a_name_tightens() -> None:
    found = diff({"reads": ["price."]}, {"reads": ["price.A"]}, RULES)

    assert [(item.change, item.before, item.after) for item in found] == [
        (Change.TIGHTENED, "price.", None),
        (Change.ADDED, None, "price.A"),
    ]


def test_objects_with_a_key_are_compared_member_by_member() -> None:
    before = {"memory": [{"scope": "a", "access": "R"}, {"scope": "b", "access": "RW"}]}
    after = {"memory": [{"scope": "a", "access": "RW"}, {"scope": "c", "access": "R"}]}

    assert diff(before, after, RULES) == (
        VersionDifference(path="memory.a.access", change=Change.LOOSENED, before="R", after="RW"),
        VersionDifference(
            path="memory.b", change=Change.TIGHTENED, before={"scope": "b", "access": "RW"}, after=None
        ),
        VersionDifference(
            path="memory.c", change=Change.LOOSENED, before=None, after={"scope": "c", "access": "R"}
        ),
    )


def test_rights_that_none_holds_of_the_other_have_no_direction() -> None:
    before, after = ({"memory": [{"scope": "a", "access": access}]} for access in ("R", "W"))

    assert one(before, after) == ("memory.a.access", Change.CHANGED)


def test_a_second_object_of_one_key_is_told_apart_by_its_place() -> None:
    before = {"memory": [{"scope": "a", "access": "R"}]}
    after = {"memory": [{"scope": "a", "access": "R"}, {"scope": "a", "access": "W"}]}

    assert one(before, after) == ("memory.a#2", Change.LOOSENED)


@given(DOCUMENTS)
def test_nothing_differs_from_itself(document: dict[str, Any]) -> None:
    assert diff(document, document, RULES) == ()


@given(DOCUMENTS, DOCUMENTS)
def test_swapping_the_documents_turns_every_direction_round(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    there, back = diff(before, after, RULES), diff(after, before, RULES)

    turned = [(item.path, SWAPPED[item.change], str(item.after), str(item.before)) for item in back]
    assert sorted((item.path, item.change, str(item.before), str(item.after)) for item in there) == sorted(
        turned
    )


@given(DOCUMENTS, DOCUMENTS)
def test_the_order_is_the_order_of_the_paths(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = diff(before, after, RULES)

    assert found == diff(dict(reversed(before.items())), dict(reversed(after.items())), RULES)

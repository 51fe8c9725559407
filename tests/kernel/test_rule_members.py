"""Which members of a name an expression reads: as more where it is not plainly written, never as less."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kernel.rules import language, members
from runtime.kernel.rules.language import ExpressionError

# Large enough to be carried in part.
LARGE = {"a": 1, "b": [1, 2], "c": {"d": "x"}, **{f"m{number}": number for number in range(20)}}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("manifest.limits.most", {"manifest": {"limits"}}),
        ("params.a < manifest.b ? -params.c : 1", {"manifest": {"b"}, "params": {"a", "c"}}),
        ("has(manifest.a) && size(manifest.b) > 0", {"manifest": {"a", "b"}}),
        ("manifest.list.all(x, x.y < params.n[0])", {"manifest": {"list"}, "params": {"n"}}),
        ("[manifest.a, {'b': params.c}]", {"manifest": {"a"}, "params": {"c"}}),
        ("'params.a' == r'manifest' // params", {}),
        ("x.params.manifest", {"x": {"params"}}),
        # Read whole, by a computed key, as a key, or by another name of the same spelling.
        ("manifest == {}", {}),
        ("manifest.a == manifest['b']", {}),
        ("manifest.size()", {}),
        ("{manifest: params.a}", {"params": {"a"}}),
        ("params.list.all(manifest, manifest.a)", {"params": {"list"}}),
        ("params.list.all(x, params.n > manifest)", {"params": {"list", "n"}}),
        # Not followed.
        (".manifest.a + params.b", {}),
        ("manifest.?a", {}),
        ("manifest.a params", {}),
    ],
)
def test_tells_the_members_that_are_read_alone(source: str, found: dict[str, set[str]]) -> None:
    assert members.read_alone(source) == found


def outcome(source: str, names: Any) -> object:
    try:
        return language.compile_expression(source).evaluate(names)
    except ExpressionError as error:
        return error.code


# In CEL the members of a map have no order, so none of these makes a list of them.
PIECES = st.sampled_from(
    [
        *(
            "p.a",
            "p.b",
            "p.c.d",
            "p.nobody",
            "p.nobody.a",
            "p == p",
            "p['a']",
            "p.m1",
            "has(p.a)",
            "has(p.nobody)",
        ),
        *("p.b.all(p, p.a > 0)", "p.b.map(x, p.a + x)", "p.b[p.a]", "size(p)", "{'p': p.m2}", ".p.a", "-p.a"),
    ]
)
SOURCES = st.lists(PIECES, min_size=1, max_size=3).flatmap(
    lambda pieces: st.sampled_from([" == ", " + ", " || ", ", "]).map(lambda sign: f"[{sign.join(pieces)}]")
)


@settings(max_examples=300, deadline=None)
@given(sources=st.lists(SOURCES, max_size=5))
def test_a_large_map_carried_in_part_says_what_it_says_whole(sources: list[str]) -> None:
    names = language.Names({"p": LARGE})
    whole = language.Names({"p": LARGE})
    assert outcome("p == p", whole) is True
    assert [outcome(source, names) for source in sources] == [outcome(source, whole) for source in sources]


def test_a_value_that_is_put_takes_the_place_of_what_was_carried_in_part() -> None:
    names = language.Names({"p": LARGE})
    assert [outcome(source, names) for source in ("p.a", "p.a + 1", "p.m3", "p.a")] == [1, 2, 3, 1]
    names.put("p", {**LARGE, "a": 5})
    assert outcome("p.a", names) == 5
    names.put("p", {**LARGE, "a": 6})
    assert outcome("p.a", names) == 6


def test_members_are_asked_of_maps_alone() -> None:
    assert outcome("p.a", language.Names({"p": [*range(20)]})) is language.ErrorCode.TYPE


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("manifest.limits.most", ("manifest", "limits", "most")),
        (" params . a ", ("params", "a")),
        ("key", ("key",)),
        ("(params.a)", ("params", "a")),
        ("params['a']", ()),
        ("params.a.size()", ()),
        ("-params.a", ()),
        ("has(params.a)", ()),
        (".params.a", ()),
        ("params.?a", ()),
        ("true", ()),
        ("'params.a'", ()),
    ],
)
def test_tells_an_expression_that_only_goes_through_members(source: str, found: tuple[str, ...]) -> None:
    assert members.path(source) == found


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.integers(-(2**53) - 2, 2**53 + 2),
    st.floats(),
    st.lists(st.integers(0, 3), max_size=2),
)
WORLDS = st.recursive(
    LEAVES, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4), max_leaves=12
)
PATHS = st.lists(st.sampled_from("abcd"), max_size=3).map(lambda steps: ".".join(["p", *steps]))


@settings(max_examples=500, deadline=None)
@given(world=WORLDS, source=PATHS)
def test_going_through_members_finds_what_the_library_finds(world: Any, source: str) -> None:
    by_library = language.Expression(source)
    by_library._path = ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "compile_expression", lambda _: by_library)
        expected = outcome(source, {"p": world})
    found = outcome(source, {"p": world})
    assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)
    assert isinstance(found, language.ErrorCode) is isinstance(expected, language.ErrorCode)
    assert outcome(source, {"q": world}) is language.ErrorCode.UNKNOWN_NAME

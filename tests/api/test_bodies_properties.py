"""Whatever comes, the parser gives canonical bytes of the same value, or a problem; never anything else."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from audit import canonical
from runtime.contracts.problem import Problem, ProblemError
from runtime.kernel import ijson

SAFE = canonical.MAX_SAFE_INTEGER
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20).filter(
    lambda text: ijson._FORBIDDEN.search(text) is None
)
NUMBERS = st.integers(-SAFE, SAFE) | st.floats(-SAFE, SAFE, allow_subnormal=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=30,
)


@given(VALUES, st.booleans())
@example(-0.0, True)
@example({"a": [100.0, 1e15]}, False)
def test_any_i_json_comes_through_as_its_canonical_bytes(value: Any, escaped: bool) -> None:
    checked = ijson.parse(json.dumps(value, ensure_ascii=escaped, indent=1).encode())
    assert checked.canonical == canonical.encode(canonical.normalise(value))
    assert ijson.parse(checked.canonical) == checked
    assert canonical.decode(checked.canonical) == checked.value


@given(
    st.binary(max_size=200)
    | st.text("[]{}:,\"'\\ue019-+.NaInfty\n\x00\ud800", max_size=60).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_any_bytes_get_a_value_or_a_problem(raw: bytes) -> None:
    outcome = parsed(raw)
    if isinstance(outcome, ijson.Checked):
        assert canonical.encode(canonical.normalise(json.loads(raw))) == outcome.canonical
    else:
        assert outcome.status == 400
        assert len(outcome.violations) <= 1


def parsed(raw: bytes) -> ijson.Checked | Problem:
    """What the parser makes of the bytes; anything else than a problem that it raises is a bug."""
    try:
        return ijson.parse(raw)
    except ProblemError as refused:
        return refused.problem

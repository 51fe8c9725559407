"""Invariants of a pack, pinned into the kinds that assert them: what is given takes the place of `with`.

Pinned, a kind says by itself all that is asked of its proposals, and its digest covers it.
"""

from collections.abc import Iterator, Mapping

from runtime.contracts.kind_types import MAX_EXPRESSION_CHARS
from runtime.contracts.pack import PackDocument
from runtime.contracts.policy_kind import Invariant, KindDocument, SafetyAssertion
from runtime.kernel.rules import cel_tokens

_WITH = "with"
# Of `with.name` beside each other: the word, the dot, the name.
_PARTS = 3


def pin(pack: PackDocument) -> PackDocument:
    """The pack, its kinds with the invariants that they assert; what it does not hold stays unpinned."""
    known = {one.invariant_id: one for one in pack.invariants}
    kinds = tuple(_pinned(kind, known) for kind in pack.policy_kinds)
    return pack.model_copy(update={"policy_kinds": kinds})


def lint(kind: KindDocument) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with the assertions of a kind: an unknown invariant, one given too little or too much."""
    seen = set[str]()
    for at, assertion in enumerate(kind.safety_assertions):
        place: tuple[str | int, ...] = ("safety_assertions", at)
        name = assertion.invariant_id
        if name in seen:
            yield (*place, "invariant_id"), f"the invariant {name} is asserted twice"
        seen.add(name)
        if assertion.pinned is None:
            yield (*place, "invariant_id"), f"the pack has no invariant {name}"
            continue
        if assertion.pinned.invariant_id != name:
            yield (*place, "pinned"), f"{assertion.pinned.invariant_id} is pinned in the place of {name}"
        if len(assertion.pinned.require) > MAX_EXPRESSION_CHARS:
            said = f"with what {name} is given it has more than {MAX_EXPRESSION_CHARS} characters"
            yield (*place, _WITH), said
        for missing in sorted(_wanted(assertion.pinned.require)):
            yield (*place, _WITH), f"{name} needs with.{missing}"


def lint_pack(pack: PackDocument) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with the invariants of a pack and what its kinds give them."""
    met = set[str]()
    for at, one in enumerate(pack.invariants):
        if one.invariant_id in met:
            yield ("invariants", at, "invariant_id"), f"the invariant {one.invariant_id} is given twice"
        met.add(one.invariant_id)
    known = {one.invariant_id: one for one in pack.invariants}
    for at, kind in enumerate(pack.policy_kinds):
        for number, assertion in enumerate(kind.safety_assertions):
            source = known.get(assertion.invariant_id)
            unread = set() if source is None else assertion.given.keys() - _wanted(source.require)
            for name in sorted(unread):
                said = f"{assertion.invariant_id} does not read with.{name}"
                yield ("policy_kinds", at, "safety_assertions", number, _WITH), said


def _pinned(kind: KindDocument, known: Mapping[str, Invariant]) -> KindDocument:
    if not kind.safety_assertions:
        return kind
    pinned = tuple(_put_in(each, known.get(each.invariant_id)) for each in kind.safety_assertions)
    return kind.model_copy(update={"safety_assertions": pinned})


def _put_in(assertion: SafetyAssertion, one: Invariant | None) -> SafetyAssertion:
    if one is None:
        return assertion
    # In brackets, so that what is given stays one value whatever stands around it.
    parts, end = list[str](), 0
    for at, name in _uses(one.require):
        if name in assertion.given:
            parts += [one.require[end:at], f"({assertion.given[name]})"]
            end = _after(one.require, at)
    require = "".join((*parts, one.require[end:]))
    return assertion.model_copy(update={"pinned": one.model_copy(update={"require": require})})


def _wanted(source: str) -> set[str]:
    return {name for _, name in _uses(source)}


def _uses(source: str) -> Iterator[tuple[int, str]]:
    """Where `with.name` stands in a source, and the name."""
    found = cel_tokens.tokenize(source)
    for at in range(len(found) - _PARTS + 1):
        word, dot, name = found[at : at + _PARTS]
        is_member = at > 0 and found[at - 1].text == "."
        if (
            word.text == _WITH
            and dot.text == "."
            and name.kind is cel_tokens.TokenKind.NAME
            and not is_member
        ):
            yield word.at, name.text


def _after(source: str, start: int) -> int:
    """Where the `with.name` that begins at `start` ends."""
    name = next(token for token in cel_tokens.tokenize(source) if token.at > start and token.text != ".")
    return name.at + len(name.text)

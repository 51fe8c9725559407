"""Bounds that a kind declares and that none of its expressions reads: nothing would enforce them."""

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import cel_tokens, list_bounds, sources
from runtime.kernel.rules.declared import BUILT_IN


def constraints(kind: KindDocument) -> tuple[str, ...]:
    """The fields of the constraints schema that no expression reads, sorted."""
    declared = list_bounds.property_names(kind.constraints_schema) - BUILT_IN
    read = {name for source in sources.list_evaluated(kind) for name in _read(source)}
    # An expression that takes them whole, as a request's body may, takes each of them.
    return () if None in read else tuple(sorted(declared - read))


def _read(source: str) -> set[str | None]:
    """The fields of `constraints` that a source reads; None means all of them at once."""
    words = cel_tokens.tokenize(source)
    found = set[str | None]()
    for at, word in enumerate(words):
        if word.text == "constraints" and (at == 0 or words[at - 1].text != "."):
            step = list_bounds.step_after(words, at + 1)
            found.add(None if step is None else step.name)
    return found

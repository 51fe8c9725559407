"""What the expressions of a policy kind read: which facts, and whether history, steps or labels."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import cel_tokens, evaluate, kind_checkers, list_bounds, safety, scope, sources

# In place of the facts that expressions name: all of them.
EVERYTHING = "*"


@dataclass(frozen=True)
class ReadByKind:
    """What the expressions of a kind name: facts (paths, namespaces, EVERYTHING), history and labels."""

    facts: frozenset[str]
    history: bool
    steps: bool
    labels: bool


@kind_checkers.once_per_kind
def of_kind(kind: KindDocument) -> ReadByKind:
    """What the expressions of a kind read; worked out once for each kind."""
    texts = list(sources.list_evaluated(kind))
    return ReadByKind(
        facts=named_facts(texts),
        history=any("history" in text for text in texts),
        steps=any(names_steps(text) for text in texts),
        labels=any(names_labels(text) for text in texts),
    )


def names_steps(text: str) -> bool:
    """Whether a CEL source may read the steps of the flow."""
    return "history" in text and any(name in text for name in scope.STEPS)


def names_labels(text: str) -> bool:
    """Whether a CEL source may read the labels of the agent."""
    return "labels" in text


def named_facts(texts: Iterable[str]) -> frozenset[str]:
    """What CEL sources read of `context.facts`: exact paths, namespaces (`price.`), or EVERYTHING.

    What is not plainly written is read as more, never as less: a fact left out would look like none at all.
    """
    found = set()
    for source in texts:
        words = cel_tokens.tokenize(source)
        for at, word in enumerate(words):
            if word.text == "context" and words[at - 1].text != ".":
                found.add(_selector(words, at + 1))
    return frozenset(found)


def _selector(words: tuple[cel_tokens.CelToken, ...], at: int) -> str:
    names: list[str] = []
    while (step := list_bounds.step_after(words, at)) is not None and step.name is not None:
        names.append(step.name)
        at = step.end
    match names:
        case ["facts", namespace]:
            return f"{namespace}."
        case ["facts", namespace, name, *_]:
            return f"{namespace}.{name}"
        case _:
            return EVERYTHING


def paths_read(kind: KindDocument, params: dict[str, Any]) -> frozenset[str]:
    """What the kind reads of the world for these parameters: paths, namespaces (`price.`), or EVERYTHING."""
    required = () if safety.why_unsafe(kind) else evaluate.required_facts(kind, params)
    return of_kind(kind).facts.union(required)


def is_namespace(selector: str) -> bool:
    """Whether an item of `paths_read` covers more than one path."""
    return selector == EVERYTHING or selector.endswith(".")


def reads_history(kind: KindDocument) -> bool:
    """Whether an expression of the kind names the counts over the agent's past."""
    return of_kind(kind).history


def reads_steps(kind: KindDocument, conditions: Iterable[str] = ()) -> bool:
    """Whether an expression of the kind, or a condition, names the steps of the flow."""
    return of_kind(kind).steps or any(names_steps(text) for text in conditions)

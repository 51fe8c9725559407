"""Expressions built at random within the grammar, and a process of its own that evaluates them.

The evaluation holds the interpreter's lock, so only another process can see that it does not end.
"""

import contextlib
import json
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from runtime.kernel.rules import language, linter
from runtime.kernel.rules import scope as names
from tests.faults.processes import ROOT

ITEMS = 200
TEXT = {"type": "string", "maxLength": 400}
LEG = {"type": "object", "properties": {"n": {"type": "integer"}, "tag": TEXT}, "additionalProperties": False}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "word": TEXT,
        "note": {"type": "string"},
        "numbers": {"type": "array", "maxItems": ITEMS, "items": {"type": "integer"}},
        "few": {"type": "array", "maxItems": 12, "items": {"type": "integer"}},
        "words": {"type": "array", "maxItems": 40, "items": TEXT},
        "notes": {"type": "array", "maxItems": 20, "items": {"type": "string"}},
        "legs": {"type": "array", "maxItems": 30, "items": LEG},
        "open": {
            "type": "array",
            "maxItems": 30,
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "free": {},
        "formed": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "anyOf": [
                {"properties": {"more": {"type": "array", "maxItems": 3_000, "items": {"type": "integer"}}}}
            ],
            "unevaluatedProperties": False,
        },
    },
}
# The largest values that the schema admits: neither finds what is looked for, so that all is looked through.
LARGEST: dict[str, Any] = {
    "n": 7,
    "word": "a" * 400,
    "note": "a" * 300_000,
    "numbers": list(range(ITEMS)),
    "few": list(range(12)),
    "words": ["a" * 399 + chr(98 + number % 20) for number in range(40)],
    "notes": ["a" * 25_000] * 20,
    "legs": [{"n": number, "tag": "a" * 400} for number in range(30)],
    "open": [{"n": number, **{f"k{key}": key for key in range(300)}} for number in range(30)],
    "free": {f"k{key}": [key] for key in range(3_000)},
    "formed": {"n": 1, "more": list(range(3_000))},
}
WORLD = {
    "context": {"facts": {"price": {f"S{number}": number for number in range(100)}}},
    "manifest": {"limits": {"most": 5}},
}
PATTERNS = [
    "^[a-z]+$",
    "(a|b)*c",
    "a{1,50}b",
    r"\\w",
    r"\\w{200}",
    "[^a]{20}",
    "(a|aa)+$",
    r"\\d{9}",
    ".*b.*c",
]


@dataclass(frozen=True)
class Scope:
    """What may be written here: how deep, and the names that macros around it have bound to what."""

    depth: int
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    legs: tuple[str, ...] = ()

    def inner(self, **bound: tuple[str, ...]) -> "Scope":
        known = {"numbers": self.numbers, "texts": self.texts, "legs": self.legs}
        more = {name: known[name] + given for name, given in bound.items()}
        return Scope(depth=self.depth - 1, **{**known, **more})

    @property
    def fresh(self) -> str:
        return f"v{len(self.numbers) + len(self.texts) + len(self.legs)}"


@st.composite
def conditions(draw: st.DrawFn, scope: Scope | None = None) -> str:
    """An expression that is true or false."""
    here = scope or Scope(depth=draw(st.integers(1, 4)))
    if here.depth <= 0:
        return draw(st.sampled_from(["true", "false", "params.n > 3"]))
    down = here.inner()
    match draw(st.integers(0, 8)):
        case 0 | 1 | 2:
            return draw(macros(here, "all", "exists", "exists_one"))
        case 3:
            sign = draw(st.sampled_from(["<", ">=", "==", "!="]))
            return f"{draw(numbers(down))} {sign} {draw(numbers(down))}"
        case 4:
            return f"{draw(texts(down))} {draw(st.sampled_from(['==', '<', '!=']))} {draw(texts(down))}"
        case 5:
            method = draw(st.sampled_from(["contains", "startsWith", "endsWith"]))
            return f"!({draw(texts(down))}).{method}({draw(texts(down))})"
        case 6:
            return f"({draw(texts(down))}).matches('{draw(st.sampled_from(PATTERNS))}')"
        case 7:
            other = draw(lists(down))
            return (
                f"{draw(lists(down))} == {other}"
                if draw(st.booleans())
                else f"{draw(numbers(down))} in {other}"
            )
        case _:
            parts = draw(st.lists(conditions(down), min_size=2, max_size=3))
            return "(" + f" {draw(st.sampled_from(['&&', '||']))} ".join(parts) + ")"


@st.composite
def macros(draw: st.DrawFn, here: Scope, *known: str) -> str:
    """A macro over a list, a written-out one or one that another macro has built."""
    name = draw(st.sampled_from(known))
    what = draw(st.sampled_from(["numbers", "numbers", "texts", "legs"]))
    over = {
        "numbers": [
            "params.numbers",
            "params.numbers",
            "params.few",
            "[" + "1, " * draw(st.integers(1, 90)) + "2]",
        ],
        "texts": ["params.words", "params.notes", "['a', params.note]"],
        "legs": ["params.legs", "params.open"],
    }[what]
    source = draw(st.sampled_from(over))
    if draw(st.integers(0, 4)) == 0 and what == "numbers":
        source = f"{source}.filter(w, w >= 0)"
    inner = here.inner(**{what: (here.fresh,)})
    body = (
        draw(conditions(inner))
        if name != "map"
        else draw(st.one_of(texts(inner), numbers(inner), lists(inner)))
    )
    return f"{source}.{name}({here.fresh}, {body})"


@st.composite
def lists(draw: st.DrawFn, here: Scope) -> str:
    """An expression that is a list, or a map."""
    if here.depth <= 0:
        return draw(
            st.sampled_from(["params.numbers", "params.words", "params.free", "params.open", "[1, 2]"])
        )
    down = here.inner()
    match draw(st.integers(0, 4)):
        case 0 | 1:
            return draw(macros(here, "map", "filter"))
        case 2:
            return "(" + " + ".join(draw(st.lists(lists(down), min_size=2, max_size=4))) + ")"
        case 3:
            return "{'a': " + draw(texts(down)) + ", 'b': " + draw(lists(down)) + "}"
        case _:
            return "[" + ", ".join(draw(st.lists(texts(down), min_size=1, max_size=5))) + "]"


@st.composite
def texts(draw: st.DrawFn, here: Scope) -> str:
    """An expression that is a text."""
    plain = ["params.word", "params.note", "'abc'", "params.words[3]", "params.notes[1]", *here.texts]
    plain += [f"{leg}.tag" for leg in here.legs]
    if here.depth <= 0 or draw(st.booleans()):
        return draw(st.sampled_from(plain))
    down = here.inner()
    match draw(st.integers(0, 2)):
        case 0:
            return "(" + " + ".join(draw(st.lists(texts(down), min_size=2, max_size=30))) + ")"
        case 1:
            return f"({draw(conditions(down))} ? {draw(texts(down))} : {draw(texts(down))})"
        case _:
            return f"string({draw(numbers(down))})"


@st.composite
def numbers(draw: st.DrawFn, here: Scope) -> str:
    """An expression that is a number."""
    plain = [
        "1",
        "params.n",
        "context.facts.price.S1",
        "manifest.limits.most",
        "params.formed.n",
        *here.numbers,
    ]
    plain += ["(params.n > 3 ? [params.free][0] : params.formed).n"]
    plain += [f"{leg}.n" for leg in here.legs]
    if here.depth <= 0 or draw(st.booleans()):
        return draw(st.sampled_from(plain))
    down = here.inner()
    match draw(st.integers(0, 2)):
        case 0:
            return f"size({draw(lists(down))})"
        case 1:
            return f"size({draw(texts(down))})"
        case _:
            return f"({draw(numbers(down))} {draw(st.sampled_from('+-*'))} {draw(numbers(down))})"


def linted(source: str, *, most: int = linter.MAX_WORK) -> linter.Linted:
    """What the linter says of a source over these schemas."""
    return linter.lint(source, names=names.JUDGED, params_schema=SCHEMA, constraints_schema={}, most=most)


class Evaluator:
    """A process that evaluates sources one by one over the largest values, and says how long it worked."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.properties.rule_costs"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, source: str, *, longest_s: float) -> float | None:
        """Seconds of the processor; None where it has not ended in time, and then the process is gone."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(source) + "\n")
        self._child.stdin.flush()
        ready, _, _ = select.select([self._child.stdout], [], [], longest_s)
        if not ready:
            self.close()
            return None
        return float(self._child.stdout.readline())

    def close(self) -> None:
        """End the process, whatever it does."""
        self._child.kill()
        self._child.communicate()


def main() -> None:
    """Read sources, write seconds."""
    known = language.Names({"params": LARGEST, **WORLD})
    known.context(frozenset(known))
    for line in sys.stdin:
        source = json.loads(line)
        expression = language.Expression(source)
        began = time.process_time()
        with contextlib.suppress(language.ExpressionError):
            expression.evaluate(known)
        print(time.process_time() - began, flush=True)


if __name__ == "__main__":
    main()

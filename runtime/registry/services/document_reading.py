"""A written document, read strictly: YAML -> JSON values with their lines -> a validated contract.

Only what JSON can express is accepted from YAML: no tags, no dates, no `yes` or `on`, no merge keys, no
duplicate keys. Every problem is reported at once, each with line and field.
"""

import re
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.document import Contract
from runtime.contracts.pack import PackDocument
from runtime.kernel.rules import invariants
from runtime.kernel.rulesets import cedar

MAX_PACK_CHARS = 1_000_000
# An alias is visited again at each use: this bound stops the bomb of nested aliases.
MAX_NODES = 100_000
MAX_DEPTH = 64

Place = tuple[str | int, ...]
Document = TypeVar("Document", bound=Contract)
_SHOULD = re.compile(r"^[A-Z]\w*( \w+)? should ")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """One thing that is wrong in a pack: where, and what."""

    place: Place
    message: str
    line: int | None = None


@dataclass(slots=True)
class Source:
    """A pack file's name and the line of each of its fields."""

    name: str
    lines: dict[Place, int] = field(default_factory=dict)

    def words(self, problem: DocumentProblem) -> str:
        """`paper.yaml:23 policy_kinds[0].rules[1].require: ...`"""
        field_name = f" {written(problem.place)}" if problem.place else ""
        return f"{self.name}:{self.line(problem)}{field_name}: {problem.message}"

    def known(self, place: Place) -> Place:
        """The longest part of `place` that is in the file; validators add steps of their own."""
        while place and place not in self.lines:
            place = place[:-1]
        return place

    def line(self, problem: DocumentProblem) -> int:
        """The line that a problem is on; that of what holds it where the field itself is not there."""
        return problem.line or self.lines.get(self.known(problem.place), 1)


@dataclass(frozen=True, slots=True)
class Read:
    """A pack as its file has it: the document and the digest of the file's bytes."""

    pack: PackDocument
    source: Source
    digest: str


class _NotReadableError(Exception):
    def __init__(self, problem: DocumentProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Loader(yaml.SafeLoader):
    """Scalars mean what they mean in JSON; everything else is text."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"^(?:null|~|)$", ["n", "~", ""]),
    ("bool", r"^(?:true|false)$", ["t", "f"]),
    ("int", r"^-?(?:0|[1-9][0-9]*)$", list("-0123456789")),
    ("float", r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$", list("-0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def implicit_resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """What the reader takes for something else than text: for whoever writes what it shall read."""
    return {first: list(found) for first, found in _Loader.yaml_implicit_resolvers.items()}


def read(*, text: str, name: str) -> Read | tuple[str, ...]:
    """A pack from its text, or everything that is wrong with its form, one sentence each."""
    source = Source(name=name)
    pack = read_document(text=text, source=source, contract=PackDocument)
    if not isinstance(pack, PackDocument):
        return tuple(dict.fromkeys(source.words(problem) for problem in pack))
    pinned = invariants.pin(pack)
    rulesets = tuple(cedar.pin(ruleset) for ruleset in pinned.rulesets)
    pinned = pinned.model_copy(update={"rulesets": rulesets})
    return Read(pack=pinned, source=source, digest=canonical.digest(text.encode()))


def read_document(
    *, text: str, source: Source, contract: type[Document]
) -> Document | tuple[DocumentProblem, ...]:
    """A document from its text, or everything that is wrong with its form; `source` learns the lines."""
    value = read_value(text=text, source=source)
    if isinstance(value, DocumentProblem):
        return (value,)
    try:
        return contract.model_validate_json(canonical.encode(value))
    except ValidationError as error:
        # One problem for each field that is wrong; the branches of a choice count as one field.
        found: list[DocumentProblem] = []
        places: set[Place] = set()
        for one in error.errors(include_url=False):
            location: Place = tuple(one["loc"])
            place = location if one["type"] == "missing" else source.known(location)
            if place in places and place != location:
                continue
            places.add(place)
            found.append(DocumentProblem(place, _pydantic_words(one["type"], one["msg"])))
        return tuple(found)


def read_value(*, text: str, source: Source) -> Any | DocumentProblem:
    """The JSON value of a text, whatever it is a text of; or why it cannot be read."""
    try:
        return _value(text, source)
    except _NotReadableError as error:
        return error.problem


def written(place: Place) -> str:
    """A place as people write it: `policy_kinds[0].rules[1].require`."""
    shown = ""
    for step in place:
        if isinstance(step, int):
            shown += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            shown += f".{step}" if shown else step
        else:
            shown += f"[{step!r}]"
    return shown


def _value(text: str, source: Source) -> Any:
    if len(text) > MAX_PACK_CHARS:
        raise _NotReadableError(DocumentProblem((), f"the file is longer than {MAX_PACK_CHARS} characters"))
    # YAML reads JSON too; an error is reported in terms of the intended format.
    form = "JSON" if text.lstrip().startswith("{") else "YAML"
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _NotReadableError(DocumentProblem((), f"this is not {form}: {error.problem}", line)) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _NotReadableError(DocumentProblem((), f"this is not {form}, or nested too deep")) from error
    if node is None:
        raise _NotReadableError(DocumentProblem((), "the file is empty"))
    return _Builder(source).build(node, ())


@dataclass(slots=True)
class _Builder:
    source: Source
    nodes: int = 0

    def build(self, node: yaml.Node, place: Place) -> Any:
        line = node.start_mark.line + 1
        self.source.lines.setdefault(place, line)
        self.nodes += 1
        if self.nodes > MAX_NODES or len(place) > MAX_DEPTH:
            raise _NotReadableError(
                DocumentProblem(place, "the file has too many values, or too deep ones", line)
            )
        match node:
            case yaml.MappingNode() if node.tag == "tag:yaml.org,2002:map":
                return self._map(node, place)
            case yaml.SequenceNode() if node.tag == "tag:yaml.org,2002:seq":
                return [self.build(item, (*place, at)) for at, item in enumerate(node.value)]
            case yaml.ScalarNode():
                return _scalar(node, DocumentProblem(place, f"the tag {node.tag} is not allowed", line))
            case _:
                raise _NotReadableError(DocumentProblem(place, f"the tag {node.tag} is not allowed", line))

    def _map(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise _NotReadableError(DocumentProblem(place, "a field name must be plain text", line))
            key = key_node.value
            below = (*place, key)
            if key in members:
                raise _NotReadableError(DocumentProblem(below, "this field is given twice", line))
            if key == "<<":
                raise _NotReadableError(
                    DocumentProblem(place, "merge keys are not supported; write it out", line)
                )
            self.source.lines[below] = line
            members[key] = self.build(value_node, below)
        return members


def _scalar(node: yaml.ScalarNode, otherwise: DocumentProblem) -> Any:
    match node.tag.rpartition(":")[2]:
        case "str":
            value: Any = node.value
        case "null":
            value = None
        case "bool":
            value = node.value == "true"
        # A bound before int(): Python refuses 5,000 digits with an error of its own.
        case "int" if len(node.value) <= len("-9007199254740991"):
            value = int(node.value)
        case "int":
            value = float("inf")
        case "float":
            value = float(node.value)
        case _:
            raise _NotReadableError(otherwise)
    try:
        canonical.encode(value)
    except canonical.CanonicalError:
        said = "this number or text cannot be represented in JSON (integers up to 2^53-1)"
        raise _NotReadableError(DocumentProblem(otherwise.place, said, otherwise.line)) from None
    return value


def _pydantic_words(kind: str, message: str) -> str:
    match kind:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not a known field"
        case "value_error":
            return message.removeprefix("Value error, ")
        case "tuple_type":
            return "must be a list"
        case "model_type" | "dict_type":
            return "must be a map"
        case _:
            return _SHOULD.sub("must ", message)

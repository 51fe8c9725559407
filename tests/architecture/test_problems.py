"""A problem code and its statuses are written in the catalogue alone; docs/problems.md is made from it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from runtime.contracts.problem_codes import AGENT_STATUS_CODES, ProblemCode, Section
from runtime.contracts.states import AgentStatus
from tests.architecture import tree

CATALOGUE = Path("runtime/contracts/problem_codes.py")
APPS = ("audit", "dir_console", "escalations", "runtime")
# The place of the code among the positional arguments; Problem and what makes one take it by its name.
MADE_BY = {"Problem": None, "Denied": 0}


def sources() -> Iterator[Path]:
    return (path for path in tree.sources(*APPS) if path != CATALOGUE)


def calls(path: Path) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Each Problem or Denied that a module makes, and the code given to it."""
    for node in tree.nodes(path):
        if not isinstance(node, ast.Call):
            continue
        name = tree.called(node)
        if name in MADE_BY:
            place = MADE_BY[name]
            named = [word.value for word in node.keywords if word.arg == "code"]
            yield node, named[0] if place is None else node.args[place]


def member(code: ast.expr) -> ProblemCode | None:
    """The code that an expression names; None for a variable."""
    if isinstance(code, ast.Attribute) and ast.unparse(code.value) == "ProblemCode":
        return ProblemCode[code.attr]
    return None


def is_variable(code: ast.expr) -> bool:
    """A name, or what is read from one: its type is ProblemCode, or mypy would say so."""
    return isinstance(code, ast.Name | ast.Attribute | ast.Subscript)


def compares_code_with_text(node: ast.Compare) -> bool:
    sides = (node.left, *node.comparators)
    texts = (part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant))
    reads_code = any(isinstance(side, ast.Attribute) and side.attr == "code" for side in sides)
    return reads_code and any(isinstance(value, str) for value in texts)


def test_no_code_is_written_or_built_outside_the_catalogue() -> None:
    wrong = []
    for path in sources():
        wrong += [f"{path}:{call.lineno}" for call, code in calls(path) if not is_variable(code)]
        for node in tree.nodes(path):
            if isinstance(node, ast.Call) and tree.called(node) == "ProblemCode":
                wrong.append(f"{path}:{node.lineno} builds a code")
            if isinstance(node, ast.Compare) and compares_code_with_text(node):
                wrong.append(f"{path}:{node.lineno} compares a code with text")
    assert not wrong, "\n".join(wrong)


def test_each_code_is_used() -> None:
    used = {
        node.attr
        for path in sources()
        for node in tree.nodes(path)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ProblemCode"
    }
    unused = set(ProblemCode) - {ProblemCode[name] for name in used} - set(AGENT_STATUS_CODES.values())
    assert not unused


def test_a_status_that_is_given_is_the_second_one_of_its_code() -> None:
    wrong, given = [], set()
    for path in sources():
        for call, expression in calls(path):
            code = member(expression)
            for word in call.keywords:
                if word.arg == "status" and isinstance(word.value, ast.Constant) and code is not None:
                    given.add(code)
                    if word.value.value != code.other_status:
                        wrong.append(f"{path}:{call.lineno} {code} {word.value.value!r}")
    assert not wrong, "\n".join(wrong)
    second = {code for code in ProblemCode if code.other_status is not None}
    assert second - given <= set(AGENT_STATUS_CODES.values())


def test_the_catalogue_says_what_a_reader_needs() -> None:
    for code in ProblemCode:
        assert code.name == code.value
        assert 400 <= code.status < 600, code
        assert code.heading[0].isupper(), code
        assert 2 <= len(code.heading.split()) <= 5, code
        assert code.meaning.endswith("."), code
        assert code.other_status is None or f"{code.other_status} " in code.meaning, code
    assert [code.section for code in ProblemCode] == sorted(
        (code.section for code in ProblemCode), key=list(Section).index
    )
    assert set(AGENT_STATUS_CODES) == set(AgentStatus) - {AgentStatus.ACTIVE}
    assert all(code == f"AGENT_{status}" for status, code in AGENT_STATUS_CODES.items())

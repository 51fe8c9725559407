"""docs/problems.md names every code that the source can put into a problem document."""

import ast
from collections.abc import Iterator
from pathlib import Path

from dir_console import problems
from tests.architecture import tree

MADE_BY = ("Problem", "Denied")


def codes() -> Iterator[str]:
    for top in ("runtime", "escalations", "dir_console"):
        for path in (tree.ROOT / top).rglob("*.py"):
            yield from codes_of(path)
    yield from (code for code, _ in problems.PLAIN.values())


def codes_of(path: Path) -> Iterator[str]:
    """Literal codes given to a problem, or to a function of the module that makes one."""
    module = ast.parse(path.read_text())
    places = {
        made.name: [given.arg for given in made.args.args].index("code")
        for made in ast.walk(module)
        if isinstance(made, ast.FunctionDef)
        and isinstance(made.returns, ast.Name)
        and made.returns.id in MADE_BY
        and "code" in [given.arg for given in made.args.args]
    }
    places["Denied"] = 0
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        place = places.get(call.func.id)
        given = [word.value for word in call.keywords if word.arg == "code" and call.func.id in MADE_BY]
        given += call.args[place : place + 1] if place is not None else []
        for code in given:
            if isinstance(code, ast.Constant):
                yield str(code.value)


def test_every_code_of_a_problem_stands_in_the_docs() -> None:
    page = tree.text(Path("docs/problems.md"))
    found = set(codes())
    assert {"FLOW_NOT_OPEN", "NOT_LIFTABLE", "MANIFEST_MOVED", "INTERNAL_ERROR"} <= found
    assert sorted(code for code in found if f"`{code}`" not in page) == []

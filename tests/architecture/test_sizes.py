"""Nothing grows past what one reading can hold."""

import ast
from pathlib import Path

from tests.architecture import tree
from tests.architecture.figures import WIDE

EVERYWHERE = (*tree.APPS, "bench", "tests", "manage.py", ".ci")
LONGEST_FUNCTION = 100
# Tables, of which one entry is read at a time.
TABLES = {Path("runtime/contracts/problem_codes.py"): 1000}
# Files that must stay one, since a stranger takes them away.
ALONE = {Path("audit/packs/verify.py"): 3100}


def allowed_lines(path: Path) -> int | None:
    """Most lines of the file at `path`; None where nothing is set."""
    for exceptions in (TABLES, ALONE):
        if path in exceptions:
            return exceptions[path]
    if path.suffix == ".py" and "migrations" not in path.parts:
        return 600 if path.parts[0] == "tests" else 500
    return 250 if path.suffix in {".js", ".css"} else None


def test_no_file_is_too_long() -> None:
    long = []
    for path in tree.files():
        limit = allowed_lines(path)
        if limit is not None and (lines := tree.text(path).count("\n")) > limit:
            long.append(f"{path}: {lines} lines, {limit} allowed")
    assert not long, "\n".join(long)


def test_no_line_of_a_template_is_too_wide() -> None:
    """Normal HTML has many lines and short ones, so only the width has a limit."""
    wide = [
        f"{path}:{number}: {len(line)} columns, {WIDE} allowed"
        for path in tree.files()
        if path.suffix == ".html" and path.parts[0] == "templates"
        for number, line in enumerate(tree.text(path).splitlines(), start=1)
        if len(line) > WIDE
    ]
    assert not wide, "\n".join(wide)


def test_no_function_is_too_long() -> None:
    long = []
    for path in tree.sources(*EVERYWHERE):
        for node in tree.nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long.append(
                        f"{path}:{node.lineno} {node.name}: {lines} lines, {LONGEST_FUNCTION} allowed"
                    )
    assert not long, "\n".join(long)

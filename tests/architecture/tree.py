"""The files of the project, as git knows them, and their syntax trees."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("audit", "demo", "dir_console", "escalations", "runtime")


@cache
def files() -> tuple[Path, ...]:
    """Every file that is tracked or about to be, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(
        sorted(path for name in listed.split("\0") if name and (ROOT / (path := Path(name))).is_file())
    )


def sources(*tops: str) -> Iterator[Path]:
    """Python files under the folders (or equal to the files) `tops`, migrations aside."""
    for path in files():
        inside = any(path.is_relative_to(top) for top in tops)
        if inside and path.suffix == ".py" and "migrations" not in path.parts:
            yield path


def text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path), filename=str(path))


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(tree(path))


def called(node: ast.AST) -> str:
    """The last name of what `node` calls or reads: `sleep` for `time.sleep`; empty for the rest."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""

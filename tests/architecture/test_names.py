"""One word per idea, and no word that says nothing."""

import ast
import re
from pathlib import Path

from audit import actors
from tests.architecture import tree

EMPTY = {"data", "handler", "helper", "manager", "misc", "processor", "util"}
EMPTY |= {f"{word}s" for word in EMPTY} | {"utilities"}
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def empty_words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name)} & EMPTY


def is_django_manager(node: ast.ClassDef) -> bool:
    return any("Manager" in ast.unparse(base) for base in node.bases)


def test_no_module_has_an_empty_name() -> None:
    found = [str(path) for path in tree.sources(*tree.APPS, "tests", "bench") if empty_words(path.stem)]
    assert not found, found


def test_no_class_has_an_empty_name() -> None:
    found = [
        f"{path}:{node.lineno} {node.name}"
        for path in tree.sources(*tree.APPS, "tests", "bench")
        for node in tree.nodes(path)
        if isinstance(node, ast.ClassDef) and empty_words(node.name) and not is_django_manager(node)
    ]
    assert not found, "\n".join(found)


def test_tests_do_not_sleep() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in tree.sources("tests")
        if path.name != "wait_until.py"
        for node in tree.nodes(path)
        if isinstance(node, ast.Call) and tree.called(node) == "sleep"
    ]
    assert not found, found


def test_no_signal_carries_business_flow() -> None:
    found = [
        f"{path}:{node.lineno} {node.module}"
        for path in tree.sources(*tree.APPS)
        if path.name != "apps.py"  # the triggers are put back after each migration there
        for node in tree.nodes(path)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and (node.module == "django.dispatch" or node.module.endswith(".signals"))
    ]
    assert not found, "\n".join(found)


def test_no_docstring_cites_a_document_by_its_number() -> None:
    """A reader of the repository has no such document; an ADR has four digits, a paper its name."""
    cited = re.compile(r"\((?:0\d|1\d)[,;) ]|\border of \d\d\b")
    found = [
        f"{path}: {text.splitlines()[0]}"
        for path in tree.sources(*tree.APPS, "bench")
        for node in tree.nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node) or "")
        and cited.search(text)
    ]
    assert not found, "\n".join(found)


def test_only_the_module_of_actors_spells_who_acts() -> None:
    prefixes = (actors.AGENT, actors.USER, "feed:", "guard:", "auditor:")
    wrong = []
    for path in tree.sources("audit", "dir_console", "escalations", "runtime"):
        if path == Path("audit/actors.py"):
            continue
        for node in tree.nodes(path):
            if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                starts = str(node.values[0].value) in prefixes
            elif isinstance(node, ast.Call):
                given = [
                    *node.args,
                    *(word.value for word in node.keywords if word.arg in ("stream", "actor")),
                ]
                starts = any(isinstance(arg, ast.Constant) and arg.value == actors.SYSTEM for arg in given)
            else:
                continue
            if starts:
                wrong.append(f"{path}:{node.lineno}")
    assert not wrong, wrong

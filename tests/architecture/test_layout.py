"""The top level is fixed, dependencies say why, and no file names a package registry."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture import tree

TOP = {"manage.py", "pyproject.toml", "docker-compose.yml", "README.md", "Makefile", "requirements.lock"}
TOP |= {
    "Dockerfile",
    "CHANGELOG.md",
    "LICENSE",
    "docs",
    "bench",
    "templates",
    "static",
    "tests",
    "sdk",
    *tree.APPS,
}
REGISTRIES = [
    ".".join(parts)  # apart, so that this file passes its own test
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("unpkg", "com"),
        ("jsdelivr", "net"),
        ("cdnjs", "cloudflare"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("crates", "io"),
        ("proxy", "golang"),
    )
]


def test_nothing_new_stands_at_the_top() -> None:
    found = {path.parts[0] for path in tree.files()}
    assert {name for name in found if name not in TOP and not name.startswith(".")} == set()


def test_no_file_names_a_registry() -> None:
    found = [
        f"{path}: {host}"
        for path in tree.files()
        if path.suffix not in {".png", ".ico", ".woff2"}
        for host in REGISTRIES
        if host in tree.text(path)
    ]
    assert not found, "\n".join(found)


def test_the_lock_names_no_address() -> None:
    lock = tree.text(Path("requirements.lock"))
    assert "://" not in lock
    assert not [line for line in lock.splitlines() if line.startswith("-")]


def test_every_dependency_says_why() -> None:
    source = tree.text(Path("pyproject.toml"))
    project = tomllib.loads(source)["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lines = [line for line in source.splitlines() if line.strip().startswith('"')]
    silent = [name for name in named if not any(f'"{name}",' in line and "# " in line for line in lines)]
    assert not silent, silent


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads(tree.text(Path("pyproject.toml")))["project"]
    locked = {
        line.split("==")[0].split("[")[0]
        for line in tree.text(Path("requirements.lock")).splitlines()
        if "==" in line
    }
    named = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    short = {re.split(r"[\[<>=~]", name, maxsplit=1)[0].lower().replace("_", "-") for name in named}
    assert short <= locked


def test_what_is_asked_for_with_an_extra_is_locked_with_it() -> None:
    """Where only `coverage` is locked, pip takes the newest `coverage[toml]`, for which it has no hash."""
    locked = set(
        re.findall(r"^([a-z0-9.-]+\[[a-z,]+\])==", tree.text(Path("requirements.lock")), re.MULTILINE)
    )
    asked = {
        f"{canonicalize_name(wanted.name)}[{','.join(sorted(wanted.extras))}]"
        for package in metadata.distributions()
        for wanted in map(Requirement, package.requires or ())
        if wanted.extras and (wanted.marker is None or wanted.marker.evaluate({"extra": ""}))
    }
    assert "coverage[toml]" in asked
    assert asked <= locked


def test_the_image_gets_the_product_and_no_development_tool() -> None:
    command = [sys.executable, ".ci/runtime_lock.py"]
    lock = subprocess.run(command, cwd=tree.ROOT, check=True, capture_output=True, text=True).stdout
    named = {line.split("==")[0].split("[")[0] for line in lock.splitlines() if "==" in line}
    assert {"django", "uvicorn", "psycopg-binary", "sqlparse", "packaging"} <= named
    assert not named & {"pytest", "mypy", "ruff", "playwright", "pip-tools"}


def test_no_test_flushes_the_database_that_all_share() -> None:
    """What migrations have stored would be gone for all tests after it; `real_db` gives one of its own."""
    flushing = [
        f"{path}:{node.lineno}"
        for path in tree.sources("tests")
        for node in tree.nodes(path)
        if isinstance(node, ast.Call) and tree.called(node) == "django_db"
        if any(given.arg in {"transaction", "reset_sequences"} for given in node.keywords)
    ]
    assert flushing == []


def test_no_test_counts_the_rows_of_the_database_that_all_share() -> None:
    """What PostgreSQL counts stays when the transaction is undone, and changes the plans of other tests."""
    counting = {
        str(path)
        for path in tree.sources("tests")
        if path.name != Path(__file__).name
        for node in tree.nodes(path)
        if isinstance(node, ast.Constant) and str(node.value).startswith("ANALYZE")
    }
    assert counting == {
        "tests/audit/test_counted_tables.py",  # on databases of their own
        "tests/audit/test_ledger_triggers.py",  # on SQLite, which undoes it
    }

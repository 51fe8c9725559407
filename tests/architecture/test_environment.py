"""`.env.example` and the code name the same variables, each with a sentence."""

import ast
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from dir_console import env
from tests.architecture import tree

READERS = {"words", "number", "get", "getenv"}
EXAMPLE = re.compile(r"^(?:# )?([A-Z][A-Z0-9_]*)=", re.MULTILINE)
VARIABLE = re.compile(r"^[A-Z][A-Z0-9_]{3,}$")
COMPOSED = re.compile(r"\$\{([A-Z0-9_]+)")
DJANGOS_OWN = {"DJANGO_SETTINGS_MODULE"}


def read_by_settings() -> set[str]:
    """Names given as text to a reader of the environment in the two files that may read it."""
    names = set()
    for path in (Path("dir_console/settings.py"), Path("dir_console/env.py")):
        for node in tree.nodes(path):
            if isinstance(node, ast.Call) and tree.called(node) in READERS and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and VARIABLE.match(str(first.value)):
                    names.add(str(first.value))
    return names - DJANGOS_OWN


def is_one_of_a_family(name: str) -> bool:
    """Whether a pattern in `environment.py` reads `name`: DIR_TARGET_<NAME>_URL."""
    patterns = re.findall(r're\.compile\(r"(DIR_[^"]+)"\)', tree.text(Path("dir_console/env.py")))
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def test_every_variable_is_in_the_example_and_the_reverse() -> None:
    composed = set(COMPOSED.findall(tree.text(Path("docker-compose.yml"))))
    shown = set(EXAMPLE.findall(tree.text(Path(".env.example"))))
    assert read_by_settings() - shown == set(), "missing in .env.example"
    alone = {name for name in shown if not is_one_of_a_family(name)}
    assert alone - read_by_settings() - composed == set(), "read by nothing"
    assert composed - shown == set(), "docker-compose.yml uses what .env.example does not explain"


def test_compose_hands_on_every_variable() -> None:
    handed = yaml.safe_load(tree.text(Path("docker-compose.yml")))["x-console"]["environment"]
    assert set(handed) == read_by_settings()


def test_every_variable_has_a_sentence() -> None:
    lines = tree.text(Path(".env.example")).splitlines()
    silent = [
        line
        for before, line in pairwise(lines)
        if EXAMPLE.match(line) and not re.match(r"# \S.*[.:']$|# .*print", before)
    ]
    assert not silent, silent


def test_the_environment_is_read_in_wiring_only() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in tree.sources("audit", "escalations", "runtime")
        if not path.is_relative_to(
            "runtime/execution/adapters"
        )  # the secret of a target is named by its pack
        for node in tree.nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
    ]
    assert not found, found


_OURS = "-c lock_timeout=10s -c statement_timeout=30s -c idle_in_transaction_session_timeout=30s"


def test_a_migration_may_take_as_long_as_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://me@localhost/console")
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
    assert env.database(tmp_path)["OPTIONS"]["options"] == "-c lock_timeout=10s"


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", _OURS),
        ("?sslmode=require", _OURS),
        ("?options=-c%20statement_timeout%3D5s", f"{_OURS} -c statement_timeout=5s"),
    ],
)
def test_options_of_the_database_add_to_ours(
    query: str, options: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgres://me@localhost/console{query}")
    found = env.database(tmp_path)["OPTIONS"]
    assert found["options"] == options
    assert found.get("sslmode") == ("require" if "sslmode" in query else None)


@pytest.mark.parametrize("path", ["README.md", "Dockerfile", "docker-compose.yml"])
def test_every_way_to_start_the_server_is_patient_and_believes_no_proxy(path: str) -> None:
    text = re.sub(r'[",\\\[\]]', " ", tree.text(Path(path)))
    started = re.findall(r"uvicorn\s+dir_console\.asgi:application(?:\s+(?!uvicorn)\S+){0,10}", text)
    assert started
    for command in started:
        assert "--no-proxy-headers" in command
        assert re.search(r"--http\s+dir_console\.connections:PatientProtocol", command)

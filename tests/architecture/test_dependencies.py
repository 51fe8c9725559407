"""No dependency without an import: each is used by the product's code, or by the server that runs it."""

import re
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PRODUCT = ("audit", "dir_console", "escalations", "runtime")
# Taken up by what is imported: the server's parser, loop and protocol, Django's database.
RUN_BY = {
    "async-timeout": "redis",
    "httptools": "uvicorn",
    "uvloop": "uvicorn",
    "websockets": "uvicorn",
    "psycopg": "django",
}


def _project() -> list[str]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed: list[str] = document["project"]["dependencies"]
    return [re.split(r"[\[<>=~! ]", one, maxsplit=1)[0] for one in listed]


@cache
def _code() -> str:
    files = [file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def _modules(name: str) -> set[str]:
    wanted = name.lower().replace("-", "_")
    return {
        module
        for module, names in metadata.packages_distributions().items()
        if wanted in {one.lower().replace("-", "_") for one in names} and not module.startswith("_")
    }


@pytest.mark.parametrize("name", _project())
def test_a_dependency_is_used(name: str) -> None:
    if name in RUN_BY:
        assert RUN_BY[name] in _project()
        return
    modules = _modules(name)
    assert modules, f"{name} is not installed"
    used = any(re.search(rf"(import|from) {module}\b|[\"']{module}\.", _code()) for module in modules)
    assert used, f"nothing imports {name}"


def test_what_is_run_by_something_else_is_listed() -> None:
    assert set(RUN_BY) <= set(_project())


@pytest.mark.parametrize("python", ["3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_lock_holds_what_any_python_asks_for(python: str, machine: str) -> None:
    """pip installs by hash alone: a package that only another Python needs would end `make up` there."""
    environment = default_environment() | {
        "python_full_version": python,
        "python_version": python.rpartition(".")[0],
        "platform_machine": machine,
        "extra": "",
    }
    installed = {canonicalize_name(one.name) for one in metadata.distributions()}
    asked = [Requirement(text) for one in metadata.distributions() for text in one.requires or ()]
    missing = [
        str(one)
        for one in asked
        if one.marker is not None
        and one.marker.evaluate(environment)  # type: ignore[arg-type]
        and canonicalize_name(one.name) not in installed
    ]
    assert missing == []

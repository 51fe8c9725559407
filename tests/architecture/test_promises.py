"""docs/promises.md names what is there, and leaves out no promise that is tested."""

import re

from tests.architecture import tree

INDEX = tree.ROOT / "docs" / "promises.md"


def named() -> dict[str, list[str]]:
    """Modules by promise."""
    rows = re.findall(r"^\| (?!promise |-)(.+?) \| (.+?) \|$", INDEX.read_text(), re.MULTILINE)
    return {promise: re.findall(r"`([^`]+)`", modules) for promise, modules in rows}


def test_every_promise_names_modules_that_hold_tests() -> None:
    for promise, modules in named().items():
        assert modules, promise
        for module in modules:
            path = tree.ROOT / module
            assert path.is_file(), f"{promise}: {module}"
            assert re.search(r"^def test_", path.read_text(), re.MULTILINE), module


def test_every_module_of_promises_is_named() -> None:
    listed = {module for modules in named().values() for module in modules}
    for path in (tree.ROOT / "tests" / "promises").glob("test_*.py"):
        assert str(path.relative_to(tree.ROOT)) in listed, path.name

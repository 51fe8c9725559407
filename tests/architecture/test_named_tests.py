"""The tables of the documentation name tests that are there."""

import re

from tests.architecture import tree

DOCS = sorted((tree.ROOT / "docs").glob("*.md"))
TESTS = "\n".join(path.read_text() for path in sorted((tree.ROOT / "tests").rglob("test_*.py")))
DEFINED = frozenset(re.findall(r"^ *(?:async )?def (test_\w+)\(", TESTS, re.MULTILINE))


def test_every_test_that_a_page_names_is_there() -> None:
    for page in DOCS:
        named = re.findall(r"`([^`\s]+)`", page.read_text())
        for name in named:
            path, _, function = name.partition("::")
            if path.startswith("tests/"):
                assert (tree.ROOT / path).exists(), f"{page.name}: {name}"
            elif re.fullmatch(r"test_\w+", path):
                function = path
            if function.startswith("test_"):
                assert function in DEFINED, f"{page.name}: {name}"

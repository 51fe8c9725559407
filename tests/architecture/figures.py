"""`python -m tests.architecture.figures`: how hard the house is to live in, in numbers.

Product is audit, dir_console, escalations and runtime, without migrations.
"""

import ast
from collections import Counter
from pathlib import Path

from tests.architecture import tree

WIDE = 120


def main() -> None:
    """Print one line for each figure."""
    product = list(tree.sources(*tree.APPS))
    print(f"lines of product: {lines(product)} in {len(product)} files")
    tests = list(tree.sources("tests"))
    print(f"lines of tests: {lines(tests)} in {len(tests)} files")
    functions, once, called = used_once(product)
    print(f"private functions used once: {once} of {functions} functions ({share(once, functions)})")
    print(f"  of them called, so that they could be inlined: {called} ({share(called, functions)})")
    lonely = sum(count == 1 for count in importers(product).values())
    print(f"modules that one other imports: {lonely} of {len(product)} ({share(lonely, len(product))})")
    print(f"class names used twice: {len(repeated_classes(product))}")
    print(f"import aliases: {aliases(product)}")
    templates = [path for path in tree.files() if path.suffix == ".html" and path.parts[0] == "templates"]
    wide = sum(len(line) > WIDE for path in templates for line in tree.text(path).splitlines())
    print(f"template lines over {WIDE} columns: {wide} in {len(templates)} files")


def lines(paths: list[Path]) -> int:
    return sum(tree.text(path).count("\n") for path in paths)


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def used_once(paths: list[Path]) -> tuple[int, int, int]:
    """All functions, and those whose name begins with one underscore and is read once in their file.

    Of these, those that are called there and have no decorator: the rest are callbacks, entries of tables,
    hooks of a library, cached or retried functions, which need a name.
    """
    functions, once, called = 0, 0, 0
    for path in paths:
        read: Counter[str] = Counter()
        calls: Counter[str] = Counter()
        private: dict[str, bool] = {}
        for node in tree.nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions += 1
                if node.name.startswith("_") and not node.name.startswith("__"):
                    private[node.name] = bool(node.decorator_list)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                read[node.id] += 1
            elif isinstance(node, ast.Attribute):
                read[node.attr] += 1
            elif isinstance(node, ast.Call):
                calls[tree.called(node)] += 1
        named = [name for name in private if read[name] == 1]
        once += len(named)
        called += sum(calls[name] == 1 and not private[name] for name in named)
    return functions, once, called


def importers(paths: list[Path]) -> dict[str, int]:
    """How many other files of the product import each module; packages' own files are left out."""
    modules = {".".join(path.with_suffix("").parts) for path in paths if path.name != "__init__.py"}
    found: dict[str, set[Path]] = {module: set() for module in modules}
    for path in paths:
        for node in tree.nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                    if name in found:
                        found[name].add(path)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    if one.name in found:
                        found[one.name].add(path)
    return {module: len(by) for module, by in found.items()}


def repeated_classes(paths: list[Path]) -> dict[str, int]:
    """Names that more than one class has."""
    names = Counter(
        node.name for path in paths for node in tree.nodes(path) if isinstance(node, ast.ClassDef)
    )
    return {name: count for name, count in names.items() if count > 1 and name not in {"Meta", "Command"}}


def aliases(paths: list[Path]) -> int:
    """Names that an import changes."""
    return sum(
        one.asname is not None and one.asname != one.name
        for path in paths
        for node in tree.nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for one in node.names
    )


if __name__ == "__main__":
    main()

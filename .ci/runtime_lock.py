"""Print the part of requirements.lock that the running product needs: the image carries no development tool.

Reads the `# via` notes of the lock: a package is needed when pyproject.toml names it among `dependencies`
or when a needed package brought it.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIRECT = re.compile(r"^[A-Za-z0-9._-]+")
BLOCK = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==.*\n(?:[ ]+.*\n)*", re.MULTILINE)
VIA = re.compile(r"^ +# +(?:via +)?([A-Za-z0-9._-]+)", re.MULTILINE)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(*, lock: str, direct: set[str]) -> dict[str, str]:
    """Blocks of `lock` by package name, limited to `direct` and what those bring."""
    blocks = {plain(block[1]): block[0] for block in BLOCK.finditer(lock)}
    via = {name: {plain(parent) for parent in VIA.findall(text)} for name, text in blocks.items()}
    kept = direct & blocks.keys()
    if missing := direct - kept:
        raise SystemExit(f"requirements.lock lacks {', '.join(sorted(missing))}: run `make lock`.")
    while more := {name for name in blocks.keys() - kept if via[name] & kept}:
        kept |= more
    return {name: blocks[name] for name in sorted(kept)}


def direct_names() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {plain(DIRECT.findall(line)[0]) for line in project["dependencies"]}


if __name__ == "__main__":
    blocks = needed(lock=(ROOT / "requirements.lock").read_text(), direct=direct_names())
    print("".join(blocks.values()), end="")

"""CPU time of processes, from the process table (`/proc`)."""

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def of_tree(pid: int) -> float:
    """CPU milliseconds, user and system, that a process and its living descendants have used.

    The kernel counts in steps of 10 ms, so measure at least some hundred milliseconds.
    """
    parents, used = _table()
    return sum(used.get(member, 0.0) for member in {pid, *_descendants(pid, parents)})


def descendants(pid: int) -> set[int]:
    """The living processes that a process has started, and those that these have started."""
    return _descendants(pid, _table()[0])


def of_database(name: str) -> float:
    """CPU milliseconds of the PostgreSQL backends that serve the database `name` on this machine.

    A backend says in its title whom it serves. 0 where none is seen, as on another machine.
    """
    _, used = _table()
    return sum(ms for pid, ms in used.items() if f" {name} " in _title(pid))


def _descendants(pid: int, parents: Mapping[int, int]) -> set[int]:
    members, added = {pid}, {pid}
    while added:
        added = {child for child, parent in parents.items() if parent in added} - members
        members |= added
    return members - {pid}


def _table() -> tuple[dict[int, int], dict[int, float]]:
    parents, used = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in brackets may hold anything: the numbers follow the last bracket.
            numbers = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(folder.name)
        parents[pid] = int(numbers[1])
        used[pid] = (int(numbers[11]) + int(numbers[12])) * 1000 / _TICKS
    return parents, used


def _title(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
    return text if text.startswith("postgres:") else ""

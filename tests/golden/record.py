"""`python -m tests.golden.record`: record the scenarios that have no history yet.

A history that exists is never written again: it stands for verdicts that are stored somewhere. Exit 1 names
those that today's gate judges differently.
"""

import sys

from tests.golden import history, scenarios


def main() -> int:
    """Record what is new, check what is old; the exit code."""
    known = set(history.recorded())
    for name in scenarios.names():
        if name not in known:
            history.write(name, history.of(scenarios.case(name)))
            print(f"recorded {name}")
    changed = [name for name in sorted(known) if (kept := history.read(name)).again() != kept.verdict]
    for name in changed:
        print(f"CHANGED {name}: the gate no longer gives the verdict that was recorded", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.golden.record_streams`: record the scenes that have no stream yet.

They are played in a database of their own. A stream that exists is never written again: it stands for ledgers
that are stored somewhere. To record one anew on purpose, delete its file first. Exit 1 names what
today's code makes otherwise than it is kept.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import django


@contextmanager
def database() -> Iterator[None]:
    """An empty migrated database, gone afterwards, whichever one the settings name."""
    from django.conf import settings
    from django.test.utils import override_settings, setup_databases, teardown_databases

    made = setup_databases(verbosity=0, interactive=False, aliases={"default": None})
    try:
        with override_settings(DIR_UNDO_MAX_S=0, DIR_MARK="", DIR_EGRESS_ALLOW=settings.DIR_EGRESS_ALLOW):
            yield
    finally:
        teardown_databases(made, verbosity=0)


def main() -> int:
    """Record what is new, check what is old; the exit code."""
    from tests.golden import scenes, stream

    lacking = [name for name in scenes.SCENES if name not in stream.recorded()]
    if lacking:
        with database(), scenes.stage() as stage:
            for name in lacking:
                stream.write(name, scenes.play(name, stage))
                print(f"recorded {name}")
    kept = {name: stream.read(name) for name in stream.recorded()}
    changed = [f"{name}: {said}" for name, held in kept.items() for said in stream.differences(held)]
    for sentence in changed:
        print(f"CHANGED {sentence}", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    django.setup()
    sys.exit(main())

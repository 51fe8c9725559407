#!/usr/bin/env python
"""Entry point of every command; `manage.py help` lists them."""

import os
import sys
from collections.abc import Sequence


def data_folder(arguments: Sequence[str]) -> str | None:
    """The value of `--data`, which must be known before the settings are read."""
    for place, argument in enumerate(arguments):
        if argument == "--data":
            return arguments[place + 1] if place + 1 < len(arguments) else None
        if argument.startswith("--data="):
            return argument.removeprefix("--data=")
    return None


def main() -> None:
    # Before anything is opened: databases, logs and keys are their owner's alone.
    os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    folder = data_folder(sys.argv[2:])
    if folder:
        os.environ["DIR_DATA"] = folder
    try:
        from django.core.management import execute_from_command_line
    except ImportError as missing:
        raise SystemExit("Django is missing: run `make install`, then use .venv/bin/python.") from missing
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()

"""The commands of this server: how to run them (its Python and data folder), and what they read."""

import shlex
import sys
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError


def read_file(path: Path) -> str:
    """The text of a file that was named to a command.

    Raises:
        CommandError: when it is not there, cannot be opened, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


def manage() -> str:
    """The beginning of a shell command, up to `manage.py`, for the folder of the project."""
    root, python = settings.BASE_DIR, Path(sys.executable)
    program = shlex.quote(str(python.relative_to(root) if python.is_relative_to(root) else python))
    data = settings.DATA_DIR
    folder = "" if root / "var" == data else f"DIR_DATA={shlex.quote(str(data))} "
    return f"{folder}{program} manage.py"

"""How to run the commands of this server: its Python, and its data folder where that is not ./var."""

import shlex
import sys
from pathlib import Path

from django.conf import settings


def manage() -> str:
    """The beginning of a shell command, up to `manage.py`, for the folder of the project."""
    root, python = settings.BASE_DIR, Path(sys.executable)
    program = shlex.quote(str(python.relative_to(root) if python.is_relative_to(root) else python))
    data = settings.DATA_DIR
    folder = "" if root / "var" == data else f"DIR_DATA={shlex.quote(str(data))} "
    return f"{folder}{program} manage.py"

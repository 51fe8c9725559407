"""A migrated SQLite file that tests copy: applying every migration takes longer than starting a server."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.processes import ROOT, clean_environment

NAME = "console.sqlite3"


def migrated(shared: Path) -> Path:
    """The file, made by the first of the workers that share the folder `shared`."""
    made = shared / "migrated" / NAME
    with _locked(shared / "migrated.lock"):
        if not made.exists():
            folder = shared / "migrating"
            env = clean_environment({"DIR_DATA": str(folder)})
            for words in (["migrate", "--verbosity", "0"], ["createcachetable"]):
                subprocess.run([sys.executable, "manage.py", *words], cwd=ROOT, env=env, check=True)
            made.parent.mkdir()
            shutil.move(folder / NAME, made)
    return made


def put(made: Path, folder: Path) -> None:
    """Copy the file into a new data folder, as `up` would have made both: nobody else may read them."""
    folder.mkdir(mode=0o700)
    shutil.copyfile(made, folder / NAME)
    (folder / NAME).chmod(0o600)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""A migrated SQLite file that tests copy: applying every migration takes longer than starting a server."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from tests.faults.processes import ROOT, clean_environment

NAME = "console.sqlite3"


def migrated(shared: Path, kept: Path) -> Path:
    """A file of this run, made by the first of the workers that share the folder `shared`.

    The folder `kept` keeps it for later runs, until any code of the product or a package changes.
    """
    made = shared / "migrated" / NAME
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(shared / "migrated.lock"):
        if made.exists():
            return made
        made.parent.mkdir(exist_ok=True)
        with _locked(kept / "migrated.lock"):
            known = kept / f"migrated-{_state_of_the_code()}.sqlite3"
            if not known.exists():
                for outdated in kept.glob("migrated-*.sqlite3"):
                    outdated.unlink()
                _migrate(shared / "migrating").replace(known)
            shutil.copyfile(known, shared / "migrated" / "half.sqlite3").replace(made)
    return made


def fill_new_databases(connection: BaseDatabaseWrapper, made: Path) -> None:
    """Have Django's test database on SQLite begin as a copy, so that migrating it finds nothing to do."""
    creation: Any = connection.creation
    make = creation._create_test_db

    def make_and_fill(*given: Any, **named: Any) -> str:
        name = str(make(*given, **named))
        shutil.copyfile(made, name)
        return name

    creation._create_test_db = make_and_fill


def _migrate(folder: Path) -> Path:
    env = clean_environment({"DIR_DATA": str(folder)})
    for words in (["migrate", "--verbosity", "0"], ["createcachetable"]):
        subprocess.run([sys.executable, "manage.py", *words], cwd=ROOT, env=env, check=True)
    return folder / NAME


def _state_of_the_code() -> str:
    # Migrations use enums, triggers and settings: no list of what they read stays complete.
    apps = ("audit", "dir_console", "escalations", "runtime")
    code = sorted(path for app in apps for path in (ROOT / app).rglob("*.py"))
    state = hashlib.sha256()
    for path in [*code, ROOT / "requirements.lock"]:
        state.update(f"{path.relative_to(ROOT)}\0".encode())
        state.update(hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()[:16]


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

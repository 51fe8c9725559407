"""The demo as `manage.py up --demo` runs it, in a folder of a test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.processes import Process, clean_environment, python
from tests.support import databases
from tests.support.wait_until import until

START_S = 90


@contextmanager
def started(folder: Path, migrated_file: Path, *, port: int) -> Iterator[Process]:
    """The running server; what it said last is printed at the end, for a test that failed."""
    env = clean_environment({"DIR_DATA": str(folder / "state")})
    databases.put(migrated_file, folder / "state")
    argv = python("manage.py", "up", "--port", str(port), "--data", env["DIR_DATA"], "--demo")
    server = Process(name="server", argv=argv, env=env, log=folder / "server.log")
    server.start()
    try:
        until(lambda: "The demo is running" in server.tail() or server.ended(), timeout_s=START_S)
        yield server
    finally:
        print(server.tail())
        server.stop()

"""Ground of every test: loopback sockets only, and databases that tests with real commits may use."""

import contextlib
import logging
import os
import shutil
import socket
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db import connection, connections
from django.test.utils import setup_databases, teardown_databases

from audit import payload_keys
from runtime.core import refusals
from runtime.maintenance.services import autonomy_rounds
from tests.support import cheap, databases, time_left

# A gate gives one answer to one commit; the search for new examples is for people at their desks.
# A slow machine is no finding: how long an example takes, or is made, says nothing about what it shows.
_patient: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("desk", **_patient)
hypothesis.settings.register_profile("gate", derandomize=True, **_patient)
hypothesis.settings.register_profile("long", max_examples=2_000, **_patient)
hypothesis.settings.load_profile("gate" if os.environ.get("CI") else "desk")

# Test runs beside each other share one Redis: none may hear the hints of another.
if not settings.EMBEDDED:
    settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = f"test-{os.getpid()}"

# What people decide runs at once, here and in the servers that tests start: tests of the undo window set one.
settings.DIR_UNDO_MAX_S = 0
os.environ["DIR_UNDO_MAX_S"] = "0"

# A test's own database need not outlive a power cut. Servers that tests start, and kill, keep what is set.
_OPTIONS = connections.databases["default"]["OPTIONS"]
if "init_command" in _OPTIONS:
    _OPTIONS["init_command"] = _OPTIONS["init_command"].replace("synchronous=FULL", "synchronous=OFF")

# A run of all tests makes 400 databases. Each drop waits for a checkpoint, which is short after another.
DROPPED_TOGETHER = 16

DEVELOPMENT = connections.databases["default"]["NAME"]
LOOPBACK = ("127.", "::1", "localhost")


# Tests in these folders that ask for no database start servers on databases of their own, or none at all:
# they do the same whatever DATABASE_URL names.
DATABASES_OF_THEIR_OWN = {
    "architecture",
    "contracts",
    "demo",
    "faults",
    "golden",
    "kernel",
    "properties",
    "topology",
}
# Python makes pages, and what the client says, of rows that services and queries read: these have tests of
# their own on both databases. The files below open every page, form and list on both. `.ci/run`, which has to
# end in time, asks all others in these folders of SQLite alone.
ALIKE = {"sdk", "web"}
ASKED_OF_BOTH = {
    "test_bulk.py",
    "test_every_act_is_recorded.py",
    "test_every_write_url.py",
    "test_pages.py",
    "test_pages_decisions.py",
    "test_pages_explore.py",
    "test_pages_records.py",
    "test_pages_search.py",
    "test_pages_shift.py",
    "test_pages_walks.py",
    "test_queue_filters.py",
    "test_queue_rows.py",
    "test_queue_walk.py",
    "test_separation_of_duty.py",
}
DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "migrated", "real_db", "empty_db"}


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Let daemon threads that outlive the tests, such as a relay without its Redis, log into nothing."""
    logging.raiseExceptions = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what need not run again on another database; bring what takes longest to the front.

    A file's tests run on one worker (`--dist loadfile`), so that what they share is made once. A long file
    that began last would leave the other worker idle.
    """
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        asked = set(getattr(item, "fixturenames", ()))
        asks = item.get_closest_marker("django_db") or DATABASE_FIXTURES & asked
        if folder in DATABASES_OF_THEIR_OWN and not asks:
            item.add_marker("once")
        if folder in ALIKE and item.path.name not in ASKED_OF_BOTH:
            item.add_marker("alike")
    time_left.take_turns(items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture of the test is made."""
    time_left.leave_out_late()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After the tests: what a limit of time left out."""
    time_left.count_left_out(terminalreporter)


@pytest.fixture(autouse=True, scope="session")
def _cheap() -> Iterator[None]:
    """What costs time on purpose, or again and again for the same text, costs it once."""
    with cheap.passwords(), cheap.packs():
        yield


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches past this machine is a mistake: refuse it."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6} and not str(address[0]).startswith(LOOPBACK):
            raise RuntimeError(f"a test tried to reach {address[0]}; only loopback is allowed")
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture(autouse=True)
def _no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The databases of tests come and go: no mark of one may be compared with another."""
    monkeypatch.setattr(settings, "DIR_MARK", "")


@pytest.fixture(autouse=True)
def _fresh_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals recorded by one test do not use up another's share of the minute: each has a `user:1`."""
    monkeypatch.setattr(refusals, "_shares", refusals._Shares())


@pytest.fixture(autouse=True)
def _no_keys_of_gone_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which key of a class is in use is remembered by database, and each test empties its database."""
    monkeypatch.setattr(payload_keys, "_cached", {})


@pytest.fixture(autouse=True)
def _fresh_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sweep of a test looks for the agents of another."""
    monkeypatch.setattr(autonomy_rounds, "_rounds", autonomy_rounds._Rounds())


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with every migration applied: databases and servers of the tests begin with a copy."""
    here = tmp_path_factory.getbasetemp()
    # The workers of a run have folders of their own in one that they share.
    shared = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
    return databases.migrated(shared, settings.DATA_DIR)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, request: pytest.FixtureRequest
) -> None:
    """Called by pytest-django before it makes the test database."""
    if connection.vendor == "sqlite":
        databases.fill_new_databases(connection, request.getfixturevalue("migrated_file"))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """As pytest-django makes it, if a collected test asked for one, and a template from before any test."""
    if connections.databases["default"]["NAME"] == DEVELOPMENT:
        yield
        return
    with _template():
        yield


@pytest.fixture(scope="session")
def migrated(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The migrated test database, also where no collected test asked pytest-django for it."""
    if connections.databases["default"]["NAME"] != DEVELOPMENT:
        yield
        return
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, aliases={"default": None})
        with _template():
            yield
        teardown_databases(made, verbosity=0)


@contextlib.contextmanager
def _template() -> Iterator[None]:
    """Keep the migrated database as it is now: each copy would hold the dead rows of tests that roll back."""
    if connection.vendor == "sqlite":
        yield
        return
    source = connection.settings_dict["NAME"]
    template = _template_of(source)
    connections.close_all()
    _close_pool()
    with _postgres_admin() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{template}"')
        cursor.execute(f'CREATE DATABASE "{template}" TEMPLATE "{source}"')
    yield
    with _postgres_admin() as cursor:
        cursor.execute(f'DROP DATABASE "{template}"')


def _template_of(migrated: str) -> str:
    return migrated if connection.vendor == "sqlite" else f"{migrated}_template"


@pytest.fixture
def real_db(migrated: None, django_db_blocker: Any, tmp_path: Path, _finished: list[str]) -> Iterator[str]:
    """A migrated database of this test's own, for real threads, processes and commits; gives its name.

    The ledger refuses a flush, so the usual transactional fixture cannot clean up: each test gets a copy,
    of the file on SQLite, by template on PostgreSQL. Threads see it too; they must close their connections.
    """
    with django_db_blocker.unblock(), _own_database(tmp_path, _finished, is_empty=False) as name:
        yield name


@pytest.fixture
def empty_db(migrated: None, django_db_blocker: Any, tmp_path: Path, _finished: list[str]) -> Iterator[str]:
    """As `real_db`, without any table: for tests that apply migrations themselves."""
    with django_db_blocker.unblock(), _own_database(tmp_path, _finished, is_empty=True) as name:
        yield name


@contextlib.contextmanager
def _own_database(folder: Path, finished: list[str], *, is_empty: bool) -> Iterator[str]:
    before = connection.settings_dict["NAME"]
    connections.close_all()
    _close_pool()
    with _made(None if is_empty else _template_of(str(before)), folder, finished) as name:
        connections.databases["default"]["NAME"] = name
        connection.settings_dict["NAME"] = name
        try:
            yield name
        finally:
            connections.close_all()
            _close_pool()
            connections.databases["default"]["NAME"] = before
            connection.settings_dict["NAME"] = before


def _close_pool() -> None:
    close = getattr(connection, "close_pool", None)  # PostgreSQL only
    if close is not None:
        close()


@contextlib.contextmanager
def _made(template: str | None, folder: Path, finished: list[str]) -> Iterator[str]:
    """A database like `template`, or an empty one."""
    if connection.vendor == "sqlite":
        target = folder / "real.sqlite3"
        if template is not None:
            with sqlite3.connect(template) as source, sqlite3.connect(target) as copy:
                source.backup(copy)
        yield str(target)
        shutil.rmtree(folder, ignore_errors=True)
        return
    target_name = f"dir_real_{uuid.uuid4().hex[:12]}"
    with _postgres_admin() as cursor:
        cursor.execute(f'CREATE DATABASE "{target_name}" TEMPLATE "{template or "template0"}"')
    try:
        yield target_name
    finally:
        finished.append(target_name)
        if len(finished) >= DROPPED_TOGETHER:
            _drop(finished)


@pytest.fixture(scope="session")
def _finished() -> Iterator[list[str]]:
    """Databases of PostgreSQL that no test uses any longer."""
    names: list[str] = []
    yield names
    if names:
        _drop(names)


def _drop(names: list[str]) -> None:
    with _postgres_admin() as cursor:
        while names:
            cursor.execute(f'DROP DATABASE IF EXISTS "{names.pop()}" WITH (FORCE)')


@contextlib.contextmanager
def _postgres_admin() -> Iterator[Any]:
    import psycopg

    options = connection.settings_dict
    with (
        psycopg.connect(
            host=options["HOST"] or None,
            port=options["PORT"] or None,
            user=options["USER"] or None,
            password=options["PASSWORD"] or None,
            dbname="postgres",
            autocommit=True,
        ) as admin,
        admin.cursor() as cursor,
    ):
        yield cursor

"""One stack per topology and module: starting one takes longer than a test."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults import stack as stacks
from tests.faults.stack import Stack

ADMIN_URL = os.environ.get("DIR_TEST_POSTGRES", "postgres://root@127.0.0.1:5432/postgres")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Stack]:
    """The embedded console, with the pack loaded and keys issued."""
    stack = stacks.embedded(tmp_path_factory.mktemp("embedded"), migrated_file)
    stack.broker.start()
    try:
        stack.start()
        stack.prepare()
        yield stack
    finally:
        print(stack.logs())
        stack.stop()


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The production console on a database and a Redis of its own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: the production topology cannot be tried here")
    with _database() as url:
        stack = stacks.production(tmp_path_factory.mktemp("production"), database_url=url)
        stack.broker.start()
        try:
            stack.processes["redis"].start()
            stack.manage("migrate", "-v", "0")
            stack.start(*[name for name in stack.processes if name != "redis"])
            stack.prepare()
            yield stack
        finally:
            print(stack.logs())
            stack.stop()


@contextlib.contextmanager
def _database() -> Iterator[str]:
    """An empty database that is dropped afterwards."""
    name = f"dir_faults_{os.getpid()}"
    try:
        admin = psycopg.connect(ADMIN_URL, autocommit=True)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at DIR_TEST_POSTGRES: {error}")
    with admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{ADMIN_URL.rpartition('/')[0]}/{name}"
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

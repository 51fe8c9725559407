"""What tests need not pay for each time: password hashes, and reading the same pack again.

Servers that tests start are processes of their own and pay for all of it.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.test import override_settings

from runtime.contracts.policy_kind import PolicyKind
from runtime.services import pack_checks, pack_reading


@contextmanager
def passwords() -> Iterator[None]:
    """A hash that takes no time; the real one takes a tenth of a second, as it should."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@contextmanager
def packs() -> Iterator[None]:
    """A pack is read, and a kind linted, once for each text: both depend on nothing else."""
    lint = pack_checks.lint
    known: dict[bytes, pack_checks.Linted] = {}

    def lint_once(kind: PolicyKind) -> pack_checks.Linted:
        body = kind.to_bytes()
        if body not in known:
            known[body] = lint(kind)
        return known[body]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_reading, "read", functools.lru_cache(maxsize=64)(pack_reading.read))
        patch.setattr(pack_checks, "lint", lint_once)
        yield

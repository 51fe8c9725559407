"""What tests need not pay for each time: password hashes, and reading the same pack again.

Servers that tests start are processes of their own and pay for all of it.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml
from django.test import override_settings

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import kind_linter


@contextmanager
def passwords() -> Iterator[None]:
    """A hash that takes no time; the real one takes a tenth of a second, as it should."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@contextmanager
def packs() -> Iterator[None]:
    """A text is parsed, and a kind linted, once: both depend on nothing else."""
    lint = kind_linter.lint_kind
    known: dict[bytes, tuple[kind_linter.KindProblem, ...]] = {}

    def lint_once(kind: KindDocument) -> tuple[kind_linter.KindProblem, ...]:
        body = kind.to_bytes()
        if body not in known:
            known[body] = lint(kind)
        return known[body]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "compose", functools.lru_cache(maxsize=64)(yaml.compose))
        patch.setattr(kind_linter, "lint_kind", lint_once)
        yield

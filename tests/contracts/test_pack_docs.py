"""docs/packs.md names every field, choice and name that a pack's author can write."""

from enum import StrEnum
from pathlib import Path

import pytest
from pydantic import BaseModel

from runtime.contracts import guard, kind_steps, kind_types, manifest, pack, policy_kind, states
from runtime.kernel import effects
from runtime.kernel.rules import cel_tokens, linter, scope

PAGE = (Path(__file__).parents[2] / "docs" / "packs.md").read_text()
DOCUMENTS: list[type[BaseModel]] = [
    policy_kind.KindDocument,
    kind_steps.Step,
    policy_kind.Limit,
    policy_kind.Rule,
]
MORE: list[type[BaseModel]] = [
    manifest.ManifestDocument,
    pack.PackDocument,
    pack.PackAgent,
    pack.PackTarget,
    kind_steps.Request,
]
MORE += [guard.GuardDocument]
CHOICES: list[type[StrEnum]] = [
    policy_kind.OnUnknown,
    kind_steps.ExecutorKind,
    states.AgentRole,
    states.Impact,
    guard.GuardKind,
]


@pytest.mark.parametrize("document", [*DOCUMENTS, *MORE])
def test_every_field_is_described(document: type[BaseModel]) -> None:
    assert [name for name in document.model_fields if name not in PAGE] == []


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_is_described(choice: type[StrEnum]) -> None:
    assert [member for member in choice if member not in PAGE] == []


def test_every_name_and_function_of_expressions_is_described() -> None:
    written = {*scope.JUDGED, *scope.UNLESS, *scope.REQUEST, *scope.ROUTED, *linter.FUNCTIONS}
    fields = {name for root, known in scope.FIELDS.items() if root != "manifest" for name in known}
    methods = {name for name in linter.METHODS if not name.startswith("get")}
    macros = cel_tokens.MACROS - {"existsOne"}
    everything = written | fields | methods | macros | set(effects._FILTERS)
    assert sorted(name for name in everything if name not in PAGE) == []


def test_the_bounds_are_described() -> None:
    for bound in (
        linter.MAX_LIST_ITEMS,
        linter.MAX_INNER_BUILT_ITEMS,
        f"{kind_types.MAX_EXPRESSION_CHARS:,}",
    ):
        assert str(bound) in PAGE

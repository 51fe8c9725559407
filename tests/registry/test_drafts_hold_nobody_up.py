"""Reading and linting may take seconds: nobody waits, and what is written is held to what is there."""

from collections.abc import Callable
from typing import Any

import pytest

from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem
from runtime.core import clock, transactions
from runtime.kernel.rules import kind_linter
from runtime.packs.services import packs
from runtime.registry.models import Manifest, PolicyKind, Target
from runtime.registry.queries import kind_versions
from runtime.registry.services import document_checks, document_reading, document_writing, kinds, manifests
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db
KIND = "ADJUST_POSITION"
PACK = """\
pack: small
version: 1.0.0
targets: {broker: {base_url: "http://127.0.0.1:9410"}}
policy_kinds:
  - kind: TRADE
    version: 1.0.0
    title: Trade
    risk_tier: T1
    params_schema: {type: object, properties: {n: {type: integer}}}
    effect: Trade {n}
    steps: [{id: order, target: broker, request: {path: /orders}}]
"""


@pytest.fixture(autouse=True)
def ground() -> None:
    """The plain kind in force, and the target that it names."""
    Target.objects.create(
        tenant=factories.TENANT, name="broker", base_url="http://127.0.0.1:1", configured_at=clock.now()
    )
    factories.policy_kind(gate_cases.kind())


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each slow piece of work, whether everybody else who writes waited for it."""
    open_now, seen = list[bool](), list[bool]()
    run = transactions.retry_on_conflict

    def run_and_note(work: Callable[[], Any]) -> Any:
        open_now.append(True)
        try:
            return run(work)
        finally:
            open_now.pop()

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def note(*given: Any, **named: Any) -> Any:
            seen.append(bool(open_now))
            return work(*given, **named)

        return note

    monkeypatch.setattr(transactions, "retry_on_conflict", run_and_note)
    monkeypatch.setattr(kind_linter, "lint_kind", noted(kind_linter.lint_kind))
    monkeypatch.setattr(document_reading, "read_document", noted(document_reading.read_document))
    kind_versions._lint.cache_clear()
    return seen


def text(**fields: Any) -> str:
    return document_writing.as_yaml(gate_cases.kind(**{"version": "1.3.0", **fields}))


def draft() -> PolicyKind | Problem:
    return kinds.draft(tenant=factories.TENANT, text=text(), actor="user:1", kind=KIND)


def load() -> packs.Loaded | packs.PackRefused:
    return packs.load(text=PACK, source="small.yaml", activate=True, actor="system")


def test_a_draft_is_read_and_linted_before_its_transaction(slow: list[bool]) -> None:
    assert isinstance(draft(), PolicyKind)
    assert slow == [False, False]


def test_a_version_is_linted_before_it_is_activated(slow: list[bool]) -> None:
    draft()
    del slow[:]
    done = kinds.activate(
        tenant=factories.TENANT,
        kind=KIND,
        version="1.3.0",
        seen_active="1.2.0",
        reason="Agreed.",
        actor="user:2",
    )
    assert isinstance(done, PolicyKind)
    assert slow == [False]


def test_a_pack_is_read_and_linted_before_its_transaction(slow: list[bool]) -> None:
    assert isinstance(load(), packs.Loaded)
    assert slow == [False, False]


def test_a_manifest_is_read_before_its_transaction(slow: list[bool]) -> None:
    desk = factories.desk()
    written = document_writing.as_yaml(gate_cases.manifest(version="9.0.0"))
    row = manifests.draft(tenant=factories.TENANT, agent_id=desk.agent.agent_id, text=written, actor="user:1")
    assert isinstance(row, Manifest), row
    assert slow == [False]


def test_what_changed_while_it_was_linted_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    lint = document_checks.lint

    def lint_while_another_writes(kind: KindDocument) -> document_checks.Linted:
        found = lint(kind)
        Target.objects.all().delete()
        factories.policy_kind(gate_cases.kind(version="1.3.0", title="Another"))
        return found

    monkeypatch.setattr(document_checks, "lint", lint_while_another_writes)
    refused = draft()
    assert isinstance(refused, Problem)
    assert [item.message for item in refused.violations] == [
        "there is no target named broker",
        "1.3.0 is registered already; give the change a new version",
    ]

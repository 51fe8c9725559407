"""Reads of policy kinds and their versions, for their one writer and for their pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from django.db.models import QuerySet

from audit import statements
from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import kind_linter
from runtime.registry.models import Pack, PolicyKind
from runtime.registry.queries import recorded_versions, stored_documents, target_endpoints

MOST_VERSIONS = 200
MOST_PACKS = 50
HONOURS_NOT = "the target does not declare honours_keys: true"


def contract_of(row: PolicyKind) -> KindDocument:
    """The stored document, read once per body."""
    return stored_documents.kind_of(bytes(row.body))


@dataclass(frozen=True, slots=True)
class Wrong:
    """Today's lint findings on a stored version: the field, a plain sentence, and how grave it is."""

    field: str
    message: str
    gravity: kind_linter.Gravity


def list_wrong(row: PolicyKind) -> Sequence[Wrong]:
    """Why a stored version would be refused, were it new; what is active stays active."""
    found = [
        Wrong(field=".".join(map(str, problem.place)), message=problem.message, gravity=problem.gravity)
        for problem in lint_of(row)
    ]
    kind = contract_of(row)
    if not kind.resends_to:
        return found
    honouring = target_endpoints.list_honouring(tenant=row.tenant, using=row._state.db or "default")
    for message in list_forgetting(kind, targets=honouring):
        said = f"{message}; a person is asked instead"
        found.append(Wrong(field="on_unknown", message=said, gravity=kind_linter.Gravity.UNSOUND))
    return found


def list_forgetting(kind: KindDocument, *, targets: Mapping[str, bool]) -> Sequence[str]:
    """What is wrong with sending a call in doubt again; `targets` tells of each whether it honours keys."""
    return [
        f"resend can cause a second effect at {name}: {HONOURS_NOT}"
        for name in sorted(kind.resends_to)
        if not targets.get(name, True)
    ]


def lint_of(row: PolicyKind) -> tuple[kind_linter.KindProblem, ...]:
    """The findings of today's linter on a stored version, computed once per body: it may take seconds."""
    return _lint(bytes(row.body))


@lru_cache(maxsize=256)
def _lint(body: bytes) -> tuple[kind_linter.KindProblem, ...]:
    return kind_linter.lint_kind(stored_documents.kind_of(body))


@dataclass(frozen=True, slots=True)
class Refusable:
    """An active kind that would be refused, were it new."""

    kind: str
    version: str
    is_unsafe: bool


def list_refusable(*, tenant: str) -> Sequence[Refusable]:
    """The active kinds that today's linter would refuse; those that are not evaluated come first."""
    found = []
    for row in _ACTIVE.rows(tenant=tenant):
        if recorded_versions.compare_kind(row) is not None:
            # The gate refuses it too: it is unknown what it would evaluate.
            found.append(Refusable(kind=row.kind, version=row.version, is_unsafe=True))
            continue
        wrong = list_wrong(row)
        if wrong:
            found.append(Refusable(kind=row.kind, version=row.version, is_unsafe=is_unsafe(wrong)))
    return sorted(found, key=lambda one: not one.is_unsafe)


def _active(*, tenant: str) -> QuerySet[PolicyKind]:
    return PolicyKind.objects.of(tenant).filter(active=True).order_by("kind")


_ACTIVE: Final = statements.Read(_active)


def is_unsafe(wrong: Sequence[Wrong]) -> bool:
    """Whether what is wrong keeps the kind from being evaluated."""
    return any(one.gravity is kind_linter.Gravity.UNSAFE for one in wrong)


def list_every_active(*, using: str = "default") -> Sequence[PolicyKind]:
    """The active version of every kind, of every tenant."""
    return list(PolicyKind.objects.using(using).filter(active=True).order_by("tenant", "kind"))


def get_active(*, tenant: str, kind: str) -> PolicyKind | None:
    """The active version, or None."""
    return PolicyKind.objects.of(tenant).filter(kind=kind, active=True).first()


def get_version(*, tenant: str, kind: str, version: str) -> PolicyKind | None:
    """One version, or None. PostgreSQL cannot even compare a text that has a NUL."""
    if "\x00" in kind + version:
        return None
    return PolicyKind.objects.of(tenant).filter(kind=kind, version=version).first()


def lock_versions(*, tenant: str, kind: str) -> Sequence[PolicyKind]:
    """Every version of a kind, locked in one order for this transaction."""
    if "\x00" in kind:
        return []
    return list(PolicyKind.objects.of(tenant).select_for_update().filter(kind=kind).order_by("id"))


def list_version_names(*, tenant: str, kind: str) -> frozenset[str]:
    """The versions of a kind that are taken, drafts and discarded ones too."""
    rows = PolicyKind.objects.of(tenant).filter(kind=kind)
    return frozenset(rows.values_list("version", flat=True))


def list_drafts(*, tenant: str) -> Sequence[PolicyKind]:
    """Versions that wait for an activation, newest first; bounded."""
    rows = PolicyKind.objects.of(tenant).filter(activated_at=None, discarded_at=None)
    return list(rows.order_by("-id")[:MOST_VERSIONS])


def list_packs(*, tenant: str) -> Sequence[Pack]:
    """The packs that were loaded, newest first; bounded."""
    return list(Pack.objects.of(tenant).order_by("-id")[:MOST_PACKS])

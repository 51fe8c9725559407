"""Reads of rulesets and their versions, for their one writer, their calls and their pages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from django.db.models import QuerySet

from audit import statements
from runtime.contracts.ruleset import RulesetDocument
from runtime.core.mismatches import Mismatch
from runtime.registry.models import Ruleset
from runtime.registry.queries import recorded_versions, stored_documents

MOST_VERSIONS = 200


def contract_of(row: Ruleset) -> RulesetDocument:
    """The stored document, read once per body."""
    return stored_documents.ruleset_of(bytes(row.body))


def get_active(*, tenant: str, ruleset: str) -> Ruleset | None:
    """The active version, or None."""
    return Ruleset.objects.of(tenant).filter(ruleset=ruleset, active=True).first()


def get_version(*, tenant: str, ruleset: str, version: str) -> Ruleset | None:
    """One version, or None. PostgreSQL cannot even compare a text that has a NUL."""
    if "\x00" in ruleset + version:
        return None
    return Ruleset.objects.of(tenant).filter(ruleset=ruleset, version=version).first()


def find_usable(*, tenant: str, name: str) -> Ruleset | None:
    """The active version of `name`, or the one of `name@version` if it ever was active.

    None for one that is not what the ledger recorded as activated.
    """
    ruleset, _, version = name.partition("@")
    if version:
        row = get_version(tenant=tenant, ruleset=ruleset, version=version)
    else:
        row = None if "\x00" in ruleset else get_active(tenant=tenant, ruleset=ruleset)
    if row is None or row.activated_at is None or recorded_versions.compare_ruleset(row) is not None:
        return None
    return row


def compare_named(
    *, tenant: str, names: Iterable[str]
) -> tuple[tuple[RulesetDocument, ...], tuple[Mismatch, ...]]:
    """The rulesets that a kind names by `name@version`, in its order, as far as they were ever activated.

    One that differs from what the ledger recorded as activated is left out, and given as a mismatch.
    """
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return (), ()
    rows = _NAMED.rows(tenant=tenant, names=sorted({name.partition("@")[0] for name in wanted}))
    by_name = {str(row): row for row in rows}
    found, wrong = [], []
    for name in wanted:
        row = by_name.get(name)
        if row is None:
            continue
        mismatch = recorded_versions.compare_ruleset(row)
        if mismatch is None:
            found.append(contract_of(row))
        else:
            wrong.append(mismatch)
    return tuple(found), tuple(wrong)


def _named(*, tenant: str, names: list[str]) -> QuerySet[Ruleset]:
    return Ruleset.objects.filter(tenant=tenant, ruleset__in=names, activated_at__isnull=False)


_NAMED: Final = statements.Read(_named)


def list_documents(*, tenant: str, names: Iterable[str]) -> Mapping[str, RulesetDocument]:
    """The registered versions among `name@version`, drafts too: for who checks a kind that names them."""
    wanted = set(names)
    rows = Ruleset.objects.of(tenant).filter(ruleset__in={name.partition("@")[0] for name in wanted})
    return {str(row): contract_of(row) for row in rows if str(row) in wanted}


def lock_versions(*, tenant: str, ruleset: str) -> Sequence[Ruleset]:
    """Every version of a ruleset, locked in one order for this transaction."""
    if "\x00" in ruleset:
        return []
    return list(Ruleset.objects.of(tenant).select_for_update().filter(ruleset=ruleset).order_by("id"))


def list_versions(*, tenant: str, ruleset: str) -> Sequence[Ruleset]:
    """The versions of a ruleset, the active one first, then the newest; bounded."""
    if "\x00" in ruleset:
        return []
    rows = Ruleset.objects.of(tenant).filter(ruleset=ruleset).order_by("-active", "-id")
    return list(rows[:MOST_VERSIONS])


def list_newest(*, tenant: str) -> Sequence[Ruleset]:
    """Of each ruleset the active version, or else the newest, by name."""
    found: dict[str, Ruleset] = {}
    for row in Ruleset.objects.of(tenant).order_by("ruleset", "-active", "-id"):
        found.setdefault(row.ruleset, row)
    return list(found.values())

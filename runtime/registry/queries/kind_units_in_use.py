"""The units in which the active policy kinds count their amounts."""

import contextlib

from audit.verification.verify import UNREADABLE
from runtime.kernel.rules import kind_units
from runtime.registry.models import PolicyKind
from runtime.registry.queries import kind_versions


def list_kinds(*, tenant: str) -> list[str]:
    """The names of the active kinds."""
    rows = PolicyKind.objects.of(tenant).filter(active=True).order_by("kind")
    return list(rows.values_list("kind", flat=True))


def list_units(*, tenant: str, policy_kind: str = "") -> frozenset[str]:
    """The units of the parameters and limits of one active kind, or of all that can be read."""
    rows = PolicyKind.objects.of(tenant).filter(active=True)
    if policy_kind:
        rows = rows.filter(kind=policy_kind)
    found = set[str]()
    for row in rows:
        with contextlib.suppress(*UNREADABLE):
            known = kind_units.of_kind(kind_versions.contract_of(row), ())
            found |= {*known.params.values(), *known.limits.values()}
    return frozenset(found)

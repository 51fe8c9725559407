"""Up to which amount and which impact a person may decide, from the limits that admins have set.

A limit is set for one person or for a role, for one policy kind or for all, in amounts of one unit or in
impact. Without a limit there is none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runtime.contracts.states import Impact

ROLE = "role:"
# What a limit bounds: impact, or amounts of one unit.
Measure = tuple[bool, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityLimit:
    """One limit. `holder` is `user:7` or `role:operator`; an empty `policy_kind` means all kinds.

    Either `amount`, a whole number in `unit` (empty: amounts without a unit), or `impact`, the heaviest.
    """

    holder: str
    policy_kind: str = ""
    unit: str = ""
    amount: int | None = None
    impact: Impact | None = None

    @property
    def measure(self) -> Measure:
        """What it bounds: two limits with the same measure can be compared."""
        return self.impact is not None, self.unit

    @property
    def most(self) -> int:
        """The most that it allows: an amount, or the rank of an impact."""
        return (self.amount or 0) if self.impact is None else self.impact.rank

    @property
    def needs_an_amount(self) -> bool:
        """Whether a case without an amount of its unit is above it: so of an amount for the kind itself."""
        return self.impact is None and self.policy_kind != ""

    def allows_more_than(self, other: "AuthorityLimit") -> bool:
        """Whether some case is within this limit and above the other one, of the same measure."""
        return self.most > other.most or (other.needs_an_amount and not self.needs_an_amount)


def in_force(
    limits: Iterable[AuthorityLimit], *, holder: str, roles: Collection[str], policy_kind: str
) -> tuple[AuthorityLimit, ...]:
    """The limits that count for a person on a kind, one for each measure.

    The person's own limit wins over those of roles, and one for the kind over one for all kinds. Roles add
    up: of several the widest counts, and a role without a limit has none.
    """
    by_measure: dict[Measure, list[AuthorityLimit]] = {}
    for limit in limits:
        if limit.policy_kind in ("", policy_kind):
            by_measure.setdefault(limit.measure, []).append(limit)
    found: list[AuthorityLimit] = []
    for _, known in sorted(by_measure.items()):
        own = _nearest(known, holder)
        of_roles = [_nearest(known, f"{ROLE}{role}") for role in sorted(roles)]
        if own is not None:
            found.append(own)
        elif of_roles and None not in of_roles:
            found.append(max((limit for limit in of_roles if limit), key=lambda limit: limit.most))
    return tuple(found)


def first_exceeded(
    limits: Iterable[AuthorityLimit], *, amounts: Mapping[str, int], impact: Impact
) -> AuthorityLimit | None:
    """The first limit that a case is above; None where it is within all of them.

    `amounts` are the largest of the case by unit. A limit for the kind itself is exceeded too where the case
    has no amount of its unit: what cannot be read is not within it.
    """
    for limit in limits:
        if limit.impact is not None:
            value: int | None = impact.rank
        else:
            value = amounts.get(limit.unit)
        if value is None and not limit.needs_an_amount:
            continue
        if value is None or value > limit.most:
            return limit
    return None


def is_raised(
    before: Sequence[AuthorityLimit],
    after: Sequence[AuthorityLimit],
    *,
    holder: str,
    roles: Collection[str],
) -> bool:
    """Whether a person may do more after a change of limits than before it, on any kind."""
    # The empty name stands for every kind that no limit names.
    for kind in {"", *(limit.policy_kind for limit in (*before, *after))}:
        now = {
            limit.measure: limit for limit in in_force(after, holder=holder, roles=roles, policy_kind=kind)
        }
        for limit in in_force(before, holder=holder, roles=roles, policy_kind=kind):
            later = now.get(limit.measure)
            if later is None or later.allows_more_than(limit):
                return True
    return False


def _nearest(limits: Iterable[AuthorityLimit], holder: str) -> AuthorityLimit | None:
    """The holder's limit for the kind itself, else the one for all kinds."""
    return max(
        (limit for limit in limits if limit.holder == holder),
        key=lambda limit: limit.policy_kind,
        default=None,
    )

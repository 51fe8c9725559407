"""The accounts of people against the entries of their streams, for `verify_ledger`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from django.contrib.auth.models import User

from audit import actors
from audit.access.roles import Role
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved

_KINDS = frozenset({Kind.USER_ADDED, Kind.USER_ROLES_CHANGED, Kind.USER_DEACTIVATED, Kind.USER_REACTIVATED})
_ROLES = frozenset(role.value for role in Role)


@dataclass(frozen=True, slots=True)
class _Account:
    """What a person's entries record: roles, whether they may sign in, and the last entry."""

    last: Entry
    roles: frozenset[str]
    is_active: bool = True


class PeopleRowCheck(row_checks.LastingRows):
    """Who may sign in, and with which roles: nobody whom no entry has added."""

    kinds = _KINDS
    not_proved = (
        NotProved("auth_user", (), "passwords and names, and groups that are not roles"),
        NotProved("runtime_hiddentour", (), "whether a person sees the tour, which changes nothing else"),
    )

    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}

    def take(self, entry: Entry) -> None:
        """Follow a person's roles."""
        said = entry.payload
        held = self._accounts.get(said["user_id"])
        if held is not None and held.last.seq >= entry.seq:
            return
        if entry.kind == Kind.USER_ADDED:
            self._accounts[said["user_id"]] = _Account(entry, frozenset(said["roles"]))
        elif held is not None and entry.kind == Kind.USER_DEACTIVATED:
            self._accounts[said["user_id"]] = replace(held, last=entry, is_active=False)
        elif held is not None and entry.kind == Kind.USER_REACTIVATED:
            roles = frozenset(said["groups"])
            self._accounts[said["user_id"]] = replace(held, last=entry, roles=roles, is_active=True)
        elif held is not None:
            roles = held.roles.union(said["gained"]).difference(said["lost"])
            self._accounts[said["user_id"]] = replace(held, last=entry, roles=roles)

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The accounts alone."""
        return {"people": self._compare}

    def _compare(self, found: Found) -> None:
        left = dict(self._accounts)
        for user in User.objects.prefetch_related("groups").order_by("pk"):
            account = left.pop(user.pk, None)
            if account is None:
                found.without_entry("", actors.user(user.pk), f"the user {user.get_username()}")
                continue
            roles = {group.name for group in user.groups.all()} & _ROLES
            found.same(account.last, "roles", sorted(account.roles & _ROLES), sorted(roles))
            found.same(account.last, "user is active", account.is_active, user.is_active)
            found.same(account.last, "user is a superuser", False, user.is_superuser)
        for account in left.values():
            found.missing(account.last, f"the user {account.last.payload['user_id']}")

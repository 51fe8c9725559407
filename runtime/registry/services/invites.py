"""Invite links: an admin adds a user without a password, who sets one under a link that works once.

A link is `user id - time - keyed hash`, and is stored nowhere. The hash covers the stored password, so that
it ends when a password is set, and when a newer link is made: each one begins with another unusable password.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator

from audit import actors, events
from audit.access.roles import Role
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.registry.queries import people
from runtime.registry.services import people_admin, users

_ENDED = Problem(
    code=ProblemCode.INVITE_INVALID,
    detail="This link was used or replaced, or it has expired. Ask an administrator for a new one.",
)


class _Links(PasswordResetTokenGenerator):
    """Links for first and new passwords; how long they work is `PASSWORD_RESET_TIMEOUT`."""

    key_salt = "runtime.registry.services.invites"


_links = _Links()


@dataclass(frozen=True, slots=True)
class Invite:
    """A link for a user. `token` is the secret part of its address, and is shown once."""

    user: User
    token: str = field(repr=False)
    expires_at: datetime


def add(*, tenant: str, name: str, roles: Collection[Role], actor: str) -> Invite | Problem:
    """Add a user with roles and without a password, and make the link for it.

    409 where a user or a group has the name, 422 for a name that cannot be one or without a role.
    """
    if not roles:
        return people_admin.NO_ROLE

    def work() -> Invite | Problem:
        refused = people_admin.find_refusal(actor)
        if refused is not None:
            return refused
        # An owner is found by its name alone: two that are read as one would be bound as one.
        if people.is_name_taken(name):
            said = f"A user, role or group already has the name {name}. Choose another name."
            return Problem(code=ProblemCode.NAME_TAKEN, detail=said)
        user = User(username=name)
        unfit = users.find_unfit_name(user)
        if unfit is not None:
            return unfit
        user.set_unusable_password()
        users.keep_new(tenant=tenant, user=user, roles=roles, actor=actor)
        return _make(tenant, user, actor, is_reset=False)

    return transactions.retry_on_conflict(work)


def renew(*, tenant: str, user_pk: int, actor: str) -> Invite | Problem:
    """Make a new link for a user: earlier links, their password and all of their sessions end.

    403 for one's own account, 409 for a deactivated one.
    """

    def work(user: User) -> Invite | Problem:
        if not user.is_active:
            return Problem(
                code=ProblemCode.USER_MOVED, detail=f"{user.get_username()} is deactivated: reactivate first."
            )
        is_reset = user.has_usable_password()
        user.set_unusable_password()
        user.save(update_fields=["password"])
        users.end_browser_sessions(user)
        return _make(tenant, user, actor, is_reset=is_reset)

    return people_admin.change(user_pk=user_pk, actor=actor, work=work)


def find(token: str) -> User | Problem:
    """The user whom a link is for; 410 for a link that no longer works, or never did."""
    pk, _, rest = token.partition("-")
    if not (pk.isascii() and pk.isdigit() and len(pk) <= people.MOST_DIGITS):
        return _ENDED
    user = User.objects.filter(pk=int(pk), is_active=True).first()
    return user if user is not None and _links.check_token(user, rest) else _ENDED


@transactions.retried
def accept(*, tenant: str, token: str, password: str) -> User | Problem:
    """Set the password under a link, which ends with it; 422 for a weak password, which uses up nothing."""
    user = find(token)
    if isinstance(user, Problem):
        return user
    # Once more with the row held: of two who send it at once, one is first.
    User.objects.select_for_update().get(pk=user.pk)
    user = find(token)
    if isinstance(user, Problem):
        return user
    weakness = users.find_weakness(user, password)
    if weakness is not None:
        return weakness
    user.set_password(password)
    user.save(update_fields=["password"])
    changed = events.UserPasswordChanged(user_id=user.pk, by_invite=True)
    users.record(tenant, user, actors.user(user.pk), changed, at=clock.now())
    users.end_browser_sessions(user)
    return user


def _make(tenant: str, user: User, actor: str, *, is_reset: bool) -> Invite:
    at = clock.now()
    expires_at = at + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    invited = events.UserInvited(user_id=user.pk, expires_at=expires_at, reset=is_reset)
    users.record(tenant, user, actor, invited, at=at)
    return Invite(user, f"{user.pk}-{_links.make_token(user)}", expires_at)

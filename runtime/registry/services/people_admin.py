"""What an admin does to the account of somebody else: roles, state and sessions. Nobody does it to their own.

So an admin gives himself no deciding role, and cannot take the last admin away: whoever acts is one, and
stays one. Both are asked again inside the transaction, since two admins may act on each other at once.
"""

from collections.abc import Callable, Collection
from typing import TypeVar

from django.contrib.auth.models import Group, User

from audit import actors, events
from audit.access import permissions
from audit.access.roles import Permission, Role
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.registry.services import membership_history, users

Result = TypeVar("Result")
_ROLES = frozenset(role.value for role in Role)
_NEEDS_ROLE = "Choose at least one role. To lock somebody out, deactivate the account."
NO_ROLE = Problem(
    code=ProblemCode.INVALID_REQUEST,
    detail=_NEEDS_ROLE,
    violations=(Violation(pointer="roles", message=_NEEDS_ROLE),),
)


def change_roles(
    *, tenant: str, user_pk: int, seen: Collection[Role], roles: Collection[Role], actor: str
) -> User | Problem:
    """Give a user these roles instead of those that the page showed (`seen`).

    409 where they are others by now, 422 without a role, 403 for one's own.
    """
    if not roles:
        return NO_ROLE

    def work(user: User) -> User | Problem:
        held = set(user.groups.filter(name__in=_ROLES).values_list("name", flat=True))
        if not user.is_active or held != set(seen):
            return _moved(user)
        at = membership_history.time_of_next(tenant=tenant, user=user)
        # What was changed past this console before is not what this admin does.
        users.record(tenant, user, actors.SYSTEM, membership_history.note(user=user, at=at), at=at)
        user.groups.remove(*Group.objects.filter(name__in=held.difference(roles)))
        user.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in set(roles).difference(held)))
        changed = membership_history.note(user=user, at=at, done_here=True)
        users.record(tenant, user, actor, changed, at=at)
        return user

    return change(user_pk=user_pk, actor=actor, work=work)


def deactivate(*, tenant: str, user_pk: int, actor: str) -> User | Problem:
    """Lock a user out; all of their sessions end. 403 for oneself."""

    def work(user: User) -> User | Problem:
        users.lock_out(tenant=tenant, user=user, actor=actor)
        return user

    return change(user_pk=user_pk, actor=actor, work=work)


def reactivate(*, tenant: str, user_pk: int, actor: str) -> User | Problem:
    """Let a deactivated user sign in again, with the password and the groups that they had."""

    def work(user: User) -> User | Problem:
        if user.is_active:
            return user
        at = membership_history.time_of_next(tenant=tenant, user=user)
        user.is_active = True
        user.save(update_fields=["is_active"])
        held = membership_history.note(user=user, at=at)
        groups = () if held is None else held.gained
        again = events.UserReactivated(user_id=user.pk, groups=groups)
        users.record(tenant, user, actor, again, at=at)
        return user

    return change(user_pk=user_pk, actor=actor, work=work)


def end_sessions(*, tenant: str, user_pk: int, actor: str) -> int | Problem:
    """Sign somebody else out everywhere; how many sessions there were. Their password stays."""
    return change(user_pk=user_pk, actor=actor, work=lambda user: _end_sessions(tenant, user, actor))


@transactions.retried
def end_own_sessions(*, tenant: str, user: User, this: str) -> int:
    """Sign oneself out everywhere but in the session whose key is `this`; how many others there were."""
    return _end_sessions(tenant, user, actors.user(user.pk), besides=this)


def change(*, user_pk: int, actor: str, work: Callable[[User], Result | Problem]) -> Result | Problem:
    """Run `work` on the account of somebody else, held, in one transaction; else the refusal."""

    def held() -> Result | Problem:
        refused = find_refusal(actor)
        if refused is not None:
            return refused
        user = User.objects.select_for_update().filter(pk=user_pk).first()
        if user is None:
            return Problem(code=ProblemCode.NOT_FOUND, detail="There is no such user.")
        if actors.user(user.pk) == actor:
            return Problem(
                code=ProblemCode.SEPARATION_OF_DUTY,
                detail="This is your own account: another admin must change it.",
            )
        return work(user)

    return transactions.retry_on_conflict(held)


def find_refusal(actor: str) -> Problem | None:
    """What speaks against `actor` managing people, asked in the transaction; all who do so take turns."""
    # The row of the role is the lock: two admins who act on each other hold no row in common.
    Group.objects.select_for_update().filter(name=Role.ADMIN).first()
    admin = User.objects.filter(pk=int(actor.removeprefix(actors.USER))).first()
    if admin is not None and permissions.may(admin, Permission.MANAGE_PEOPLE):
        return None
    return Problem(code=ProblemCode.ROLE_MISSING, detail="You are no longer an admin.")


def _end_sessions(tenant: str, user: User, actor: str, *, besides: str = "") -> int:
    ended = users.end_browser_sessions(user, besides=besides)
    if ended:
        users.record(
            tenant, user, actor, events.UserSessionsEnded(user_id=user.pk, sessions=ended), at=clock.now()
        )
    return ended


def _moved(user: User) -> Problem:
    said = f"The roles or the state of {user.get_username()} have changed since the page was loaded."
    return Problem(code=ProblemCode.USER_MOVED, detail=said)

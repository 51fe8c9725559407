"""People who may sign in: added with a password from a shell; what invites and admins do with them too."""

from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError

from audit import actors, events, ledger
from audit.access.roles import Role
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.registry.queries import browser_sessions
from runtime.registry.services import membership_history


def add(*, tenant: str, name: str, password: str, roles: Collection[Role], actor: str) -> User | Problem:
    """A new user with roles; 409 where the name is taken, 422 for a bad name, a weak password or no role."""
    if not roles:
        return _unfit("Give at least one role: operator, senior, admin or auditor.")

    def work() -> User | Problem:
        if User.objects.filter(username=name).exists():
            return Problem(code=ProblemCode.USER_EXISTS, detail=f"A user named {name} already exists.")
        user = User(username=name)
        weakness = find_weakness(user, password)
        if weakness is not None:
            return weakness
        user.set_password(password)
        keep_new(tenant=tenant, user=user, roles=roles, actor=actor)
        return user

    return transactions.retry_on_conflict(work)


def keep_new(*, tenant: str, user: User, roles: Collection[Role], actor: str) -> None:
    """Save a new user with roles and an entry, in the caller's transaction."""
    user.save()
    for role in sorted(roles):
        user.groups.add(Group.objects.get_or_create(name=role.value)[0])
    added = events.UserAdded(user_id=user.pk, roles=tuple(sorted(roles)))
    at = membership_history.time_of_next(tenant=tenant, user=user)
    membership_history.note(user=user, at=at)
    record(tenant, user, actor, added, at=at)


@transactions.retried
def set_password(*, tenant: str, name: str, password: str, actor: str) -> User | Problem:
    """Give a user another password; every session of the old one ends."""
    user = _find(name)
    if isinstance(user, Problem):
        return user
    weakness = find_weakness(user, password)
    if weakness is not None:
        return weakness
    user.set_password(password)
    user.save(update_fields=["password"])
    record(tenant, user, actor, events.UserPasswordChanged(user_id=user.pk), at=clock.now())
    end_browser_sessions(user)
    return user


@transactions.retried
def deactivate(*, tenant: str, name: str, actor: str) -> User | Problem:
    """Lock a user out; open sessions end at once. The account stays, since the ledger names it."""
    user = _find(name)
    if not isinstance(user, Problem):
        lock_out(tenant=tenant, user=user, actor=actor)
    return user


def lock_out(*, tenant: str, user: User, actor: str) -> None:
    """Deactivate a user whose row the caller's transaction holds.

    What the user held still counts for days: who is left does not become the only one by it.
    """
    if user.is_active:
        at = membership_history.time_of_next(tenant=tenant, user=user)
        # A role that a shell has given since the last sweep was held too.
        record(tenant, user, actors.SYSTEM, membership_history.note(user=user, at=at), at=at)
        user.is_active = False
        user.save(update_fields=["is_active"])
        membership_history.note(user=user, at=at)
        record(tenant, user, actor, events.UserDeactivated(user_id=user.pk), at=at)
    end_browser_sessions(user)


def _find(name: str) -> User | Problem:
    user = User.objects.select_for_update().filter(username=name).first()
    return user or Problem(code=ProblemCode.NOT_FOUND, detail=f"There is no user named {name}.")


def find_unfit_name(user: User) -> Problem | None:
    """What is wrong with the name of a user who has no password yet, or None."""
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        return _unfit(" ".join(error.messages))
    return None


def find_weakness(user: User, password: str) -> Problem | None:
    """What is wrong with a user's name or with a password for them, or None."""
    try:
        user.clean_fields(exclude=["password"])
        validate_password(password, user)
    except ValidationError as error:
        return _unfit(" ".join(error.messages))
    return None


def _unfit(detail: str) -> Problem:
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)


def record(tenant: str, user: User, actor: str, event: events.Event | None, *, at: datetime) -> None:
    """Append an entry to the stream of a user, in the caller's transaction; nothing where there is none."""
    if event is None:
        return
    ledger.append_to(tenant=tenant, stream=actors.user(user.pk), actor=actor, at=at, events=[event])


def end_browser_sessions(user: User, *, besides: str = "") -> int:
    """Delete the sessions of a user, but for the one whose key is `besides`; how many there were.

    Sockets that a session opened are closed at their next hint or ping (`audit.access.session_check`).
    """
    mine = [key for key in browser_sessions.keys_of(user_pk=user.pk, at=clock.now()) if key != besides]
    return Session.objects.filter(session_key__in=mine).delete()[0]

"""People who may sign in: they are added and deactivated from a shell, never by a form."""

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
from runtime.registry.services import membership_history


def add(*, tenant: str, name: str, password: str, roles: Collection[Role], actor: str) -> User | Problem:
    """A new user with roles; 409 where the name is taken, 422 for a bad name, a weak password or no role."""
    if not roles:
        return _unfit("Give at least one role: operator, senior, admin or auditor.")

    def work() -> User | Problem:
        if User.objects.filter(username=name).exists():
            return Problem(code=ProblemCode.USER_EXISTS, detail=f"A user named {name} already exists.")
        user = User(username=name)
        weakness = _weakness(user, password)
        if weakness is not None:
            return weakness
        user.set_password(password)
        user.save()
        for role in sorted(roles):
            user.groups.add(Group.objects.get_or_create(name=role.value)[0])
        added = events.UserAdded(user_id=user.pk, roles=tuple(sorted(roles)))
        at = membership_history.time_of_next(tenant=tenant, user=user)
        membership_history.note(user=user, at=at)
        _record(tenant, user, actor, added, at=at)
        return user

    return transactions.retry_on_conflict(work)


@transactions.retried
def set_password(*, tenant: str, name: str, password: str, actor: str) -> User | Problem:
    """Give a user another password; every session of the old one ends."""
    user = _find(name)
    if isinstance(user, Problem):
        return user
    weakness = _weakness(user, password)
    if weakness is not None:
        return weakness
    user.set_password(password)
    user.save(update_fields=["password"])
    _record(tenant, user, actor, events.UserPasswordChanged(user_id=user.pk), at=clock.now())
    _end_sessions(user)
    return user


@transactions.retried
def deactivate(*, tenant: str, name: str, actor: str) -> User | Problem:
    """Lock a user out; open sessions end at once. The account stays, since the ledger names it.

    What the user held still counts for days: who is left does not become the only one by it.
    """
    user = _find(name)
    if isinstance(user, Problem):
        return user
    if user.is_active:
        at = membership_history.time_of_next(tenant=tenant, user=user)
        # A role that a shell has given since the last sweep was held too.
        unnoted = membership_history.note(user=user, at=at)
        if unnoted is not None:
            _record(tenant, user, actors.SYSTEM, unnoted, at=at)
        user.is_active = False
        user.save(update_fields=["is_active"])
        membership_history.note(user=user, at=at)
        _record(tenant, user, actor, events.UserDeactivated(user_id=user.pk), at=at)
    _end_sessions(user)
    return user


def _find(name: str) -> User | Problem:
    user = User.objects.select_for_update().filter(username=name).first()
    return user or Problem(code=ProblemCode.NOT_FOUND, detail=f"There is no user named {name}.")


def _weakness(user: User, password: str) -> Problem | None:
    try:
        user.clean_fields(exclude=["password"])
        validate_password(password, user)
    except ValidationError as error:
        return _unfit(" ".join(error.messages))
    return None


def _unfit(detail: str) -> Problem:
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)


def _record(tenant: str, user: User, actor: str, event: events.Event, *, at: datetime) -> None:
    ledger.append_to(tenant=tenant, stream=actors.user(user.pk), actor=actor, at=at, events=[event])


def _end_sessions(user: User) -> None:
    # A session row does not name its user: there are as many as people signed in, so all are opened.
    for session in Session.objects.filter(expire_date__gt=clock.now()):
        if session.get_decoded().get("_auth_user_id") == str(user.pk):
            session.delete()

"""Groups that own agents: an admin makes one and puts people into it. Roles are given elsewhere.

Whoever is in a group that owns an agent does not decide on what it asks for, so that to leave is to gain a
right: no one is removed from a group while it owns one. Another owner is what two admins agree to.
"""

from collections.abc import Callable

from django.contrib.auth.models import Group, User

from audit import actors, events, ledger
from audit.access.roles import Role
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.registry.queries import owners, people
from runtime.registry.services import membership_history, users

LONGEST_NAME = 80
_LONGEST_STORED = 150  # as Django keeps it
_ROLES = frozenset(role.value for role in Role)


def make_owner(*, name: str) -> events.GroupAdded | None:
    """Make an empty group for an owner that is neither a person nor a group yet, in the caller's transaction.

    None where there is one, or where the name is too long for a group.
    """
    if User.objects.filter(username=name).exists() or len(name) > _LONGEST_STORED:
        return None
    group, is_new = Group.objects.get_or_create(name=name)
    return events.GroupAdded(name=group.name) if is_new else None


def make(*, tenant: str, name: str, actor: str) -> Group | Problem:
    """A new group without people; 422 for a name that cannot be one, 409 for one that is taken."""
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        return _unfit("name", f"Give the group a name of at most {LONGEST_NAME} characters.")

    def work() -> Group | Problem:
        # An owner is found by its name alone: two that are read as one would be bound as one.
        if people.is_name_taken(name):
            said = f"A user, role or group already has the name {name}. Choose another name."
            return Problem(code=ProblemCode.NAME_TAKEN, detail=said)
        group = Group.objects.create(name=name)
        added = events.GroupAdded(name=name)
        ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=clock.now(), events=[added])
        return group

    return transactions.retry_on_conflict(work)


def join(*, tenant: str, group_pk: int, user_pk: int, actor: str) -> Group | Problem:
    """Add a user who may sign in to a group; nothing happens where they are in it already."""

    def work(group: Group, user: User) -> Problem | None:
        user.groups.add(group)
        return None

    return _change(tenant, group_pk, user_pk, actor, work)


def leave(*, tenant: str, group_pk: int, user_pk: int, actor: str) -> Group | Problem:
    """Remove a user from a group; 409 while it owns an agent, or is about to. It binds them for days."""

    def work(group: Group, user: User) -> Problem | None:
        owned = owners.list_owned(tenant=tenant, owner=group.name)
        if owned:
            said = (
                f"{group.name} owns {', '.join(owned)}: members cannot be removed while it does. Request "
                "another owner first; another admin must agree to it."
            )
            return Problem(code=ProblemCode.GROUP_OWNS_AGENTS, detail=said)
        user.groups.remove(group)
        return None

    return _change(tenant, group_pk, user_pk, actor, work)


@transactions.retried
def _change(
    tenant: str, group_pk: int, user_pk: int, actor: str, work: Callable[[Group, User], Problem | None]
) -> Group | Problem:
    user = User.objects.select_for_update().filter(pk=user_pk).first()
    group = Group.objects.filter(pk=group_pk).first()
    if user is None or group is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="There is no such user or group.")
    if group.name in _ROLES:
        said = "This group is a role: change roles on the user's page."
        return Problem(code=ProblemCode.ROLE_BY_SHELL, detail=said)
    if not user.is_active:
        return _unfit("user", f"{user.get_username()} can no longer sign in.")
    at = membership_history.time_of_next(tenant=tenant, user=user)
    # What was changed past this console before is not what this admin does.
    users.record(tenant, user, actors.SYSTEM, membership_history.note(user=user, at=at), at=at)
    problem = work(group, user)
    if problem is not None:
        return problem
    users.record(tenant, user, actor, membership_history.note(user=user, at=at, done_here=True), at=at)
    return group


def _unfit(field: str, said: str) -> Problem:
    wrong = (Violation(pointer=field, message=said),)
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=said, violations=wrong)

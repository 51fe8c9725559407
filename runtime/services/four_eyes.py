"""Four eyes: what one admin wrote, another one puts in force; alone in an installation, it is recorded."""

from dataclasses import dataclass

from django.contrib.auth.models import User

from audit.permissions import Role
from runtime.contracts.problem import Problem


@dataclass(frozen=True)
class Agreed:
    """It may be put in force. `solo`: by its own author, since no other admin is there to do it."""

    solo: bool


def ask(*, author: str, actor: str, what: str) -> Agreed | Problem:
    """Whether `actor` may put in force what `author` wrote (both as in the ledger, `user:7`); 403 if not.

    The same answer is for the page and for the write. `what` names the thing in a sentence.
    """
    if author != actor:
        return Agreed(solo=False)
    if _admins() == 1:
        return Agreed(solo=True)
    detail = f"You wrote {what}: another admin must activate it."
    return Problem(status=403, code="SEPARATION_OF_DUTY", detail=detail)


def _admins() -> int:
    return User.objects.filter(is_active=True, groups__name=Role.ADMIN).distinct().count()

"""Dual control: what one admin wrote, another one activates; a sole admin may, which is recorded.

An admin who makes an invite link could use it himself. So for days the account counts as his own: it
activates nothing that he wrote, nor he what it wrote; one that he added leaves him as alone as before.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from audit import actors
from audit.access.roles import HOLDERS, Permission
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock
from runtime.core.mismatches import Mismatch
from runtime.kernel import separation
from runtime.registry.queries import group_members, invitations


@dataclass(frozen=True)
class Approved:
    """It may be activated. `solo`: by its author, or who counts as such, since no other admin is there."""

    solo: bool


def check(*, author: str, actor: str, what: str) -> Approved | Problem:
    """Whether `actor` may activate what `author` wrote (both as in the ledger, `user:7`); 403 if not.

    The same answer is for the page and for the write. `what` names the thing in a sentence.
    """
    at = clock.now()
    who = bound_to(author=author, actor=actor, at=at)
    if not who:
        return Approved(solo=False)
    alone = others(actor=actor, at=at)
    if alone.is_now:
        return Approved(solo=True)
    detail = f"{who} wrote {what}: another admin must activate it.{alone.words}"
    return Problem(code=ProblemCode.SEPARATION_OF_DUTY, detail=detail)


def bound_to(*, author: str, actor: str, at: datetime) -> str:
    """Say who the author is to the actor, where the two are not two pairs of eyes; empty where they are."""
    if author == actor:
        return "You"
    days = f"less than {separation.DAYS} days ago"
    if author in invitations.invited_by(actor=actor, at=at):
        return f"Somebody whom you invited {days}"
    if actor in invitations.invited_by(actor=author, at=at):
        return f"Who invited you {days}"
    return ""


def refuse_tampered(mismatch: Mismatch | None) -> Problem | None:
    """409 for what differs from what its author saved: the page would not show what is activated."""
    if mismatch is None:
        return None
    detail = (
        f"{mismatch.row} of {mismatch.row_id} does not match the ledger, so it cannot be activated. Run "
        "manage.py verify_ledger, and draft a new version."
    )
    return Problem(code=ProblemCode.TAMPERED, detail=detail)


@dataclass(frozen=True)
class Alone:
    """Whether a person is the only admin; where all others have gone, from when on."""

    is_now: bool
    from_at: datetime | None = None

    @property
    def words(self) -> str:
        """A sentence that states from when, to append to another."""
        if self.from_at is None:
            return ""
        from_when = f"{self.from_at:%Y-%m-%d %H:%M} UTC"
        return (
            f" The last other admin left less than {separation.DAYS} days ago: you may do it "
            f"from {from_when} on."
        )


def others(*, actor: str, at: datetime) -> Alone:
    """Whether `actor` is alone: who was an admin within the last days counts, or removing one would do."""
    holders = group_members.list_holders(groups=HOLDERS[Permission.MANAGE_REGISTRY], at=at)
    own = {actor, *invitations.added_by(actor=actor, at=at)}
    until = [moment for pk, moment in holders.items() if actors.user(pk) not in own]
    gone = [moment for moment in until if moment is not None]
    if not until:
        return Alone(is_now=True)
    if len(gone) < len(until):
        return Alone(is_now=False)
    return Alone(is_now=False, from_at=max(gone) + timedelta(days=separation.DAYS))

"""Whether a browser session may still read the console: asked at connect, at each hint and at each ping.

A WebSocket outlives a logout, a new password and a lost role, so the answer is never remembered.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from audit.access.permissions import tenant_of
from audit.access.roles import Role


class CloseCode(IntEnum):
    """Close codes of the live socket; the page goes to sign-in at the first and says so at the second."""

    SIGNED_OUT = 4401
    NO_ROLE = 4403


@dataclass(frozen=True, slots=True)
class Valid:
    """A session of a person who holds a role: who it is, and the tenant whose hints they get."""

    tenant: str
    person: int


def check_sessions(session_keys: Collection[str]) -> Mapping[str, Valid | CloseCode]:
    """The answer for each session, as the database stands now: three queries for any number of them."""
    sessions = Session.objects.filter(session_key__in=list(session_keys), expire_date__gt=timezone.now())
    documents = {session.session_key: session.get_decoded() for session in sessions}
    claimed = {key: str(document.get(SESSION_KEY, "")) for key, document in documents.items()}
    users = {
        str(user.pk): user
        for user in get_user_model().objects.filter(
            pk__in=[pk for pk in claimed.values() if pk], is_active=True
        )
    }
    with_role = {
        str(pk)
        for pk in Group.objects.filter(name__in=list(Role), user__in=list(users)).values_list(
            "user", flat=True
        )
    }
    answers: dict[str, Valid | CloseCode] = {}
    for key in session_keys:
        user = users.get(claimed.get(key, ""))
        if user is None or not _is_current(user, documents[key]):
            answers[key] = CloseCode.SIGNED_OUT
        elif str(user.pk) not in with_role:
            answers[key] = CloseCode.NO_ROLE
        else:
            answers[key] = Valid(tenant_of(user), person=user.pk)
    return answers


def _is_current(user: AbstractBaseUser, document: Mapping[str, Any]) -> bool:
    """The session was made with the password that the user has now, as Django checks it at each request."""
    held = str(document.get(HASH_SESSION_KEY, ""))
    valid = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(held, each) for each in valid)

"""Where people are signed in. A stored session does not name its user, so that all of them are opened."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session

# What allauth keeps of how somebody signed in, with the moment.
_METHODS = "account_authentication_methods"


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser in which somebody is signed in. `began_at` is None where the session does not say."""

    began_at: datetime | None
    ends_at: datetime
    is_this: bool = False


def list_by_user(*, at: datetime, this: str = "") -> dict[int, list[BrowserSession]]:
    """The sessions that have not expired, newest first, by the user's primary key.

    `this` is the key of the caller's own. Keys are secrets: none is given out.
    """
    found: dict[int, list[BrowserSession]] = defaultdict(list)
    for user_pk, session, document in _opened(at):
        found[user_pk].append(
            BrowserSession(_began_at(document), session.expire_date, is_this=session.session_key == this)
        )
    return found


def keys_of(*, user_pk: int, at: datetime) -> Sequence[str]:
    """The keys of a user's sessions, for the service that ends them."""
    return [session.session_key for pk, session, _ in _opened(at) if pk == user_pk]


def _opened(at: datetime) -> Iterator[tuple[int, Session, dict[str, Any]]]:
    rows = Session.objects.filter(expire_date__gt=at).order_by("-expire_date", "session_key")
    for session in rows.iterator(chunk_size=500):
        document = session.get_decoded()
        user_pk = str(document.get(SESSION_KEY, ""))
        if user_pk.isascii() and user_pk.isdigit():
            yield int(user_pk), session, document


def _began_at(document: dict[str, Any]) -> datetime | None:
    """The first time that a password was given in it."""
    methods = document.get(_METHODS)
    times = (
        [item.get("at") for item in methods if isinstance(item, dict)] if isinstance(methods, list) else []
    )
    moments = [moment for moment in times if isinstance(moment, int | float)]
    return datetime.fromtimestamp(min(moments), tz=UTC) if moments else None

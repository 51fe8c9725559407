"""Sessions of browsers in the database, as Django keeps them; the one of a request by a compiled read."""

from datetime import datetime
from typing import Final

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from audit import statements


class SessionStore(db.SessionStore):
    """Every page reads its session, so that read is compiled once."""

    def _get_session_from_db(self) -> Session | None:
        key = self.session_key
        found = None if key is None else _KEPT.first(session_key=key, now=timezone.now())
        if found is None:
            self._session_key = None  # of a session that ended, or of none; Django's own store says the same
        return found


def _kept(*, session_key: str, now: datetime) -> QuerySet[Session]:
    return Session.objects.filter(session_key=session_key, expire_date__gt=now)


_KEPT: Final = statements.Read(_kept)

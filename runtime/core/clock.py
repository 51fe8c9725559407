"""The one port of time: database time where many processes write, the process clock where one does."""

from datetime import UTC, datetime

from django.db import DEFAULT_DB_ALIAS, connections

from audit import statement_text


def now() -> datetime:
    """The moment, aware, in UTC, in whole milliseconds.

    On PostgreSQL several hosts write, so the database's own clock decides, read after the locks are held.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql":
        moment: datetime = statement_text.rows(database, "SELECT clock_timestamp()", ())[0][0]
    else:
        moment = datetime.now(UTC)
    moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

"""Keeps what is secret in an address out of the logs that name addresses: the token of a callback."""

import logging
import re
from typing import Final

from django.conf import settings

# Who writes the address of a request: Django for each that is refused, the server for every one.
_LOGGERS: Final = ("django.request", "uvicorn.access")
_TOKEN: Final = re.compile(re.escape(settings.DIR_CALLBACKS) + r"[^\s\"'?]+")
_HIDDEN: Final = f"{settings.DIR_CALLBACKS}..."


class HideTokens(logging.Filter):
    """Writes `/callbacks/...` in place of the address of a callback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes, without the token."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                _TOKEN.sub(_HIDDEN, given) if isinstance(given, str) else given for given in record.args
            )
        return True


def hide() -> None:
    """From now on, and once however often it is called."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, HideTokens) for each in logger.filters):
            logger.addFilter(HideTokens())

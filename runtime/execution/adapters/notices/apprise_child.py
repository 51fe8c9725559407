"""`python -m runtime.execution.adapters.notices.apprise_child`: one use of apprise, in a process of its own.

Reads one request as JSON from standard input and writes one answer as JSON to standard output. Apprise makes
its connections by itself and follows redirects, so they are vetted where every one of them begins: in an
audit hook, which holds for the whole life of a process. So does its parent's deadline.
"""

import email.utils
import json
import logging
import re
import socket
import sys
from functools import partial
from typing import Any
from urllib.parse import unquote

from runtime.execution.adapters import egress

LONGEST_WHY = 200
# Shorter pieces of a URL are words such as `com` more often than secrets.
_LEAST_SECRET = 4
_APP = "DIR Console"


class ConnectionGuard:
    """The audit hook: names that resolve must be allowed, and only what they resolved to is connected to."""

    def __init__(self, rule: egress.Egress) -> None:
        self._rule = rule
        self._vetted: set[str] = set()
        self._is_resolving = False
        self.has_refused = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise `EgressRefusedError` at an event that would lead to an address that may not be called."""
        if event == "socket.getaddrinfo" and not self._is_resolving:
            self._resolve(arguments[0], arguments[1])
        elif event == "socket.connect":
            self._connect(arguments[0], arguments[1])

    def _resolve(self, host: Any, port: Any) -> None:
        name = host.decode() if isinstance(host, bytes) else str(host or "")
        self._is_resolving = True
        try:
            self._vetted.update(self._rule.addresses(host=name, port=int(port or 0)))
        except egress.EgressRefusedError:
            self.has_refused = True
            raise
        except egress.UnresolvedError:
            pass  # the caller finds out by itself
        finally:
            self._is_resolving = False

    def _connect(self, used: socket.socket, address: Any) -> None:
        # Only what was resolved through `_resolve`, even where the address is public: nothing goes around it.
        is_vetted = isinstance(address, tuple) and str(address[0]) in self._vetted
        if used.family not in {socket.AF_INET, socket.AF_INET6} or not is_vetted:
            self.has_refused = True
            raise egress.EgressRefusedError


class LastWarning(logging.Handler):
    """Keeps the last warning of apprise, which says why a service did not take a notice."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text; a record that cannot be formatted says nothing."""
        self.text = record.getMessage()


def main() -> None:
    """Answer `{"why": null}`, or why the URL or the notice was not taken."""
    request = json.load(sys.stdin)
    json.dump({"why": _answer(request)}, sys.stdout)


def _answer(request: dict[str, Any]) -> str | None:
    guard = ConnectionGuard(egress.rule(request["allow"]))
    sys.addaudithook(guard)
    # The same notice has the same Message-ID at every try; apprise would make a new one.
    email.utils.make_msgid = partial(_message_id, request["message_id"])
    import apprise

    warning = LastWarning()
    logging.getLogger("apprise").addHandler(warning)
    asset = apprise.AppriseAsset(app_id=_APP, app_desc=_APP, app_url="")
    service = apprise.Apprise.instantiate(request["url"], asset=asset, suppress_exceptions=True)
    if service is None:
        return "a part of it is missing or has a wrong form"
    if request["only_check"]:
        return None
    try:
        is_sent = service.notify(
            title=request["title"], body=request["text"], body_format=apprise.NotifyFormat.TEXT
        )
    except egress.EgressRefusedError:
        is_sent = False
    if guard.has_refused:
        return egress.REFUSED
    return None if is_sent else redacted(warning.text, request["url"]) or "the service did not accept it"


def _message_id(given: str, idstring: str | None = None, domain: str | None = None) -> str:
    return f"<{given}@{domain or 'localhost'}>"


def redacted(text: str, url: str) -> str:
    """A text of apprise without the pieces of the URL, which may be secrets; one line, bounded."""
    rest = url.partition("://")[2]
    pieces = {*re.split(r"[^A-Za-z0-9]+", rest), *re.split(r"[/?&=:@]+", unquote(rest))}
    for piece in sorted(pieces, key=len, reverse=True):
        if len(piece) >= _LEAST_SECRET:
            text = text.replace(piece, "***")
    return " ".join(text.split())[:LONGEST_WHY]


if __name__ == "__main__":
    main()

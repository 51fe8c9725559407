"""Mail and chat through apprise, in a child process that is ended when its time is over.

The URL goes in by standard input: an argument could be read by every user of the machine.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl

from django.conf import settings

_CHILD: Final = "runtime.execution.adapters.notices.apprise_child"
CHECK_S: Final = 20.0
# Remote services only: none of a desktop, and none that posts to any address, as `https://` does, signed.
# True where the host in the URL is the server; elsewhere that place holds a token.
SCHEMES: Final[Mapping[str, bool]] = {
    "mailto": True,
    "mailtos": True,
    "slack": False,
    "discord": False,
    "gchat": False,
    "workflow": True,
    "workflows": True,
    "wxteams": False,
    "webex": False,
    "zulip": False,
    "mmost": True,
    "mmosts": True,
    "rocket": True,
    "rockets": True,
    "matrix": True,
    "matrixs": True,
    "ntfy": True,
    "ntfys": True,
    "gotify": True,
    "gotifys": True,
    "goalert": True,
    "goalerts": True,
    "tgram": False,
    "pover": False,
    "pagerduty": False,
    "opsgenie": False,
    "twilio": False,
}
# Options of apprise that read a file of this machine, or fetch keys from elsewhere.
_REFUSED_OPTIONS = ("pgp", "wkd", "template", "attach", "config", "store")


def trouble(parts: SplitResult) -> str | None:
    """What is wrong with a URL for apprise; None where nothing is. Starts a process."""
    if parts.scheme not in SCHEMES:
        return f"Notices cannot be sent to {parts.scheme}:// URLs. Use https or one of: {', '.join(SCHEMES)}."
    names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if refused := [name for name in names if name.startswith(_REFUSED_OPTIONS)]:
        return f"The option {refused[0]} is not supported."
    why = _run({"url": parts.geturl(), "only_check": True, "message_id": ""}, timeout_s=CHECK_S)
    return None if why is None else f"The URL cannot be used: {why}."


def send(*, url: str, message_id: str, title: str, text: str, timeout_s: float) -> str | None:
    """Send a notice; None where the service took it, else why not, in words without parts of the URL."""
    request = {"url": url, "only_check": False, "message_id": message_id, "title": title, "text": text}
    return _run(request, timeout_s=timeout_s)


def _run(request: Mapping[str, Any], *, timeout_s: float) -> str | None:
    command = [sys.executable, "-m", _CHILD]
    body = json.dumps({**request, "allow": settings.DIR_EGRESS_ALLOW})
    # No variable is handed on: neither a secret of ours nor a proxy that would go around the vetting.
    try:
        ended = subprocess.run(  # noqa: S603  # our own module, and nothing of the request
            command,
            input=body,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
            cwd=settings.BASE_DIR,
            env={"LANG": "C.UTF-8"},
        )
        why = json.loads(ended.stdout)["why"]
    except subprocess.TimeoutExpired:
        return "it was not taken in time"
    except (subprocess.CalledProcessError, OSError, ValueError, KeyError):
        # Its output may hold the URL, and is not shown.
        return "the process that sends it failed"
    return None if why is None else str(why)

"""Starts the child process of a run (`trial`), with the settings that this process has."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.conf import settings

from runtime.contracts.states import Decision
from runtime.flows.models import Verdict

_CHILD: Final = "dir_console.conformance.trial"
TIMEOUT_S: Final = 20.0
# Loopback addresses of which one is not allowed by name, mostly.
_HOSTS: Final = ("127.0.0.1", *(f"127.0.0.{last}" for last in range(2, 10)))


class TrialError(Exception):
    """The child process did not come to an answer."""


def run(*, verdicts: Sequence[Verdict]) -> Mapping[str, Any]:
    """What the child saw. Raises TrialError."""
    host = pick_host()
    request: dict[str, Any] = {"host": host, "spellings": spellings_of(host), "judge": None}
    chosen = pick_verdict(verdicts)
    if chosen is not None:
        request["judge"] = {
            "judgement": bytes(chosen.input).hex(),
            "rules": bytes(chosen.bundle.body).hex(),
            "verdict": bytes(chosen.body).hex(),
        }
    # The rule that this process has: `manage.py up` adds the demo's broker to what the environment says.
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "dir_console.settings"),
        "DIR_EGRESS_ALLOW": ",".join(settings.DIR_EGRESS_ALLOW),
        "PYTHONHASHSEED": "random",
    }
    try:
        ended = subprocess.run(  # noqa: S603  # our own module, and nothing of a request
            [sys.executable, "-m", _CHILD],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
            cwd=settings.BASE_DIR,
            env=environment,
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
    except subprocess.TimeoutExpired as error:
        raise TrialError(f"the child process did not end within {TIMEOUT_S:.0f} seconds") from error
    except subprocess.CalledProcessError as error:
        last = (str(error.stderr).strip().splitlines() or ["it said nothing"])[-1]
        raise TrialError(f"the child process failed: {last[:200]}") from error
    except (OSError, ValueError) as error:
        raise TrialError(f"the child process gave no answer ({type(error).__name__})") from error
    return answer


def pick_host() -> str:
    """A loopback address that DIR_EGRESS_ALLOW does not name. Raises TrialError where it names them all."""
    allowed = {word.lower() for word in settings.DIR_EGRESS_ALLOW}
    host = next((host for host in _HOSTS if host not in allowed), None)
    if host is None:
        raise TrialError("DIR_EGRESS_ALLOW names every loopback address that could be tried")
    return host


def spellings_of(host: str) -> list[str]:
    """Ways to write an IPv4 address that lead to the same place without a look-up of a name."""
    number = int.from_bytes(bytes(int(part) for part in host.split(".")), "big")
    return [host, str(number), hex(number), f"[::ffff:{host}]"]


def pick_verdict(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The newest one that accepts, which asked the most; else the newest one."""
    accepted = (row for row in verdicts if row.decision == Decision.ACCEPT)
    return next(accepted, next(iter(verdicts), None))

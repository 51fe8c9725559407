"""`dir-hook`: asks the console before a coding agent runs a tool.

Coding agents call a hook before each use of a tool (`PreToolUse`): JSON on standard input, the decision as
JSON on standard output. What the console permits runs, what it rejects does not, and what needs a person
waits here for one. Whatever goes wrong, the tool is denied with words that say why.

Settings, from the environment: `DIR_URL`, `DIR_AGENT_ID`, `DIR_AGENT_KEY`; `DIR_HOOK_KIND` (RUN_COMMAND)
names the policy kind, `DIR_HOOK_WAIT_S` (300) how many seconds to wait for a person, `DIR_MANIFEST_VERSION`
is 1.0.0; `DIR_AGENT_SIGNING_KEY` only where the manifest has a `proposal_key`.
"""

import hashlib
import json
import os
import sys
import uuid
from collections.abc import Mapping
from typing import Any, Final

from dir_console_client.client import Client
from dir_console_client.errors import ConsoleError
from dir_console_client.models import Result, Status

EVENT: Final = "PreToolUse"


class HookError(Exception):
    """The hook was called or set up wrongly."""


def main() -> int:
    """Answer the call on standard input; always 0, since the decision is in the answer."""
    try:
        allowed, words = decide(_event(sys.stdin.read()), os.environ)
    except (HookError, ConsoleError) as error:
        allowed, words = False, f"Not run: {error}"
    except Exception as error:
        # A hook that breaks off holds nothing back. Its text may repeat a header with the key.
        allowed, words = False, f"Not run: the hook failed ({type(error).__name__}). Check its settings."
    json.dump(_answer(allowed=allowed, words=words), sys.stdout)
    return 0


def decide(event: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[bool, str]:
    """Whether the tool may run, and why.

    A repeat of the same use of a tool is judged once, so that a call that was cut off finds its decision
    again.
    """
    params = params_of(event)
    with _client(environment) as console:
        result = console.act(
            environment.get("DIR_HOOK_KIND", "RUN_COMMAND"),
            params,
            trigger={"hook": EVENT, "session": str(event.get("session_id", ""))},
            explain=_words_of(event),
            key=key_of(event, params),
            timeout_s=_wait_s(environment),
        )
        return _decision(result, console)


def params_of(event: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of the proposal: which tool, in which folder, with which command.

    A tool that runs no shell command has its input as canonical JSON in `command`.
    """
    given = event.get("tool_input")
    if not isinstance(given, Mapping) or not isinstance(event.get("tool_name"), str):
        raise HookError("the hook was called without tool_name and tool_input")
    command = given.get("command")
    return {
        "tool": event["tool_name"],
        "command": command if isinstance(command, str) else json.dumps(given, sort_keys=True),
        "folder": str(event.get("cwd") or os.getcwd()),
    }


def key_of(event: Mapping[str, Any], params: Mapping[str, str]) -> str:
    """The same for the same use of a tool, and for no other: what is asked again later is judged again.

    Where uses have no id, each call is judged: a decision about one use says nothing of a later one.
    """
    named = [event.get("session_id"), event.get("tool_use_id") or str(uuid.uuid4()), params]
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


def _event(text: str) -> Mapping[str, Any]:
    try:
        event = json.loads(text)
    except ValueError:
        raise HookError("standard input is not JSON") from None
    if not isinstance(event, dict):
        raise HookError("standard input is not a JSON object")
    return event


def _client(environment: Mapping[str, str]) -> Client:
    missing = [name for name in ("DIR_URL", "DIR_AGENT_ID", "DIR_AGENT_KEY") if not environment.get(name)]
    if missing:
        raise HookError(f"{', '.join(missing)} not set")
    try:
        return Client(
            environment["DIR_URL"],
            agent_id=environment["DIR_AGENT_ID"],
            key=environment["DIR_AGENT_KEY"],
            manifest_version=environment.get("DIR_MANIFEST_VERSION", "1.0.0"),
            patience_s=10.0,
            signing_key=environment.get("DIR_AGENT_SIGNING_KEY") or None,
        )
    except ImportError:
        raise HookError("DIR_AGENT_SIGNING_KEY needs dir-console-client[signing]") from None
    except ValueError as error:
        raise HookError(str(error)) from None


def _wait_s(environment: Mapping[str, str]) -> float:
    try:
        return float(environment.get("DIR_HOOK_WAIT_S", "300"))
    except ValueError:
        raise HookError("DIR_HOOK_WAIT_S is not a number of seconds") from None


def _words_of(event: Mapping[str, Any]) -> str | None:
    described = event["tool_input"].get("description")
    return described if isinstance(described, str) and described else None


def _decision(result: Result, console: Client) -> tuple[bool, str]:
    if result.ok and result.params is not None:
        # The tool would run what was asked, not what the person wrote.
        return False, f"Not run as asked. A person allows this instead: {json.dumps(dict(result.params))}"
    if result.ok:
        return True, "A person allowed it." if result.decision else "Allowed by the rules."
    if result.status is Status.HELD and result.verdict is not None:
        page = console.escalation_url(str(result.verdict.escalation_id))
        return False, f"Not run: it still waits for a person at {page}. Ask again later, or do without."
    return False, f"Not run. {result.words()}"


def _answer(*, allowed: bool, words: str) -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": EVENT,
            "permissionDecision": "allow" if allowed else "deny",
            "permissionDecisionReason": words,
        }
    }


if __name__ == "__main__":
    sys.exit(main())

"""`dir-hook` as a coding agent calls it: a process, JSON in and out, a tool that runs only where allowed."""

import json
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from escalations.contracts import Action
from runtime.flows.models import Proposal
from tests.sdk.conftest import CODER, Desk
from tests.support import api_client

SDK = Path(__file__).parents[2] / "sdk"


def use(command: str = "make test", **changes: Any) -> dict[str, Any]:
    """What a coding agent says before it runs a command."""
    return {
        "session_id": "s-1",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_use_id": "toolu_1",
        "cwd": "/work/shop",
        "tool_input": {"command": command, "description": "Run it"},
        **changes,
    }


class Coder:
    """A coding agent that has the hook in its settings."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.environment = {
            "DIR_URL": desk.url,
            "DIR_AGENT_ID": CODER,
            "DIR_AGENT_KEY": api_client.agent_key(CODER),
            "DIR_HOOK_WAIT_S": "30",
        }

    def ask(self, given: Any, **environment: str) -> tuple[str, str]:
        """The permission decision and its reason."""
        ran = subprocess.run(
            [sys.executable, "-m", "dir_console_client.hook"],
            input=given if isinstance(given, str) else json.dumps(given),
            env={**os.environ, **self.environment, **environment, "PYTHONPATH": str(SDK)},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        answer = json.loads(ran.stdout)["hookSpecificOutput"]
        assert answer["hookEventName"] == "PreToolUse"
        assert self.environment["DIR_AGENT_KEY"] not in ran.stdout + ran.stderr
        return answer["permissionDecision"], answer["permissionDecisionReason"]

    def begin(self, given: Any) -> "Future[tuple[str, str]]":
        """The same while somebody decides."""
        return self.desk.begin(self.ask, given)


@pytest.fixture
def coder(desk: Desk) -> Coder:
    return Coder(desk)


def test_what_the_rules_allow_runs(coder: Coder) -> None:
    assert coder.ask(use()) == ("allow", "Allowed by the rules.")
    assert Proposal.objects.get().explain == "Run it"


def test_what_the_rules_forbid_does_not(coder: Coder) -> None:
    decision, reason = coder.ask(use("sudo make install"))
    assert decision == "deny"
    assert "R_NO_ROOT: A coding agent never runs as another user" in reason


@pytest.mark.parametrize(
    "command", ["rm -rf build", "cd x && rm y", "git push --force", "dd if=/dev/zero of=x"]
)
def test_a_deletion_is_held_and_runs_only_after_a_person_has_allowed_it(coder: Coder, command: str) -> None:
    asking = coder.begin(use(command))
    coder.desk.decide(Action.OVERRIDE)
    assert asking.result(timeout=120) == ("allow", "A person allowed it.")


def test_a_deletion_that_a_person_aborts_does_not_run(coder: Coder) -> None:
    asking = coder.begin(use("rm -rf build"))
    coder.desk.decide(Action.ABORT)
    decision, reason = asking.result(timeout=120)
    assert decision == "deny"
    assert "ABORTED" in reason


def test_another_command_that_a_person_writes_is_told_and_not_run(coder: Coder) -> None:
    asking = coder.begin(use("rm -rf build"))
    instead = {"tool": "Bash", "command": "mv build build.old", "folder": "/work/shop"}
    coder.desk.decide(Action.MODIFY, params=instead)
    decision, reason = asking.result(timeout=120)
    assert decision == "deny"
    assert "mv build build.old" in reason


def test_when_nobody_decides_in_time_it_does_not_run_and_the_next_call_finds_the_decision(
    coder: Coder,
) -> None:
    decision, reason = coder.ask(use("rm -rf build"), DIR_HOOK_WAIT_S="0")
    assert decision == "deny"
    assert f"{coder.desk.url}/escalations/" in reason
    coder.desk.decide(Action.OVERRIDE)
    assert coder.ask(use("rm -rf build"))[0] == "allow"
    assert Proposal.objects.filter(author=f"agent:{CODER}").count() == 1


@pytest.mark.parametrize("missing", [{"tool_use_id": None}, {"tool_use_id": ""}])
def test_without_an_id_of_its_use_each_call_is_judged(coder: Coder, missing: dict[str, Any]) -> None:
    asking = coder.begin(use("rm -rf build", **missing))
    coder.desk.decide(Action.OVERRIDE)
    assert asking.result(timeout=120)[0] == "allow"
    assert coder.ask(use("rm -rf build", **missing), DIR_HOOK_WAIT_S="0")[0] == "deny"
    assert Proposal.objects.filter(author=f"agent:{CODER}").count() == 2


def test_a_tool_that_is_no_shell_is_asked_with_its_input(coder: Coder) -> None:
    edit = use(tool_name="Write", tool_input={"file_path": "/work/x", "content": "y"})
    assert coder.ask(edit)[0] == "allow"
    assert b'\\"file_path\\": \\"/work/x\\"' in bytes(Proposal.objects.get().body)


@pytest.mark.parametrize("given", ["", "no JSON", "[]", "{}", '{"tool_name": 1, "tool_input": {}}'])
def test_what_is_no_use_of_a_tool_is_denied(coder: Coder, given: str) -> None:
    decision, reason = coder.ask(given)
    assert decision == "deny"
    assert reason.startswith("Not run: ")


def test_without_its_settings_it_denies(coder: Coder) -> None:
    assert coder.ask(use(), DIR_AGENT_KEY="")[1] == "Not run: DIR_AGENT_KEY not set"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"DIR_HOOK_WAIT_S": "soon"}, "DIR_HOOK_WAIT_S is not a number of seconds"),
        ({"DIR_AGENT_SIGNING_KEY": "c2hvcnQ="}, "a signing key is 32 bytes in base64"),
        ({"DIR_AGENT_SIGNING_KEY": "no base64"}, "a signing key is 32 bytes in base64"),
        ({"DIR_URL": "nowhere"}, "Not run: "),
        ({"DIR_AGENT_KEY": "agk_x.secret\n"}, "the key has a line break"),
    ],
)
def test_a_setting_that_is_wrong_denies_and_says_no_key(
    coder: Coder, setting: dict[str, str], words: str
) -> None:
    decision, reason = coder.ask(use(), **setting)
    assert decision == "deny"
    assert words in reason
    assert "secret" not in reason


def test_an_empty_signing_key_is_none(coder: Coder) -> None:
    assert coder.ask(use(), DIR_AGENT_SIGNING_KEY="")[0] == "allow"


def test_with_a_key_that_is_not_valid_it_denies(coder: Coder) -> None:
    decision, reason = coder.ask(use(), DIR_AGENT_KEY="agk_nobody")
    assert (decision, "401" in reason) == ("deny", True)

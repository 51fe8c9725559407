"""`manage.py connect`: a configuration that runs as it is printed."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from dir_console import connecting
from runtime.packs.services import packs
from runtime.registry.models import Key
from tests.support import api_client

pytestmark = pytest.mark.django_db
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(autouse=True)
def _packs() -> None:
    for name in ("refund-desk", "coding-agent"):
        text = (EXAMPLES / f"{name}.yaml").read_text()
        assert isinstance(packs.load(text=text, source=name, activate=True, actor="system"), packs.Loaded)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    call_command("connect", *words)
    return capsys.readouterr().out


def test_it_prints_a_program_with_the_agents_version_and_kind(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "refund-clerk", "--url", "https://console.example.com/")
    assert 'with Client("https://console.example.com", **agent)' in text
    assert '"agent_id": "refund-clerk", "manifest_version": "1.0.0"' in text
    assert '"ISSUE_REFUND"' in text
    assert "issue_key refund-clerk" in text
    compile(text.partition("\n\n")[2], "printed.py", "exec")
    assert not Key.objects.exists()


@pytest.mark.parametrize("framework", ["langgraph", "openai-agents"])
def test_it_names_every_kind_as_a_tool(capsys: pytest.CaptureFixture[str], framework: str) -> None:
    text = printed(capsys, "refund-clerk", "--with", framework)
    assert 'governed_tool(console, kind) for kind in ["ISSUE_REFUND"]' in text
    compile(text.partition("\n\n")[2], "printed.py", "exec")


def test_it_prints_the_settings_of_a_hook(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "coding-agent", "--with", "hook")
    settings = json.loads(text[text.index("{") :])
    assert settings["env"]["DIR_HOOK_KIND"] == "RUN_COMMAND"
    (matched,) = settings["hooks"]["PreToolUse"]
    (hook,) = matched["hooks"]
    # The coding agent waits longer than the hook does, so that the hook's answer counts.
    assert hook["timeout"] > int(settings["env"]["DIR_HOOK_WAIT_S"])
    assert "DIR_AGENT_KEY" not in settings["env"]


def test_it_prints_the_settings_of_an_mcp_client(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "refund-clerk", "--with", "mcp", "--url", "https://console.example.com")
    server = json.loads(text[text.index("{") :])["mcpServers"]["dir-console"]
    assert server["url"] == "https://console.example.com/mcp"
    assert server["headers"]["Authorization"] == "Bearer ${DIR_AGENT_KEY}"


def test_a_new_key_is_printed_once_and_works(capsys: pytest.CaptureFixture[str]) -> None:
    line = printed(capsys, "refund-clerk", "--new-key").splitlines()[0]
    key = line.removeprefix("export DIR_AGENT_KEY=").split()[0]
    hello = api_client.hello("refund-clerk", manifest_version="1.0.0")
    assert api_client.Caller(key).post("/handshake", hello).ok()["session_token"]


def test_an_agent_that_is_not_registered_is_named() -> None:
    with pytest.raises(CommandError, match="No agent nobody is registered"):
        call_command("connect", "nobody")


def test_an_agent_without_a_manifest_in_force_is_told_so() -> None:
    text = (
        (EXAMPLES / "refund-desk.yaml").read_text().replace("refund-clerk", "idle").replace("1.0.0", "2.0.0")
    )
    assert isinstance(packs.load(text=text, source="x", activate=False, actor="system"), packs.Loaded)
    with pytest.raises(CommandError, match="no active manifest"):
        call_command("connect", "idle")


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"enum": ["BUY", "SELL"]}, "BUY"),
        ({"const": 3}, 3),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "number"}, 1),
        ({"type": "boolean"}, True),
        ({"type": "string"}, "..."),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            {"a": "..."},
        ),
    ],
)
def test_an_example_has_the_form_of_its_schema(schema: dict[str, Any], example: object) -> None:
    assert connecting.example_of(schema) == example

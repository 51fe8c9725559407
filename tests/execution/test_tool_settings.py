"""What a deployment may declare as a command, and what it may not hand on."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from dir_console import env


def test_a_command_has_words_and_the_names_of_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIR_TOOL_COMMANDS", '{"clock": {"command": ["clock", "--utc"], "env": ["TZ"]}}')
    assert env.tool_commands() == {"clock": env.ToolCommand(words=("clock", "--utc"), variables=("TZ",))}
    monkeypatch.delenv("DIR_TOOL_COMMANDS")
    assert env.tool_commands() == {}


@pytest.mark.parametrize(
    "text",
    [
        "clock",
        "[]",
        '{"clock": ["clock"]}',
        '{"clock": {}}',
        '{"clock": {"command": []}}',
        '{"clock": {"command": "clock"}}',
        '{"clock": {"command": ["clock"], "env": "TZ"}}',
        '{"clock": {"command": ["clock"], "cwd": "/"}}',
        '{"../clock": {"command": ["clock"]}}',
        '{"clock": {"command": ["clock"], "env": ["DIR_SECRET_KEY"]}}',
        '{"clock": {"command": ["clock"], "env": ["DATABASE_URL"]}}',
    ],
)
def test_anything_else_is_refused_at_the_start(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIR_TOOL_COMMANDS", text)
    with pytest.raises(ImproperlyConfigured, match="DIR_TOOL_COMMANDS"):
        env.tool_commands()


def test_the_user_of_commands_is_one_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIR_TOOL_USER", "no-such-user")
    with pytest.raises(ImproperlyConfigured, match="no user"):
        env.tool_user()
    monkeypatch.setenv("DIR_TOOL_USER", "root")
    assert env.tool_user() == "root"

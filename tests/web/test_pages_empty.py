"""Pages of a console in which nothing has happened yet."""

import html
import re
import shlex
import subprocess

import pytest
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


def test_the_first_page_names_commands_that_reach_this_server(settings: Settings) -> None:
    page = html.unescape(text_of(sign_in(Role.ADMIN), "/"))
    command = re.search(r"<code>(.*) load_pack (\S+) --activate</code>", page)
    assert command is not None
    done = subprocess.run(
        [*shlex.split(f"env {command[1]}"), "load_pack", "--help"],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"DIR_DATA={settings.DATA_DIR}" in command[1], "this run has a data folder of its own"
    assert (settings.BASE_DIR / command[2]).is_file()


def test_says_how_to_begin_when_no_agent_is_registered() -> None:
    page = text_of(sign_in(Role.ADMIN), "/")
    assert "load_pack" in page
    assert "issue_key" in page
    assert "/api/v1/handshake" in page


def test_empty_lists_say_so() -> None:
    client = sign_in(Role.OPERATOR)
    assert "No open escalations" in text_of(client, "/escalations/")
    assert "No flows yet" in text_of(client, "/flows/")
    assert "No agent is registered yet" in text_of(client, "/agents/")
    assert "No policy kind is registered" in text_of(client, "/kinds/")
    assert "No results" in text_of(client, "/flows/?state=CLOSED")

"""Tools under races: what was shown is what is pinned, and a call under way never outlives a quarantine."""

import pytest
from pytest_django.fixtures import Settings

from runtime.contracts.problem import Problem
from runtime.contracts.states import ToolState
from runtime.execution.services import attempting, tool_looks
from runtime.execution.services.attempting import AttemptStatus
from runtime.registry.models.tools import ToolServer, UpstreamTool
from runtime.registry.services import tools
from runtime.registry.services.tools import Pinned
from tests.support import racing, tool_servers, tool_story

pytestmark = pytest.mark.usefixtures("real_db")


def pin(digest: str, number: int) -> Pinned | Problem:
    return tools.pin(
        tenant="default", server="notes", name="add", shown=digest, reason="Race.", actor=f"user:{number}"
    )


def test_of_two_pins_at_once_one_is_made() -> None:
    tool_servers.load(tool_servers.pack("http://127.0.0.1:1/mcp"))
    tool = tool_story.described("add")
    tool_story.note(tool)
    answers = racing.race(2, lambda number: pin(tool.digest, number))
    assert sum(isinstance(answer, Pinned) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, Problem)} == {"TOOL_PINNED"}


def test_a_pin_that_races_a_change_pins_only_what_was_shown() -> None:
    tool_servers.load(tool_servers.pack("http://127.0.0.1:1/mcp"))
    shown, other = tool_story.described("add"), tool_story.described("add", "Another.")
    tool_story.note(shown)

    def one(number: int) -> Pinned | Problem | None:
        if number:
            return pin(shown.digest, number)
        tool_story.note(other)
        return None

    answers = racing.race(2, one)
    row = UpstreamTool.objects.get()
    if any(isinstance(answer, Pinned) for answer in answers):
        assert (row.state, row.pinned_digest, row.found_digest) == (
            ToolState.CHANGED,
            shown.digest,
            other.digest,
        )
    else:
        assert (row.state, row.found_digest) == (ToolState.FOUND, other.digest)


def test_servers_seen_for_the_first_time_by_many_are_kept_once() -> None:
    tool = tool_story.described("add")
    racing.race(4, lambda number: tool_story.note(tool))
    assert ToolServer.objects.count() == UpstreamTool.objects.count() == 1


def test_attempts_of_many_workers_call_a_tool_once(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with tool_servers.hostile() as server:
        intent = tool_servers.accept(tool_servers.opened(server.base_url))
        answers = racing.race(4, lambda number: attempting.attempt(intent, owner=f"worker-{number}"))
        assert [answer.status for answer in answers].count(AttemptStatus.SUCCEEDED) == 1
        assert len(server.calls) == 1
        server.described[0]["description"] = "Another."
        waiting = tool_servers.accept(tool_servers.session())
        race = [lambda: tool_looks.look(tenant="default", server="notes")]
        racing.race(
            2,
            lambda number: race[0]() if number else attempting.attempt(waiting, owner="worker"),
        )
        assert len(server.calls) == 1
        assert UpstreamTool.objects.get().state == ToolState.CHANGED

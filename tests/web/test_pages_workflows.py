"""The pages of workflows: the list, the graph with its traffic, the policies, and what the linter says."""

import re

import pytest
from django.test import Client

from audit.access.roles import Role
from runtime.kernel.workflows import linter
from runtime.registry.models import Manifest, Workflow
from runtime.workflows.models import WorkflowPosition
from runtime.workflows.queries import traffic
from tests.support import factories, interrupted_flow, markup
from tests.support.workflow_story import RESEARCH, SEQUENCE
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/workflows/research/"
CHECKERS = [
    SEQUENCE,
    {"id": "ready", "checker": "state", "on": "VERIFY", "require": 'input.note != "<b>"'},
    {"id": "slowly", "checker": "rate", "on": "TOOL_CALL", "times": 2, "per_s": 60},
    {"id": "enough", "checker": "budget", "on": "PROPOSE", "of": "reliability", "above": 0.5},
    {"id": "verified", "checker": "precedes", "on": "PROPOSE", "by": "VERIFY", "within_s": 600},
]
VALUE = {"id": "stale", "router": "value", "on": "VERIFY", "key": "output.state", "equals": "OLD"}
ROUTERS = [
    interrupted_flow.CALLS,
    {**VALUE, "to": "GENERATE", "on_missing": "go_on"},
    {"id": "bounds", "router": "validate", "on": "TOOL_CALL", "require": "output.alpha < 1.0"},
]
INSTRUCTIONS = {**RESEARCH["instructions"], "GENERATE": {"core": "COGNITIVE", "cost": 5, "max_visits": 9}}


@pytest.fixture
def desk() -> factories.Desk:
    interrupted_flow.register(checkers=CHECKERS, routers=ROUTERS, instructions=INSTRUCTIONS)
    return interrupted_flow.desk()


@pytest.fixture
def client(desk: factories.Desk) -> Client:
    return sign_in(Role.OPERATOR)


def walk(desk: factories.Desk, *names: str) -> None:
    """A flow whose agent reports these steps, whether they are allowed or not."""
    dfid = desk.open().dfid
    for name in names:
        interrupted_flow.step(desk, dfid, name, input={"note": "fine"}, output={"confidence": 0.9})


def test_the_list_names_each_workflow_with_its_size(client: Client) -> None:
    page = text_of(client, "/workflows/")
    assert '<a class="mono" href="/workflows/research/">research</a>' in page
    assert 'data-label="Agents" class="num">1<' in page
    assert 'data-label="Checkers" class="num">5<' in page


def test_without_any_the_list_says_where_they_come_from() -> None:
    assert "No workflow is registered" in text_of(sign_in(Role.OPERATOR), "/workflows/")


def test_the_page_says_what_each_policy_does(client: Client) -> None:
    page = text_of(client, PAGE)
    for words in (
        "After a COGNITIVE step, NORMATIVE must pass before EXECUTION.",
        "input.note != &quot;&lt;b&gt;&quot;",
        "At most 2 in 60 s.",
        "More than 50 % of reliability must be left.",
        "VERIFY must come before it, at most 600 s before.",
        "When output.confidence is below 0.5, a person is called.",
        "When output.state is OLD, GENERATE comes next.",
        "Unless the expression is exactly true, a person is called.",
        "with the usual deadline",
        'href="/agents/researcher/"',
    ):
        assert words in page, words
    assert "What the linter says" not in page


def test_the_graph_has_its_ways_with_checkers_and_traffic(desk: factories.Desk, client: Client) -> None:
    walk(desk, "GENERATE", "VERIFY", "TOOL_CALL")
    walk(desk, "GENERATE", "PROPOSE", "TOOL_CALL", "VERIFY")
    interrupted_flow.interrupted(desk)
    page = text_of(client, PAGE)
    assert "traffic of the newest 3 flows" in page
    found = re.findall(
        r'<th scope="row" class="mono">(\w+)</th>\s*<td data-label="To" class="mono">(\w+)</td>.*?'
        r'<td data-label="Taken" class="num">(\d+)</td>',
        page,
        re.DOTALL,
    )
    assert found == [
        ("GENERATE", "VERIFY", "2"),
        ("VERIFY", "TOOL_CALL", "1"),
        ("TOOL_CALL", "GENERATE", "0"),
        ("VERIFY", "PROPOSE", "0"),
        ("GENERATE", "INTERRUPT", "1"),
        ("VERIFY", "GENERATE", "0"),
        # It reported no alpha, so it could not be validated.
        ("TOOL_CALL", "INTERRUPT", "1"),
    ]
    drawn = page[page.index('<svg class="graph workflow-graph"') : page.index('id="w-words"')]
    assert drawn.count('class="edge ') == len(found)
    assert ">2 taken, ready</text>" in drawn
    assert "3 checkers</text>" in drawn
    assert "style=" not in drawn
    # What the graph refused is counted beside the checkers.
    assert re.search(r'<span class="code">graph</span>\s*<span[^>]*>refused 2 times', page)


def test_only_so_many_steps_are_read(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        walk(desk, "GENERATE", "VERIFY")
    monkeypatch.setattr(traffic, "MOST_STEPS", 4)
    row = Workflow.objects.get()
    assert traffic.of_workflow(row).flows == 2
    assert traffic.of_workflow(row).ways[None, "GENERATE"] == 2
    monkeypatch.setattr(traffic, "MOST_STEPS", 1)
    assert traffic.of_workflow(row).flows == 1
    monkeypatch.setattr(traffic, "NEWEST_FLOWS", 0)
    assert traffic.of_workflow(row) == traffic.Traffic()


def test_warnings_of_the_linter_are_shown(client: Client) -> None:
    twice = [{**VALUE, "to": "GENERATE"}, {**VALUE, "id": "again", "to": "TOOL_CALL"}]
    interrupted_flow.register(version="1.1.0", routers=twice, instructions=INSTRUCTIONS)
    page = text_of(client, PAGE)
    assert "Warning AMBIGUOUS_ROUTERS" in markup.words(page)
    assert "When output.state is OLD or was not reported, GENERATE comes next." in page
    assert 'aria-current="true">1.1.0</a>' in page
    assert "1 warning" in text_of(client, "/workflows/")
    older = text_of(client, f"{PAGE}?version=1.0.0")
    assert "AMBIGUOUS_ROUTERS" not in older
    for unknown in (f"{PAGE}?version=7.0.0", "/workflows/nothing/", f"{PAGE}?version=a%00"):
        assert client.get(unknown).status_code == 404


def test_a_stored_workflow_that_is_an_error_by_now_is_listed_as_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = [{**VALUE, "to": "GENERATE"}, {**VALUE, "id": "again", "to": "TOOL_CALL"}]
    interrupted_flow.register(version="1.1.0", routers=twice, instructions=INSTRUCTIONS)
    monkeypatch.setattr(linter, "_WARNINGS", frozenset())
    page = text_of(client, "/workflows/")
    assert "1 error" in page
    assert "warning" not in page


def test_a_workflow_that_was_changed_is_not_drawn(client: Client) -> None:
    Workflow.objects.update(body=b"{}")
    answer = client.get(PAGE)
    assert answer.status_code == 409
    assert "This row does not match the ledger." in answer.content.decode()
    assert "Does not match the ledger" in text_of(client, "/workflows/")


def test_a_manifest_that_cannot_be_read_follows_nothing(client: Client) -> None:
    Manifest.objects.update(body=b"\xff{")
    assert "no active manifest" in text_of(client, PAGE)


def test_a_validation_by_an_instruction_and_a_short_deadline(client: Client) -> None:
    router = {"id": "bounds", "router": "validate", "on": "GENERATE", "by": "VERIFY"}
    interrupted_flow.register(
        version="2.0.0",
        routers=[router],
        sla_s=90,
        impact="CRITICAL",
        instructions={**INSTRUCTIONS, "VERIFY": {"core": "NORMATIVE", "max_visits": 3}},
    )
    page = text_of(client, PAGE)
    assert "VERIFY comes next until it reports PASS; when it reports FAIL, a person is called." in page
    assert "decided within 90 s" in page
    assert "Critical" in page
    assert "no flow has followed this version" in page
    assert not WorkflowPosition.objects.exists()

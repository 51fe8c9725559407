"""What four journeys go through: files, changes of file and calls, printed for whoever reads the house.

`python -m pytest tests/web/test_journeys.py -s` shows them. No gate.
"""

import re

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from tests.support import api_client, demo_scenes, misbehaving_targets, trading_desk
from tests.support.tracing import Trace, traced
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db


def shown(journey: str, trace: Trace) -> None:
    print(f"{journey}: {len(trace.files)} files, {trace.switches} switches, {len(trace.calls)} calls")


def test_from_a_proposal_to_its_verdict() -> None:
    api_client.load_pack()
    agent = api_client.session()
    for _ in range(2):  # the first fills what is kept between calls
        dfid = agent.open_flow()
        body = api_client.proposal(agent.context(dfid))
        with traced() as trace:
            answer = agent.propose(dfid, body)
    assert answer.ok(200)["verdict"] == "ACCEPT"
    shown("proposal to verdict", trace)


def test_an_attempt_of_one_step(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1","status":"FILLED"}')
    ) as target:
        desk = trading_desk.open_desk(base_url=target.base_url)
        for _ in range(2):
            intent = desk.accept()
            with traced() as trace:
                ended = attempting.attempt(intent, owner=trading_desk.OWNER)
    assert ended.status is AttemptStatus.SUCCEEDED
    shown("attempt of one step", trace)


def test_the_decision_page_and_a_decision() -> None:
    scene = demo_scenes.build()
    client = sign_in(Role.OPERATOR)
    address = f"/escalations/{scene.escalations[0]}/"
    for _ in range(2):
        with traced() as trace:
            page = client.get(address).content.decode()
    shown("decision page", trace)
    with traced() as trace:
        answer = decide(client, address, page)
    assert answer == 302
    shown("decision", trace)


def decide(client: Client, address: str, page: str) -> int:
    """Abort what the page shows."""
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
    return client.post(
        f"{address}decision/", {**hidden, "action": "ABORT", "justification": "Not now."}
    ).status_code

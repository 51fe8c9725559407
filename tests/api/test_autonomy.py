"""What an agent is told of its own level of autonomy: the level, and not how its score is made."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from runtime.contracts.autonomy import DEFAULT_RULE
from runtime.kernel.autonomy import Signal
from runtime.registry.models import Agent
from tests.support import api_client, factories

DOCS = Path(settings.BASE_DIR) / "docs" / "autonomy.md"
UNFIT: dict[str, Any] = {"params": {}}


@pytest.fixture
def caller(desk: None) -> api_client.Caller:
    return api_client.session()


def test_an_agent_reads_its_level(caller: api_client.Caller) -> None:
    heavy = {"rejections": {"points": 2, "most": 40}, "variations": {"points": 3, "most": 40}}
    factories.change_manifest(api_client.TRADER, autonomy=heavy)
    assert caller.get(f"/flows/{caller.open_flow()}").ok()["autonomy"] == "AUTONOMOUS"
    after = caller.get("/events").ok()["next"]
    for number in range(20):
        dfid = caller.open_flow()
        body = {**api_client.proposal(caller.context(dfid)), **UNFIT}
        assert caller.propose(dfid, body, key=f"k{number}").ok()["verdict"] == "REJECT"
    # 40 for rejections, 40 for trying the same again.
    assert Agent.objects.get(agent_id=api_client.TRADER).autonomy == "READ_ONLY"
    assert caller.get(f"/flows/{caller.open_flow()}").ok()["autonomy"] == "READ_ONLY"
    key = api_client.Caller(api_client.agent_key())
    assert key.post("/handshake", api_client.hello()).ok()["autonomy"] == "READ_ONLY"
    told = [
        event["data"]
        for event in caller.get(f"/events?after={after}").ok()["events"]
        if event["event_type"] == "AUTONOMY_CHANGED"
    ]
    assert [data["to_level"] for data in told] == ["SUPERVISED", "READ_ONLY"]
    assert set(told[0]) == {"scope", "from_level", "to_level", "reason"}


def test_the_page_on_levels_has_the_numbers_of_the_code() -> None:
    page = DOCS.read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (\d+|by label) \| (\d+) \|$", page, re.MULTILINE)
    assert [name for name, *_ in rows] == Signal.values()
    for name, words, points, most in rows:
        if name == Signal.LABELS:
            labels = {label: int(each) for label, each in re.findall(r"`(\w+)`[a-z ]* (\d+)", words)}
            assert (labels, int(most)) == (DEFAULT_RULE.labels.points, DEFAULT_RULE.labels.most)
        else:
            weight = getattr(DEFAULT_RULE, name)
            assert (weight.points, weight.most) == (int(points), int(most)), name
    thresholds = r"window of (\d+) seconds. From (\d+) points on the agent is `SUPERVISED`, from (\d+) on"
    found = re.search(thresholds, page)
    assert found is not None
    rule = (DEFAULT_RULE.window_s, DEFAULT_RULE.supervised_at, DEFAULT_RULE.read_only_at)
    assert tuple(int(number) for number in found.groups()) == rule

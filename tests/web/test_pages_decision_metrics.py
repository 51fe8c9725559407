"""The metrics of decisions: the page, the file and the call, over an agent whose ends are all known."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from runtime.advice.models import Consultation
from runtime.core import clock
from runtime.flows.models import Verdict
from runtime.maintenance.queries import decision_metrics
from runtime.registry.models import Session
from tests.support import (
    api_client,
    calibrated_agent,
    consulted_story,
    factories,
    markup,
    underwriting,
    worlds,
)
from tests.support.calibrated_agent import (
    ABORTED,
    MODIFIED,
    OVERRIDDEN,
    PAIRS,
    SUCCEEDED,
    propose,
    run,
)
from tests.web.test_pages import sign_in

world = worlds.shared(calibrated_agent.build)
PAGE = "/decision-metrics/"
CALL = "/api/v1/audit/reports/decision_metrics"
# Beside the pairs: one rejected, one that waits for its call, and one without a confidence.
PROPOSED = PAIRS + 3


@pytest.fixture
def ada(world: None, db: None) -> Client:
    return sign_in(Role.AUDITOR, name="ada")


def asked(**query: str) -> dict[str, Any]:
    key = api_client.auditor_key()
    answer = Client().get(CALL, query, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = canonical.decode(answer.content)
    return found


def by_name(found: dict[str, Any]) -> dict[str, tuple[int | None, int, float | None]]:
    return {
        each["metric"]: (each["numerator"], each["denominator"], each["value"]) for each in found["metrics"]
    }


def words(client: Client, query: str = "") -> str:
    answer = client.get(f"{PAGE}{query}")
    assert answer.status_code == 200
    return markup.words(answer.content.decode())


def test_each_metric_says_what_is_counted_of_what(ada: Client) -> None:
    found = asked(agent="trader")
    assert (found["proposals"], found["least"], found["complete"], found["mismatches"]) == (
        PROPOSED,
        30,
        True,
        0,
    )
    metrics = by_name(found)
    # One without a confidence went well too; a modified one did not.
    good = SUCCEEDED + OVERRIDDEN + 1
    assert metrics["decision_accuracy"] == (good, PAIRS + 1, good / (PAIRS + 1))
    assert metrics["calibration_error"][:2] == (None, PAIRS)
    asked_person = OVERRIDDEN + MODIFIED + ABORTED
    assert metrics["selective_coverage"][:2] == (PROPOSED - 1 - asked_person, PROPOSED - 1)
    assert metrics["reproducibility"] == (PROPOSED, PROPOSED, 1.0)
    assert metrics["consultation_rate"] == (0, PROPOSED, 0.0)
    assert metrics["trace_completeness"] == (0, PROPOSED, 0.0)
    assert metrics["budget_adherence"] == (0, 0, None)
    assert metrics["re_engagement_accuracy"] == (0, 1, None)
    assert found["metrics"][-1]["note"] == "not enough"
    assert "Cost predictability (IEE 8)" in {each["metric"] for each in found["not_measured"]}


def test_the_page_shows_values_counts_and_what_is_not_measured(ada: Client) -> None:
    said = words(ada, "?agent=trader")
    assert f"Decision accuracy 71.9% 23 of {PAIRS + 1}" in said
    assert "Budget adherence not enough 0 of 0 ended within every cap over flows" in said
    assert "no expectation of cost is stored to compare with" in said
    assert words(ada).count("not enough") >= 1


def test_a_retry_that_is_let_through_is_a_re_engagement(ada: Client) -> None:
    trader = api_client.session()
    for _ in range(30):
        dfid = trader.open_flow()
        for symbol in ("", "AAPL"):
            params = {"action": "BUY", "quantity": 1, **({"symbol": symbol} if symbol else {})}
            trader.propose(dfid, api_client.proposal(trader.context(dfid), params=params)).ok()
    metrics = by_name(asked(agent="trader"))
    assert metrics["re_engagement_accuracy"] == (30, 31, 30 / 31)
    assert metrics["re_engagement_time"][1] == 30
    # Nothing was executed in these.
    assert metrics["execution_success"][1] == SUCCEEDED + OVERRIDDEN + MODIFIED + 1


def test_usage_and_steps_are_telemetry_and_trace(ada: Client) -> None:
    trader = api_client.session()
    before = by_name(asked(agent="trader"))
    dfid = propose(trader, confidence=0.9)
    trader.post(f"/flows/{dfid}/usage", {"tokens": 5}).ok()
    run(dfid)
    after = by_name(asked(agent="trader"))
    assert (before["telemetry_completeness"][0], after["telemetry_completeness"][0]) == (0, 1)
    other = trader.open_flow()
    step = {"step_type": "retrieval", "digest": "ab" * 32, "summary": "Read two filings."}
    trader.post(f"/flows/{other}/steps", step).ok(201)
    body = api_client.proposal(
        trader.context(other), params={"symbol": "AAPL", "action": "BUY", "quantity": 1}
    )
    trader.propose(other, body).ok()
    assert by_name(asked(agent="trader"))["trace_completeness"][0] == 1


def test_rules_and_budgets_are_counted(ada: Client) -> None:
    underwriting.load_packs()
    agent = api_client.session(underwriting.AGENT)
    dfid = agent.open_flow()
    underwriting.driver_rules(agent, dfid)
    agent.propose(dfid, underwriting.proposal() | {"context_ref": agent.context(dfid)}).ok()
    metrics = by_name(asked(agent=underwriting.AGENT))
    assert metrics["rule_coverage"][1] > 0
    assert metrics["rule_coverage"][2] is None


def test_a_verdict_that_was_changed_is_left_out_and_counted(ada: Client) -> None:
    row = Verdict.objects.order_by("pk").first()
    assert row is not None
    Verdict.objects.filter(pk=row.pk).update(body=b"{}")
    found = asked(agent="trader")
    assert (found["mismatches"], found["proposals"]) == (1, PROPOSED - 1)
    assert "1 left out: not as the ledger recorded." in words(ada)


def test_only_the_newest_are_read(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_metrics, "MOST", 10)
    assert asked()["complete"] is False
    assert "Only the newest 10 proposals were read." in words(ada)


def test_the_file_has_a_line_for_each_metric(ada: Client) -> None:
    answer = ada.get(f"{PAGE}?agent=trader&days=30&format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    found = by_name(asked(agent="trader"))
    assert [row["metric"] for row in rows] == list(found)
    assert rows[0]["value"] == str(found["decision_accuracy"][2])
    assert rows[-1]["note"] == "not enough"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?days=0", "0 is not a number of days from 1 to 366."),
        ("?days=", "An empty field is not a number of days"),
        ("?days=two", "two is not a number of days"),
        ("?agent=nobody", "No agent is called nobody."),
        ("?agent=%00", "Decision metrics"),
    ],
)
def test_what_cannot_be_read_is_said(ada: Client, query: str, said: str) -> None:
    assert said in words(ada, query)
    assert ada.get(f"{PAGE}{query}&format=csv").status_code == 200


def test_the_call_refuses_what_it_cannot_read(ada: Client) -> None:
    headers = {"Authorization": f"Bearer {api_client.auditor_key()}"}
    for query, status in (({"days": "0"}, 422), ({"days": "x"}, 422), ({"agent": "nobody"}, 404)):
        assert Client().get(CALL, query, headers=headers).status_code == status
    assert Client().get(CALL).status_code == 401


def test_an_agent_that_answered_before_the_proposal_was_consulted(db: None) -> None:
    dfid = consulted_story.tell()
    session = Session.objects.select_related("agent").get(agent__agent_id="planner")
    planner = factories.Desk(agent=session.agent, session=session)

    def counted() -> tuple[int | None, int]:
        found = decision_metrics.measure(tenant="default", agent=session.agent)
        [rate] = [one for one in found.metrics if one.name == "consultation_rate"]
        return rate.numerator, rate.denominator

    planner.propose(planner.open())
    assert counted() == (0, 1)
    planner.propose(planner.look(dfid))
    assert counted() == (1, 2)
    # An answer that came after the proposal did not lead to it.
    Consultation.objects.filter(answer__isnull=False).update(ended_at=clock.now() + timedelta(days=1))
    assert counted() == (0, 2)

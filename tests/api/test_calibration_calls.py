"""`.../agents/{agent_id}/calibration`: what an agent stated, beside what came of it."""

from typing import Any

import jsonschema_rs
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import queries
from audit.events import Kind
from dir_console.api import api
from runtime.flows.models import Outcome, Verdict
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.rules import safety
from runtime.proposals.queries import calibration_pairs
from runtime.registry.models import Agent
from tests.support import api_client, calibrated_agent, worlds
from tests.support.calibrated_agent import ABORTED, MODIFIED, OVERRIDDEN, PAIRS, SUCCEEDED

world = worlds.shared(calibrated_agent.build)
AUDIT = "/audit/agents/trader/calibration"
OWN = "/agents/trader/calibration"


@pytest.fixture
def auditor(world: None, db: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


def answered(caller: api_client.Caller, path: str) -> Any:
    """The answer, after a check of its form."""
    answer = caller.get(path).ok()
    named = path.partition("?")[0].replace("trader", "{agent_id}").replace("other-{agent_id}", "{agent_id}")
    operation = api.get_openapi_schema()["paths"][f"/api/v1{named}"]["get"]
    jsonschema_rs.validate(operation["responses"][200]["content"]["application/json"]["schema"], answer)
    return answer


def test_pairs_what_was_stated_with_what_came_of_it(auditor: api_client.Caller) -> None:
    answer = answered(auditor, f"{AUDIT}?kind=ADJUST_POSITION")
    assert (answer["pairs"], answer["note"], answer["complete"]) == (PAIRS, None, True)
    assert answer["left_out"] == {"unsettled": 1, "unstated": 1, "mismatches": 0}
    good = SUCCEEDED * 0.1**2 + OVERRIDDEN * 0.2**2
    bad = MODIFIED * 0.85**2 + ABORTED * 0.75**2
    assert answer["brier"] == pytest.approx((good + bad) / PAIRS)
    parts = answer["brier_parts"]
    total = parts["reliability"] - parts["resolution"] + parts["uncertainty"] + parts["within"]
    assert total == pytest.approx(answer["brier"])
    bins = {round(each["low"], 1): (each["pairs"], each["good"]) for each in answer["bins"]}
    assert len(bins) == 10
    assert bins[0.9] == (SUCCEEDED, 1)
    assert bins[0.8] == (OVERRIDDEN + MODIFIED, pytest.approx(OVERRIDDEN / (OVERRIDDEN + MODIFIED)))
    assert bins[0.7] == (ABORTED, 0)
    assert answer["map"] == [
        {"stated": "0.750000", "good": "0.000000"},
        {"stated": "0.800000", "good": "0.400000"},
        {"stated": "0.900000", "good": "1.000000"},
    ]


def test_the_agent_reads_its_own_and_no_other(auditor: api_client.Caller) -> None:
    own = answered(api_client.session(), OWN)
    assert own == {**answered(auditor, f"{AUDIT}?kind=ADJUST_POSITION"), "kind": None}
    api_client.session(api_client.OTHER).get(OWN).problem(404, "NOT_FOUND")


def test_below_thirty_pairs_it_says_not_enough(auditor: api_client.Caller) -> None:
    answer = answered(auditor, f"{AUDIT.replace('trader', 'other-trader')}")
    assert (answer["pairs"], answer["note"], answer["bins"]) == (0, "not enough", [])
    for name in ("brier", "brier_parts", "ece", "ece_mass", "map"):
        assert answer[name] is None
    assert answered(auditor, f"{AUDIT}?kind=TRANSFER_FUNDS")["pairs"] == 0


def test_a_kind_that_no_database_can_compare_has_no_pairs(
    auditor: api_client.Caller, world: None, db: None
) -> None:
    for caller, path in ((auditor, AUDIT), (api_client.session("trader"), OWN)):
        assert caller.get(f"{path}?kind=A%00B").ok()["pairs"] == 0


def test_nobody_reads_of_an_agent_that_there_is_not(auditor: api_client.Caller) -> None:
    auditor.get(AUDIT.replace("trader", "nobody")).problem(404, "NOT_FOUND")
    api_client.Caller().get(AUDIT).problem(401, "UNAUTHENTICATED")


def test_a_forged_verdict_is_left_out_and_a_forged_outcome_changes_nothing(
    auditor: api_client.Caller,
) -> None:
    row = Verdict.objects.filter(decision="ACCEPT", proposal__author="agent:trader").first()
    assert row is not None
    Verdict.objects.filter(pk=row.pk).update(input=bytes(row.input).replace(b"0.9", b"0.1"))
    Outcome.objects.update(status="FAILED")
    answer = answered(auditor, AUDIT)
    assert (answer["pairs"], answer["left_out"]["mismatches"]) == (PAIRS - 1, 1)
    assert answer["bins"][9]["good"] == 1


def test_reads_twice_and_no_more_than_the_newest(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent.objects.get(agent_id="trader")
    monkeypatch.setattr(calibration_pairs, "MOST", 10)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        found = calibration_pairs.of_agent(agent=agent, kind="ADJUST_POSITION")
    # PostgreSQL is asked for the time as well.
    assert sum(" FROM " in each["sql"] for each in asked) == 2
    assert found.is_cut
    assert len(found.pairs) < 10


def test_what_the_ledger_does_not_hold_is_not_believed(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = queries.list_payloads_of_streams

    def without_outcomes(**asked: Any) -> Any:
        return [item for item in read(**asked) if item[0] is not Kind.OUTCOME_RECORDED]

    monkeypatch.setattr(queries, "list_payloads_of_streams", without_outcomes)
    answer = answered(auditor, AUDIT)
    ended = SUCCEEDED + OVERRIDDEN
    assert (answer["pairs"], answer["left_out"]["unsettled"]) == (MODIFIED + ABORTED, 1 + ended)


@pytest.mark.parametrize(
    ("good_when", "pairs", "good"),
    [
        ("decision != 'ABORT'", PAIRS, SUCCEEDED + OVERRIDDEN + MODIFIED),
        ("decision == '' && result.status == 'SUCCEEDED' && result.deviations == 0", PAIRS, SUCCEEDED),
        ("params.notional_cents > 100000", PAIRS, OVERRIDDEN + MODIFIED + ABORTED),
        ("params.nothing == 1", 0, 0),
    ],
)
def test_a_kind_may_say_what_is_good(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch, good_when: str, pairs: int, good: int
) -> None:
    read = PolicyBundle.from_bytes

    def saying(body: bytes) -> PolicyBundle:
        found = read(body)
        assert found.kind is not None
        return found.model_copy(update={"kind": found.kind.model_copy(update={"good_when": good_when})})

    monkeypatch.setattr(PolicyBundle, "from_bytes", saying)
    found = calibration_pairs.of_agent(agent=Agent.objects.get(agent_id="trader"))
    assert (len(found.pairs), sum(pair.good for pair in found.pairs)) == (pairs, good)
    assert found.unsettled == 1 + PAIRS - pairs


def test_a_kind_that_may_not_be_asked_gives_no_pairs(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PolicyBundle.from_bytes

    def saying(body: bytes) -> PolicyBundle:
        found = read(body)
        assert found.kind is not None
        return found.model_copy(update={"kind": found.kind.model_copy(update={"good_when": "true"})})

    monkeypatch.setattr(PolicyBundle, "from_bytes", saying)
    monkeypatch.setattr(safety, "why_unsafe", lambda kind: "too slow")
    assert calibration_pairs.of_agent(agent=Agent.objects.get(agent_id="trader")).pairs == ()

"""The burst's own arithmetic: what it counts as lost, doubled or uncalled for, and what it reports."""

import pytest

from tests.load.__main__ import _quantile, _report
from tests.load.broker_count import compare
from tests.load.worker import Tally

DONE = {"dfid": "d-1", "intent_id": "i-1"}
OTHER = {"dfid": "d-2", "intent_id": "i-2"}


def test_counts_one_effect_per_intent_as_exact() -> None:
    count = compare(intents=["i-1", "i-2"], rows=[DONE, OTHER], dfids=["d-1", "d-2"])

    assert count.exact()
    assert count.effects == 2


def test_names_what_was_lost_doubled_and_uncalled_for() -> None:
    rows = [DONE, DONE, {"dfid": "d-1", "intent_id": "i-9"}]

    count = compare(intents=["i-1", "i-2"], rows=rows, dfids=["d-1", "d-2"])

    assert (count.missing, count.doubled, count.foreign) == (("i-2",), ("i-1",), ("i-9",))
    assert not count.exact()


def test_leaves_the_effects_of_other_flows_out() -> None:
    assert compare(intents=["i-1"], rows=[DONE, OTHER], dfids=["d-1"]).exact()


def test_adds_the_processes_up() -> None:
    one, other = Tally(sent=3), Tally(sent=2, retries=1)
    one.verdicts.update(ACCEPT=2, REJECT=1)
    one.reasons.update(STALE_CONTEXT=1)
    one.outcomes.update({"i-1": "SUCCEEDED", "i-2": "FAILED"})
    one.propose_ms, one.round_ms = [10.0, 20.0, 30.0], [40.0, 50.0, 60.0]
    other.verdicts.update(ESCALATE=1)
    other.errors.update({"503 BUSY": 1})

    report = _report([one, other], seconds=2.0, all_seconds=3.0)

    assert (report["sent"], report["answered"], report["accepted"]) == (5, 4, 2)
    assert (report["rejected"], report["escalated"], report["outcomes"]) == (1, 1, 2)
    assert report["outcomes_by_status"] == {"SUCCEEDED": 1, "FAILED": 1}
    assert report["errors"] == {"503 BUSY": 1}
    assert (report["propose_p50_ms"], report["proposals_per_s"], report["retries"]) == (20.0, 2.0, 1)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 3.0), (0.99, 5.0)])
def test_takes_quantiles_of_what_there_is(share: float, value: float) -> None:
    assert _quantile([5.0, 1.0, 3.0], share) == value


def test_has_no_quantile_of_nothing() -> None:
    assert _quantile([], 0.5) == 0.0

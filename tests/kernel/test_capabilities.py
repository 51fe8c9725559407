"""When the registry names a provider, and which offer is what a query asks for."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import capability_health as health
from runtime.kernel import capability_matching as matching
from runtime.kernel.capability_health import Health, ListingState
from runtime.kernel.capability_matching import Offered, Wanted

AT = datetime(2026, 11, 27, 8, tzinfo=UTC)
LATER = AT + timedelta(seconds=health.QUARANTINE_S)


def failed(times: int, known: Health | None = None, at: datetime = AT) -> Health:
    found = known or Health()
    for _ in range(times):
        found = health.after_failure(found, at=at)
    return found


def test_failures_in_a_row_lead_to_a_quarantine_that_ends() -> None:
    assert failed(2).state is ListingState.LISTED
    held = failed(3)
    assert (held.state, held.until) == (ListingState.QUARANTINED, LATER)
    assert health.state_at(held, LATER - timedelta(seconds=1)) is ListingState.QUARANTINED
    assert health.state_at(held, LATER) is ListingState.LISTED
    assert failed(1, held) == held  # it is asked nothing then
    assert failed(1, held, LATER) == Health(failures=1, quarantines=1)


@pytest.mark.parametrize(
    ("given_s", "promised_ms", "had"),
    [(1, 1000, True), (1, 1001, False), (10, None, True), (9.999, None, False), (0, 0, True), (-1, 0, False)],
)
def test_a_provider_is_held_to_the_time_it_promises(
    given_s: float, promised_ms: int | None, had: bool
) -> None:
    assert health.had_time(timedelta(seconds=given_s), promised_ms=promised_ms) is had


def test_a_success_forgets_failures_but_lists_nobody() -> None:
    assert health.after_success(failed(2)) == Health()
    assert health.after_success(failed(3)).state is ListingState.QUARANTINED


def test_quarantines_in_a_row_end_it() -> None:
    gone, at = Health(), AT
    for _ in range(health.QUARANTINES):
        gone = failed(health.FAILURES, gone, at)
        at += timedelta(seconds=health.QUARANTINE_S)
    assert gone.state is ListingState.DELISTED
    assert health.after_success(gone) == gone
    assert failed(1, gone, at) == gone


@given(st.lists(st.booleans(), max_size=60))
def test_who_never_fails_three_times_in_a_row_stays(results: list[bool]) -> None:
    known, in_a_row, worst = Health(), 0, 0
    for is_good in results:
        in_a_row = 0 if is_good else in_a_row + 1
        worst = max(worst, in_a_row)
        known = health.after_success(known) if is_good else health.after_failure(known, at=AT)
    assert (known.state is ListingState.LISTED) == (worst < health.FAILURES)


@pytest.mark.parametrize(
    ("overridden", "is_available", "heard_s", "is_named"),
    [
        (None, True, None, True),
        (None, True, 10, True),
        (None, True, health.SILENT_S + 1, False),
        (None, False, None, False),
        (ListingState.LISTED, False, None, True),
        (ListingState.DELISTED, True, None, False),
    ],
)
def test_what_a_person_decided_comes_first(
    overridden: ListingState | None, is_available: bool, heard_s: int | None, is_named: bool
) -> None:
    heard = None if heard_s is None else AT - timedelta(seconds=heard_s)
    found = health.is_named(Health(), at=AT, overridden=overridden, is_available=is_available, heard_at=heard)
    assert found is is_named


def offered(**changes: object) -> Offered:
    given: dict[str, object] = {
        "capability_name": "advice",
        "versions": ("1.0", "1.1"),
        "p95_ms": 500,
        "per_call": 2,
        "jurisdiction": ("EU",),
        "schema_refs": ("s1",),
        "tags": ("fast",),
    }
    return Offered(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "claims", "fits"),
    [
        ({}, {}, True),
        ({"capability_name": "advice"}, {}, True),
        ({"capability_name": "other"}, {}, False),
        ({"latency_ms": 500}, {}, True),
        ({"latency_ms": 499}, {}, False),
        ({"latency_ms": 499}, {"p95_ms": None}, False),
        ({"cost_ceiling": 1}, {}, False),
        ({"cost_ceiling": 9}, {"per_call": None}, False),
        ({"jurisdiction": "EU"}, {}, True),
        ({"jurisdiction": "US"}, {}, False),
        ({"jurisdiction": "US"}, {"jurisdiction": ()}, True),
        ({"required_schema": "s2"}, {}, False),
        ({"tag": "slow"}, {}, False),
        ({"version": "1.1.0"}, {}, True),
        ({"version": "1.2"}, {}, False),
    ],
)
def test_a_query_is_answered_by_what_is_claimed(
    wanted: dict[str, object], claims: dict[str, object], fits: bool
) -> None:
    assert matching.matches(offered(**claims), Wanted(**wanted)) is fits  # type: ignore[arg-type]


def test_the_cheapest_is_named_first() -> None:
    ranked = [
        matching.rank(offered(per_call=None), "a"),
        matching.rank(offered(p95_ms=None), "b"),
        matching.rank(offered(), "c"),
    ]
    assert [name for _, _, name in sorted(ranked)] == ["c", "b", "a"]

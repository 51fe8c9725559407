"""Who did what, counted twice: at the broker, and in the console's own rows."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.faults.burst import PATIENCE, Done
from tests.faults.stack import Stack
from tests.load import broker_count
from tests.support.wait_until import until

WAITING = """
from runtime.models import Intent
answer = Intent.objects.filter(state="PENDING").count()
"""

_WITH_PEOPLE = {"IN_DOUBT", "WITH_PERSON"}
_SETTLED = {"DONE", "FAILED", "EXPIRED", "CANCELLED"} | _WITH_PEOPLE
_CALLS = """
from runtime.models import Attempt
answer = {}
rows = Attempt.objects.filter(intent__state__in=("IN_DOUBT", "WITH_PERSON")).exclude(state="HELD")
for intent, state in rows.order_by("number").values_list("intent_id", "state"):
    answer.setdefault(str(intent), []).append(state)
"""
_STATES = """
from escalations.models import Escalation
from runtime.models import Intent
open_ones = Escalation.objects.filter(state="OPEN", family="OPERATIONAL").values_list("intent_id", "reason")
answer = {
    "states": {str(key): state for key, state in Intent.objects.values_list("intent_id", "state")},
    "with_person": {str(intent): reason for intent, reason in open_ones},
}
"""


def wait_settled(stack: Stack, done: Done, *, timeout_s: float) -> Mapping[str, Any]:
    """Wait until no intent of the burst is still to be carried out; the console's rows."""
    seen: dict[str, Any] = {}

    def settled() -> bool:
        seen.update(stack.ask(_STATES))
        return all(seen["states"].get(intent) in _SETTLED for intent in done.intents.values())

    try:
        until(settled, timeout_s=timeout_s * PATIENCE)
    except AssertionError as error:
        left = Counter(seen["states"].get(intent) for intent in done.intents.values())
        raise AssertionError(f"not settled within {timeout_s} s: {left}") from error
    return seen


def check_exactly_once(stack: Stack, done: Done, *, timeout_s: float = 90) -> Counter[str]:
    """Each accepted intent has its one effect, or is with a person; counts: done, with a person."""
    seen = wait_settled(stack, done, timeout_s=timeout_s)
    rows = broker_count.effects(broker_url=stack.broker.base_url)
    count = broker_count.compare(intents=done.intents.values(), rows=rows, dfids=done.intents)
    states = {intent: seen["states"][intent] for intent in done.intents.values()}
    in_doubt = {intent for intent, state in states.items() if state in _WITH_PEOPLE}

    assert not count.doubled, f"carried out twice: {count.doubled}"
    assert not count.foreign, f"carried out without an accepted intent: {count.foreign}"
    assert set(count.missing) <= in_doubt, f"lost: {set(count.missing) - in_doubt}"
    assert set(states.values()) <= {"DONE"} | _WITH_PEOPLE, Counter(states.values())
    assert {seen["with_person"].get(intent) for intent in in_doubt} <= {"IN_DOUBT", "REPEATED_FAILURE"}
    return Counter("with a person" if intent in in_doubt else "done" for intent in states)


def calls_of_those_in_doubt(stack: Stack, done: Done) -> dict[str, list[str]]:
    """States of the calls of each intent of the burst that is with a person."""
    found: dict[str, list[str]] = stack.ask(_CALLS)
    return {intent: found[intent] for intent in done.intents.values() if intent in found}


def check_burst(done: Done) -> None:
    """Everything sent was answered and accepted."""
    report = done.report
    assert report["errors"] == {}, report
    assert report["accepted"] == report["sent"] == len(done.intents), report

"""Replaces what a policy kind keeps out of the store, before anything is stored, and records that it did."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from audit import canonical, events
from runtime.contracts.receipt import CallResult, Receipt
from runtime.contracts.redaction import RedactedIn, Redaction
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import redaction


def take_receipt(
    journal: Journal, result: CallResult, rules: Sequence[Redaction], *, intent_id: str, number: int
) -> CallResult:
    """The result of a call as it may be stored; nothing else of a target's answer goes any further."""
    if not rules or not isinstance(result, Receipt):
        return result
    taken = redaction.redact(canonical.decode(result.body), rules, source=RedactedIn.RECEIPT)
    note(journal, taken.times, source=RedactedIn.RECEIPT, about=intent_id, number=number)
    return replace(result, body=canonical.encode(taken.value)) if taken.times else result


def note(
    journal: Journal, times: Mapping[str, int], *, source: RedactedIn, about: str, number: int | None = None
) -> None:
    """Record how often which rule was applied, where any was; never what it was applied to."""
    if times:
        journal.add(events.RedactionApplied(source=source, about=about, number=number, rules=dict(times)))

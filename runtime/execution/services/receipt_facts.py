"""Facts taken from a receipt: written with the success of their step, and sent with the outcome.

Locks: the rows of facts are locked after flow and intent, by path, against the one order of `locks`. That
cannot deadlock: whoever else locks a fact's row locks only ledger heads after it, and heads are last
here too. Locking them first would need the receipt before the intent is known to be ours.
"""

from uuid import UUID

from audit import canonical, events
from audit.models import LedgerEntry
from runtime.contracts.outcome import Deviation, FactChange
from runtime.execution.services import intent_plan
from runtime.flows.models import Intent
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import writes
from runtime.kernel.rules import safety
from runtime.proposals.queries import stored_cases
from runtime.state.models import FactVersion
from runtime.state.services import facts


def write_facts(journal: Journal, intent: Intent, *, receipt: bytes) -> None:
    """Write what the step at the intent's position takes from its receipt: a new version by `intent:<id>`.

    The rules are those of the verdict. Entries go to the flow's own stream; what cannot be written is
    recorded, and nothing else is lost by it.
    """
    if not intent_plan.is_followed(intent):
        return
    case = stored_cases.get_case(proposal_id=intent.proposal_id)
    step = intent_plan.step_id(intent, intent.position)
    asked = next((one.writes for one in case.kind.steps if one.id == step), ())
    if not asked:
        return
    if safety.why_unsafe(case.kind):
        taken = writes.take_none(asked, why=safety.NOT_ASKED)
    else:
        names = {**case.names, "receipt": canonical.decode(receipt)}
        taken = writes.take(asked, names=names, longest_bytes=facts.MAX_VALUE_BYTES)
    for new in taken.facts:
        journal.add(
            facts.write_taken(
                tenant=intent.tenant,
                path=new.path,
                body=new.value,
                writer=writer_of(intent.pk),
                at=journal.at,
            )
        )
    for deviation in taken.deviations:
        journal.add(
            events.FactNotWritten(
                intent_id=str(intent.pk),
                path=deviation.fact,
                value=str(deviation.expected),
                why=deviation.why or "",
            )
        )


def writer_of(intent_id: UUID) -> str:
    """The writer of the facts that an intent's steps leave."""
    return f"intent:{intent_id}"


def collect_changes(journal: Journal, intent: Intent) -> tuple[list[FactChange], list[Deviation]]:
    """What all steps of the intent have written, and what they could not: from the flow's entries.

    Those of this transaction are still in the journal.
    """
    if not intent_plan.is_followed(intent):
        return [], []
    kept = LedgerEntry.objects.filter(
        tenant=intent.tenant,
        stream=str(intent.flow_id),
        kind__in=(events.Kind.FACT_WRITTEN, events.Kind.FACT_NOT_WRITTEN),
    )
    earlier = [events.read(row.kind, row.payload) for row in kept.order_by("seq")]
    changes: list[FactChange] = []
    missed: list[Deviation] = []
    for event in (*earlier, *journal.entries):
        if isinstance(event, events.FactWritten) and event.writer == writer_of(intent.pk):
            versions = (event.version - 1, event.version)
            rows = FactVersion.objects.filter(tenant=intent.tenant, path=event.path, version__in=versions)
            values = {row.version: canonical.decode(bytes(row.value)) for row in rows}
            changes.append(
                FactChange(
                    fact=event.path,
                    version=event.version,
                    before=values.get(event.version - 1),
                    after=values[event.version],
                )
            )
        elif isinstance(event, events.FactNotWritten) and event.intent_id == str(intent.pk):
            missed.append(Deviation(fact=event.path, expected=event.value, observed=None, why=event.why))
    return changes, missed

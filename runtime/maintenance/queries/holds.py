"""Legal holds: which of them keep a flow, and those of the page."""

from collections.abc import Collection, Iterator, Sequence
from uuid import UUID

from audit import queries
from audit.models import DecisionRecord, RecordTerm
from runtime.maintenance.models import LegalHold

MOST_SHOWN = 200


def find_hold(dfid: UUID, *, tenant: str) -> LegalHold | None:
    """The oldest live hold on a flow, or on a subject that a decision record of it names, or None."""
    return holds_among([dfid], tenant=tenant).get(dfid)


def holds_among(dfids: Collection[UUID], *, tenant: str) -> dict[UUID, LegalHold]:
    """Those of the flows that a live hold keeps, each with the oldest such hold."""
    live = LegalHold.objects.of(tenant).filter(released_at=None)
    found = list(live.filter(flow__in=list(dfids)))
    pairs = [(hold.flow_id, hold) for hold in found if hold.flow_id is not None]
    if live.filter(flow=None).exists():
        records = dict(
            DecisionRecord.objects.filter(tenant=tenant, dfid__in=list(dfids)).values_list("pk", "dfid")
        )
        terms = RecordTerm.objects.filter(record__in=list(records), name=RecordTerm.Name.SUBJECT)
        about = set(terms.values_list("value", "record"))
        of_subject: dict[str, list[LegalHold]] = {}
        for hold in live.filter(flow=None, subject__in={subject for subject, _ in about}):
            of_subject.setdefault(hold.subject, []).append(hold)
        pairs += [
            (records[record], hold) for subject, record in about for hold in of_subject.get(subject, ())
        ]
    # The last that is put in is the oldest: ids rise with time.
    return dict(sorted(pairs, key=lambda pair: pair[1].pk, reverse=True))


def words_of(hold: LegalHold) -> str:
    """Why a flow is kept, as a refusal says it."""
    placed = f"The legal hold {hold.name} of {hold.placed_at:%d.%m.%Y}"
    on = "" if hold.flow_id is not None else f" on {hold.subject}"
    return f"{placed}{on} keeps the flow: nothing of it is erased until an admin releases the hold."


def list_held_flows(*, tenant: str) -> Iterator[UUID]:
    """Every flow that a live hold keeps; one that several keep may come more than once."""
    live = LegalHold.objects.of(tenant).filter(released_at=None)
    yield from (dfid for dfid in live.values_list("flow", flat=True) if dfid is not None)
    subjects = list(live.filter(flow=None).values_list("subject", flat=True).distinct())
    terms = RecordTerm.objects.filter(tenant=tenant, name=RecordTerm.Name.SUBJECT, value__in=subjects)
    records = DecisionRecord.objects.filter(tenant=tenant, pk__in=terms.values("record"))
    yield from records.order_by("dfid").values_list("dfid", flat=True).distinct().iterator()


def list_live(*, tenant: str) -> Sequence[LegalHold]:
    """The live holds, newest first; at most `MOST_SHOWN`."""
    return list(LegalHold.objects.of(tenant).filter(released_at=None)[:MOST_SHOWN])


def list_reasons_of_live(*, tenant: str) -> list[str]:
    """The commitments of why the live holds were placed."""
    live = LegalHold.objects.of(tenant).filter(released_at=None)
    return list(live.order_by("pk").values_list("commitment", flat=True))


def list_released(*, tenant: str) -> Sequence[LegalHold]:
    """Holds that were released, the newest first; at most `MOST_SHOWN`."""
    return list(LegalHold.objects.of(tenant).filter(released_at__isnull=False)[:MOST_SHOWN])


def list_named(*, tenant: str, name: str) -> Sequence[LegalHold]:
    """The live holds of one name."""
    return list(LegalHold.objects.of(tenant).filter(name=name, released_at=None))


def reasons_of(holds: Collection[LegalHold], *, tenant: str) -> dict[str, bytes | None]:
    """The texts behind the commitments of holds, as `audit.queries.list_bodies` gives them."""
    named = {text for hold in holds for text in (hold.commitment, hold.release_commitment) if text}
    return queries.list_bodies(tenant=tenant, commitments=named)

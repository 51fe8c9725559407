"""Erase the words of a flow, or of every flow about a subject, in one transaction.

What is emptied is the table of `audit.erasure_columns`, the payloads behind the flow's commitments, and the
stored responses to its calls. Digests, commitments and signatures stay, so the chain stays whole.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.apps import apps
from django.db.models import Model, Q, QuerySet

from audit import canonical, erasure_columns, erasures, ledger, queries
from audit.erasure_columns import WordColumns
from audit.events import AttestedStatement, FlowErased, Kind
from audit.models import DecisionRecord, Payload, RecordTerm
from audit.packs import sources
from audit.sealing import keys, own_key
from runtime.contracts.guard import GuardRunState, ReviewState
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import ENDED, LIVE_INTENTS, AttemptState
from runtime.core import clock, transactions
from runtime.core.models import Answer
from runtime.epochs.services import epochs
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.guards.models import GuardRun, Review
from runtime.incidents.queries import kept
from runtime.kernel import salts
from runtime.maintenance.queries import holds as held
from runtime.maintenance.services import holds

MOST_AT_ONCE: Final = 500
# A worker that lost its lease may still report what its call came to.
LATE: Final = timedelta(hours=1)
_AROUND: Final = timedelta(minutes=1)
# Proposals keep milliseconds.
_MOMENT: Final = timedelta(milliseconds=1)
_SIGNED: Final = frozenset(
    {
        Kind.ESCALATION_DECIDED,
        Kind.ESCALATION_FIRST_DECIDED,
        Kind.EFFECT_STATED,
        Kind.INFORMATION_REQUESTED,
        Kind.TASK_ANSWERED,
    }
)
STATEMENT: Final = "statement"
# Digests of words that packs do not hold.
_UNPACKED: Final = {
    Kind.INTENT_DELAYED: "undo_digest",
    Kind.INTENT_RESUMED: "lifted_digest",
    Kind.INTENT_RETURNED: "lifted_digest",
}
# An intent with no lifted finding: no words.
_NOTHING_LIFTED: Final = canonical.digest(canonical.encode([]))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDigest:
    """A digest in an entry, and the field that it is in, such as `proposal_digest`.

    It is guessable where the bytes have no salt in them, and where they are gone so that nobody can tell.
    """

    field: str
    digest: str
    is_guessable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedFlow:
    """What was emptied of one flow, or would be: cells by table and column, and payloads.

    `digests` are those of words that stay in entries, the guessable ones first. `children` are flows of their
    own, not erased.
    """

    dfid: UUID
    counts: Mapping[str, int]
    payloads: int
    digests: Sequence[NamedDigest] = ()
    children: Sequence[UUID] = ()

    @property
    def cells(self) -> int:
        """All of it."""
        return sum(self.counts.values()) + self.payloads

    @property
    def guessable(self) -> int:
        """How many digests without a salt stay: who guesses the words can confirm them by one."""
        return sum(item.is_guessable for item in self.digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A flow that cannot be erased, and why not."""

    dfid: UUID
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What an erasure came to. With anything in `kept` nothing was erased."""

    flows: Sequence[ErasedFlow] = ()
    kept: Sequence[Kept] = ()


def nothing_more(flow: Flow) -> str:
    """Who asks for an erasure keeps what `why_kept` names, and nothing else."""
    return ""


@transactions.retried
def erase(
    *,
    tenant: str,
    dfids: Collection[UUID],
    reason: str,
    actor: str,
    dry_run: bool = False,
    also_kept: Callable[[Flow], str] = nothing_more,
) -> Erased | Problem:
    """Erase the words of these flows, all or none; with `dry_run` only say what would go.

    A flow that is not of this tenant is left out, and so is one of which nothing is left to erase.
    `also_kept` is asked of each locked flow that could be erased, and returns why it stays, or nothing.
    """
    refused = epochs.refuse_while_recovering()
    if refused is not None:
        return refused
    if len(dfids) > MOST_AT_ONCE:
        detail = f"At most {MOST_AT_ONCE} flows can be erased at once; these are {len(dfids)}."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    # By age, so that a parent is locked before its children.
    flows = [flow for dfid in sorted(dfids) if (flow := locks.lock_flow(dfid=dfid, tenant=tenant))]
    if not dry_run:
        holds.lock()
    reasons = [(flow, why_kept(flow) or also_kept(flow)) for flow in flows]
    staying = [Kept(dfid=flow.pk, why=why) for flow, why in reasons if why]
    if staying:
        return Erased(kept=staying)
    found = [(flow, _look(flow, flows)) for flow in flows]
    due = [(flow, left) for flow, left in found if left.cells]
    if not dry_run:
        for flow, left in due:
            _erase(flow, left, reason=reason, actor=actor)
    return Erased(flows=[left for _, left in due])


def list_of_subject(*, tenant: str, subject: str) -> list[UUID]:
    """The flows whose decision records name a subject, such as `order:881`; oldest first."""
    terms = RecordTerm.objects.filter(tenant=tenant, name=RecordTerm.Name.SUBJECT, value=subject)
    records = DecisionRecord.objects.filter(tenant=tenant, pk__in=terms.values("record"))
    return sorted(set(records.values_list("dfid", flat=True)))


def why_kept(flow: Flow) -> str:
    """Why the words of a flow cannot be erased now; empty where they can."""
    intents = Intent.objects.filter(flow=flow)
    if flow.state not in ENDED or intents.filter(state__in=LIVE_INTENTS).exists():
        return "The flow has not ended."
    if calls_in_doubt.is_flow_in_doubt(flow=flow) or calls_in_doubt.is_flow_contradicted(flow=flow):
        return "A call of the flow is in doubt: a person must state what became of it first."
    if GuardRun.objects.filter(proposal__flow=flow, state=GuardRunState.PENDING).exists():
        return "A soft guard has not answered yet."
    if Review.objects.filter(flow=flow, state=ReviewState.OPEN).exists():
        return "A review of the flow is open: close it first."
    unknown = Attempt.objects.filter(intent__flow=flow, state=AttemptState.UNKNOWN)
    if unknown.filter(started_at__gt=clock.now() - LATE).exists():
        return "A call of the flow ended without an answer within the last hour: it may still come."
    if kept.is_looked_into(flow.pk):
        return "An incident that is not closed links the flow: close it, or remove the link, first."
    hold = held.find_hold(flow.pk, tenant=flow.tenant)
    if hold is not None:
        return held.words_of(hold)
    return ""


def _look(flow: Flow, flows: Sequence[Flow]) -> ErasedFlow:
    """What there is to erase of a flow."""
    counts = {
        f"{words.table}.{column}": count
        for words in erasure_columns.list_words()
        for column in words.columns
        if (count := _present(words, column, flow).count())
    }
    if answers := len(_answers(flow)):
        counts["answer.body"] = answers
    told = _told(flow)
    payloads = Payload.objects.filter(tenant=flow.tenant, commitment__in=_committed(told), erased_at=None)
    among = {other.pk for other in flows}
    children = Flow.objects.filter(parent=flow, erased_at=None).exclude(pk__in=among)
    return ErasedFlow(
        dfid=flow.pk,
        counts=counts,
        payloads=payloads.count(),
        digests=_digests(flow, told),
        children=sorted(children.values_list("pk", flat=True)),
    )


def _erase(flow: Flow, left: ErasedFlow, *, reason: str, actor: str) -> None:
    journal = Journal(flow=flow, actor=actor, at=clock.now())
    told = _told(flow)
    # Before the statements are gone: afterwards nobody could check a signature over them.
    attested = tuple(_attest(flow))
    for words in erasure_columns.list_words():
        rows = _rows(words, flow)
        rows.update(**{column: _left(words, column) for column in words.columns})
    for answer in _answers(flow):
        Answer.objects.filter(pk=answer).update(body=b"", request_digest="", salt=b"")
    payloads = Payload.objects.filter(tenant=flow.tenant, commitment__in=_committed(told), erased_at=None)
    ledger.empty_payloads(payloads, at=journal.at)
    journal.add(
        FlowErased(
            reason=reason,
            counts=dict(left.counts),
            payloads=left.payloads,
            guessable=left.guessable,
            statements=attested,
            salted_digests=tuple(item.digest for item in left.digests if not item.is_guessable),
        )
    )
    journal.write()
    Flow.objects.filter(pk=flow.pk).update(erased_at=journal.at)


def _told(flow: Flow) -> list[tuple[Kind, dict[str, Any]]]:
    return queries.list_payloads(tenant=flow.tenant, stream=str(flow.pk), kinds=list(Kind))


def _digests(flow: Flow, told: Sequence[tuple[Kind, dict[str, Any]]]) -> list[NamedDigest]:
    """The digests of words in the entries of a flow, each once, the guessable ones first."""
    fields = {
        payload[name]: name
        for kind, payload in told
        for name in sources.NAMED.get(kind, ())
        if name not in sources.RULES and sources.is_digest(payload.get(name))
    }
    unpacked = [
        (payload[name], name, payload)
        for kind, payload in told
        if (name := _UNPACKED.get(kind, "")) and payload.get(name) not in (None, _NOTHING_LIFTED)
    ]
    stored = sources.collect(tenant=flow.tenant, dfid=flow.pk, wanted=fields).bodies
    salted = {digest for digest, body in stored.items() if salts.find(body) is not None}
    salted |= {digest for digest, _, payload in unpacked if payload.get("undo_salted")}
    fields |= {digest: name for digest, name, _ in unpacked}
    earlier = erasures.find(tenant=flow.tenant, dfid=flow.pk)
    if earlier is not None:
        salted |= earlier.salted
    named = [
        NamedDigest(field=name, digest=digest, is_guessable=digest not in salted)
        for digest, name in fields.items()
    ]
    return sorted(named, key=lambda item: (not item.is_guessable, item.field, item.digest))


def _committed(told: Iterable[tuple[Kind, dict[str, Any]]]) -> set[str]:
    return {value for _, payload in told for _, value in sources.list_commitments(payload)}


def _attest(flow: Flow) -> Iterator[AttestedStatement]:
    """The digests of the statements whose signature is valid, each signed in place of the statement.

    One that was attested before keeps that; one whose signature cannot be checked here gets nothing.
    """
    entries = queries.list_dated(tenant=flow.tenant, stream=str(flow.pk), kinds=_SIGNED)
    if not entries:
        return
    signed = [words for words in erasure_columns.list_words() if STATEMENT in words.columns]
    bodies = [
        bytes(body) for words in signed for body in _rows(words, flow).values_list(STATEMENT, flat=True)
    ]
    held = {canonical.digest(body): body for body in bodies}
    ring = keys.keyring(tenant=flow.tenant)
    signer = own_key.signer(tenant=flow.tenant, at=clock.now())
    for _, at, payload in entries:
        digest = payload["statement_digest"]
        statement = held.get(digest)
        if statement is None:
            continue
        if ring.verify(statement, bytes.fromhex(payload["signature"]), payload["key_id"], at=at):
            yield AttestedStatement(
                statement_digest=digest,
                signature=signer.sign(erasures.signed_bytes(digest)).hex(),
                key_id=signer.key_id,
            )


def _rows(words: WordColumns, flow: Flow) -> QuerySet[Model]:
    model: type[Model] = apps.get_model(words.model)
    return model._default_manager.filter(**{words.flow: flow.pk}).order_by()


def _present(words: WordColumns, column: str, flow: Flow) -> QuerySet[Model]:
    """The rows whose cell holds something."""
    left = _left(words, column)
    gone = Q(**{f"{column}__isnull": True}) if left is None else Q(**{column: left})
    return _rows(words, flow).exclude(gone)


def _left(words: WordColumns, column: str) -> Any:
    if column in words.left:
        return words.left[column]
    field = apps.get_model(words.model)._meta.get_field(column)
    return b"" if field.get_internal_type() == "BinaryField" else ""


def _answers(flow: Flow) -> list[int]:
    """The stored responses to the calls of a flow: those at its address, of one call, and what opened it."""
    rows = Answer.objects.filter(agent=flow.agent_id).exclude(body=b"")
    own = rows.filter(path__contains=str(flow.pk)).values_list("pk", flat=True)
    around = (flow.opened_at - _AROUND, flow.opened_at + _AROUND)
    opening = [*rows.filter(path__endswith="/flows", answered_at__range=around).values_list("pk", "body")]
    # One call has no flow in its address; it is answered at the moment of its proposal.
    for received_at in flow.proposals.filter(agent=flow.agent_id).values_list("received_at", flat=True):
        judged = rows.filter(answered_at__gte=received_at, answered_at__lt=received_at + _MOMENT)
        opening = [*opening, *judged.filter(path__contains="/proposals").values_list("pk", "body")]
    named = rows.filter(dfid=flow.pk).values_list("pk", flat=True)
    return [*{*own, *named, *(pk for pk, body in opening if str(flow.pk).encode() in bytes(body))}]

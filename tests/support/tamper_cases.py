"""The tamper cases: what somebody with the database's own rights may change, one at a time."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import F

from audit import canonical, chain, ledger, signing
from audit.events import RequestRefused, SystemStopped
from audit.models import LedgerEntry, Payload, StreamHead
from audit.verification import triggers
from escalations.models import Decision, Escalation, Evidence, Question
from runtime.contexts.models import Snapshot
from runtime.core import clock
from runtime.core.ids import new_id
from runtime.core.models import Answer
from runtime.flows.models import Attempt, Feedback, Flow, Intent, Outcome, Proposal, StepReceipt, Verdict
from runtime.guards.models import Guard, Review
from runtime.registry.models import (
    Agent,
    Bundle,
    Key,
    Manifest,
    Membership,
    OwnerChange,
    Pack,
    PolicyKind,
    Stop,
    Target,
)
from runtime.resources.models import Resource
from runtime.state.models import Fact, FactVersion, MemoryItem, WorldVersion
from tests.support import ledger_tampering
from tests.support.finished_history import History

Case = Callable[[History], None]
TABLE = "audit_ledgerentry"


def _entry(sets: str, *params: Any, seq: int = 3) -> Case:
    def change(history: History) -> None:
        sql = f"UPDATE {TABLE} SET {sets} WHERE stream = %s AND seq = %s"  # noqa: S608
        ledger_tampering.quietly(sql, [*params, str(history.accepted), seq])

    return change


def _row(model: Any, **columns: Any) -> Case:
    """A plain UPDATE of the newest row."""

    def change(history: History) -> None:
        newest = model.objects.order_by("-pk").first()
        assert model.objects.filter(pk=newest.pk).update(**columns) == 1

    return change


def _bytes(model: Any, column: str, digest: str = "") -> Case:
    """Other bytes in the newest row that has some, and with `digest` that column made right."""

    def change(history: History) -> None:
        newest = model.objects.exclude(**{column: None}).order_by("-pk").first()
        changed = bytes(getattr(newest, column)).replace(b"1", b"7").replace(b'"', b"'", 0) + b" "
        also = {digest: canonical.digest(changed)} if digest else {}
        assert model.objects.filter(pk=newest.pk).update(**{column: changed, **also}) == 1

    return change


def _as_if_old(model: Any, **columns: Any) -> Case:
    """ACCEPT for REJECT in all rows, and without their salts."""

    def change(history: History) -> None:
        for row in model.objects.all():
            turned = bytes(row.body).replace(b'"REJECT"', b'"ACCEPT"')
            model.objects.filter(pk=row.pk).update(body=turned, salt=b"", entry_seq=None, **columns)

    return change


def _gone(model: Any) -> Case:
    def change(history: History) -> None:
        assert model.objects.order_by("-pk").first() is not None
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {model._meta.db_table}")  # noqa: S608

    return change


def _rehash(history: History) -> None:
    entry = LedgerEntry.objects.get(stream=str(history.accepted), seq=3)
    body = bytes(entry.body).replace(b"default", b"defau1t")
    sets = f"UPDATE {TABLE} SET body = %s, hash = %s WHERE id = %s"  # noqa: S608
    ledger_tampering.quietly(sets, [body, chain.entry_hash(bytes(entry.prev_hash), body), entry.pk])


def _microsecond(history: History) -> None:
    entry = LedgerEntry.objects.get(stream=str(history.accepted), seq=3)
    moved = entry.at.replace(microsecond=(entry.at.microsecond + 1) % 1_000_000)
    ledger_tampering.quietly(f"UPDATE {TABLE} SET at = %s WHERE id = %s", [moved, entry.pk])  # noqa: S608


def _delete(where: str) -> Case:
    def change(history: History) -> None:
        sql = f"DELETE FROM {TABLE} WHERE stream = %s AND {where}"  # noqa: S608
        ledger_tampering.quietly(sql, [str(history.accepted)] * (1 + where.count("%s")))

    return change


_LAST = f"seq = (SELECT MAX(seq) FROM {TABLE} WHERE stream = %s)"  # noqa: S608


def _swap(history: History) -> None:
    for old, new in ((2, 999), (3, 2), (999, 3)):
        sql = f"UPDATE {TABLE} SET seq = %s WHERE stream = %s AND seq = %s"  # noqa: S608
        ledger_tampering.quietly(sql, [new, str(history.accepted), old])


def _forged_end(history: History) -> None:
    flow = Flow.objects.get(dfid=history.accepted)
    ledger.append(
        tenant="default",
        stream=str(flow.dfid),
        head=ledger.Head(seq=flow.head_seq, hash=bytes(flow.head_hash), at=flow.updated_at),
        actor="user:1",
        at=clock.now(),
        events=[SystemStopped(reason="forged")],
    )


def _erased_without_entry(history: History) -> None:
    first = Payload.objects.order_by("pk").values_list("pk", flat=True)[:1]
    Payload.objects.filter(pk__in=list(first)).update(
        salt=None, nonce=None, content=None, erased_at=clock.now()
    )


def _signed_anew(history: History) -> None:
    """Another statement, signed by whoever holds the signing key."""
    row = Decision.objects.order_by("-pk").first()
    assert row is not None
    statement = bytes(row.statement).replace(b"The desk", b"The boss")
    Decision.objects.filter(pk=row.pk).update(
        statement=statement, signature=signing.signer().sign(statement), key_id=signing.signer().key_id
    )


def _evidence_throughout(history: History) -> None:
    row = Evidence.objects.order_by("-pk").first()
    assert row is not None
    body = bytes(row.body).replace(b"150000", b"100001")
    digest = canonical.digest(body)
    Evidence.objects.filter(pk=row.pk).update(body=body, hash=digest)
    Escalation.objects.filter(pk=row.escalation_id).update(evidence_hash=digest)


def _rewired_manifest(history: History) -> None:
    other = Manifest.objects.order_by("pk").first()
    Agent.objects.filter(agent_id="analyst").update(active_manifest=other)


def _inserted(model: Any, **changes: Any) -> Case:
    """A copy of the newest row under another name."""

    def change(history: History) -> None:
        row = model.objects.order_by("-pk").first()
        row.pk = None
        for name, value in changes.items():
            setattr(row, name, value)
        row.save(force_insert=True)

    return change


def _taken_back(history: History) -> None:
    Decision.objects.filter(sequence=1).update(state="TAKEN_BACK")


def _no_trigger(history: History) -> None:
    ledger_tampering.execute("SELECT 1")


def _untouched(history: History) -> None:
    """The control: nothing."""


def _cell(column: str, value: str, table: str = TABLE) -> Case:
    """A cell of another type: SQLite takes it, PostgreSQL refuses."""

    def change(history: History) -> None:
        where = "WHERE seq = 3" if table == TABLE else ""
        ledger_tampering.quietly(f"UPDATE {table} SET {column} = %s {where}", [value])  # noqa: S608

    return change


def _approver_throughout(history: History) -> None:
    """Another approver: in the row and in the entry, with the flow's chain and head made anew."""
    mallory = User.objects.get(username="left")
    row = Decision.objects.select_related("escalation").order_by("-pk").first()
    assert row is not None
    old, new = f"user:{row.approver_id}".encode(), f"user:{mallory.pk}".encode()
    stream = str(row.escalation.flow_id)
    statement = bytes(row.statement).replace(old, new)
    signature = signing.signer().sign(statement)
    swaps = {
        old: new,
        canonical.digest(bytes(row.statement)).encode(): canonical.digest(statement).encode(),
        bytes(row.signature).hex().encode(): signature.hex().encode(),
    }
    for entry in LedgerEntry.objects.filter(stream=stream):
        body, actor = bytes(entry.body), entry.actor.replace(old.decode(), new.decode())
        for before, after in swaps.items():
            body = body.replace(before, after)
        sql = f"UPDATE {TABLE} SET body = %s, actor = %s WHERE id = %s"  # noqa: S608
        ledger_tampering.execute(sql, [body, actor, entry.pk])
    ledger_tampering.rechain(stream)
    ledger_tampering.put_triggers_back()
    Decision.objects.filter(pk=row.pk).update(approver=mallory, statement=statement, signature=signature)
    Question.objects.filter(escalation=row.escalation).update(asked_by=mallory)


def _last_entry_and_head(history: History) -> None:
    stream = str(history.accepted)
    ledger_tampering.execute(f"DELETE FROM {TABLE} WHERE stream = %s AND {_LAST}", [stream, stream])  # noqa: S608
    ledger_tampering.rechain(stream)
    ledger_tampering.put_triggers_back()


def _whole_stream_and_head(stream: str) -> Case:
    def change(history: History) -> None:
        ledger_tampering.quietly(f"DELETE FROM {TABLE} WHERE stream = %s", [stream])  # noqa: S608
        assert StreamHead.objects.filter(stream=stream).delete()[0]

    return change


def _promoted(history: History) -> None:
    User.objects.get(username="olivia").groups.add(Group.objects.get(name="admin"))


def _persons_stream_and_head(history: History) -> None:
    """The person's account stays, and nothing says who let them in."""
    user = User.objects.get(username="olivia")
    _whole_stream_and_head(f"user:{user.pk}")(history)


def _forged_stream(history: History) -> None:
    ledger.append_to(
        tenant="default",
        stream="user:999",
        actor="user:999",
        at=clock.now(),
        events=[RequestRefused(code="FORGED", path="/")],
    )


def _flow_row_and_entries(history: History) -> None:
    """A flow is gone with its stream; what belongs to it is left."""
    ledger_tampering.quietly(f"DELETE FROM {TABLE} WHERE stream = %s", [str(history.overridden)])  # noqa: S608
    with connection.cursor() as cursor:
        key = history.overridden.hex if connection.vendor == "sqlite" else str(history.overridden)
        cursor.execute("DELETE FROM runtime_flow WHERE dfid = %s", [key])


def _flow_without_entries(history: History) -> None:
    row = Flow.objects.get(dfid=history.accepted)
    row.dfid, row.head_seq, row.head_hash = new_id(), 0, bytes(32)
    row.save(force_insert=True)


def _membership_of_left(**moved: timedelta) -> Case:
    def change(history: History) -> None:
        row = Membership.objects.get(pk=_left_pk())
        shifted = {name: getattr(row, name) + by for name, by in moved.items()}
        if "since" not in shifted and shifted["until"] < row.since:
            shifted["since"] = shifted["until"]
        _set(Membership, row.pk, **shifted)

    return change


CASES: Mapping[str, Case] = {
    "entry: body": _entry("body = %s", b"{}"),
    "entry: body and hash": _rehash,
    "entry: kind": _entry("kind = 'flow:opened'"),
    "entry: actor": _entry("actor = 'user:1'"),
    "entry: time by a microsecond": _microsecond,
    "entry: tenant": _entry("tenant = 'other'"),
    "entry: previous hash": _entry("prev_hash = %s", bytes(32)),
    "entry: hash": _entry("hash = %s", bytes(32)),
    "entry: one in the middle gone": _delete("seq = 3"),
    "entry: the last one gone": _delete(_LAST),
    "entry: two swapped": _swap,
    "entry: one forged at the end": _forged_end,
    "head of a flow: hash": lambda history: _set(Flow, history.accepted, head_hash=bytes(32)),
    "head of a flow: number": lambda history: _set(Flow, history.accepted, head_seq=F("head_seq") - 1),
    "head of a stream: edited": lambda history: _all(StreamHead, "system", hash=bytes(32)),
    "head of a stream: gone": lambda history: _drop(StreamHead, "system"),
    "payload: content": _bytes(Payload, "content"),
    "payload: salt": _bytes(Payload, "salt"),
    "payload: one gone": lambda history: _drop_first(Payload),
    "payload: all gone": _gone(Payload),
    "payload: erased without an entry": _erased_without_entry,
    "intent.requests": _bytes(Intent, "requests"),
    "intent.state": _row(Intent, state="FAILED"),
    "manifest.body": _bytes(Manifest, "body"),
    "manifest.body and digest": _bytes(Manifest, "body", "digest"),
    "manifest: a row that nobody registered": _inserted(Manifest, version="9.9.9"),
    "agent.active_manifest": _rewired_manifest,
    "policykind.body": _bytes(PolicyKind, "body"),
    "policykind.body and digest": _bytes(PolicyKind, "body", "digest"),
    "target.base_url": _row(Target, base_url="http://127.0.0.1:9"),
    "fact.value": _bytes(Fact, "value"),
    "fact.value and digest": _bytes(Fact, "value", "digest"),
    "factversion.value": _bytes(FactVersion, "value"),
    "factversion: a version that nobody wrote": _inserted(FactVersion, version=99),
    "factversion.world_version": _row(FactVersion, world_version=77),
    "worldversion: a version that nobody made": _inserted(WorldVersion, write_id="0" * 26, version=77),
    "memoryitem.value": _bytes(MemoryItem, "value"),
    "agent.escalation_millitokens": _row(Agent, escalation_millitokens=999_000),
    "agent.status": _row(Agent, status="ACTIVE"),
    "agent.owner": _row(Agent, owner="mallory"),
    "key: taken back again": lambda history: _all_of(Key, revoked_at=None),
    "decision: one that nobody made": _inserted(Decision, sequence=9, state="TAKEN_BACK"),
    "decision: taken back in its row alone": _taken_back,
    "key: one that nobody issued": _inserted(Key, key_id="agk_forged"),
    "user: active again": lambda history: _all_of(User, is_active=True),
    "user: one that nobody added": lambda history: User.objects.create(username="mallory").save(),
    "user: made an admin": _promoted,
    "user: made a superuser": lambda history: _all_of(User, is_superuser=True),
    "membership: ended a month before": _membership_of_left(until=timedelta(days=-30)),
    "membership: began a month later": _membership_of_left(since=timedelta(days=-30), until=timedelta(0)),
    "membership: in another group": lambda history: _set(Membership, _left_pk(), group="auditor"),
    "membership: taken back": lambda history: _set(Membership, _left_pk(), until=None),
    "membership: one gone": lambda history: _drop_of(Membership, _left_pk()),
    "membership: all gone": _gone(Membership),
    "membership: one that nobody gave": lambda history: _forged_membership(),
    "owner change: another owner before": lambda history: _agreed(owner_before="eve"),
    "owner change: agreed by another": lambda history: _agreed(agreed_by="user:999"),
    "owner change: long ago": lambda history: _agreed(agreed_at=clock.now() - timedelta(days=30)),
    "owner change: asked long ago": lambda history: _agreed(asked_at=clock.now() - timedelta(days=30)),
    "owner change: dropped, not agreed to": lambda history: _agreed(
        agreed_by="", agreed_at=None, dropped_by="user:999", dropped_at=clock.now()
    ),
    "owner change: asked by another": lambda history: _set(
        OwnerChange, OwnerChange.objects.get(agreed_at=None, dropped_at=None).pk, asked_by="user:999"
    ),
    "owner change: one gone": lambda history: _drop_of(
        OwnerChange, OwnerChange.objects.get(owner_after="bob").pk
    ),
    "owner change: all gone": _gone(OwnerChange),
    "owner change: one that nobody asked for": lambda history: _inserted(
        OwnerChange, owner_after="mallory", dropped_by="user:1", dropped_at=clock.now()
    )(history),
    "stream of a person, and its head": _persons_stream_and_head,
    "decision.approver": lambda history: _all_of(Decision, approver=User.objects.get(username="left")),
    "decision.justification": _row(Decision, justification="I was history to."),
    "decision.action": _row(Decision, action="OVERRIDE"),
    "decision: statement and signature": _signed_anew,
    "decision: rows gone": _gone(Decision),
    "evidence.body": _bytes(Evidence, "body"),
    "evidence: body and every hash": _evidence_throughout,
    "question.answer": _row(Question, answer="Something else."),
    "outcome.receipt": _bytes(Outcome, "receipt"),
    "stepreceipt.receipt": _bytes(StepReceipt, "receipt"),
    "attempt.state": _row(Attempt, state="FAILED", error_category="X", effect="", settled_by=""),
    "proposal.body": _bytes(Proposal, "body"),
    "proposal.body and digest": _bytes(Proposal, "body", "digest"),
    "proposal.explain": lambda history: _explained_anew(),
    "verdict.body": _bytes(Verdict, "body"),
    "verdict.input and digest": _bytes(Verdict, "input", "input_digest"),
    "bundle.body": _bytes(Bundle, "body"),
    "flow.reason": lambda history: _set(Flow, history.aborted, reason="DEADLINE_PASSED"),
    "flow.trigger": lambda history: _set(Flow, history.aborted, trigger=b"{}"),
    "snapshot.body": _bytes(Snapshot, "body"),
    "feedback.body": _bytes(Feedback, "body"),
    "feedback: another verdict, as if from before there were commitments": _as_if_old(Feedback),
    "feedback.event_type": _row(Feedback, event_type="FLOW_CLOSED"),
    "feedback: all gone": _gone(Feedback),
    "answer.body": _bytes(Answer, "body"),
    "answer: another verdict, as if from before there were commitments": _as_if_old(Answer, dfid=None),
    "answer.request_digest": _row(Answer, request_digest="0" * 64),
    "answer: all gone": _gone(Answer),
    "review.findings": _bytes(Review, "findings"),
    "guard.body": _bytes(Guard, "body", "digest"),
    "resource.capacity": _row(Resource, capacity=99_999),
    "resource.committed": _row(Resource, committed=0),
    "stop: one that nobody pressed": _inserted(Stop, lifted_at=None, lifted_by=""),
    "pack: one that nobody loaded": _inserted(Pack, digest="0" * 64),
    "cell of another type: body": _cell("body", "no bytes"),
    "cell of another type: hash": _cell("hash", "x" * 32),
    "cell of another type: at": _cell("at", "yesterday"),
    "cell of another type: requests": _cell("requests", "no bytes", "runtime_intent"),
    "cell of another type: evidence": _cell("body", "no bytes", "escalations_evidence"),
    "cell of another type: manifest": _cell("body", "no bytes", "runtime_manifest"),
    "cell of another type: head of a stream": _cell("hash", "x" * 32, "audit_streamhead"),
    "cell of another type: head of a flow": _cell("head_hash", "x" * 32, "runtime_flow"),
    "cell of another type: number of a head": _cell("seq", "many", "audit_streamhead"),
    "cell of another type: membership": _cell("since", "1 day ago", "runtime_membership"),
    "cell of another type: owner change": _cell("asked_at", "yesterday", "runtime_ownerchange"),
    "cell of another type: fact": _cell("version", "many", "runtime_fact"),
    "cell of another type: id of a flow": lambda history: _other_id(history),
    "cell of another type: text that is no UTF-8": _entry("actor = CAST(x'ff' AS TEXT)"),
    "triggers dropped": _no_trigger,
    "a flow and its stream": _flow_row_and_entries,
    "a flow that nobody opened": _flow_without_entries,
    "last entry of a flow, and its head": _last_entry_and_head,
    "stream of the system, and its head": _whole_stream_and_head("system"),
    "stream of a feed, and its head": _whole_stream_and_head("feed:prices"),
    # What the tree shows, since it was sealed before: `tree_tampering` has more.
    "another approver in row, entry, chain and head": _approver_throughout,
}
# What was never sealed, and what nobody recorded.
UNPROVABLE: Mapping[str, Case] = {
    "a stream of its own, forged with its head": _forged_stream,
}


def _left_pk() -> int:
    """The membership of somebody who was an admin."""
    return int(Membership.objects.get(user__username="left", group="admin").pk)


def _other_id(history: History) -> None:
    """The id of a flow's row is no id any more."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runtime_flow SET dfid = 'no id' WHERE dfid = %s", [history.accepted.hex])


def _drop_of(model: Any, pk: Any) -> None:
    assert model.objects.filter(pk=pk).delete()[0] == 1


def _forged_membership() -> None:
    user, now = User.objects.get(username="olivia"), clock.now()
    Membership.objects.create(user=user, group="admin", since=now - timedelta(days=9), until=now)


def _agreed(**columns: Any) -> None:
    assert OwnerChange.objects.filter(owner_after="bob").update(**columns) == 1


def _set(model: Any, pk: Any, **columns: Any) -> None:
    assert model.objects.filter(pk=pk).update(**columns) == 1


def _all_of(model: Any, **columns: Any) -> None:
    assert model.objects.update(**columns)


def _all(model: Any, stream: str, **columns: Any) -> None:
    assert model.objects.filter(stream=stream).update(**columns)


def _drop(model: Any, stream: str) -> None:
    assert model.objects.filter(stream=stream).delete()[0]


def _drop_first(model: Any) -> None:
    model.objects.order_by("pk").first().delete()


def _explained_anew() -> None:
    assert Proposal.objects.exclude(explain="").update(explain="Something else.")


def triggers_are_there() -> bool:
    return not triggers.missing()

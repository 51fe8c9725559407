"""What somebody with the database's own rights may do to rows, beside `tamper_cases`: one row at a time."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F

from audit import canonical, ledger
from audit.models import DecisionRecord, LedgerEntry, Payload
from escalations.models import Decision, Escalation, Evidence, NotificationRoute, Question
from escalations.models.note import Note
from runtime.contexts.models import Snapshot
from runtime.core import clock
from runtime.core.ids import new_id
from runtime.core.models import Answer
from runtime.epochs.models import Epoch
from runtime.flows.models import Attempt, Flow, Intent, Outcome, Proposal, StepReceipt, Verdict
from runtime.guards.models import Review
from runtime.maintenance.models import LegalHold
from runtime.outward.models import Receiver
from runtime.registry.models import (
    Agent,
    AuthorityLimitRow,
    Bundle,
    Key,
    Manifest,
    PolicyKind,
    Stop,
    Target,
)
from runtime.resources.models import Reservation, Resource
from runtime.state.models import Fact, FactVersion, MemoryItem
from tests.support import ledger_tampering, record_tampering
from tests.support.finished_history import History

Case = Callable[[History], None]


def _of(rows: Callable[[History], Any], **columns: Any) -> Case:
    """A plain UPDATE of the newest of some rows; a value may be made of the row."""

    def change(history: History) -> None:
        row = rows(history).order_by("-pk")[0]
        made = {name: value(row) if callable(value) else value for name, value in columns.items()}
        assert all(getattr(row, name) != value for name, value in made.items())
        assert type(row)._default_manager.filter(pk=row.pk).update(**made) == 1

    return change


def _gone(rows: Callable[[History], Any]) -> Case:
    """A plain DELETE of the newest of some rows."""

    def change(history: History) -> None:
        row = rows(history).order_by("-pk")[0]
        with connection.cursor() as cursor:
            key = type(row)._meta.pk.get_db_prep_value(row.pk, connection)
            sql = f"DELETE FROM {row._meta.db_table} WHERE {row._meta.pk.column} = %s"  # noqa: S608
            cursor.execute(sql, [key])

    return change


def _decisions(*columns: str) -> Case:
    """The decisions on two flows change places, column by column."""

    def change(history: History) -> None:
        one = Decision.objects.get(escalation__flow_id=history.overridden)
        other = Decision.objects.get(escalation__flow_id=history.modified)
        for row, taken in ((one, other), (other, one)):
            Decision.objects.filter(pk=row.pk).update(**{name: getattr(taken, name) for name in columns})

    return change


def _payloads_swapped(history: History) -> None:
    one, other = Payload.objects.exclude(content=None).order_by("pk")[:2]
    for row, taken in ((one, other), (other, one)):
        Payload.objects.filter(pk=row.pk).update(
            salt=taken.salt, key=taken.key, nonce=taken.nonce, content=taken.content
        )


def _payload_put_back(history: History) -> None:
    said = LedgerEntry.objects.get(stream=str(history.aborted), kind="proposal:submitted").payload
    named = Payload.objects.filter(commitment=said["params_commitment"])
    before = named.values("salt", "key", "nonce", "content", "erased_at").get()
    assert ledger.erase_payload(
        tenant="default",
        commitment=said["params_commitment"],
        actor="user:1",
        at=clock.now(),
        reason="asked for",
    )
    named.update(**before)


def _payload_invented(history: History) -> None:
    Payload.objects.create(tenant="default", commitment="0" * 64, salt=b"s" * 32, content=b'"nothing"')


def _payload_emptied(history: History) -> None:
    """Of the flow's own proposal."""
    said = LedgerEntry.objects.get(stream=str(history.aborted), kind="proposal:submitted").payload
    named = Payload.objects.filter(commitment=said["params_commitment"])
    assert named.update(salt=None, nonce=None, content=None, erased_at=clock.now()) == 1


def _record(sets: str, *params: Any) -> Case:
    def change(history: History) -> None:
        row = DecisionRecord.objects.filter(dfid=history.overridden).order_by("-seq")[0]
        sql = f"UPDATE audit_decisionrecord SET {sets} WHERE id = %s"  # noqa: S608
        ledger_tampering.quietly(sql, [*params, row.pk])

    return change


def _record_moved(history: History) -> None:
    row = DecisionRecord.objects.filter(dfid=history.overridden).order_by("-seq")[0]
    other = history.aborted.hex if connection.vendor == "sqlite" else str(history.aborted)
    sql = "UPDATE audit_decisionrecord SET dfid = %s, seq = 999, terminal = %s WHERE id = %s"
    ledger_tampering.quietly(sql, [other, False, row.pk])


def _superseding(history: History) -> None:
    """A record that says it takes the place of another one, hashed and signed by who holds the key."""
    row = DecisionRecord.objects.filter(dfid=history.overridden).order_by("-seq")[0]

    def supersede(record: dict[str, Any]) -> None:
        record["supersedes"] = DecisionRecord.objects.filter(dfid=history.aborted)[0].record_id

    record_tampering.rewritten(row, supersede)


def _answer_kept(history: History) -> None:
    """The answer that a repeated call gets."""
    agent = Agent.objects.get(agent_id="analyst")
    body = canonical.encode({"verdict": "ACCEPT"})
    row = Answer(agent=agent, path="/x", key="k", request_digest="0" * 64, body=body, answered_at=clock.now())
    row.save(force_insert=True)


def _receiver_invented(history: History) -> None:
    """It gets everything, and no entry says who added it."""
    row = Receiver.objects.get(name="hook")
    row.pk, row.name, row.place, row.patterns = new_id(), "mirror", "https://evil.example.com/", "*"
    row.save(force_insert=True)


def _password(history: History) -> None:
    assert User.objects.filter(username="olivia").update(password="!")


def _role_lost(history: History) -> None:
    User.objects.get(username="olivia").groups.clear()


def _another_active_kind(history: History) -> None:
    assert PolicyKind.objects.filter(active=True).update(active=False)


def _at(path: str, flow: str) -> Callable[[type[Any]], Callable[[History], Any]]:
    """The rows of a model that belong to a flow of the history."""

    def of(model: type[Any]) -> Callable[[History], Any]:
        return lambda history: model.objects.filter(**{path: getattr(history, flow)})

    return of


def _all(model: type[Any], **wanted: Any) -> Callable[[History], Any]:
    return lambda history: model.objects.filter(**wanted)


_OVERRIDDEN = _at("flow_id", "overridden")
_HOOK = _all(Receiver, name="hook")
_HOUR = timedelta(hours=1)

CASES: Mapping[str, Case] = {
    "decision: signatures of two swapped": _decisions("signature"),
    "decision: two swapped with their statements": _decisions("statement", "signature", "key_id"),
    "decision.key_id": _of(_at("escalation__flow_id", "overridden")(Decision), key_id="f" * 16),
    "decision.decided_at": _of(
        _at("escalation__flow_id", "overridden")(Decision), decided_at=lambda row: row.decided_at - _HOUR
    ),
    "decision.solo": _of(_at("escalation__flow_id", "overridden")(Decision), solo=lambda row: not row.solo),
    "escalation.resolution": _of(_OVERRIDDEN(Escalation), resolution="ABORT"),
    "escalation.reason": _of(_OVERRIDDEN(Escalation), reason="IN_DOUBT"),
    "escalation.deadline_at": _of(_OVERRIDDEN(Escalation), deadline_at=lambda row: row.deadline_at + _HOUR),
    "escalation: one gone": _gone(_all(Escalation)),
    "evidence: one revision gone": _gone(_at("escalation__flow_id", "aborted")(Evidence)),
    "question.statement": _of(_at("escalation__flow_id", "aborted")(Question), statement=b"{}"),
    "question: one gone": _gone(_at("escalation__flow_id", "aborted")(Question)),
    "flow.state": _of(_at("dfid", "accepted")(Flow), state="ABORTED"),
    "proposal.author": _of(_OVERRIDDEN(Proposal), author="user:999"),
    "proposal.policy_version": _of(_OVERRIDDEN(Proposal), policy_version="9.9.9"),
    "proposal.valid_until": _of(_OVERRIDDEN(Proposal), valid_until=lambda row: row.valid_until + _HOUR),
    "verdict.decision": _of(_at("proposal__flow_id", "overridden")(Verdict), decision="REJECT"),
    "verdict.gate_version": _of(_at("proposal__flow_id", "overridden")(Verdict), gate_version="0"),
    "verdict: one gone": _gone(_at("proposal__flow_id", "aborted")(Verdict)),
    "bundle: one gone": _gone(_all(Bundle)),
    "snapshot: one gone": _gone(_OVERRIDDEN(Snapshot)),
    "intent.requests: another path": _of(
        _at("flow_id", "accepted")(Intent), requests=b'[{"path":"/elsewhere","target":"broker"}]'
    ),
    "intent.valid_until": _of(
        _at("flow_id", "accepted")(Intent), valid_until=lambda row: row.valid_until + _HOUR
    ),
    "intent: one gone": _gone(_at("flow_id", "overridden")(Intent)),
    "attempt: one gone": _gone(_at("intent__flow_id", "undone")(Attempt)),
    "attempt.number": _of(_at("intent__flow_id", "undone")(Attempt), number=99),
    "stepreceipt: one gone": _gone(_at("intent__flow_id", "undone")(StepReceipt)),
    "outcome.deviations": _of(_at("intent__flow_id", "accepted")(Outcome), deviations=b'["none"]'),
    "outcome: one gone": _gone(_at("intent__flow_id", "accepted")(Outcome)),
    "reservation.state": _of(
        _all(Reservation, state="COMMITTED"), state="RELEASED", ended_at=lambda row: clock.now()
    ),
    "reservation: one gone": _gone(_all(Reservation)),
    "resource.reserved": _of(_all(Resource), reserved=F("reserved") + 1),
    "fact: one gone": _gone(_all(Fact)),
    "fact.version": _of(_all(Fact), version=lambda row: row.version + 7),
    "factversion.written_at": _of(_all(FactVersion), written_at=lambda row: row.written_at - _HOUR),
    "factversion: one gone": _gone(_all(FactVersion)),
    "memoryitem.released_by": _of(_all(MemoryItem, key="in"), released_by="user:999"),
    "memoryitem: back in quarantine": _of(
        _all(MemoryItem, key="out"),
        quarantined=True,
        discarded_by="",
        decided_at=None,
        decision_reason="",
    ),
    "memoryitem.source_check": _of(_all(MemoryItem, key="in"), source_check="OWN_CLAIM"),
    "memoryitem.reasons": _of(_all(MemoryItem, key="in"), reasons=b"[]"),
    "memoryitem.labels": _of(_all(MemoryItem, key="in"), labels=b'["x"]'),
    "memoryitem.decision_reason": _of(_all(MemoryItem, key="in"), decision_reason="none"),
    "memoryitem.discarded_by": _of(_all(MemoryItem, key="out"), discarded_by="user:999"),
    "manifest.created_by": _of(_all(Manifest), created_by="user:999"),
    "policykind: none is active": _another_active_kind,
    "agent.agent_id": _of(_all(Agent, agent_id="analyst"), agent_id="analyst2"),
    "key.secret_hash": _of(_all(Key), secret_hash="f" * 64),
    "key.fact_prefix": _of(_all(Key, feed="spare"), fact_prefix=""),
    "target.secret_env": _of(_all(Target), secret_env="OF_SOMEBODY_ELSE"),
    "target.honours_keys": _of(_all(Target), honours_keys=lambda row: not row.honours_keys),
    "target: one gone": _gone(_all(Target)),
    "authority limit: raised": _of(_all(AuthorityLimitRow), amount=9_000_000),
    "authority limit: gone": _gone(_all(AuthorityLimitRow)),
    "route: another host": _of(_all(NotificationRoute, name="kept"), host="evil.example.com"),
    "note.commitment": _of(_all(Note), commitment="0" * 64),
    "review: gone": _gone(_all(Review)),
    "hold: one gone": _gone(_all(LegalHold)),
    "hold: released in its row alone": _of(
        _all(LegalHold, released_at=None),
        released_at=lambda row: row.placed_at,
        released_by="user:1",
        release_commitment="0" * 64,
    ),
    "hold: of another name": _of(_all(LegalHold), name="case-9"),
    "receiver.tenant": _of(_HOOK, tenant="other"),
    "receiver.name": _of(_HOOK, name="hook-2"),
    "receiver: another kind and format": _of(_HOOK, kind="SIEM_HTTP", format="OCSF"),
    "receiver.patterns: wants less": _of(_HOOK, patterns="epoch:ended"),
    "receiver.place: another address": _of(_HOOK, place="https://evil.example.com/"),
    "receiver.secret_env": _of(_HOOK, secret_env="OF_SOMEBODY_ELSE"),
    "receiver.added_by": _of(_HOOK, added_by="user:999"),
    "receiver.added_at": _of(_HOOK, added_at=lambda row: row.added_at + _HOUR),
    "receiver: paused in its row alone": _of(_HOOK, state="PAUSED", paused_why="quiet"),
    "receiver: resumed in its row alone": _of(_all(Receiver, name="paused"), state="ACTIVE", paused_why=""),
    "receiver.paused_why": _of(_all(Receiver, name="paused"), paused_why="asked for"),
    "receiver: one gone": _gone(_all(Receiver)),
    "receiver: one that nobody added": _receiver_invented,
    "receiver.next_leaf: beyond the end of the tree": _of(_HOOK, next_leaf=10**9),
    "receiver.next_leaf: ahead, within the tree": _of(_HOOK, next_leaf=5),
    "receiver.next_at: not before next year": _of(_HOOK, next_at=lambda row: row.next_at + 9999 * _HOUR),
    "receiver: its failures": _of(
        _HOOK, tries=3, failing_since=lambda row: row.added_at, error="it answered 503"
    ),
    "stop: lifted by another": _of(_all(Stop), lifted_by="user:999"),
    "epoch.restored_at": _of(_all(Epoch), restored_at=lambda row: clock.now()),
    "epoch: gone": _gone(_all(Epoch)),
    "user: every role lost": _role_lost,
    "user: another password": _password,
    "payload: two swapped": _payloads_swapped,
    "payload: put back after it was erased": _payload_put_back,
    "payload: one that no entry names": _payload_invented,
    "payload: of a proposal emptied": _payload_emptied,
    "record: moved to another flow": _record_moved,
    "record: says that it supersedes another, signed": _superseding,
    "record: terminal": _record("terminal = NOT terminal"),
    "record: time": _record("at = %s", "2020-01-01T00:00:00+00:00"),
    "answer: one kept for a repeated call": _answer_kept,
}

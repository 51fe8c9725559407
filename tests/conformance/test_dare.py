"""DARE's five checks: yes on a whole history, and no when one thing that they look at is damaged."""

from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import connection

from audit.events import Kind
from audit.models import Checkpoint, LedgerEntry
from audit.sealing import notes
from audit.signing import LocalSigner
from dir_console.conformance.items import Answer
from dir_console.conformance.sample import Sample
from escalations.models import Decision, Evidence
from runtime.contexts.models import Snapshot
from runtime.contracts.states import ENDED
from runtime.flows.models import Flow, Intent, Proposal, Verdict
from runtime.maintenance.services import payloads
from tests.support import ledger_tampering
from tests.support.conformance_items import answer_for_the_child, ask
from tests.support.finished_history import History

Damage = Callable[[History], object]


def rewrite(sql: str) -> Damage:
    """A statement on the ledger, with the triggers put back afterwards."""
    return lambda history: ledger_tampering.quietly(sql)


def first_entry(dfid: UUID, kind: Kind) -> LedgerEntry:
    return LedgerEntry.objects.filter(stream=str(dfid), kind=kind).order_by("seq")[0]


def forged_request(history: History) -> None:
    Intent.objects.filter(flow=history.accepted).update(requests=b'{"steps":[]}')


def without_entry_of_its_intent(history: History) -> None:
    entry = first_entry(history.accepted, Kind.INTENT_CREATED)
    ledger_tampering.execute("DELETE FROM audit_ledgerentry WHERE id = %s", [entry.pk])


def verdict_in_the_row_alone(history: History) -> None:
    """Of the accepted flow, so that its call stands on a verdict that no longer accepts."""
    Verdict.objects.filter(proposal__flow=history.accepted).update(decision="ESCALATE")


def another_body(history: History) -> None:
    """An entry, its hash, and all that follows it: only the tree still knows."""
    entry = first_entry(history.accepted, Kind.PROPOSAL_SUBMITTED)
    body = bytes(entry.body).replace(b'"agent:trader"', b'"agent:broker"')
    sets = "UPDATE audit_ledgerentry SET body = %s WHERE id = %s"
    ledger_tampering.execute(sets, [body, entry.pk])
    ledger_tampering.rechain(entry.stream)
    ledger_tampering.put_triggers_back()


def head_of_a_flow(history: History) -> None:
    Flow.objects.filter(pk=history.accepted).update(head_hash=bytes(32))


def by_another_key(history: History) -> None:
    """The notes of all checkpoints, signed by a key that no entry has begun."""
    other = LocalSigner(bytes(range(32)))
    for row in Checkpoint.objects.all():
        said = notes.read(row.note).checkpoint
        note = notes.sign(said, public_key=other.public_key, sign=other.sign)
        ledger_tampering.quietly("UPDATE audit_checkpoint SET note = %s WHERE id = %s", [note, row.pk])


def no_trigger(history: History) -> None:
    name = "audit_entry_no_update" if connection.vendor == "sqlite" else "audit_entry_no_change"
    suffix = "" if connection.vendor == "sqlite" else " ON audit_ledgerentry"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}{suffix}")


def call_by_a_person(history: History) -> None:
    """A call of which the rows say that a person wrote its proposal, who decided nothing."""
    Proposal.objects.filter(flow=history.accepted).update(author="user:1")


DAMAGED: dict[str, tuple[str, Damage, str]] = {
    "a call without an accepting verdict": (
        "dare-1",
        verdict_in_the_row_alone,
        "has no verdict that accepts",
    ),
    "a request that was rewritten": ("dare-1", forged_request, "are not those whose digest"),
    "an intent without its entry": ("dare-1", without_entry_of_its_intent, "No entry records the intent"),
    "a context that was changed": (
        "dare-3",
        lambda _: Snapshot.objects.update(body=b"{}"),
        "changed_context at /snapshot",
    ),
    "a verdict that was changed": (
        "dare-3",
        lambda history: Verdict.objects.filter(proposal__flow=history.accepted).update(body=b"{}"),
        "tamper_detected at /verdict",
    ),
    "a column of an entry": (
        "dare-4",
        rewrite(
            "UPDATE audit_ledgerentry SET actor = 'user:9' "
            "WHERE id = (SELECT MAX(id) - 3 FROM audit_ledgerentry)"
        ),
        "column actor differs",
    ),
    "an entry that is gone": (
        "dare-4",
        rewrite("DELETE FROM audit_ledgerentry WHERE stream = 'system' AND seq = 4"),
        "expected entry 4",
    ),
    "an entry and its whole chain": ("dare-4", another_body, "is not the one that was sealed"),
    "the end of a stream": ("dare-4", head_of_a_flow, "the head holds another hash"),
    "a leaf of the tree": ("dare-4", rewrite("DELETE FROM audit_tile"), "is missing in the tree"),
    "the root of a checkpoint": (
        "dare-4",
        lambda _: ledger_tampering.quietly(
            "UPDATE audit_checkpoint SET root = %s WHERE size > 0", [bytes(32)]
        ),
        "does not match its row",
    ),
    "the signature of a checkpoint": ("dare-4", by_another_key, "is not signed by a key"),
    "a trigger": ("dare-4", no_trigger, "The trigger audit_entry_no_"),
    "a statement": (
        "dare-5",
        lambda _: Decision.objects.update(statement=b"{}"),
        "is not the one whose digest",
    ),
    "a signature": ("dare-5", lambda _: Decision.objects.update(signature=bytes(64)), "is not signed by"),
    "evidence": ("dare-5", lambda _: Evidence.objects.update(body=b"{}"), "names other evidence"),
    "a decision without an entry": (
        "dare-5",
        lambda _: Decision.objects.update(sequence=7),
        "has no entry",
    ),
    "a call by a person who did not decide": ("dare-5", call_by_a_person, "no decision in effect"),
}


@pytest.mark.parametrize("check_id", ["dare-1", "dare-3", "dare-4", "dare-5"])
def test_a_whole_history_is_a_yes(damaged: History, check_id: str) -> None:
    found = ask(check_id)
    assert (found.answer, found.why) == (Answer.YES, "")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_history_is_a_no(damaged: History, name: str) -> None:
    check_id, damage, why = DAMAGED[name]
    damage(damaged)
    found = ask(check_id)
    assert found.answer is Answer.NO
    assert why in found.why


def test_bypass_is_never_more_than_partly_while_the_system_lets_others_out(
    damaged: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ask("dare-2")
    assert found.answer is Answer.PARTLY
    assert "network policy" in found.why
    answer_for_the_child(monkeypatch, judge={"is_equal": True, "events": ["socket.connect"]})
    found = ask("dare-2")
    assert found.answer is Answer.NO
    assert "bypass-judge: While it was judged: socket.connect." in found.why


def test_what_was_erased_is_counted_and_is_no_difference(damaged: History) -> None:
    for dfid in Sample(tenant="default").flows:
        opened = first_entry(dfid, Kind.FLOW_OPENED)
        commitment = opened.payload["trigger_commitment"]
        payloads.erase(tenant="default", commitment=commitment, reason="asked", actor="user:1")
    found = ask("dare-3")
    assert found.answer is Answer.PARTLY
    assert "0 different, 3 not replayable" in found.seen


def test_a_flow_that_is_gone_while_it_is_replayed_is_a_no(
    damaged: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.proposals.queries.flow_replay.replay", lambda **_: None)
    assert "is gone" in ask("dare-3").why


def test_replays_end_when_their_time_is_over(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dir_console.conformance.sample.REPLAYS_S", -1.0)
    found = ask("dare-3")
    assert found.answer is Answer.YES
    assert f"{Flow.objects.filter(state__in=ENDED).count() - 1} more left out" in found.seen


def test_a_signature_by_an_unknown_key_is_partly(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.sealing.keys.Keyring.verify", lambda *_, **__: None)
    found = ask("dare-5")
    assert found.answer is Answer.PARTLY
    assert "is not known here" in found.why


@pytest.mark.django_db
@pytest.mark.parametrize("check_id", ["dare-1", "dare-3", "dare-4", "dare-5"])
def test_an_empty_console_has_nothing_to_try(check_id: str) -> None:
    found = ask(check_id)
    assert (found.answer, bool(found.why)) == (Answer.NOT_APPLICABLE, True)


def test_a_ledger_that_was_never_signed_is_partly(damaged: History) -> None:
    ledger_tampering.quietly("DELETE FROM audit_checkpoint")
    found = ask("dare-4")
    assert found.answer is Answer.PARTLY
    assert "No checkpoint was signed yet" in found.why


def test_a_check_that_notices_nothing_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.chain.ChainVerifier.step", lambda self, row: self.go_on(row))
    assert "the check did not notice" in ask("dare-4").why

"""Legal holds: what they keep from being erased, and what the ledger says of them."""

from collections.abc import Callable
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from audit import canonical, queries
from audit.chain import BreakKind
from audit.events import Kind
from audit.models import LedgerEntry, Payload
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.core import transactions
from runtime.flows.models import Flow
from runtime.maintenance.models import LegalHold
from runtime.maintenance.services import erasure, holds, payloads
from tests.support import erased_story, hold_story
from tests.support.erased_story import SUBJECT, Story

TENANT = "default"
pytestmark = pytest.mark.django_db


@pytest.fixture
def story(db: None) -> Story:
    return erased_story.told()


def erase(story: Story) -> erasure.Erased:
    answer = erasure.erase(tenant=TENANT, dfids=[story.dfid], reason="asked for", actor="user:1")
    assert isinstance(answer, erasure.Erased), answer
    return answer


def refused(answer: object) -> str:
    assert isinstance(answer, Problem), answer
    return answer.code


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("on", ["flow", "subject"])
def test_nothing_of_a_flow_on_hold_is_erased_until_the_hold_is_released(story: Story, on: str) -> None:
    hold = hold_story.place(story.dfid) if on == "flow" else hold_story.place(subject=SUBJECT)
    (kept,) = erase(story).kept
    assert f"The legal hold {hold_story.NAME} of " in kept.why
    assert Flow.objects.get().erased_at is None
    hold_story.release(hold)
    assert erase(story).flows
    assert findings.verify_all().findings == []


def test_one_of_two_holds_still_keeps_the_flow(story: Story) -> None:
    first = hold_story.place(story.dfid)
    hold_story.place(subject=SUBJECT, name="case-2")
    hold_story.release(first)
    (kept,) = erase(story).kept
    assert f"The legal hold case-2 of {first.placed_at:%d.%m.%Y} on {SUBJECT} keeps" in kept.why


def test_a_hold_on_another_subject_keeps_nothing(story: Story) -> None:
    hold_story.place(subject="symbol:MSFT")
    assert erase(story).flows


def test_no_text_of_a_flow_on_hold_is_erased_by_itself(story: Story) -> None:
    told = queries.list_payloads(tenant=TENANT, stream=str(story.dfid), kinds=[Kind.PROPOSAL_SUBMITTED])
    given = {
        "tenant": TENANT,
        "commitment": told[0][1]["params_commitment"],
        "reason": "x",
        "actor": "user:1",
    }
    hold = hold_story.place(subject=SUBJECT)
    assert refused(payloads.erase(**given)) == "FLOW_KEPT"
    with pytest.raises(CommandError, match="The legal hold"):
        run("erase_payload", given["commitment"], "--reason", "x")
    hold_story.release(hold)
    assert payloads.erase(**given) is True


def test_the_entries_say_all_but_the_reasons(story: Story) -> None:
    hold = hold_story.release(hold_story.place(story.dfid))
    placed, released = LedgerEntry.objects.filter(stream=f"hold:{hold.pk}").order_by("seq")
    assert (placed.kind, placed.actor, released.kind, released.actor) == (
        Kind.HOLD_PLACED,
        "user:1",
        Kind.HOLD_RELEASED,
        "user:2",
    )
    assert (placed.payload["name"], placed.payload["dfid"]) == (hold_story.NAME, str(story.dfid))
    assert hold_story.REASON.encode() not in bytes(placed.body)
    body = Payload.objects.get(commitment=placed.payload["text_commitment"]).body
    assert canonical.decode(bytes(body or b"")) == hold_story.REASON
    assert findings.verify_all().findings == []


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "two words"},
        {"name": "x" * 65},
        {"name": "a\x00"},
        {"reason": " "},
        {"reason": "x" * 501},
        {"reason": "a\x00"},
        {"subject": ""},
        {"subject": "x" * 201},
        {"subject": "a\nb"},
        {"dfid": uuid4()},
    ],
)
def test_a_hold_needs_a_name_a_reason_and_one_target(db: None, changes: dict[str, Any]) -> None:
    asked = {"tenant": TENANT, "name": "a", "subject": SUBJECT, "reason": "x", "actor": "user:1"}
    assert refused(holds.place(**{**asked, **changes})) == "INVALID_REQUEST"
    assert not LegalHold.objects.exists()


def test_what_is_not_there_or_there_already_is_refused(story: Story) -> None:
    asked: dict[str, Any] = {"tenant": TENANT, "name": hold_story.NAME, "reason": "x", "actor": "user:1"}
    assert refused(holds.place(**asked, dfid=uuid4())) == "NOT_FOUND"
    hold = hold_story.place(story.dfid)
    assert refused(holds.place(**asked, dfid=story.dfid)) == "HOLD_EXISTS"
    gone = {"tenant": TENANT, "reason": "x", "actor": "user:1"}
    assert refused(holds.release(**gone, hold_id=uuid4())) == "NOT_FOUND"
    assert refused(holds.release(tenant="other", hold_id=hold.pk, reason="x", actor="user:1")) == "NOT_FOUND"
    hold_story.release(hold)
    assert refused(holds.release(**gone, hold_id=hold.pk)) == "HOLD_RELEASED"
    assert hold_story.place(story.dfid).pk != hold.pk


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "a"},
        {"target": "SUBJECT"},
        {"name": ""},
        {"released_by": "user:1"},
        {"commitment": "00"},
    ],
)
def test_the_database_keeps_a_hold_whole(story: Story, changes: dict[str, Any]) -> None:
    hold = hold_story.place(story.dfid)
    with pytest.raises(IntegrityError), transaction.atomic():
        LegalHold.objects.filter(pk=hold.pk).update(**changes)


def lift(hold: LegalHold) -> None:
    LegalHold.objects.filter(pk=hold.pk).update(
        released_at=hold.placed_at, released_by="user:9", release_commitment="0" * 64
    )


def move(hold: LegalHold) -> None:
    LegalHold.objects.filter(pk=hold.pk).update(flow=None, target="SUBJECT", subject="a:b")


def add(hold: LegalHold) -> None:
    hold.pk, hold.commitment, hold.name = uuid4(), "1" * 64, "new"
    hold.save(force_insert=True)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lift, BreakKind.ROW_MISMATCH, "hold.released_by is user:9"),
        (move, BreakKind.ROW_MISMATCH, "hold.subject is a:b"),
        (lambda hold: hold.delete(), BreakKind.ROW_MISSING, "the legal hold case-2026-14 is missing"),
        (add, BreakKind.ROW_WITHOUT_ENTRY, "no entry records the legal hold new"),
    ],
)
def test_a_hold_that_was_lifted_moved_or_made_quietly_is_a_finding(
    story: Story, change: Callable[[LegalHold], None], kind: BreakKind, words: str
) -> None:
    change(hold_story.place(story.dfid))
    found = findings.verify_all().findings
    assert any(words in str(item) for item in found), found
    assert kind in {item.fault for item in found}


def test_the_commands_place_and_release(story: Story) -> None:
    flow, why = str(story.dfid), ("--reason", "they sue")
    assert run("place_hold", "case-1", "--flow", flow, *why) == f"placed case-1 on {flow}\n"
    assert "keeps nothing yet" in run("place_hold", "case-1", "--subject", "order:0", *why)
    assert "keeps nothing yet" not in run("place_hold", "case-1", "--subject", SUBJECT, *why)
    with pytest.raises(CommandError, match=r"Nothing was erased.* case-1 of "):
        run("erase_flow", flow, *why)
    with pytest.raises(CommandError, match="A live hold case-1 keeps this already"):
        run("place_hold", "case-1", "--flow", flow, *why)
    assert run("release_hold", "case-1", "--flow", flow, *why) == f"released case-1 on {flow}\n"
    assert run("release_hold", "case-1", "--subject", SUBJECT, *why).startswith("released")
    with pytest.raises(CommandError, match="No live hold case-1 keeps"):
        run("release_hold", "case-1", "--flow", flow, *why)
    with pytest.raises(CommandError, match="not the id of a flow"):
        run("place_hold", "case-1", "--flow", "no-id", *why)
    assert run("erase_flow", flow, *why).startswith("erased")


def test_a_busy_database_is_said(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_story.place(story.dfid)

    def busy(work: Callable[[], Any]) -> None:
        raise transactions.BusyError

    monkeypatch.setattr(transactions, "retry_on_conflict", busy)
    for command, name in (("place_hold", "other"), ("release_hold", hold_story.NAME)):
        with pytest.raises(CommandError, match="nothing was changed"):
            run(command, name, "--flow", str(story.dfid), "--reason", "x")

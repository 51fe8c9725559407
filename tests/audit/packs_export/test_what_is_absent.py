"""What a pack leaves out, and says so: rewritten and removed rows, and erased words."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model

from audit.models import Payload
from audit.packs import sources
from audit.packs.contents import EMPTIED
from escalations.models import Decision, EffectStatement, Evidence, Question
from runtime.contexts.models import Snapshot
from runtime.core import clock
from runtime.flows.models import Intent, Outcome, Proposal, Verdict
from runtime.maintenance.services import payloads
from runtime.registry.models import Bundle
from tests.audit.packs_export.test_packs_of_flows import Flows, opened
from tests.support import exported_packs, worlds
from tests.support.exported_packs import Pack

pytestmark = pytest.mark.django_db
flows = worlds.opened(opened)

# Table and column, and the flow, the kind of entry and the field that name its digest.
ROWS: list[tuple[type[Model], str, str, str, str]] = [
    (Snapshot, "body", "overridden", "context:compiled", "context_ref"),
    (Proposal, "body", "overridden", "proposal:submitted", "proposal_digest"),
    (Verdict, "input", "overridden", "verdict:given", "input_digest"),
    (Verdict, "body", "overridden", "verdict:given", "verdict_digest"),
    (Bundle, "body", "overridden", "verdict:given", "policy_bundle_hash"),
    (Intent, "requests", "overridden", "intent:created", "request_digest"),
    (Outcome, "deviations", "accepted", "outcome:recorded", "outcome_digest"),
    (Evidence, "body", "overridden", "escalation:opened", "evidence_hash"),
    (Decision, "statement", "overridden", "escalation:decided", "statement_digest"),
    (Question, "statement", "aborted", "information:requested", "statement_digest"),
    (EffectStatement, "statement", "stated", "effect:stated", "statement_digest"),
]


def digest_of(pack: Pack, kind: str, field: str) -> str:
    """The digest in the first entry of a kind."""
    found: str = next(body["payload"][field] for body in pack.flow() if body["kind"] == kind)
    return found


def is_whole(pack: Pack, folder: Path) -> bool:
    """What is absent with a reason is listed, and no fault of the pack."""
    code, answer = exported_packs.verified(pack, folder)
    return (code, answer["findings"], answer["absent"]) == (0, [], pack.absent())


@pytest.mark.parametrize(
    ("model", "column", "name", "kind", "field"), ROWS, ids=[f"{row[0].__name__}.{row[1]}" for row in ROWS]
)
def test_rewritten_bytes_are_named_and_never_shipped(
    flows: Flows, tmp_path: Path, model: type[Model], column: str, name: str, kind: str, field: str
) -> None:
    dfid = getattr(flows, name)
    digest = digest_of(exported_packs.make(dfid), kind, field)
    rows = model._default_manager.all()
    for row in rows:
        setattr(row, column, b'{"rewritten":true}')
        row.save(update_fields=[column])
    pack = exported_packs.again(dfid)
    assert pack.absent()[digest] == "the stored bytes do not match the ledger"
    assert not pack.holds('"rewritten"')
    assert set(pack.objects()) | set(pack.absent()) == set(pack.named())
    assert is_whole(pack, tmp_path)


def test_bytes_that_are_gone_are_said_to_be(flows: Flows, tmp_path: Path) -> None:
    digest = digest_of(exported_packs.make(flows.accepted), "context:compiled", "context_ref")
    Snapshot.objects.filter(flow=flows.accepted).delete()
    pack = exported_packs.again(flows.accepted)
    assert pack.absent() == {digest: "no longer stored"}
    assert is_whole(pack, tmp_path)


def test_rows_that_cannot_be_read_end_no_export(flows: Flows) -> None:
    exported_packs.make(flows.accepted)
    held = sources.NOT_READABLE if connection.vendor == "sqlite" else sources.DIFFERENT
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("UPDATE runtime_outcome SET recorded_at = '2026-99-99 00:00:00'")
        else:
            cursor.execute("UPDATE runtime_outcome SET attempts = 7")
    pack = exported_packs.again(flows.accepted)
    assert pack.absent()[digest_of(pack, "outcome:recorded", "outcome_digest")] == held


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"content": b'"other words"'}, "the stored bytes do not match the ledger"),
        ({"salt": bytes(16)}, "the stored bytes do not match the ledger"),
        ({"content": None, "nonce": None, "salt": None}, EMPTIED),
    ],
)
def test_a_text_that_was_tampered_with_is_named_and_never_shipped(
    flows: Flows, tmp_path: Path, columns: dict[str, Any], why: str
) -> None:
    commitment = digest_of(exported_packs.make(flows.accepted), "outcome:recorded", "receipt_commitment")
    erased_at = clock.now() if None in columns.values() else None
    Payload.objects.filter(commitment=commitment).update(**columns, erased_at=erased_at)
    pack = exported_packs.again(flows.accepted)
    assert pack.absent()[commitment] == why
    assert commitment not in {line["commitment"] for line in pack.lines("payloads.jsonl")}
    assert not pack.holds("other words")
    assert is_whole(pack, tmp_path)


def erase(commitment: str) -> None:
    assert payloads.erase(tenant="default", commitment=commitment, reason="asked for", actor="user:1")


@pytest.mark.parametrize(
    ("name", "kind", "field", "words"),
    [
        ("aborted", "information:requested", "text_commitment", "Which signals?"),
        ("aborted", "information:answered", "answer_commitment", "The short average."),
        ("aborted", "proposal:submitted", "explain_commitment", "The trend is clear."),
        ("overridden", "proposal:submitted", "params_commitment", "150000"),
        ("begun", "flow:opened", "trigger_commitment", '"tick"'),
        ("overridden", "flow:opened", "trigger_commitment", '"tick"'),
    ],
)
def test_erased_words_are_in_no_member(
    flows: Flows, tmp_path: Path, name: str, kind: str, field: str, words: str
) -> None:
    dfid = getattr(flows, name)
    whole = exported_packs.make(dfid)
    assert whole.holds(words)
    same = {body["payload"][field] for body in whole.entries(kind) if body["stream"] == str(dfid)}
    for commitment in same:
        erase(commitment)
    pack = exported_packs.make(dfid)
    assert {line["commitment"] for line in pack.lines("payloads.jsonl") if line.get("erased")} == same
    assert pack.holds(words) == []
    assert set(pack.absent().values()) <= {sources.ERASED}
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"], set(answer["erased"])) == (0, [], same)


def test_an_erased_note_takes_no_evidence_with_it(flows: Flows) -> None:
    pack = exported_packs.make(flows.asked)
    erase(digest_of(pack, "escalation:handed_over", "text_commitment"))
    pack = exported_packs.make(flows.asked)
    assert pack.absent() == {}
    assert not pack.holds("Yours, @sam.")

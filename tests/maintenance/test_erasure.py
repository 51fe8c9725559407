"""The words of a flow are erased: nothing is left of them, and everything that was proved stays proved."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import models, transaction

from audit import canonical, erasures, events, signing
from audit.events import Kind
from audit.models import LedgerEntry, Payload
from audit.packs import verify
from audit.verification import findings
from escalations.models import Decision, Escalation, Evidence
from runtime.contexts.models import Snapshot
from runtime.contracts.incident import IncidentState, LinkKind, Severity
from runtime.contracts.problem import Problem
from runtime.contracts.states import ERASED_FEEDBACK
from runtime.core import clock
from runtime.core.models import Answer
from runtime.flows.models import Feedback, Flow, Proposal, Verdict
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.incidents.services.incidents import Wanted
from runtime.maintenance.services import erasure, pack_jobs, payloads
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import ReplayDifference
from tests.support import erased_story, exported_packs, incident_story
from tests.support.erased_story import SUBJECT, WORD, Story

TENANT = "default"
pytestmark = pytest.mark.django_db


def erase(*flows: UUID, **changes: Any) -> erasure.Erased:
    asked: dict[str, Any] = {"tenant": TENANT, "dfids": flows, "reason": "asked for", "actor": "user:1"}
    answer = erasure.erase(**{**asked, **changes})
    assert isinstance(answer, erasure.Erased), answer
    return answer


def erased(dfid: UUID) -> erasure.ErasedFlow:
    answer = erase(dfid)
    assert not answer.kept, answer
    (done,) = answer.flows
    return done


def found() -> list[str]:
    return [str(item) for item in findings.verify_all().findings]


def places_of(words: str) -> set[str]:
    """Every column of every table in which these words stand."""
    places = set()
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if not isinstance(field, models.BinaryField | models.CharField | models.TextField):
                continue
            for cell in model._default_manager.values_list(field.attname, flat=True):
                text = cell if isinstance(cell, str) else bytes(cell or b"").decode(errors="replace")
                if words in text:
                    places.add(f"{model._meta.label}.{field.name}")
    return places


@pytest.fixture
def story(db: None) -> Story:
    return erased_story.told()


def test_what_was_said_is_in_no_column_of_no_table_any_more(story: Story) -> None:
    before = places_of(WORD)
    # It is encrypted.
    assert "audit.Payload.content" not in before
    assert before >= {
        "escalations.Decision.justification",
        "escalations.Decision.statement",
        "escalations.Evidence.body",
        "escalations.Question.answer",
        "escalations.Question.statement",
        "escalations.Question.text",
        "runtime.Feedback.body",
        "runtime.Flow.trigger",
        "runtime.Proposal.explain",
        "runtime.Verdict.input",
    }
    done = erased(story.dfid)
    assert places_of(WORD) == set()
    assert done.payloads == Payload.objects.filter(content=None).count() > 3
    entry = LedgerEntry.objects.get(kind=Kind.FLOW_ERASED)
    assert (entry.stream, entry.actor) == (str(story.dfid), "user:1")
    assert entry.payload["reason"] == "asked for"
    assert entry.payload["counts"] == dict(done.counts)
    assert Flow.objects.get().erased_at is not None


def test_of_a_signed_statement_the_digest_stays_checkable(story: Story) -> None:
    decision = Decision.objects.get()
    statement = bytes(decision.statement)
    digest = canonical.digest(statement)
    erased(story.dfid)
    found_again = erasures.find(tenant=TENANT, dfid=story.dfid)
    assert found_again is not None
    signature, key_id = found_again.statements[digest]
    public_key = signing.signer().public_key
    assert key_id == signing.key_id_of(public_key)
    assert signing.is_signed(erasures.signed_bytes(digest), bytes.fromhex(signature), public_key)
    row = Decision.objects.get()
    # Whoever still has the statement can check the original signature, which is where it was.
    assert signing.is_signed(statement, bytes(row.signature), public_key)
    assert (row.action, row.approver_id, bytes(row.statement)) == ("ABORT", story.approver, b"")


def test_a_statement_that_was_not_signed_is_not_attested(story: Story) -> None:
    Decision.objects.update(statement=b'{"forged": true}')
    digest = LedgerEntry.objects.get(kind=Kind.ESCALATION_DECIDED).payload["statement_digest"]
    erased(story.dfid)
    entry = LedgerEntry.objects.get(kind=Kind.FLOW_ERASED)
    assert digest not in {item["statement_digest"] for item in entry.payload["statements"]}
    result = findings.verify_all()
    assert result.findings == []
    assert len(result.not_verified) == 1


AGAIN: tuple[tuple[type[models.Model], str, object], ...] = (
    (Flow, "trigger", b'"again"'),
    (Proposal, "explain", "again"),
    (Proposal, "body", b"{}"),
    (Verdict, "input", b"{}"),
    (Snapshot, "body", b"{}"),
    (Evidence, "body", b"{}"),
    (Decision, "justification", "again"),
    (Escalation, "effect", "again"),
    (Feedback, "body", b"{}"),
)


def test_words_that_are_present_again_are_a_finding(story: Story) -> None:
    erased(story.dfid)
    assert found() == []
    for model, column, value in AGAIN:
        with transaction.atomic():
            model._default_manager.update(**{column: value})
            named = f"{model._meta.model_name}.{column} was erased but is present again"
            assert all(named in item for item in found()), found()
            assert found(), named
            replayed = flow_replay.replay(tenant=TENANT, dfid=story.dfid)
            assert isinstance(replayed, ReplayDifference), named
            transaction.set_rollback(True)
    assert found() == []


def test_words_that_were_emptied_without_an_entry_are_a_finding(story: Story) -> None:
    Evidence.objects.update(body=b"")
    assert any("evidence.body" in item for item in found())
    Flow.objects.update(erased_at=clock.now())
    assert any("evidence.body" in item for item in found())
    assert any("flow.erased_at" in item for item in found())


def test_a_payload_that_is_put_back_is_a_finding(story: Story) -> None:
    row = Payload.objects.order_by("pk").first()
    assert row is not None
    erased(story.dfid)
    Payload.objects.filter(pk=row.pk).update(
        salt=row.salt, key=row.key, nonce=row.nonce, content=row.content, erased_at=None
    )
    assert any("was erased but is present again" in item for item in found())


def test_nothing_is_erased_twice_but_what_came_since(story: Story) -> None:
    erased(story.dfid)
    assert erase(story.dfid) == erasure.Erased(flows=[])
    assert LedgerEntry.objects.filter(kind=Kind.FLOW_ERASED).count() == 1
    erased_story.note(story)
    assert found() == []
    assert erased(story.dfid).payloads == 1
    assert found() == []
    assert LedgerEntry.objects.filter(kind=Kind.FLOW_ERASED).count() == 2


def test_a_text_that_was_erased_before_is_no_obstacle(story: Story) -> None:
    opened = LedgerEntry.objects.get(kind=Kind.FLOW_OPENED).payload["trigger_commitment"]
    payloads.erase(tenant=TENANT, commitment=opened, reason="first", actor="system")
    erased(story.dfid)
    assert found() == []


def test_a_dry_run_changes_nothing_and_says_the_same(story: Story) -> None:
    entries = LedgerEntry.objects.count()
    would = erase(story.dfid, dry_run=True)
    assert LedgerEntry.objects.count() == entries
    assert places_of(WORD)
    assert erase(story.dfid) == would


def test_no_digest_of_words_can_be_guessed_and_each_is_named(story: Story) -> None:
    told = {entry.kind: entry.payload for entry in LedgerEntry.objects.filter(stream=str(story.dfid))}
    revisions = Evidence.objects.count()
    done = erased(story.dfid)
    # Context, proposal, input and verdict, two statements, and each revision of the evidence.
    assert (done.guessable, len(done.digests)) == (0, 6 + revisions)
    assert told[Kind.PROPOSAL_SUBMITTED]["proposal_digest"] in {item.digest for item in done.digests}
    # Whoever guesses every word of the proposal still lacks the salt, which is stored nowhere any more.
    erased_story.note(story)
    assert erased(story.dfid).guessable == 0


def test_a_digest_whose_bytes_have_no_salt_is_named_as_guessable(story: Story) -> None:
    body = canonical.decode(bytes(Snapshot.objects.get().body))
    salt = body.pop("salt")
    Snapshot.objects.update(body=canonical.encode(body))
    would = erase(story.dfid, dry_run=True)
    assert isinstance(would, erasure.Erased)
    [named] = [item for item in would.flows[0].digests if item.is_guessable]
    assert named.field == "context_ref"
    assert named.digest != canonical.digest(canonical.encode(body))
    assert named.digest == canonical.digest(canonical.encode({**body, "salt": salt}))
    assert would.flows[0].guessable == 1


def test_digests_of_what_no_pack_holds_are_named_too(story: Story) -> None:
    lifted, undo, nothing = "a" * 64, "b" * 64, canonical.digest(b"[]")
    at, of = clock.now(), str(story.escalation_id)
    with transaction.atomic():
        flow = locks.lock_flow(dfid=story.dfid, tenant=TENANT)
        assert flow is not None
        journal = Journal(flow=flow, actor="system", at=at)
        journal.add(
            events.IntentResumed(intent_id=of, lifted=("notional",), lifted_digest=lifted, valid_until=at),
            events.IntentResumed(intent_id=of, lifted=(), lifted_digest=nothing, valid_until=at),
            events.IntentDelayed(intent_id=of, not_before=at, undo_digest=undo, undo_salted=True),
            events.IntentDelayed(intent_id=of, not_before=at, undo_digest="c" * 64),
        )
        journal.write()
    would = erase(story.dfid, dry_run=True)
    named = {item.digest: (item.field, item.is_guessable) for item in would.flows[0].digests}
    assert (named[lifted], named[undo]) == (("lifted_digest", True), ("undo_digest", False))
    # Of a window before there were salts; and that nothing was lifted tells nobody anything.
    assert named["c" * 64] == ("undo_digest", True)
    assert nothing not in named
    assert would.flows[0].guessable == 2


def test_an_agent_that_repeats_its_calls_learns_that_they_are_erased(story: Story) -> None:
    story.propose_again().ok()
    erased(story.dfid)
    story.propose_again().problem(410, "FLOW_ERASED")
    opened = story.caller.post("/flows", {"trigger": f"{WORD} wrote"}, story.opened_by)
    opened.problem(410, "FLOW_ERASED")
    assert Flow.objects.count() == 1
    assert set(Answer.objects.values_list("body", "request_digest")) == {(b"", "")}
    heard = story.caller.get(f"/flows/{story.dfid}/feedback").ok()
    assert {tuple(item["data"]) for item in heard["events"]} == {("erased",)}
    assert canonical.decode(ERASED_FEEDBACK) == {"erased": True}


def test_a_pack_of_an_erased_flow_is_whole_and_says_who_erased_it(story: Story, tmp_path: Path) -> None:
    erased(story.dfid)
    pack = exported_packs.make(story.dfid)
    assert pack.holds(WORD) == []
    status, report = exported_packs.verified(pack, tmp_path)
    assert (status, report["findings"]) == (0, [])
    assert "Nothing that was erased with the flow is here" in "".join(report["proved"])
    assert any("erased on" in line and "asked for" in line for line in report["not_proved"])
    assert set(report["absent"].values()) == {"erased: these bytes repeat words that were erased"}


def test_flows_of_a_subject_are_erased_together(story: Story) -> None:
    other = erased_story.again(story.caller, number=2)
    flows = erasure.list_of_subject(tenant=TENANT, subject=SUBJECT)
    assert flows == [story.dfid, other.dfid]
    assert erasure.list_of_subject(tenant=TENANT, subject="symbol:MSFT") == []
    done = erase(*flows)
    assert [flow.dfid for flow in done.flows] == flows
    assert places_of(WORD) == set()
    assert found() == []


def test_with_one_that_must_be_kept_none_of_a_subject_is_erased(story: Story) -> None:
    live = erased_story.propose(story.caller, number=2)
    answer = erase(story.dfid, live)
    assert [(kept.dfid, kept.why) for kept in answer.kept] == [(live, "The flow has not ended.")]
    assert Flow.objects.filter(erased_at=None).count() == 2


def test_a_flow_that_is_looked_into_is_kept_until_its_incident_is_closed(story: Story) -> None:
    author = story.approver
    links = [Wanted(LinkKind.FLOW, str(story.dfid))]
    incident = incident_story.open_by(author, links=links, severity=Severity.SEV4)
    for to in (None, IncidentState.MITIGATED, IncidentState.RESOLVED):
        if to is not None:
            assert not isinstance(incident_story.move(incident, to, author), Problem)
        (kept,) = erase(story.dfid).kept
        assert kept.why.startswith("An incident that is not closed links the flow:")
    assert places_of(WORD) != set()
    assert not isinstance(incident_story.move(incident, IncidentState.CLOSED, author), Problem)
    erased(story.dfid)
    assert found() == []


def test_a_pack_that_was_made_before_is_not_handed_out_any_more(story: Story) -> None:
    place = pack_jobs.Place(TENANT, "user:1", story.dfid)

    def make() -> None:
        job = pack_jobs.start(place, run=lambda work: work())
        assert job.state is pack_jobs.State.READY

    make()
    assert pack_jobs.take(place) is not None
    erased(story.dfid)
    assert pack_jobs.take(place) is None
    make()
    assert pack_jobs.take(place) is not None


def test_flows_of_others_are_left_out(story: Story) -> None:
    assert erase(story.dfid, tenant="other").flows == []
    assert Flow.objects.get().erased_at is None


def test_more_flows_than_fit_into_a_transaction_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "MOST_AT_ONCE", 1)
    answer = erasure.erase(tenant=TENANT, dfids=[UUID(int=1), UUID(int=2)], reason="x", actor="system")
    assert isinstance(answer, Problem)


def test_a_pack_in_which_erased_bytes_are_present_is_not_whole(story: Story) -> None:
    statement = bytes(Decision.objects.get().statement)
    kept = exported_packs.make(story.dfid)
    erased(story.dfid)
    pack = exported_packs.make(story.dfid)
    assert codes_of(pack.members) == set()
    present = {**pack.members, f"objects/{canonical.digest(statement)}": statement}
    assert "ERASED_PRESENT" in codes_of(present)
    opened = {**pack.members, "payloads.jsonl": kept.members["payloads.jsonl"]}
    assert "ERASED_PRESENT" in codes_of(opened)


def test_a_digest_that_somebody_else_signed_is_a_finding(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "SIGNED_PREFIX", b"another form\n")
    erased(story.dfid)
    monkeypatch.undo()
    assert any("digest of the erased statement is not signed" in item for item in found())
    assert "SIGNATURE_WRONG" in codes_of(exported_packs.make(story.dfid).members)


def codes_of(members: Mapping[str, bytes]) -> set[str]:
    """What the program of the pack finds in these members."""
    return {finding.code for finding in verify.verify_members(members).findings}

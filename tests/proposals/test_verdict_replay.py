"""Replay: every stored verdict comes out of its stored input again, or the first that does not is named."""

from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from audit import canonical
from escalations.contracts import Action
from runtime.flows.models import Proposal, Verdict
from runtime.kernel.gate import pipeline
from runtime.proposals.queries import verdict_replay
from runtime.registry.models import Bundle
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> factories.Desk:
    """A history with every decision, by agent and by person."""
    desk = factories.desk()
    desk.propose(desk.open())
    desk.propose(desk.open(), params={})
    escalation = desk.escalate()
    factories.write("price.AAPL", 18_960)
    factories.decide(escalation, factories.user(), Action.OVERRIDE, conditions=("params.quantity == 5",))
    return desk


def difference() -> verdict_replay.Different:
    """The first difference, which there is."""
    found = verdict_replay.replay()
    assert isinstance(found, verdict_replay.Different), found
    return found


def command(*arguments: str) -> str:
    """What the command prints."""
    printed = StringIO()
    call_command("replay_verdicts", *arguments, stdout=printed)
    return printed.getvalue()


def test_an_untouched_history_is_equal(desk: factories.Desk) -> None:
    assert verdict_replay.replay() == verdict_replay.Equal(4)
    assert command() == "4 verdicts replayed: all identical, byte for byte.\n"


def test_one_flow_is_replayed_alone(desk: factories.Desk) -> None:
    flow_id = Proposal.objects.filter(author__startswith="user:").get().flow_id
    assert verdict_replay.replay(dfid=flow_id) == verdict_replay.Equal(2)
    assert command("--dfid", str(flow_id)).startswith("2 verdicts")
    assert verdict_replay.replay(dfid=uuid4()) == verdict_replay.Equal(0)


def test_a_history_longer_than_a_chunk_is_read_to_its_end(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_replay, "_CHUNK", 1)
    assert verdict_replay.replay() == verdict_replay.Equal(4)


def test_replay_reads_today_nothing_of_the_world(desk: factories.Desk) -> None:
    factories.write("price.AAPL", 1)
    factories.policy_kind(gate_cases.kind(version="9.0.0", rules=[{"id": "R_NO", "require": "false"}]))
    assert verdict_replay.replay() == verdict_replay.Equal(4)


def test_an_upgrade_that_changes_an_old_verdict_is_found(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "STAGES", pipeline.STAGES[:-1])
    assert difference().what == "verdict bytes"


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ("input", "input digest"),
        ("input_digest", "input digest"),
        ("body", "ledger"),
        ("decision", "decision"),
    ],
)
def test_a_row_that_was_changed_is_named(desk: factories.Desk, column: str, what: str) -> None:
    row = Verdict.objects.order_by("proposal_id").first()
    assert row is not None
    changed: dict[str, Any] = {
        "input": bytes(row.input).replace(b'"BUY"', b'"SELL"'),
        "input_digest": "0" * 64,
        "body": bytes(row.body).replace(b'"ACCEPT"', b'"REJECT"'),
        "decision": "REJECT",
    }
    Verdict.objects.filter(pk=row.pk).update(**{column: changed[column]})
    found = difference()
    assert (found.proposal_id, found.dfid, found.what) == (row.proposal_id, row.proposal.flow_id, what)
    with pytest.raises(CommandError, match=f"{row.proposal_id} of flow {row.proposal.flow_id}: {what}"):
        command()


def test_rules_that_were_changed_are_named(desk: factories.Desk) -> None:
    Bundle.objects.update(body=gate_cases.rules(manifest=None).to_bytes())
    assert difference().what == "bundle digest"


def test_an_input_changed_with_its_digest_differs_from_the_ledger(desk: factories.Desk) -> None:
    for row in Verdict.objects.all():
        changed = bytes(row.input).replace(b'"BUY"', b'"SELL"')
        Verdict.objects.filter(pk=row.pk).update(input=changed, input_digest=canonical.digest(changed))
    assert difference().what == "ledger"


def test_an_input_that_cannot_be_read_is_a_difference(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(judgement: bytes, rules_in_force: bytes) -> bytes:
        raise ValueError("the rules are not those that were in force")

    monkeypatch.setattr(pipeline, "judge_bytes", unreadable)
    assert difference().what == "input"


def test_a_verdict_without_an_entry_is_a_difference(desk: factories.Desk) -> None:
    other = desk.open()
    row = Proposal.objects.order_by("proposal_id").first()
    assert row is not None
    Proposal.objects.filter(pk=row.pk).update(flow_id=other.dfid)
    found = difference()
    assert (found.what, found.stored) == ("ledger", "no entry")

"""`manage.py erase_flow` and `erase_subject`: what they print, and what they refuse."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.core import transactions
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from tests.support import erased_story, restored_backup
from tests.support.erased_story import SUBJECT, Story

pytestmark = pytest.mark.django_db
UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def story(db: None) -> Story:
    return erased_story.told()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_a_flow_is_erased_and_what_was_emptied_is_printed(story: Story) -> None:
    said = run("erase_flow", str(story.dfid), "--reason", " asked for ")
    assert said.startswith(f"erased {story.dfid}\n")
    assert "  proposal.explain: 1\n" in said
    assert "digests without a salt that stay" in said
    entry = LedgerEntry.objects.get(kind="flow:erased")
    assert (entry.actor, entry.payload["reason"]) == ("system", "asked for")
    assert findings.verify_all().findings == []
    assert "nothing left to erase" in run("erase_flow", str(story.dfid), "--reason", "again")


def test_a_dry_run_says_what_would_go(story: Story) -> None:
    said = run("erase_flow", str(story.dfid), "--reason", "to see", "--dry-run")
    assert said.startswith(f"would erase {story.dfid}\n")
    assert not LedgerEntry.objects.filter(kind="flow:erased").exists()


def test_every_flow_of_a_subject_is_erased(story: Story) -> None:
    other = erased_story.again(story.caller, number=2)
    said = run("erase_subject", SUBJECT, "--reason", "asked for")
    assert f"erased {story.dfid}\n" in said
    assert f"erased {other.dfid}\n" in said
    assert not Flow.objects.filter(erased_at=None).exists()


def test_one_flow_of_a_subject_that_must_be_kept_keeps_all(story: Story) -> None:
    live = erased_story.propose(story.caller, number=2)
    with pytest.raises(CommandError, match=f"Nothing was erased. {live}: The flow has not ended."):
        run("erase_subject", SUBJECT, "--reason", "asked for")
    assert not LedgerEntry.objects.filter(kind="flow:erased").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["erase_flow", "no-id", "--reason", "x"], "not the id of a flow"),
        (["erase_flow", UNKNOWN, "--reason", "x"], "There is no flow"),
        (["erase_subject", "order:0", "--reason", "x"], "No decision record names this subject"),
    ],
)
def test_what_is_not_there_is_not_erased(arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        run(*arguments)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "a\x00b"])
def test_a_reason_is_needed(story: Story, reason: str) -> None:
    with pytest.raises(CommandError, match="Give a reason"):
        run("erase_flow", str(story.dfid), "--reason", reason)
    assert Flow.objects.get().erased_at is None


def test_a_busy_database_is_said(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(work: Callable[[], Any]) -> None:
        raise transactions.BusyError

    monkeypatch.setattr(transactions, "retry_on_conflict", busy)
    with pytest.raises(CommandError, match="nothing was erased"):
        run("erase_flow", str(story.dfid), "--reason", "x")


def test_nothing_is_erased_while_a_restored_backup_waits_for_an_admin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = restored_backup.keep_mark(tmp_path, monkeypatch)
    story = erased_story.told()
    restored_backup.restore(place)
    assert epochs.compare_with_mark()
    with pytest.raises(CommandError, match="Nothing was erased"):
        run("erase_flow", str(story.dfid), "--reason", "x")

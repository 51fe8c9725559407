"""`manage.py replay` and `GET /api/v1/audit/flows/{dfid}/replay`: what they answer, and how they end."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from audit.models import LedgerEntry
from dir_console.management.commands import replay
from runtime.flows.models import Verdict
from runtime.flows.services import flows
from runtime.maintenance.services import payloads
from runtime.registry.models import Bundle
from tests.support import api_client, factories, worlds

pytestmark = pytest.mark.django_db
UNKNOWN = "01890000-0000-7000-8000-000000000000"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@dataclass(frozen=True)
class Desk:
    """An accepted flow, one that was rejected, and one that was opened in a trace."""

    accepted: UUID
    rejected: UUID
    traced: UUID
    auditor: str


def build() -> Desk:
    desk = factories.desk()
    accepted, rejected = desk.open(), desk.open()
    desk.propose(accepted)
    desk.propose(rejected, params={})
    traced = flows.open_flow(
        agent=desk.agent, trigger={"why": "trace"}, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01"
    )
    return Desk(accepted.dfid, rejected.dfid, UUID(traced.dfid), api_client.auditor_key())


desk = worlds.shared(build)


@pytest.fixture
def changed(desk: Desk, django_db_blocker: Any) -> Iterator[Desk]:
    """The flows after one of them was changed."""
    with django_db_blocker.unblock(), transaction.atomic():
        Verdict.objects.filter(proposal__flow=desk.accepted).update(decision="REJECT")
        yield desk
        transaction.set_rollback(True)


def run(*arguments: str) -> tuple[str, str]:
    """What the command prints, and what it says on the way."""
    printed, said = StringIO(), StringIO()
    call_command("replay", *arguments, stdout=printed, stderr=said)
    return printed.getvalue(), said.getvalue()


def refused(*arguments: str) -> tuple[CommandError, str]:
    """How the command ends, and what it printed before."""
    printed = StringIO()
    with pytest.raises(CommandError) as ended:
        call_command("replay", *arguments, stdout=printed, stderr=StringIO())
    return ended.value, printed.getvalue()


def read(dfid: object, token: str) -> api_client.Heard:
    return api_client.Caller(token).get(f"/audit/flows/{dfid}/replay")


def test_says_that_a_flow_is_equal(desk: Desk) -> None:
    entries = LedgerEntry.objects.filter(stream=str(desk.accepted)).count()
    assert run(str(desk.accepted)) == (f"Replay equal: 1 verdicts and {entries} entries.\n", "")
    answer = json.loads(run(str(desk.accepted), "--json")[0])
    assert (answer["result"], answer["verdicts"], answer["checked"]["entries"]) == (
        "replay_equal",
        1,
        entries,
    )


def test_ends_with_1_and_both_values_where_something_differs(changed: Desk) -> None:
    error, printed = refused(str(changed.accepted), "--json")
    assert error.returncode == 1
    assert f"flow {changed.accepted}, entry " in str(error)
    assert 'tamper_detected at /verdict/decision: recorded "ACCEPT", found "REJECT".' in str(error)
    answer = json.loads(printed)
    assert (answer["result"], answer["class"]) == ("difference", "tamper_detected")
    assert (answer["path"], answer["recorded"], answer["found"]) == ("/verdict/decision", "ACCEPT", "REJECT")
    assert refused(str(changed.accepted))[1] == ""


def test_replays_all_flows_and_reports_how_far_it_is(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_REPORT_EVERY", 2)
    printed, said = run("--all")
    assert printed == "Replay equal: 2 verdicts of 3 flows.\n"
    assert said == "2 of 3 flows\n3 of 3 flows\n"
    answer = json.loads(run("--all", "--json")[0])
    assert answer["checked"]["entries"] == LedgerEntry.objects.filter(stream__regex="^[0-9a-f-]{36}$").count()
    assert (answer["result"], answer["flows"], answer["differences"]) == ("replay_equal", 3, 0)


def test_counts_the_differences_and_names_the_first(changed: Desk) -> None:
    Bundle.objects.update(body=b"{}")
    error, printed = refused("--all", "--json")
    assert error.returncode == 1
    assert str(error).startswith("2 of 3 flows differ. The first: flow ")
    answer = json.loads(printed)
    assert (answer["class"], answer["dfid"]) == ("changed_policy", str(changed.accepted))
    assert (answer["flows"], answer["differences"]) == (3, 2)


def test_replays_the_flows_of_a_trace(desk: Desk) -> None:
    assert run("--trace-id", TRACE)[0] == "Replay equal: 0 verdicts of 1 flows.\n"
    assert json.loads(run("--trace-id", TRACE.upper(), "--json")[0])["result"] == "replay_equal"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([UNKNOWN], f"There is no flow {UNKNOWN}."),
        (["x"], "x is no DFID."),
        (["--trace-id", "f" * 32], f"No flow was opened in the trace {'f' * 32}."),
        (["--trace-id", "x"], "x is no trace id: it has 32 hexadecimal digits."),
    ],
)
def test_ends_with_2_where_there_is_nothing_to_replay(desk: Desk, arguments: list[str], words: str) -> None:
    error, _ = refused(*arguments)
    assert (str(error), error.returncode) == (words, 2)


def test_takes_one_choice_of_flows(desk: Desk) -> None:
    for arguments in ([], ["--all", "--trace-id", TRACE]):
        with pytest.raises(CommandError):
            run(*arguments)


def test_an_erased_flow_ends_with_2_alone_and_is_counted_among_all(changed: Desk) -> None:
    opened = LedgerEntry.objects.get(stream=str(changed.rejected), kind="flow:opened")
    payloads.erase(
        tenant="default", commitment=opened.payload["trigger_commitment"], reason="asked", actor="user:1"
    )
    error, printed = refused(str(changed.rejected), "--json")
    assert str(error) == "Not replayable, since words were erased: trigger_commitment of entry 1."
    assert error.returncode == 2
    answer = json.loads(printed)
    assert (answer["result"], answer["why"]) == ("not_replayable", "erased")
    Verdict.objects.filter(proposal__flow=changed.accepted).update(decision="ACCEPT")
    assert run("--all")[0] == "Replay equal: 1 verdicts of 3 flows. 1 are not replayable: erased.\n"


def test_the_audit_api_answers_the_same(changed: Desk) -> None:
    equal = read(changed.rejected, changed.auditor)
    assert (equal.status, equal.body["result"]) == (200, "replay_equal")
    differs = read(changed.accepted, changed.auditor)
    assert (differs.status, differs.body["class"], differs.body["path"]) == (
        200,
        "tamper_detected",
        "/verdict/decision",
    )
    assert (differs.body["recorded"], differs.body["found"]) == ("ACCEPT", "REJECT")


def test_the_audit_api_refuses_an_unknown_flow_and_those_who_may_not_read(desk: Desk) -> None:
    read(UNKNOWN, desk.auditor).problem(404, "FLOW_NOT_FOUND")
    read(desk.accepted, "").problem(401, "UNAUTHENTICATED")
    read(desk.accepted, api_client.feed_key()).problem(403, "UNAUTHORIZED")

"""verify_ledger on a real history: each way to change it in the database is found and named."""

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from audit import findings, ledger, row_checks
from audit.chain import Fault
from audit.models import LedgerEntry
from audit.permissions import Role
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus
from runtime.models import Flow
from runtime.queries import clock
from runtime.services import agents, flows, users
from tests import factories
from tests.services import book, history, tampering, tampers
from tests.services.history import History

# A PostgreSQL column refuses these.
TYPED = frozenset(name for name in tampers.CASES if name.startswith("cell of another type"))


@pytest.fixture(scope="module")
def told(migrated: None, django_db_blocker: Any) -> Iterator[History]:
    """One history for all cases; each is taken back after it, and the whole at the end."""
    with (
        pytest.MonkeyPatch.context() as patch,
        django_db_blocker.unblock(),
        book.opened() as target,
        transaction.atomic(),
    ):
        patch.setattr(settings, "DIR_EGRESS_ALLOW", ["127.0.0.1"])
        yield history.write(target, patch)
        transaction.set_rollback(True)


@pytest.fixture
def undone(told: History, django_db_blocker: Any) -> Iterator[History]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield told
        transaction.set_rollback(True)


def verify(*options: str) -> str:
    printed = StringIO()
    call_command("verify_ledger", *options, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def test_the_control_is_whole(undone: History) -> None:
    result = findings.verify_all()
    assert result.findings == []
    assert result.entries == LedgerEntry.objects.count() > 100
    assert verify().startswith(f"The ledger is whole: {result.entries} entries")


@pytest.mark.parametrize("name", tampers.CASES)
def test_a_change_is_found_and_named(undone: History, name: str) -> None:
    try:
        with transaction.atomic():
            tampers.CASES[name](undone)
    except DatabaseError:
        assert connection.vendor == "postgresql"
        assert name in TYPED
        return
    assert tampers.triggers_are_there() == (name != "triggers dropped")
    with pytest.raises(CommandError, match=r"The first bad entry: tenant .*, stream .+, seq \d+: [A-Z_]+, "):
        verify()


@pytest.mark.parametrize("name", tampers.UNPROVABLE)
def test_what_is_not_found_is_known_and_said(undone: History, name: str) -> None:
    """When one of these is found, it belongs among the cases above and in docs/ledger.md."""
    tampers.UNPROVABLE[name](undone)
    assert findings.verify_all().findings == []


@pytest.mark.parametrize("sql", ["UPDATE audit_ledgerentry SET actor = 'x'", "DELETE FROM audit_ledgerentry"])
def test_the_triggers_refuse_what_plain_sql_tries(undone: History, sql: str) -> None:
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


def test_every_finding_is_listed_up_to_a_bound(undone: History, monkeypatch: pytest.MonkeyPatch) -> None:
    tampering.quietly("UPDATE audit_ledgerentry SET actor = 'user:9' WHERE seq = 2")
    every = findings.verify_all()
    assert len(every.findings) > 3
    assert {item.fault for item in every.findings} >= {Fault.COLUMN_MISMATCH}
    monkeypatch.setattr(findings, "MOST_FINDINGS", 2)
    bounded = findings.verify_all()
    assert len(bounded.findings) == 2
    assert bounded.more == len(every.findings) - 2


def test_json_holds_findings_and_the_public_key(undone: History) -> None:
    whole = json.loads(verify("--json"))
    assert whole["whole"] is True
    assert whole["not_proved"]
    assert list(whole["public_keys"])
    Flow.objects.filter(dfid=undone.aborted).update(reason="DEADLINE_PASSED")
    printed = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_ledger", "--json", stdout=printed, stderr=StringIO())
    (found,) = json.loads(printed.getvalue())["findings"]
    assert (found["stream"], found["fault"]) == (str(undone.aborted), "ROW_MISMATCH")


def test_an_erased_payload_with_its_entry_is_no_finding(undone: History) -> None:
    erased = LedgerEntry.objects.get(stream=str(undone.aborted), kind="proposal:submitted").payload
    assert ledger.erase_payload(
        tenant="default",
        commitment=erased["params_commitment"],
        actor="user:1",
        at=clock.now(),
        reason="asked for",
    )
    result = findings.verify_all()
    assert (result.findings, result.erased) == ([], 1)


def test_what_is_written_during_the_walk_is_no_finding(
    undone: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes on: a proposal, a fact, a status and a person come after the entries were read."""
    real = findings._rows

    def rows_and_then_writes() -> Iterator[Any]:
        yield from list(real())
        factories.write("price.AAPL", 20_000)
        agents.set_status(
            tenant="default", agent_id="analyst", status=AgentStatus.ACTIVE, reason="again", actor="user:1"
        )
        users.add(tenant="default", name="late", password="a long phrase", roles=[Role.AUDITOR], actor="x")
        flow = Flow.objects.filter(agent__agent_id="trader").latest("opened_at")
        opened = flows.open_flow(agent=flow.agent, trigger={"why": "more"})
        assert not isinstance(opened, Problem)

    monkeypatch.setattr(findings, "_rows", rows_and_then_writes)
    assert findings.verify_all().findings == []


def test_many_flows_are_compared_batch_by_batch(undone: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_checks, "STREAMS_AT_ONCE", 1)
    assert findings.verify_all().findings == []
    tampers.CASES["proposal.body"](undone)
    assert [item.fault for item in findings.verify_all().findings] == [Fault.ROW_MISMATCH]

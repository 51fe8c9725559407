"""Statements that are compiled once find and store what the plain ORM does, for whatever is proposed."""

import copy
from collections.abc import Hashable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from unittest import mock
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.db.models import Model, Q, QuerySet
from django.db.models.constants import OnConflict
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit import statements
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.flows.models import Flow, Intent
from runtime.flows.queries import risk_signals
from runtime.registry.models import Agent, Bundle
from runtime.registry.services import agents
from runtime.resources.models import Resource
from tests.properties.test_one_call_like_three import CHANGES, one
from tests.support import factories, gate_cases

SEEN = st.none() | st.dictionaries(
    st.sampled_from(["price.AAPL", "market.state", "cash.free", "no.such"]), st.integers(1, 3), min_size=1
)
READ, CHANGE, INSERT = statements.Read.rows, statements.Change.run, statements.insert
STORE = statements._Waiting._store_rows


class Compared:
    """Runs each statement beside its plain form, and keeps which were compared."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.changed: set[str] = set()
        self.stored: set[type[Model]] = set()
        self.most_at_once = 0

    def read(self, statement: statements.Read[Any], *form: Hashable, **values: Any) -> list[Any]:
        """The rows of a `Read`, which are those of its QuerySet, related rows included."""
        found, plain = READ(statement, *form, **values), statement.plain(*form, **values)
        assert [described(row) for row in found] == [described(row) for row in plain]
        for compiled in filter(None, statement._forms.values()):
            # Nor a time: it would be that of the first call for ever.
            assert not any(isinstance(param, str | datetime) for param in compiled.params)
        self.reads.add(statement.plain.__name__)
        return found

    def change(self, statement: statements.Change, **values: Any) -> int:
        """How many rows a `Change` changed: it leaves the table as `update` leaves it."""
        rows, changes = statement.plain(**values)
        with transaction.atomic():
            count = rows.update(**changes)
            expected = whole_table(rows.model)
            transaction.set_rollback(True)
        assert CHANGE(statement, **values) == count
        assert whole_table(rows.model) == expected
        self.changed.add(statement.plain.__name__)
        return count

    def insert(self, rows: Sequence[Model], **options: Any) -> None:
        """Store rows, which leaves the table as `bulk_create` leaves it."""
        if not rows:
            return
        model = type(rows[0])
        with transaction.atomic():
            renewed = options.get("update_fields")
            conflict: dict[str, Any] = {
                "ignore_conflicts": "on_conflict" in options and not renewed,
                "update_conflicts": bool(renewed),
                "unique_fields": options.get("unique_fields"),
                "update_fields": renewed,
            }
            model._default_manager.bulk_create([copy.copy(row) for row in rows], **conflict)
            expected = whole_table(model)
            transaction.set_rollback(True)
        INSERT(rows, **options)
        waits = statements._here.waiting is not None and not options.get("needs_keys")
        assert whole_table(model) == expected
        assert all(
            not row._state.adding and (row.pk is not None or waits or "on_conflict" in options)
            for row in rows
        )
        self.stored.add(model)

    def store(self, waiting: statements._Waiting, stored: Any) -> None:
        """Store rows that waited for each other, which leaves their tables as `bulk_create` of each does."""
        models = {form[0] for form, _ in stored}
        with transaction.atomic():
            for (model, _, on_conflict, unique_fields, update_fields), rows in stored:
                model._default_manager.bulk_create(
                    [copy.copy(row) for row in rows],
                    ignore_conflicts=on_conflict is OnConflict.IGNORE,
                    update_conflicts=on_conflict is OnConflict.UPDATE,
                    unique_fields=unique_fields or None,
                    update_fields=update_fields or None,
                )
            expected = {model: whole_table(model) for model in models}
            transaction.set_rollback(True)
        STORE(waiting, stored)
        assert {model: whole_table(model) for model in models} == expected
        self.stored |= models
        self.most_at_once = max(self.most_at_once, len(models))


def described(row: Any, within: tuple[Model, ...] = ()) -> Any:
    """A row of a read, with all its columns and those of the rows it brought along.

    `within` are the rows that brought it: a row and one that refers to it bring each other.
    """
    if not isinstance(row, Model):
        return row
    if any(row is other for other in within):
        return type(row), row.pk
    columns = {name: value for name, value in vars(row).items() if not name.startswith("_")}
    brought = {
        name: described(related, (*within, row))
        for name, related in row._state.fields_cache.items()
        if related is None or isinstance(related, Model)
    }
    return type(row), row._state.db, row._state.adding, columns, brought


def whole_table(model: type[Model]) -> list[Any]:
    """Every row as the database holds it, in the order of keys; a key that the database gives is left out."""
    names = [
        str(field.column)
        for field in model._meta.concrete_fields
        if field.column != getattr(model._meta.auto_field, "column", None)
    ]
    quote = connection.ops.quote_name
    key, columns = quote(str(model._meta.pk.column)), ", ".join(quote(name) for name in names)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {quote(model._meta.db_table)} ORDER BY {key}")  # noqa: S608
        return [
            tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
            for row in cursor.fetchall()
        ]


def act_and_attempt() -> None:
    """Generated proposals in one call, and the attempts that follow."""
    claims = [{"resource": "units", "amount": "params.quantity"}]
    kind = gate_cases.kind(
        context_current="allowed",
        claims=claims,
        steps=[{"id": "order", "executor": "simulated", "target": "broker"}],
    )
    desk = factories.desk(kind=kind)
    factories.configure_target("broker", base_url="http://127.0.0.1:9")
    Resource.objects.create(
        name="units", unit="units", capacity=20, configured_at=clock.now(), configured_by="system"
    )

    @settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(changes=CHANGES, seen=SEEN)
    def compare(changes: dict[str, Any], seen: dict[str, int] | None) -> None:
        with transaction.atomic():
            one(desk, changes if seen is None else {**changes, "seen": seen})
            for intent in Intent.objects.all():
                attempting.attempt(intent.pk, owner="test")
            transaction.set_rollback(True)

    compare()


@pytest.mark.django_db
def test_statements_find_and_store_what_the_plain_form_does() -> None:
    compared = Compared()
    with (
        mock.patch.object(statements.Read, "rows", lambda *form, **values: compared.read(*form, **values)),
        mock.patch.object(statements.Change, "run", lambda *form, **values: compared.change(*form, **values)),
        mock.patch.object(statements, "insert", compared.insert),
    ):
        act_and_attempt()
    assert len(compared.reads) >= 24
    assert len(compared.changed) >= 7
    assert len(compared.stored) >= 15


@pytest.mark.django_db
def test_rows_that_wait_for_each_other_are_stored_as_the_plain_form_stores_them() -> None:
    compared = Compared()
    store = mock.patch.object(
        statements._Waiting, "_store_rows", lambda waiting, rows: compared.store(waiting, rows)
    )
    with store:
        act_and_attempt()
    assert len(compared.stored) >= 12
    assert compared.most_at_once >= 8


def bundle(digest: str) -> Bundle:
    return Bundle(digest=digest * 64, body=b"{}", created_at=clock.now())


def kept() -> set[str]:
    return set(Bundle.objects.values_list("digest", flat=True))


@pytest.mark.django_db
def test_nobody_inside_sees_that_rows_wait() -> None:
    a, b, c = (bundle(letter) for letter in "abc")
    waiting = statements.Read(_bundles)
    with statements.together():
        statements.insert([a])
        assert statements.is_waiting(a)
        assert not a._state.adding
        a.body = b"[]"  # as it is when it goes
        assert [bytes(row.body) for row in waiting.rows()] == [b"[]"]
        assert not statements.is_waiting(a)
        statements.insert([b])
        assert Bundle.objects.filter(pk=b.pk).update(body=b"[1]") == 1
        with statements.together():  # of the same batch
            statements.insert([c])
        assert statements.is_waiting(c)
    assert kept() == {a.pk, b.pk, c.pk}
    assert statements._here.waiting is None


@pytest.mark.django_db
def test_what_is_rolled_back_no_longer_waits() -> None:
    a, b, c = (bundle(letter) for letter in "abc")
    with statements.together():
        statements.insert([a])
        with suppress(KeyError), transaction.atomic():
            statements.insert([b])
            raise KeyError
        with transaction.atomic():
            statements.insert([c])
    assert kept() == {a.pk, c.pk}
    with suppress(KeyError), statements.together():
        statements.insert([b])
        raise KeyError
    assert kept() == {a.pk, c.pk}
    assert not statements.is_waiting(b)


def _rewritten(*, digest: str, body: bytes) -> tuple[QuerySet[Bundle], dict[str, Any]]:
    return Bundle.objects.filter(pk=digest), {"body": body}


class Lost(Exception):
    """No such row."""


@pytest.mark.django_db
def test_a_change_that_is_last_is_made_after_the_rows_that_wait() -> None:
    a, b, change = bundle("a"), bundle("b"), statements.Change(_rewritten)
    change.run_last(Lost, digest=_stored(b), body=b"[0]")
    assert bytes(Bundle.objects.get(pk=b.pk).body) == b"[0]", "at once, where nothing is stored together"
    flow = _flow()
    with CaptureQueriesContext(connection) as captured, statements.together():
        change.run_last(Lost, digest=a.pk, body=b"[1]")
        statements.insert([a])
        statements.insert([flow])
    verbs = [query["sql"].partition(" ")[0] for query in captured]
    assert verbs == (
        ["WITH", "UPDATE"] if connection.vendor == "postgresql" else ["INSERT", "INSERT", "UPDATE"]
    )
    assert bytes(Bundle.objects.get(pk=a.pk).body) == b"[1]"


@pytest.mark.django_db
def test_nobody_inside_sees_that_a_change_is_to_be_last() -> None:
    a, b, change = bundle("a"), bundle("b"), statements.Change(_rewritten)
    _stored(a)
    with statements.together():
        change.run_last(Lost, digest=a.pk, body=b"[1]")
        assert bytes(Bundle.objects.get(pk=a.pk).body) == b"[1]"
        with suppress(KeyError), transaction.atomic():
            change.run_last(Lost, digest=a.pk, body=b"[2]")
            raise KeyError
        change.run_last(Lost, digest=b.pk, body=b"[3]")
        with pytest.raises(Lost):
            kept()
        change.run_last(Lost, digest=a.pk, body=b"[4]")
    assert bytes(Bundle.objects.get(pk=a.pk).body) == b"[4]"


@pytest.mark.django_db
def test_a_change_that_is_last_and_lost_is_told_at_the_end() -> None:
    change = statements.Change(_rewritten)
    with pytest.raises(Lost):
        change.run_last(Lost, digest="a" * 64, body=b"[]")
    reached: list[str] = []

    def together() -> None:
        with statements.together():
            change.run_last(Lost, digest="a" * 64, body=b"[]")
            reached.append("the end")

    with pytest.raises(Lost):
        together()
    assert reached == ["the end"]
    assert statements._here.waiting is None


def _stored(row: Bundle) -> str:
    statements.insert([row])
    return row.pk


def _flow() -> Flow:
    desk = factories.desk()
    at = clock.now()
    return Flow(tenant="default", agent=desk.agent, trigger=b"{}", opened_at=at, updated_at=at)


@pytest.mark.django_db
def test_rows_that_wait_go_in_one_statement_where_the_database_takes_them() -> None:
    desk = factories.desk()
    flow = {"tenant": "default", "agent": desk.agent, "trigger": b"{}", "opened_at": clock.now()}
    flows = [Flow(updated_at=clock.now(), **flow) for _ in range(3)]
    bundles = [bundle(letter) for letter in "abc"]
    with CaptureQueriesContext(connection) as captured, statements.together():
        for one_flow, one_bundle in zip(flows, bundles, strict=True):
            statements.insert([one_flow])
            statements.insert([one_bundle])
    assert len(captured) == (1 if connection.vendor == "postgresql" else 2)
    assert Flow.objects.count() == 3
    assert len(kept()) == 3


@pytest.mark.django_db
def test_all_that_an_action_writes_takes_the_fast_road_to_bytes() -> None:
    """What is not plain, an enum among it, is written by code that takes ten times as long."""
    desk = factories.desk(kind=gate_cases.kind(context_current="allowed"))
    one(desk, {})
    with mock.patch("rfc8785.dumps", side_effect=AssertionError("the slow road")):
        one(desk, {})


@pytest.mark.django_db
def test_a_partial_index_is_used_by_a_statement_that_is_planned_once() -> None:
    """What risk counts: proposals of an agent that were tries of a rejected one, of which there are few."""
    statement = risk_signals._TRIES
    with mock.patch.object(statements._Compiled, "run", autospec=True, return_value=[]) as compiled:
        statement.rows(agent=1, since=clock.now())
    sql = compiled.call_args.args[0].sql
    assert "> ''" in sql, sql


@pytest.mark.django_db
def test_columns_that_the_database_fills_and_deferred_ones_are_read_and_stored_as_ever() -> None:
    desk = factories.desk()
    statement = statements.Read(_names_only)
    (found,) = statement.rows(name=desk.agent.agent_id)
    assert found.get_deferred_fields() == _names_only(name=desk.agent.agent_id).get().get_deferred_fields()
    assert found.status == desk.agent.status
    assert found == desk.agent


@pytest.mark.django_db
def test_refuses_a_value_that_is_equal_to_nothing() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        statements.Read(_by_name).rows(name=None)


@pytest.mark.django_db
def test_refuses_a_uuid_as_text_and_a_text_as_uuid() -> None:
    """SQLite keeps UUIDs without hyphens: a text with them is found nowhere."""
    dfid = uuid4()
    with pytest.raises(TypeError, match="is a str"):
        statements.Read(_by_dfid).rows(dfid=str(dfid))
    with pytest.raises(TypeError, match="is a str"):
        statements.Read(_by_dfids).rows(dfids=[str(dfid)])
    with pytest.raises(TypeError, match="is a UUID"):
        statements.Read(_by_name).rows(name=dfid)
    with transaction.atomic(), pytest.raises(TypeError, match="is a str"):
        statements.Change(_traced).run(dfid=str(dfid))
    assert statements.Read(_by_dfids).rows(dfids=[dfid]) == []


@pytest.mark.django_db
def test_many_names_are_one_form_for_each_number_of_them() -> None:
    desk, statement = factories.desk(), statements.Read(_by_names)
    assert statement.rows(names=[]) == []
    assert statement.rows(names=["nobody"]) == []
    assert statement.rows(names=["nobody", desk.agent.agent_id]) == [desk.agent]
    assert statement.rows(names=[desk.agent.agent_id]) == [desk.agent]


@pytest.mark.once
def test_locks_and_stores_inside_a_transaction_alone() -> None:
    with pytest.raises(transaction.TransactionManagementError):
        agents.lock_by_pk(pk=1)
    with pytest.raises(transaction.TransactionManagementError):
        statements.insert([Agent()])
    with pytest.raises(transaction.TransactionManagementError):
        statements.Change(_renamed).run(name="a", to="b")
    with pytest.raises(transaction.TransactionManagementError), statements.together():
        pytest.fail("nothing is stored outside a transaction")


def _bundles() -> QuerySet[Bundle]:
    return Bundle.objects.order_by("digest")


def _by_name(*, name: str) -> QuerySet[Agent]:
    return Agent.objects.filter(agent_id=name)


def _names_only(*, name: str) -> QuerySet[Agent]:
    return Agent.objects.filter(agent_id=name).only("agent_id")


def _renamed(*, name: str, to: str) -> tuple[QuerySet[Agent], dict[str, str]]:
    return Agent.objects.filter(agent_id=name), {"agent_id": to}


def _by_dfid(*, dfid: UUID) -> QuerySet[Intent]:
    return Intent.objects.filter(Q(state="PENDING") & ~Q(flow=dfid))


def _by_dfids(*, dfids: list[UUID]) -> QuerySet[Flow]:
    return Flow.objects.filter(dfid__in=dfids)


def _traced(*, dfid: UUID) -> tuple[QuerySet[Flow], dict[str, str]]:
    return Flow.objects.filter(dfid=dfid), {"traceparent": ""}


def _by_names(*, names: list[str]) -> QuerySet[Agent]:
    return Agent.objects.filter(agent_id__in=names)

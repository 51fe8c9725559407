"""Statements that are built and compiled once and then run with other values; an insert of many rows at once.

Building a QuerySet and compiling it to SQL costs several times what the database needs to answer. So the hot
path names its reads once, each by the plain QuerySet that it is (`Read.plain`). That form is the definition:
the statement is compiled from it, and a property test compares what the two find.
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Aggregate, Expression, IntegerField, Model, QuerySet, UUIDField, Value
from django.db.models.constants import OnConflict
from django.db.models.query import FlatValuesListIterable, ModelIterable, get_related_populators
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

from audit import statement_inserts, statement_rows, statement_text

Row = TypeVar("Row")
AnyModel = TypeVar("AnyModel", bound=Model)
# Forms of one read that are kept: a form more makes room for itself.
_MOST_FORMS: Final = 256
# A longer list is rare, and each length of it would be a form of its own.
_LONGEST: Final = 200
_AS_IT_IS: Final = frozenset({str, int})
# Rows of one INSERT: a database bounds the parameters of a statement.
_MOST_AT_ONCE: Final = 100


class Slot(Expression):
    """Stands in a QuerySet where a value will be: compared as a value is, since both are one placeholder."""

    def __init__(self, name: str, place: int | None = None) -> None:
        super().__init__()
        self.name, self.place = name, place
        # Whether the column that it is compared with holds UUIDs; None where that is not known.
        self.takes_uuid: bool | None = None

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Any:
        """A placeholder whose parameter is this slot, to be filled."""
        return "%s", [self]

    def fill(self, values: Mapping[str, Any], database: BaseDatabaseWrapper) -> Any:
        """The parameter of this slot among `values`, as the database takes it."""
        value = values[self.name] if self.place is None else values[self.name][self.place]
        if self.takes_uuid is not None and isinstance(value, UUID) is not self.takes_uuid:
            # SQLite keeps UUIDs as other texts than people write: this would find nothing without a word.
            holds = "UUIDs" if self.takes_uuid else "no UUIDs"
            raise TypeError(f"{self.name} is a {type(value).__name__}, and its column holds {holds}")
        return _parameter(value, database)


class _Stored(Slot):
    """Stands where the new value of a column will be: stored as `save` stores it, None included."""

    def __init__(self, name: str, column: statement_rows.Column) -> None:
        super().__init__(name)
        self.column = column

    def fill(self, values: Mapping[str, Any], database: BaseDatabaseWrapper) -> Any:
        return self.column.param(values[self.name], database)


class Read(Generic[Row]):
    """A read that is compiled once for each database and form.

    `build(*form, **values)` gives its QuerySet. What is in `form` (hashable) is part of the statement, such
    as which namespaces are read; `values` are filled in: text, integers, days, times, UUIDs, and lists of
    these for `__in`, of which each length is a form of its own. A list that is too long for that is asked for
    by the plain form.
    """

    def __init__(self, build: Callable[..., QuerySet[Any, Row]]) -> None:
        self.plain = build
        self._forms: dict[Hashable, _Compiled | None] = {}

    def rows(self, *form: Hashable, **values: Any) -> list[Row]:
        """All rows, as `list(self.plain(*form, **values))` gives them.

        Raises TypeError for a value of another type, a UUID as text and None among them: it would be equal to
        nothing in SQL.
        """
        if any(isinstance(value, list) and len(value) > _LONGEST for value in values.values()):
            return list(self.plain(*form, **values))
        database = _database()
        compiled = self._compiled(database, form, values)
        return [] if compiled is None else compiled.run(values, database)

    def first(self, *form: Hashable, **values: Any) -> Row | None:
        """The first row; None where there is none. `build` bounds the rows and says which is the first."""
        return next(iter(self.rows(*form, **values)), None)

    def exists(self, *form: Hashable, **values: Any) -> bool:
        """Whether there is any row. `build` bounds the rows, as `any_of` does."""
        return bool(self.rows(*form, **values))

    def _compiled(
        self, database: BaseDatabaseWrapper, form: tuple[Hashable, ...], values: Mapping[str, Any]
    ) -> "_Compiled | None":
        lengths = tuple(len(value) if isinstance(value, list) else None for value in values.values())
        key = (database.alias, database.vendor, form, tuple(values), lengths)
        try:
            return self._forms[key]
        except KeyError:
            slots = {name: _slots(name, value) for name, value in values.items()}
            compiled = _compile(self.plain(*form, **slots))
        while len(self._forms) >= _MOST_FORMS:
            self._forms.pop(next(iter(self._forms)), None)
        self._forms[key] = compiled
        return compiled


def any_of(rows: QuerySet[AnyModel, Any]) -> QuerySet[AnyModel, Any]:
    """At most one of the rows, by its key: for `Read.exists`."""
    return rows.order_by().values_list("pk", flat=True)[:1]


def as_one(rows: QuerySet[AnyModel, Any], **aggregates: Aggregate) -> QuerySet[AnyModel, Any]:
    """Aggregates over all of the rows, for `Read.first`: None where there is no row.

    `QuerySet.aggregate` is no QuerySet that could be compiled once.
    """
    one = Value(1, output_field=IntegerField())
    grouped = rows.order_by().select_related(None).annotate(one=one).values("one")
    found: QuerySet[AnyModel, Any] = grouped.annotate(**aggregates).values_list(*aggregates)
    return found


@dataclass(frozen=True, slots=True)
class _Compiled:
    """SQL with its parameters (slots, and values that are always the same), and how its rows are read."""

    sql: str
    params: Sequence[Any]
    locks: bool
    read: Callable[[Sequence[Any]], list[Any]]

    def run(self, values: Mapping[str, Any], database: BaseDatabaseWrapper) -> list[Any]:
        if self.locks:
            _require_transaction(database)
        return self.read(statement_text.rows(database, self.sql, _filled(self.params, values, database)))


class Change:
    """An update that is compiled once for each database.

    `build(**values)` gives the QuerySet of what to change, and the new values of its columns. It is filled in
    as a `Read` is; a new value that is one of `values` is stored as `save` stores it, None included.
    """

    def __init__(self, build: Callable[..., tuple[QuerySet[Any, Any], Mapping[str, Any]]]) -> None:
        self.plain = build
        self._forms: dict[Hashable, tuple[str, Sequence[Any]]] = {}
        self._table: str | None = None

    def run_last(self, lost: type[Exception], **values: Any) -> None:
        """Change one row after all that is stored together, so that its lock is held for the shortest time.

        Raises `lost` where it is not one row: here, at the end of `together`, or at a statement in between
        that names the table, before which the change is made.
        """
        if _here.waiting is not None:
            _here.waiting.add_change(self, lost, values)
        elif self.run(**values) != 1:
            raise lost

    def table(self, values: Mapping[str, Any]) -> str:
        """The name of the table that it changes with such values, as statements have it."""
        if self._table is None:
            model: type[Model] = self.plain(**values)[0].model
            self._table = statement_inserts.table(model)
        return self._table

    def run(self, **values: Any) -> int:
        """Change the rows inside the caller's transaction; how many those are."""
        database = _database()
        _require_transaction(database)
        key = (database.alias, database.vendor, tuple(values))
        try:
            sql, params = self._forms[key]
        except KeyError:
            sql, params = self._forms[key] = _compile_change(
                *self.plain(**{name: Slot(name) for name in values})
            )
        return statement_text.changed(database, sql, _filled(params, values, database))


def _compile_change(rows: QuerySet[Any, Any], changes: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    query: Any = rows.query.chain(UpdateQuery)
    _note_columns(query.where)
    query.add_update_values({name: _new_value(rows.model, name, value) for name, value in changes.items()})
    return statement_text.with_constants(*query.get_compiler(connection=connection).as_sql())


def _new_value(model: type[Model], name: str, value: Any) -> Any:
    if type(value) is not Slot:
        return value
    column: Any = model._meta.get_field(name)
    return _Stored(value.name, statement_rows.Column(column, connection.vendor))


def _filled(params: Sequence[Any], values: Mapping[str, Any], database: BaseDatabaseWrapper) -> list[Any]:
    return [item.fill(values, database) if isinstance(item, Slot) else item for item in params]


def _slots(name: str, value: Any) -> Any:
    return [Slot(name, place) for place in range(len(value))] if isinstance(value, list) else Slot(name)


def _parameter(value: Any, database: BaseDatabaseWrapper) -> Any:
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, UUID):
        return value if database.features.has_native_uuid_field else value.hex
    if isinstance(value, datetime):
        return database.ops.adapt_datetimefield_value(value)
    if isinstance(value, date):
        return database.ops.adapt_datefield_value(value)
    raise TypeError(f"a statement takes no {type(value).__name__}")


def _compile(rows: QuerySet[Any, Any]) -> _Compiled | None:
    """The statement of a QuerySet of whole rows or of `values_list`; None where it can find nothing."""
    _note_columns(rows.query.where)
    compiler = rows.query.get_compiler(connection=connection)
    try:
        sql, params = statement_text.with_constants(*compiler.as_sql())
    except EmptyResultSet:
        return None
    are_models = issubclass(rows._iterable_class, ModelIterable)
    read = _reader_of_models(compiler) if are_models else _reader_of_values(rows, compiler)
    return _Compiled(sql, params, rows.query.select_for_update, read)


def _note_columns(condition: Any) -> None:
    """Tell each slot of a condition whether it is compared with UUIDs."""
    for part in getattr(condition, "children", ()):
        _note_columns(part)
    compared = getattr(condition, "rhs", None)
    # A list of slots has become an expression of its own.
    for slot in getattr(compared, "source_expressions", [compared]):
        if isinstance(slot, Slot):
            column = condition.lhs.output_field
            slot.takes_uuid = isinstance(getattr(column, "target_field", column), UUIDField)


def _reader_of_models(compiler: SQLCompiler) -> Callable[[Sequence[Any]], list[Any]]:
    """How Django's `ModelIterable` reads rows, with all that is the same for each worked out before."""
    told = compiler.klass_info
    columns = slice(told["select_fields"][0], told["select_fields"][-1] + 1)
    names = [column[0].target.attname for column in compiler.select[columns]]
    related = get_related_populators(told, compiler.select, connection.alias)  # type: ignore[call-arg]
    statement_rows.make_quickly(related)
    converted, make = statement_rows.converter(compiler), statement_rows.maker(told["model"], names)
    annotated, alias = tuple(compiler.annotation_col_map.items()), connection.alias

    def read(rows: Sequence[Any]) -> list[Any]:
        found = []
        for row in converted(rows):
            made = make(alias, row[columns])
            for populator in related:
                populator.populate(row, made)
            for name, place in annotated:
                setattr(made, name, row[place])
            found.append(made)
        return found

    return read


def _reader_of_values(
    rows: QuerySet[Any, Any], compiler: SQLCompiler
) -> Callable[[Sequence[Any]], list[Any]]:
    converted = statement_rows.converter(compiler)
    if issubclass(rows._iterable_class, FlatValuesListIterable):
        return lambda found: [row[0] for row in converted(found)]
    return lambda found: [tuple(row) for row in converted(found)]


def insert(
    rows: Sequence[AnyModel],
    *,
    on_conflict: OnConflict | None = None,
    unique_fields: tuple[str, ...] = (),
    update_fields: tuple[str, ...] = (),
    needs_keys: bool = False,
) -> None:
    """Store new rows of one model inside the caller's transaction, as `bulk_create` does.

    Keys that the database gives are set on the rows, unless a conflict is allowed, or the rows wait for
    others (`together`): with `needs_keys` they do not wait.
    """
    database = _database()
    _require_transaction(database)
    if _here.waiting is not None and rows and not needs_keys:
        _here.waiting.add(rows, on_conflict, unique_fields, update_fields)
        return
    for start in range(0, len(rows), _MOST_AT_ONCE):
        batch = rows[start : start + _MOST_AT_ONCE]
        model = type(batch[0])
        names = statement_inserts.given(model, batch[0])
        form = (model, len(batch), names, on_conflict, unique_fields, update_fields)
        statement_inserts.insertion(database.vendor, *form, returning=True).store(batch, database)


# The form of an insert: model, columns, and what becomes of a conflict.
_Form = tuple[type[Model], tuple[str, ...], OnConflict | None, tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Waiting:
    """New rows that wait, by the form of their insert; changes after them; the tables of both, quoted."""

    rows: list[tuple[_Form, list[Model]]] = field(default_factory=list)
    changes: list[tuple[Change, type[Exception], Mapping[str, Any]]] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)

    def add(
        self,
        added: Sequence[Model],
        on_conflict: OnConflict | None,
        unique_fields: tuple[str, ...],
        update_fields: tuple[str, ...],
    ) -> None:
        """Let rows of one model wait, with others of their form where that cannot matter."""
        model = type(added[0])
        names = statement_inserts.given(model, added[0])
        form = (model, names, on_conflict, unique_fields, update_fields)
        self.tables.add(statement_inserts.table(model))
        for row in added:
            row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
        for other, rows in self.rows:
            if other == form and on_conflict is None and len(rows) + len(added) <= _MOST_AT_ONCE:
                rows.extend(added)
                return
        for start in range(0, len(added), _MOST_AT_ONCE):
            self.rows.append((form, list(added[start : start + _MOST_AT_ONCE])))

    def add_change(self, change: Change, lost: type[Exception], values: Mapping[str, Any]) -> None:
        """Let a change wait for the rows."""
        self.tables.add(change.table(values))
        self.changes.append((change, lost, values))

    def store(self) -> None:
        """Send rows, on PostgreSQL in one statement and elsewhere in one for each form; then the changes."""
        rows, changes = self.rows, self.changes
        self._forget()
        if rows:
            self._store_rows(rows)
        for change, lost, values in changes:
            if change.run(**values) != 1:
                raise lost

    def _forget(self) -> None:
        self.rows, self.changes, self.tables = [], [], set()

    def _store_rows(self, stored: Sequence[tuple[_Form, list[Model]]]) -> None:
        database = _database()
        parts = [
            (statement_inserts.insertion(database.vendor, model, len(rows), *rest, returning=False), rows)
            for (model, *rest), rows in stored
        ]
        if database.vendor == "postgresql":
            *others, last = [insertion.sql for insertion, _ in parts]
            named = ", ".join(f"part_{number} AS ({sql})" for number, sql in enumerate(others))
            sql = f"WITH {named} {last}" if others else last
            values = [value for insertion, rows in parts for value in insertion.params(rows, database)]
            statement_text.changed(database, sql, values)
            return
        for insertion, rows in parts:
            insertion.store(rows, database)

    def before(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        """Around every other statement: one that names a table for which something waits comes after it."""
        if self.tables:
            if sql.startswith("SAVEPOINT"):
                self.store()
            elif sql.startswith("ROLLBACK TO"):
                self._forget()  # all added since the savepoint
            elif not self.tables.isdisjoint(statement_text.names(sql)):
                self.store()
        return execute(sql, params, many, context)


class _Here(threading.local):
    """What this thread stores together, if anything, and in which database: finding it takes a while."""

    waiting: _Waiting | None = None
    database: BaseDatabaseWrapper | None = None


_here: Final = _Here()


def _database() -> BaseDatabaseWrapper:
    return connections[DEFAULT_DB_ALIAS] if _here.database is None else _here.database


@contextmanager
def together() -> Iterator[None]:
    """Let rows that are stored inside wait for each other, and go to the database at once, at the end.

    They go earlier where a statement reads or changes their tables, so nothing inside sees that they waited.
    What is set on a row meanwhile is stored as well; keys of the database are not set on it. The order is
    free, since constraints between tables are checked at the commit.
    """
    if _here.waiting is not None:
        yield
        return
    database, waiting = _database(), _Waiting()
    _require_transaction(database)
    _here.waiting, _here.database = waiting, database
    try:
        with database.execute_wrapper(waiting.before):
            yield
        waiting.store()
    finally:
        _here.waiting = _here.database = None


def is_waiting(row: Model) -> bool:
    """Whether a row waits for others: what is set on it now is stored with it."""
    rows = () if _here.waiting is None else _here.waiting.rows
    return any(row is one for (model, *_), waiting in rows if model is type(row) for one in waiting)


def _require_transaction(database: BaseDatabaseWrapper) -> None:
    if not database.in_atomic_block:
        raise transaction.TransactionManagementError("rows are locked and stored inside a transaction")

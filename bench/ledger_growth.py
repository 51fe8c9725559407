"""Searches and a timeline in a large ledger beside a small one: what grows with it is slower by the ratio.

A flow that the console itself carried out is copied, with new ids, hashes, signatures and records, so that
every search reads what it would read in production. Then one action after the other is taken in. Run as
`python -m bench.ledger_growth COUNT...` in the environment of a stand, with the agent's key in BENCH_KEY, it
fills the ledger to each count of entries in turn, and prints times as JSON.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from bench import action, environment, load
from bench.environment import ROOT, Stand

SMALL = 1000
# Flows that are written in one transaction, and how often each search is asked, of other keys each time.
BATCH, ASKED = 500, 60
TIMELINE = "timeline of a flow"


def run(stand: Stand, entries: int) -> dict[str, float]:
    """Measure on one database with few entries and with many, and print both."""
    action.load(stand)
    key = environment.manage(stand, "issue_key", "bench-agent")
    with (
        environment.embedded(stand)
        if stand.name == "SQLite"
        else environment.served(stand, "dir_console.asgi:application") as base_url
    ):
        load.proposals(base_url, key, load.CLIENTS)
    command = [sys.executable, "-m", "bench.ledger_growth", str(SMALL), str(entries)]
    environ = {**stand.environ, "BENCH_KEY": key}
    done = subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE, text=True)
    small, large = json.loads(done.stdout)
    took = f"{large['bytes'] / 1e6:>10.0f}{large['filled_s']:>10.0f}"
    print(f"{stand.name:<12}{'the database in MB, seconds to fill it':<44}{took}")
    print(f"{stand.name:<12}{'entries':<44}{small['entries']:>10}{large['entries']:>10}")
    for what, ms in large["p95_ms"].items():
        before = small["p95_ms"][what]
        print(f"{stand.name:<12}{f'{what}, p95, ms, ratio':<44}{before:>10.2f}{ms:>10.2f}{ms / before:>8.1f}")
    before, ms = small["action_ms"], large["action_ms"]
    print(f"{stand.name:<12}{'an action, p50, ms, ratio':<44}{before:>10.2f}{ms:>10.2f}{ms / before:>8.1f}")
    return ratios_of(stand.name, small, large)


def ratios_of(name: str, small: Mapping[str, Any], large: Mapping[str, Any]) -> dict[str, float]:
    """What of both carries over to other runs with as many entries: single searches vary too much."""
    grown = {what: ms / small["p95_ms"][what] for what, ms in large["p95_ms"].items()}
    sizes = f"with {large['entries']:,} entries / with {small['entries']:,}"
    timeline = grown.pop(TIMELINE)
    return {
        f"{name}: p95 of the timeline of a flow, {sizes}": timeline,
        f"{name}: p95 of searches, the median, {sizes}": statistics.median(grown.values()),
        f"{name}: p95 of searches, the one that grows most, {sizes}": max(grown.values()),
        f"{name}: p50 of an action, {sizes}": large["action_ms"] / small["action_ms"],
    }


@dataclass(frozen=True)
class Story:
    """The rows of one flow as they are stored: what is copied."""

    flow: Any
    entries: Sequence[Any]
    records: dict[int, Any]
    terms: dict[int, list[tuple[str, str]]]


def _story() -> Story:
    from audit.models import DecisionRecord, LedgerEntry, RecordTerm
    from runtime.flows.models import Flow

    dfids = DecisionRecord.objects.filter(terminal=True).order_by("id").values_list("dfid", flat=True)
    dfid = dfids.first() or DecisionRecord.objects.order_by("id").values_list("dfid", flat=True)[0]
    records = {row.seq + 1: row for row in DecisionRecord.objects.filter(dfid=dfid)}
    terms = {
        seq: list(RecordTerm.objects.filter(record=row.pk).values_list("name", "value"))
        for seq, row in records.items()
    }
    entries = list(LedgerEntry.objects.filter(stream=str(dfid)).order_by("seq"))
    return Story(Flow.objects.get(pk=dfid), entries, records, terms)


@dataclass
class Copies:
    """The rows of some copies, ready to be written."""

    flows: list[Any]
    entries: list[Any]
    records: list[Any]
    terms: list[list[tuple[str, str]]]

    def add(self, story: Story, dfid: UUID) -> None:
        """One flow more: as the story, under another id, with chain, records and signatures of its own."""
        from audit import canonical, chain
        from audit.models import LedgerEntry

        swaps = {str(story.flow.dfid): str(dfid), story.flow.dfid.hex: dfid.hex}
        prev_hash, before = chain.GENESIS_HASH, b""
        for entry in story.entries:
            if entry.seq in story.records:
                before = self._record(story, entry.seq, dfid, swaps, before)
            body = _swapped(bytes(entry.body), swaps)
            made = chain.entry_hash(prev_hash, body)
            self.entries.append(
                LedgerEntry(
                    tenant=entry.tenant, stream=str(dfid), seq=entry.seq, kind=entry.kind, at=entry.at,
                    actor=entry.actor, body=body, prev_hash=prev_hash, hash=made, xact=0,
                )
            )  # fmt: skip
            prev_hash = made
        assert canonical.decode(self.entries[-1].body)["stream"] == str(dfid)
        columns = {field.attname: getattr(story.flow, field.attname) for field in story.flow._meta.fields}
        self.flows.append(type(story.flow)(**columns | {"dfid": dfid, "head_hash": prev_hash}))

    def _record(self, story: Story, seq: int, dfid: UUID, swaps: dict[str, str], before: bytes) -> bytes:
        from audit import canonical, signing
        from audit.records import dsse, emission, fold

        row, signer = story.records[seq], signing.signer()
        record = canonical.decode(_swapped(bytes(row.body), swaps))
        del record["audit"]
        whole = fold.sealed(record, prev_hash=(before or bytes(32)).hex(), key_id=signer.key_id)
        body = canonical.encode(whole)
        signature = signer.sign(dsse.statement(body))
        made = emission.row_of(row.tenant, whole, body, signature=signature, at=row.at)
        swaps[bytes(row.record_hash).hex()] = whole["audit"]["record_hash"]
        swaps[bytes(row.signature).hex()] = signature.hex()
        self.records.append(made)
        # A subject of each flow's own, so that a search by it finds one record and not all of them.
        named = [(name, _swapped(value.encode(), swaps).decode()) for name, value in story.terms[seq]]
        self.terms.append([*named, ("subject", f"order:{dfid}")])
        return bytes(made.record_hash)

    def store(self) -> None:
        """Write everything in one transaction."""
        from django.db import transaction

        from audit.models import DecisionRecord, RecordTerm

        last = DecisionRecord.objects.order_by("-id").values_list("id", flat=True).first() or 0
        for record in self.records:
            last += 1
            record.pk = last
        with transaction.atomic():
            _insert(self.flows)
            _insert(self.entries)
            _insert(self.records)
            _insert(
                [
                    RecordTerm(tenant=record.tenant, name=name, value=value, record=record.pk)
                    for record, terms in zip(self.records, self.terms, strict=True)
                    for name, value in terms
                ]
            )


def _insert(rows: Sequence[Any]) -> None:
    """Write rows of one table as fast as the database takes them: COPY, or one statement for all of them."""
    from django.db import connection

    meta = rows[0]._meta
    fields = [field for field in meta.concrete_fields if not (field.primary_key and rows[0].pk is None)]
    table, names = meta.db_table, ", ".join(f'"{field.column}"' for field in fields)
    values = (
        [field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields] for row in rows
    )
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            marks = ", ".join("?" for _ in fields)
            insert = f'INSERT INTO "{table}" ({names}) VALUES ({marks})'  # noqa: S608  # names of our own
            # Of the driver itself, whose marks need not be rewritten.
            connection.connection.executemany(insert, values)
            return
        with cursor.copy(f'COPY "{table}" ({names}) FROM STDIN') as copy:
            for each in values:
                copy.write_row(each)


def _swapped(held: bytes, swaps: dict[str, str]) -> bytes:
    for old, new in swaps.items():
        held = held.replace(old.encode(), new.encode())
    return held


def fill(story: Story, entries: int) -> list[UUID]:
    """Copy the story until there are so many entries; the ids of the copies."""
    from django.db import connection

    from audit.models import LedgerEntry
    from runtime.core.ids import new_id

    if connection.vendor == "sqlite":
        # Filling alone: with Django's own 2 MB of cache, every new key of a large index reads a page again.
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA cache_size = -1000000")
            cursor.execute("PRAGMA synchronous = OFF")
    missing = entries - LedgerEntry.objects.count()
    dfids = [new_id() for _ in range(max(0, missing) // len(story.entries))]
    for start in range(0, len(dfids), BATCH):
        copies = Copies([], [], [], [])
        for dfid in dfids[start : start + BATCH]:
            copies.add(story, dfid)
        copies.store()
    _follow_numbers()
    return dfids


def _follow_numbers() -> None:
    """Records have numbers of their own here: those that the console gives next come after them."""
    from django.core.management.color import no_style
    from django.db import connection

    from audit.models import DecisionRecord

    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [DecisionRecord]):
            cursor.execute(statement)


def _searches(story: Story, dfids: Sequence[UUID]) -> dict[str, Callable[[int], object]]:
    """What people and programs look for, by a word for it; each takes the number of the question."""
    from audit.records import queries as records
    from audit.records.queries import RecordFilter
    from runtime.flows.queries import activity, flow_search
    from runtime.flows.queries.flow_search import FlowFilter

    tenant, spread = story.flow.tenant, max(1, len(dfids) // ASKED)
    row = next(iter(story.records.values()))

    def dfid_of(number: int) -> UUID:
        return dfids[number * spread % len(dfids)]

    def record(**asked: Any) -> object:
        return records.search(tenant=tenant, wanted=RecordFilter(**asked))

    def flows(**asked: Any) -> object:
        return flow_search.list_flows(tenant=tenant, wanted=FlowFilter(**asked), before=None)

    def latest(stream: str = "", kind: str = "") -> object:
        return activity.list_latest_entries(tenant=tenant, before=None, stream=stream, kind=kind, size=50)

    found = record(subject=f"order:{dfid_of(0)}")
    assert isinstance(found, records.Found)
    assert found.records, "a copy is not a record that a search shows"
    return {
        "records by subject": lambda n: record(subject=f"order:{dfid_of(n)}"),
        "records by flow": lambda n: record(dfid=dfid_of(n)),
        "records by decision": lambda n: record(decision_key=row.decision_key),
        "records by status": lambda n: record(status=row.status),
        "records by agent": lambda n: record(agent_id=row.agent_id),
        "records by approver": lambda n: record(approver="user:1"),
        "records by rule": lambda n: record(policy_decision="R_MARKET_OPEN"),
        "records by trace": lambda n: record(trace_id=row.trace_id),
        "records by time": lambda n: record(since=row.at),
        "record by id": lambda n: records.get(tenant=tenant, record_id=f"dr_{dfid_of(n).hex}_{row.seq}"),
        "flows, newest": lambda n: flows(),
        "flows by id": lambda n: flows(dfid=str(dfid_of(n))),
        "flows by state": lambda n: flows(state=story.flow.state),
        "flows by kind": lambda n: flows(kind=story.flow.policy_kind),
        "flows by agent": lambda n: flows(agent="bench-agent"),
        "flows by reason, which none has": lambda n: flows(reason="NOTHING_LIKE_IT"),
        "entries, newest": lambda n: latest(),
        "entries by kind": lambda n: latest(kind="verdict:given"),
        "entries by kind, of which there are none": lambda n: latest(kind="epoch:ended"),
        "entries by stream": lambda n: latest(stream=str(dfid_of(n))),
        TIMELINE: lambda n: flow_search.list_entries(tenant=tenant, stream=str(dfid_of(n)), after=0),
    }


def _figures(counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    from django.db import connection

    from audit.models import LedgerEntry

    story, dfids = _story(), []
    for count in counts:
        began = time.perf_counter()
        dfids += fill(story, count)
        filled_s = time.perf_counter() - began
        connection.close()  # searches use a connection as the console has it
        if connection.vendor == "postgresql":  # as autovacuum does; nobody does it on SQLite
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        yield {
            "entries": LedgerEntry.objects.count(),
            "filled_s": filled_s,
            "bytes": _bytes(),
            "p95_ms": {what: _p95_ms(ask) for what, ask in _searches(story, dfids).items()},
            # Last: it adds to the ledger.
            "action_ms": _action_ms(),
        }


def _bytes() -> int:
    """What the database takes on the disk."""
    from django.db import connection

    asked = (
        "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
        if connection.vendor == "sqlite"
        else "SELECT pg_database_size(current_database())"
    )
    with connection.cursor() as cursor:
        cursor.execute(asked)
        return int(cursor.fetchone()[0])


def _action_ms() -> float:
    """An action in one call, in this process."""
    from bench import action_profile

    act = action_profile.acting(os.environ["BENCH_KEY"])
    for _ in range(action_profile.WARM):
        act()
    return statistics.median(_times_ms(lambda _: act()))


def _p95_ms(ask: Callable[[int], object]) -> float:
    return statistics.quantiles(_times_ms(ask), n=20)[-1]


def _times_ms(ask: Callable[[int], object]) -> list[float]:
    times = []
    for number in range(ASKED):
        began = time.perf_counter()
        ask(number)
        times.append((time.perf_counter() - began) * 1000)
    return times


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    django.setup()
    print(json.dumps([*_figures([int(word) for word in sys.argv[1:]])]))

"""The search over flows, records and entries: every key, what each is answered by, paging, and pasted ids."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit import actors, entry_search
from audit.access.roles import Role
from audit.entry_search import EntryFilter
from audit.events import Kind
from audit.models import DecisionRecord, LedgerEntry
from audit.records import queries as records
from audit.records.queries import RecordFilter
from dir_console.explorer import asked, digests, narrowing, sections
from dir_console.explorer.sections import Search
from escalations import digest_lookups
from escalations.models import Escalation, Evidence
from runtime.contexts.models import Snapshot
from runtime.contexts.queries import snapshots
from runtime.flows.models import Intent, Proposal, Verdict
from runtime.flows.queries import explored_flows
from runtime.flows.queries.explored_flows import FlowKeys
from runtime.maintenance.services import sealing
from runtime.resources.models import Reservation, Resource
from tests.support import query_plans, recorded_flows, worlds
from tests.support.recorded_flows import TRACE, Recorded
from tests.web.test_pages import code_in, sign_in, text_of


def build() -> Recorded:
    made = recorded_flows.build()
    proposal = Proposal.objects.get(flow=made.flows["rejected"])
    resource = Resource.objects.create(
        name="desk_cash",
        unit="cents",
        capacity=100,
        configured_at=proposal.received_at,
        configured_by=actors.SYSTEM,
    )
    Reservation.objects.create(
        resource=resource,
        flow_id=proposal.flow_id,
        proposal=proposal,
        amount=1,
        state="RELEASED",
        reserved_at=proposal.received_at,
        ended_at=proposal.received_at,
    )
    sealing.seal_now()
    return made


world = worlds.shared(build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.AUDITOR, name="aud")


def search(**given: str) -> Search:
    read = asked.read(given)
    assert not read.wrong
    narrowed = narrowing.narrow(tenant="default", asked=read)
    return Search(tenant="default", asked=read, narrowed=narrowed)


def flows_of(world: Recorded, **given: str) -> set[str]:
    names = {dfid: name for name, dfid in world.flows.items()}
    return {names[flow.pk] for flow in search(**given).flows(None)}


def ids_of(world: Recorded, name: str) -> dict[str, str]:
    """Every key under which a flow that a person decided is known."""
    dfid = world.flows[name]
    escalation = Escalation.objects.get(flow=dfid)
    proposal = Proposal.objects.filter(flow=dfid).earliest("pk")
    return {
        "dfid": str(dfid),
        "record": world.row(f"{name} 1").record_id,
        "escalation": str(escalation.pk),
        "proposal": str(proposal.pk),
        "hash": proposal.digest[:12],
        "context": Snapshot.objects.get(flow=dfid).context_ref,
        "trace": str(dfid).replace("-", ""),
    }


def test_every_id_leads_to_its_flow_its_records_and_its_entries(world: Recorded) -> None:
    dfid = world.flows["overridden"]
    given = ids_of(world, "overridden") | {"intent": str(Intent.objects.get(flow=dfid).pk)}
    for key, value in given.items():
        found = search(**{key: value})
        flows = [flow.pk for flow in found.flows(None)]
        if key == "context":  # which agents of one desk are given at one time
            assert dfid in flows
            continue
        assert flows == [dfid], key
        assert {record.dfid for record in found.records(None).records} == {str(dfid)}, key
        assert {row.stream for row in found.entries(None)} == {str(dfid)}, key


def test_keys_add_up(world: Recorded) -> None:
    overridden, aborted = (ids_of(world, name) for name in ("overridden", "aborted"))
    assert flows_of(world, escalation=overridden["escalation"], proposal=overridden["proposal"]) == {
        "overridden"
    }
    assert flows_of(world, escalation=overridden["escalation"], proposal=aborted["proposal"]) == set()
    assert flows_of(world, subject="symbol:AAPL", state="ABORTED") == {"aborted"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"trace": TRACE}, {"accepted"}),
        ({"trace": TRACE.upper()}, {"accepted"}),
        ({"trace": "0" * 32}, set()),
        ({"subject": "symbol:MSFT"}, {"rejected"}),
        ({"approver": "olivia"}, {"overridden"}),
        ({"approver": "nobody"}, set()),
        ({"resource": "desk_cash"}, {"rejected"}),
        ({"resource": "desk_cash", "state": "ABORTED"}, set()),
        ({"resource": "none"}, set()),
        ({"agent": "none"}, set()),
        ({"reason": "CANCELLED_BY_AGENT"}, {"cancelled"}),
        ({"state": "ABORTED"}, {"aborted", "cancelled"}),
        ({"kind": "adjust_position", "approver": "otto"}, {"aborted"}),
        ({"record": "dr_1"}, set()),
        ({"to": "2001-01-01"}, set()),
        ({"from": "9999-12-31"}, set()),
        ({"to": "0001-01-01"}, set()),
    ],
)
def test_flows_are_found_by_what_they_are_about(
    world: Recorded, given: dict[str, str], expected: set[str]
) -> None:
    assert flows_of(world, **given) == expected


def test_hashes_lead_to_what_has_them(world: Recorded, reader: Client) -> None:
    dfid = world.flows["overridden"]
    entry = LedgerEntry.objects.get(stream=dfid, kind=Kind.ESCALATION_OPENED)
    verdict = Verdict.objects.filter(proposal__flow=dfid).earliest("pk")
    evidence = Evidence.objects.get(escalation__flow=dfid)
    record = world.row("overridden 1")
    for digest, words in {
        bytes(entry.hash).hex(): f"/ledger/entries/{dfid}/{entry.seq}/",
        bytes(record.record_hash).hex(): f"/records/{record.record_id}/",
        verdict.input_digest: "Input of a verdict",
        verdict.bundle_id: "Rules of a verdict",
        evidence.hash: "Evidence, revision 1",
        Snapshot.objects.get(flow=dfid).context_ref: f"/flows/{dfid}/contexts/",
    }.items():
        for part in (digest, digest[:7], f"sha256:{digest}".upper()):
            page = text_of(reader, f"/explore/?{urlencode({'hash': part})}")
            assert words in page, (part, words)
            assert f"/flows/{dfid}/" in page


def test_a_digest_leads_to_the_entries_that_name_it(world: Recorded) -> None:
    dfid = world.flows["overridden"]
    evidence = Evidence.objects.get(escalation__flow=dfid)
    kinds = {row.kind for row in search(hash=evidence.hash).entries(None)}
    assert kinds >= {Kind.ESCALATION_OPENED, Kind.ESCALATION_DECIDED}
    assert [row.kind for row in search(hash=evidence.hash, event=Kind.ESCALATION_DECIDED).entries(None)] == [
        Kind.ESCALATION_DECIDED
    ]


def test_entries_are_found_by_who_acted_what_was_done_and_when(world: Recorded) -> None:
    by_olivia = search(actor="user:olivia").entries(None)
    assert {row.stream for row in by_olivia} >= {str(world.flows["overridden"])}
    assert {row.pk for row in search(approver="olivia").entries(None)} == {row.pk for row in by_olivia}
    assert search(approver="nobody").entries(None) == []
    agents = search(agent="trader", event=Kind.PROPOSAL_SUBMITTED).entries(None)
    assert {row.actor for row in agents} == {actors.agent("trader")}
    assert search(agent="trader", actor="system").entries(None) == []
    rows = LedgerEntry.objects.filter(tenant="default")
    at = rows.order_by("-at")[10].at
    assert {found.at < at for found in search(to=at.isoformat()).entries(None)} == {True}
    after = search(**{"from": at.isoformat()}).entries(None)
    assert {found.pk for found in after} == set(rows.filter(at__gte=at).values_list("pk", flat=True))
    assert search(**{"from": at.isoformat(), "to": at.isoformat()}).entries(None) == []
    stream = search(stream="agent:trader", event=Kind.AGENT_REGISTERED).entries(None)
    assert [found.kind for found in stream] == [Kind.AGENT_REGISTERED]


def test_no_other_tenant_is_shown(world: Recorded) -> None:
    other = DecisionRecord.objects.get(tenant=recorded_flows.OTHER_TENANT)
    found = search(dfid=str(other.dfid))
    assert (found.flows(None), found.records(None).rows, found.entries(None)) == ([], [], [])
    entry = LedgerEntry.objects.filter(tenant=recorded_flows.OTHER_TENANT)[0]
    assert search(hash=bytes(entry.hash).hex()).entries(None) == []


@pytest.mark.parametrize(
    ("section", "given"),
    [
        ("flows", {"kind": "ADJUST_POSITION"}),
        ("records", {"kind": "ADJUST_POSITION"}),
        ("entries", {"agent": "trader"}),
        ("entries", {"from": "2001-01-01"}),
        ("entries", {"stream": "agent:trader"}),
    ],
)
def test_pages_of_a_section_meet_without_gap_or_repeat(
    reader: Client, monkeypatch: pytest.MonkeyPatch, section: str, given: dict[str, str]
) -> None:
    whole = page_ids(text_of(reader, f"/explore/?{urlencode(given)}"), section)
    monkeypatch.setattr(sections, "SIZE", 2)
    monkeypatch.setattr("dir_console.explorer.page.SIZE", 2)
    path, seen = f"/explore/?{urlencode(given)}", []
    while path:
        page = text_of(reader, path)
        part = section_of(page, section)
        seen += page_ids(page, section)
        following = re.search(r'rel="next" href="([^"]+)"', part)
        path = f"/explore/{following[1].replace('&amp;', '&')}" if following else ""
        assert path == "" or urlencode(given) in path
    assert seen[: len(whole)] == whole
    assert len(seen) == len(set(seen)) >= len(whole) > 2


def section_of(page: str, name: str) -> str:
    found = re.search(rf'data-section="{name}".*?</section>', page, re.DOTALL)
    assert found, name
    return found[0]


def page_ids(page: str, section: str) -> list[str]:
    return re.findall(r'data-row="([^"]+)"', section_of(page, section))


def test_what_a_section_is_not_found_by_is_said(reader: Client) -> None:
    page = text_of(reader, "/explore/?state=ABORTED&event=flow:opened")
    assert "flows are not found by entry kind" in page
    assert "decision records are not found by flow state, entry kind" in page
    assert "ledger entries are not found by flow state" in page


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hash", "12"),
        ("hash", "xyzxyzx"),
        ("hash", "a" * 65),
        ("trace", "abc"),
        ("dfid", "not-an-id"),
        ("escalation", "zz"),
        ("state", "GONE"),
        ("event", "flow:eaten"),
        ("from", "yesterday"),
        ("to", "2026-13-01"),
        ("agent", "a\u202eb"),
        ("subject", "a\u2028b"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_is_searched(reader: Client, key: str, value: str) -> None:
    page = text_of(reader, f"/explore/?{urlencode({key: value, 'kind': 'ADJUST_POSITION'})}")
    assert f'id="x-{key}-wrong"' in page
    assert "Nothing was searched" in page
    assert "data-section" not in page


@pytest.mark.parametrize("role", list(Role))
def test_each_role_reads_it_and_it_runs_nothing(role: Role) -> None:
    client = sign_in(role)
    hostile = urlencode({"subject": "</bdi><script>alert(1)</script>", "actor": '"><b>x'})
    for path in ("/explore/", f"/explore/?{hostile}"):
        page = text_of(client, path)
        assert code_in(page) == []
        assert 'aria-current="page"' in page
    assert client.post("/explore/").status_code == 405
    assert Client().get("/explore/")["Location"].startswith("/accounts/login/?next=")


def _flows(**keys: Any) -> Any:
    return lambda: explored_flows.search(tenant="default", wanted=FlowKeys(**keys), before=None, size=26)


def _entries(**keys: Any) -> Any:
    wanted = EntryFilter(**keys)
    return lambda: entry_search.search(tenant="default", wanted=wanted, before=1_000_000, size=26)


def _records(**keys: Any) -> Any:
    return lambda: records.search(tenant="default", wanted=RecordFilter(**keys), size=26)


def _by_time() -> Any:
    wanted, last = (
        EntryFilter(since=LONG_AGO),
        LedgerEntry.objects.filter(tenant="default").order_by("-pk")[0],
    )
    return entry_search.search(tenant="default", wanted=wanted, before=last.pk, size=26)


LOW, HIGH = digests.text_range("abcdef")
BETWEEN: dict[str, Any] = {"tenant": "default", "low": LOW, "high": HIGH, "size": 26}
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
# By key: the index that answers, its column that is compared, and the search.
PLANS: dict[str, tuple[str, str, Any]] = {
    "agent": ("flow_by_agent", "agent_id", _flows(agent="trader")),
    "kind": ("flow_by_kind", "policy_kind", _flows(kind="BUY")),
    "state": ("flow_by_state", "state", _flows(state="CLOSED")),
    "reason": ("flow_by_reason", "reason", _flows(reason="CANCELLED")),
    "resource": ("reservation_by_resource", "resource_id", _flows(resource="desk_cash")),
    "time of a flow": ("flow_recent", "dfid", _flows(since=LONG_AGO, until=LONG_AGO)),
    "flow ids": (
        "flow_recent",
        "dfid",
        _flows(dfids=frozenset({UUID(int=1), UUID(int=2)})),
    ),
    "trace": (
        "flow_by_trace",
        "traceparent",
        lambda: explored_flows.list_of_trace(tenant="default", trace_id="0" * 32, size=26),
    ),
    "proposal digest": ("proposal_by_digest", "digest", lambda: explored_flows.list_proposals_of(**BETWEEN)),
    "input digest": ("verdict_by_input", "input_digest", lambda: explored_flows.list_inputs_of(**BETWEEN)),
    "rules digest": (
        "runtime_verdict_bundle_id",
        "bundle_id",
        lambda: explored_flows.list_rules_of(**BETWEEN),
    ),
    "context": ("snapshot_by_ref", "context_ref", lambda: snapshots.list_flows_of(**BETWEEN)),
    "evidence": ("evidence_by_hash", "hash", lambda: digest_lookups.list_evidence(**BETWEEN)),
    "actor": ("entry_by_actor", "actor", _entries(actors=("user:1",))),
    "event": ("entry_recent_of_kind", "kind", _entries(kind="flow:opened")),
    "hash": ("entry_by_hash", "hash", _entries(hash="abcdef")),
    "time of an entry": ("entry_by_time", "at", _by_time),
    "stream": (
        "sqlite_autoindex_audit_ledgerentry_1",
        "stream",
        _entries(streams=frozenset({"agent:trader"})),
    ),
    "streams": (
        "entry_kind_in_stream",
        "stream",
        _entries(streams=frozenset({"system", "agent:a"})),
    ),
    "event in a stream": (
        "entry_kind_in_stream",
        "kind",
        _entries(streams=frozenset({"system"}), kind="flow:opened"),
    ),
    "record hash": ("record_by_hash", "record_hash", _records(record_hash="abcdef")),
    "records of flows": (
        "sqlite_autoindex_audit_decisionrecord_2",
        "dfid",
        _records(dfids=frozenset({UUID(int=1), UUID(int=2)})),
    ),
    "record id": ("record_id", "record_id", _records(record_id="dr_1")),
}


@pytest.mark.parametrize("key", PLANS)
def test_each_key_is_answered_by_its_index(key: str) -> None:
    """One of its statements uses the index, and none reads a whole table."""
    index, column, run = PLANS[key]
    with CaptureQueriesContext(connection) as captured:
        run()
    statements = [each["sql"] for each in captured if each["sql"].startswith("SELECT")]
    plans = [query_plans.plan_of(sql, index) for sql in statements]
    if connection.vendor == "postgresql":
        looked_up = any(re.search(rf"Index Cond: .*\b{column}\b", plan) for plan in plans)
        assert looked_up or key in BY_CONSTRAINT, plans
        assert not any("Seq Scan" in plan for plan in plans), plans
    else:
        assert any(index in plan for plan in plans), plans
        assert not any(re.search(r"\bSCAN (?!CONSTANT)", plan) for plan in plans), plans


# Unique keys, foreign keys and the order of ids, which PostgreSQL prefers once it has counted rows.
BY_CONSTRAINT = {"flow ids", "rules digest", "streams", "event in a stream", "records of flows", "record id"}


def test_no_search_of_entries_reads_their_bytes_for_a_word(reader: Client) -> None:
    """Nothing but indexed columns of the ledger is compared, whatever is typed."""
    given = urlencode({"subject": "x", "actor": "x", "stream": "x", "hash": "abcdef", "agent": "x"})
    with CaptureQueriesContext(connection) as captured:
        text_of(reader, f"/explore/?{given}")
    ledger = [each["sql"] for each in captured if "audit_ledgerentry" in each["sql"]]
    assert not [sql for sql in ledger if re.search(r"LIKE|REGEXP|POSITION|INSTR", sql, re.IGNORECASE)]


def test_pasting_an_id_leads_to_its_page(world: Recorded, reader: Client) -> None:
    dfid = world.flows["overridden"]
    entry = LedgerEntry.objects.get(stream=dfid, kind=Kind.ESCALATION_OPENED)
    record = world.row("overridden 1")
    pasted = {
        record.record_id: f"/records/{record.record_id}/",
        bytes(entry.hash).hex(): f"/ledger/entries/{dfid}/{entry.seq}/",
        bytes(record.record_hash).hex(): f"/records/{record.record_id}/",
        f"{dfid}:{entry.seq}": f"/ledger/entries/{dfid}/{entry.seq}/",
        f"{dfid} #{entry.seq}": f"/ledger/entries/{dfid}/{entry.seq}/",
        "agent:trader:1": "/ledger/entries/agent:trader/1/",
        "symbol:MSFT": "/explore/?subject=symbol%3AMSFT",
        TRACE: f"/flows/{world.flows['accepted']}/",
        Evidence.objects.get(escalation__flow=dfid).hash: f"/escalations/{entry.payload['escalation_id']}/",
        Snapshot.objects.get(flow=dfid).context_ref: f"/flows/{dfid}/contexts/",
        str(Intent.objects.get(flow=dfid).pk): f"/flows/{dfid}/",
        str(entry.payload["escalation_id"]): f"/escalations/{entry.payload['escalation_id']}/",
    }
    for text, path in pasted.items():
        for part in ("", "&part=palette"):
            page = reader.get(f"/search/?{urlencode({'q': text})}{part}").content.decode()
            assert f'href="{path}' in page or f'data-url="{path}' in page, (text, part)

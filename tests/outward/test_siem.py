"""What a SIEM gets: OCSF and CSV, by HTTP, in files and by syslog."""

import csv
import io
import json
import re
import ssl
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from audit import events, ledger
from audit.events import Kind
from audit.models import Leaf, LedgerEntry, Tree
from runtime.contracts.problem import Problem
from runtime.contracts.receiver import EventFormat, ReceiverKind, SealedEntry
from runtime.core import clock, transactions
from runtime.execution.adapters import event_files, transport
from runtime.outward.queries import sealed
from runtime.outward.services import csv_rows, ocsf, ocsf_classes, receivers, sending
from runtime.outward.services.ocsf_classes import OcsfClass
from tests.support import event_receivers, syslog_listener
from tests.support.event_receivers import again, hook, make_due, seal

pytestmark = pytest.mark.django_db

# Required by the schema 1.8.0, from its definitions (github.com/ocsf/ocsf-schema, tag 1.8.0): of every event
# (events/base_event.json), of each class (events/iam, events/application and events/findings), and of which
# objects at least one attribute is (objects/*.json). A path with | needs one of several.
OF_EVERY_EVENT = (
    "activity_id",
    "category_uid",
    "class_uid",
    "severity_id",
    "time",
    "type_uid",
    "metadata.version",
    "metadata.product.name|metadata.product.uid",
)
OF_CLASS = {
    OcsfClass.DETECTION_FINDING: ("finding_info.uid",),
    OcsfClass.ACCOUNT_CHANGE: ("user.uid|user.name|user.account",),
    OcsfClass.AUTHENTICATION: ("user.uid|user.name|user.account", "service.name|dst_endpoint.uid"),
    OcsfClass.ENTITY_MANAGEMENT: ("entity.uid|entity.name",),
    OcsfClass.API_ACTIVITY: (
        "actor.user|actor.app_name|actor.session",
        "api.operation",
        "src_endpoint.uid|src_endpoint.name|src_endpoint.ip",
    ),
}


@pytest.fixture(autouse=True)
def _allowed(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    event_receivers.allow(settings, monkeypatch)
    settings.DIR_EVENTS_FOLDER = str(tmp_path)


def siem(kind: ReceiverKind, form: EventFormat = EventFormat.OCSF, **changes: Any) -> dict[str, Any]:
    return {"kind": kind, "format": form, "secret_env": "", **changes}


def entry(kind: str, actor: str = "user:7", **payload: Any) -> SealedEntry:
    at = clock.now()
    body = {
        "tenant": "default",
        "stream": "system",
        "seq": 1,
        "kind": kind,
        "actor": actor,
        "payload": payload,
    }
    return SealedEntry(origin="o", leaf=4, entry_hash="ab", prev_hash="00", body=body, at=at)


def has(event: dict[str, Any], path: str) -> bool:
    found: Any = event
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found not in (None, "")


@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind_has_what_its_class_requires(kind: Kind) -> None:
    event = ocsf.event(entry(kind))
    of = OcsfClass(event["class_uid"])
    for wanted in (*OF_EVERY_EVENT, *OF_CLASS[of]):
        assert any(has(event, path) for path in wanted.split("|")), wanted
    assert event["category_uid"] == of // 1000
    assert event["type_uid"] == of * 100 + event["activity_id"]
    assert event["activity_id"] in {*ocsf_classes.ACTIVITIES[of], 99}
    assert event["activity_name"]
    assert event["severity_id"] in range(1, 6)
    assert event["status_id"] in {0, 1, 2}
    assert event["unmapped"]["payload"] == {}


def test_incidents_keep_their_severity_and_their_end() -> None:
    opened = ocsf.event(entry("incident:opened", incident_id="i", severity="SEV1"))
    assert (opened["severity_id"], opened["finding_info"]["uid"], opened["activity_id"]) == (5, "i", 1)
    closed = ocsf.event(entry("incident:moved", incident_id="i", to_state="CLOSED"))
    assert (closed["activity_id"], closed["activity_name"], closed["type_uid"]) == (3, "Close", 200403)
    assert ocsf.event(entry("incident:moved", incident_id="i", to_state="RESOLVED"))["activity_id"] == 2


def test_whom_it_is_about_is_not_who_did_it() -> None:
    event = ocsf.event(entry("user:deactivated", actor="user:1", user_id=9))
    assert (event["user"]["uid"], event["actor"]["user"]["uid"]) == ("user:9", "user:1")
    assert ocsf.event(entry("session:opened", agent_id="ann"))["user"]["uid"] == "agent:ann"


def test_http_gets_batches_with_a_token_and_the_same_key_at_each_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIR_TEST_TOKEN", "t0ken")
    with hook(**siem(ReceiverKind.SIEM_HTTP, secret_env="DIR_TEST_TOKEN")) as (place, row):
        place.status = 503
        seal("ONE", "TWO", "THREE")
        assert sending.send_due() == 0
        place.status = 200
        make_due()
        assert sending.send_due() == 3
        first, second = place.target.seen
    assert first.body == second.body
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert second.headers["Authorization"] == "Bearer t0ken"
    assert second.headers["Content-Type"] == "application/x-ndjson"
    told = [json.loads(line) for line in second.body.splitlines()]
    assert [event["unmapped"]["payload"]["code"] for event in told] == ["ONE", "TWO", "THREE"]
    assert [event["metadata"]["event_code"] for event in told] == ["request:refused"] * 3
    assert told[0]["metadata"]["sequence"] < told[1]["metadata"]["sequence"]
    assert again(row).next_leaf == Tree.objects.get().size


def test_a_batch_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.outward.services.delivery.MOST_IN_A_BATCH", 2)
    with hook(**siem(ReceiverKind.SIEM_HTTP, EventFormat.CSV)) as (place, _):
        seal("ONE", "TWO", "THREE")
        assert sending.send_due() == 3
        rows = [list(csv.DictReader(io.StringIO(one.body.decode(), newline=""))) for one in place.target.seen]
    assert [[json.loads(row["payload"])["code"] for row in each] for each in rows] == [
        ["ONE", "TWO"],
        ["THREE"],
    ]


def test_csv_is_read_back_and_starts_no_formula() -> None:
    given = entry("=cmd|'/c calc'!A1", actor='@"evil",\r\nuser', words='line\n"quoted", and more')
    text = (csv_rows.header() + csv_rows.encode(given)).decode()
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert tuple(row) == csv_rows.COLUMNS
    assert row["kind"] == "'=cmd|'/c calc'!A1"
    assert row["actor"] == '\'@"evil", user'
    assert json.loads(row["payload"]) == given.payload
    assert text.endswith("\r\n")


@pytest.mark.parametrize(("form", "ending"), [(EventFormat.OCSF, "ndjson"), (EventFormat.CSV, "csv")])
def test_a_file_a_day_is_appended_to(tmp_path: Path, form: EventFormat, ending: str) -> None:
    row = event_receivers.add("audit", **siem(ReceiverKind.SIEM_FILE, form))
    seal("ONE")
    assert sending.send_due() == 1
    path = tmp_path / f"audit-{clock.now():%Y-%m-%d}.{ending}"
    # What a writer left half written when it crashed is cut off, and not left between whole lines.
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"half":')
    seal("TWO")
    assert sending.send_due() == 1
    text = path.read_bytes().decode()
    assert text.encode().startswith(whole)
    if form == EventFormat.CSV:
        payloads = [json.loads(one["payload"]) for one in csv.DictReader(io.StringIO(text, newline=""))]
    else:
        payloads = [json.loads(line)["unmapped"]["payload"] for line in text.splitlines()]
    assert [payload["code"] for payload in payloads] == ["ONE", "TWO"]
    assert again(row).error == ""


def test_a_file_that_cannot_be_written_fails_and_is_tried_again(tmp_path: Path, settings: Settings) -> None:
    row = event_receivers.add("audit", **siem(ReceiverKind.SIEM_FILE))
    (tmp_path / f"audit-{clock.now():%Y-%m-%d}.ndjson").symlink_to(tmp_path / "elsewhere")
    seal("ONE")
    assert sending.send_due() == 0
    assert "the file cannot be opened" in again(row).error
    settings.DIR_EVENTS_FOLDER = ""
    make_due()
    assert sending.send_due() == 0
    assert again(row).error == "DIR_EVENTS_FOLDER names no folder for files of events"


def test_a_long_half_line_is_cut_off_too(tmp_path: Path) -> None:
    path = tmp_path / "x.ndjson"
    path.write_bytes(b"one\n" + b"x" * 10_000)
    assert event_files.append(path, head=b"head\n", lines=b"two\n") is None
    assert path.read_bytes() == b"one\ntwo\n"
    path.write_bytes(b"x" * 10_000)
    assert event_files.append(path, head=b"head\n", lines=b"two\n") is None
    assert path.read_bytes() == b"head\ntwo\n"


@pytest.mark.parametrize("form", [EventFormat.OCSF, EventFormat.CSV])
def test_syslog_gets_counted_messages_in_order(form: EventFormat) -> None:
    with syslog_listener.listening() as listener:
        row = event_receivers.add(listener.url, **siem(ReceiverKind.SIEM_SYSLOG, form))
        seal("ONE", "TWO")
        assert sending.send_due() == 2
        told = list(listener.messages)
    assert len(told) == 2
    for message, code in zip(told, ("ONE", "TWO"), strict=True):
        head = re.match(r"<(\d+)>1 (\S+) (\S+) dir-console - request:refused - ", message)
        assert head is not None
        # Facility 13 (log audit), severity 5 (notice).
        assert head[1] == "109"
        assert code in message
    assert again(row).error == ""


def test_syslog_over_tls_goes_only_to_who_has_a_known_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = syslog_listener.certificate(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    with syslog_listener.listening(server) as listener:
        place = listener.url.replace("tcp://", "tls://")
        row = event_receivers.add(place, **siem(ReceiverKind.SIEM_SYSLOG))
        seal("ONE")
        assert sending.send_due() == 0
        assert again(row).error == "no TLS connection could be made, or it broke"
        trusting = ssl.create_default_context(cafile=path)
        monkeypatch.setattr(transport, "tls", lambda: trusting)
        make_due()
        assert sending.send_due() == 1
        (message,) = listener.messages
    assert "request:refused" in message


def test_a_syslog_receiver_that_breaks_off_or_is_away_has_taken_nothing() -> None:
    with syslog_listener.listening() as listener:
        row = event_receivers.add(listener.url, **siem(ReceiverKind.SIEM_SYSLOG))
        listener.is_rude = True
        seal("ONE")
        assert sending.send_due() == 0
        assert again(row).error == "the connection broke before everything was taken"
    make_due()
    assert sending.send_due() == 0
    assert again(row).error == "no connection could be made"
    assert again(row).next_leaf == row.next_leaf


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (ReceiverKind.SIEM_SYSLOG, "tcp://siem.example.com:6514"),
        (ReceiverKind.SIEM_SYSLOG, "tls://siem.example.com"),
        (ReceiverKind.SIEM_SYSLOG, "tls://10.0.0.7:6514"),
        (ReceiverKind.SIEM_SYSLOG, "tls://siem.example.com:99999"),
        (ReceiverKind.SIEM_FILE, "../audit"),
        (ReceiverKind.SIEM_FILE, "audit.log"),
        (ReceiverKind.SIEM_HTTP, "http://siem.example.com/in"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused(kind: ReceiverKind, place: str) -> None:
    wanted = event_receivers.wanted(place, **siem(kind))
    answer = receivers.add(tenant="default", wanted=wanted, from_beginning=False, actor="user:1")
    assert isinstance(answer, Problem)
    assert [wrong.pointer for wrong in answer.violations] == ["place"]


def test_the_command_writes_a_range_of_leaves(tmp_path: Path, capsysbinary: Any) -> None:
    seal("ONE", "TWO", "THREE")
    out = tmp_path / "events.csv"
    size = sealed.size()
    second = LedgerEntry.objects.filter(kind="request:refused").order_by("pk")[1]
    leaf = Leaf.objects.get(entry_id=second.pk).index
    given = ("--from", str(leaf), "--to", str(leaf + 1), "--out", str(out))
    call_command("export_events", "--format", "csv", *given)
    rows = list(csv.DictReader(io.StringIO(out.read_bytes().decode(), newline="")))
    assert [json.loads(row["payload"])["code"] for row in rows] == ["TWO", "THREE"]
    with pytest.raises(CommandError, match="exists already"):
        call_command("export_events", "--format", "csv", "--out", str(out))
    with pytest.raises(CommandError, match="from 0 to"):
        call_command("export_events", "--format", "csv", "--to", str(size))
    capsysbinary.readouterr()
    call_command("export_events", "--format", "cloudevents", "--to", "0")
    (line,) = capsysbinary.readouterr().out.splitlines()
    assert json.loads(line)["id"] == bytes(LedgerEntry.objects.order_by("pk")[0].hash).hex()


def test_no_words_go_out_but_what_proves_them() -> None:
    """The words of a note stay in the payload store; what is sent is the commitment to them."""
    words = b"The customer is Ann Miller."

    def work() -> str:
        commitment = ledger.commit_payload(tenant="default", data_class="people", body=words)
        told = events.IncidentNoted(incident_id="i", note_id="n", text_commitment=commitment)
        ledger.append_to(tenant="default", stream="incident:i", actor="user:1", at=clock.now(), events=[told])
        return commitment

    with hook(patterns=("incident:*",)) as (place, _):
        commitment = transactions.retry_on_conflict(work)
        seal()
        assert sending.send_due() == 1
        body = place.target.seen[0].body
    assert commitment.encode() in body
    assert b"Ann" not in body

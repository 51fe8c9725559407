"""What a collector of OpenTelemetry gets, read with the messages of its own protocol."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Received
from pytest_django.fixtures import Settings

from audit.models import Leaf, LedgerEntry
from runtime.contracts.receiver import EventFormat, FlowEntry, ReceiverKind
from runtime.outward.models import Receiver
from runtime.outward.services import delivery, receivers, sending, spans
from tests.support import event_receivers, finished_history, ledger_tampering, misbehaving_targets, worlds
from tests.support.event_receivers import ADMIN, TENANT, again, hook, make_due
from tests.support.finished_history import History
from tests.support.misbehaving_targets import Seen

history = worlds.opened(finished_history.opened)
OTLP: dict[str, Any] = {
    "kind": ReceiverKind.OTLP_HTTP,
    "format": EventFormat.SPANS,
    "patterns": ("*",),
    "secret_env": "",
    "from_beginning": True,
}
AT = datetime(2026, 1, 1, tzinfo=UTC)
DFID = "019b7c00-0000-7000-8000-000000000001"


@pytest.fixture
def flows(
    history: History, django_db_blocker: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[History]:
    event_receivers.allow(settings, monkeypatch)
    with django_db_blocker.unblock(), transaction.atomic():
        Receiver.objects.all().delete()
        yield history
        transaction.set_rollback(True)


def taken(requests: list[Seen]) -> list[Received]:
    """Every span, once a collector has read the messages."""
    found: list[Received] = []
    for request in requests:
        assert request.headers["Content-Type"] == "application/x-protobuf"
        for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            assert names["service.name"] == "dir-console"
            found += [span for scope in resource.scope_spans for span in scope.spans]
    return found


def of(received: list[Received], dfid: UUID) -> dict[str, list[Received]]:
    """The spans of a flow by their names, whose trace is its id."""
    mine: dict[str, list[Received]] = {}
    for span in received:
        if span.trace_id.hex() == dfid.hex:
            mine.setdefault(span.name, []).append(span)
    return mine


def said(span: Received) -> dict[str, Any]:
    """The attributes of a span that are texts or numbers."""
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_a_flow_is_one_trace_and_a_lost_message_comes_again_unchanged(flows: History) -> None:
    with hook(**OTLP) as (place, row):
        place.status = 503
        assert sending.send_due() == 0
        assert again(row).next_leaf == 0
        place.status = 200
        make_due()
        assert sending.send_due() > 0
        first, *later = place.target.seen
        assert first.body == later[0].body
        received = taken(later)
    assert len({span.span_id for span in received}) == len(received)

    done = of(received, flows.accepted)
    [flow] = done["flow"]
    assert (flow.parent_span_id, said(flow)["dir.flow.state"], flow.status.code) == (b"", "CLOSED", 0)
    for span in [*done["gate"], *done["attempt"]]:
        assert span.parent_span_id == flow.span_id
        assert said(span)["dir.dfid"] == str(flows.accepted)
        assert flow.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= flow.end_time_unix_nano
    assert [said(gate)["dir.verdict"] for gate in done["gate"]] == ["ACCEPT"]
    assert {said(call)["dir.result"] for call in done["attempt"]} == {"SUCCEEDED"}
    assert {call.kind for call in done["attempt"]} == {Received.SPAN_KIND_CLIENT}

    failed = [call for call in of(received, flows.undone)["attempt"] if call.status.code]
    assert {said(call)["error.type"] for call in failed} == {failed[0].status.message} != {""}

    # Asked for more, answered, and aborted: one wait, whatever was asked in between.
    [wait] = of(received, flows.aborted)["escalation wait"]
    assert said(wait)["dir.escalation.result"] == "ABORT"
    assert wait.end_time_unix_nano > wait.start_time_unix_nano
    [ended] = of(received, flows.aborted)["flow"]
    assert ended.status.code == ended.status.STATUS_CODE_ERROR


def test_the_kinds_that_are_chosen_end_the_spans_that_are_sent(flows: History) -> None:
    with hook(**{**OTLP, "patterns": ("escalation:*",)}) as (place, row):
        assert sending.send_due() > 0
        assert {span.name for span in taken(place.target.seen)} == {"escalation wait"}
        place.target.seen.clear()
        assert receivers.test(tenant=TENANT, receiver_id=row.pk, actor=ADMIN) == ""
        assert [span.name for span in taken(place.target.seen)] == ["receiver:test"]


def test_what_a_collector_rejects_is_not_sent_again(flows: History, caplog: pytest.LogCaptureFixture) -> None:
    partly = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
    )

    def answering(request: BaseHTTPRequestHandler) -> None:
        misbehaving_targets.answer(200, partly.SerializeToString())(request)

    with misbehaving_targets.stand_in(answering) as target:
        row = event_receivers.add(f"{target.base_url}/v1/traces", **OTLP)
        assert sending.send_due() > 0
        sent = len(target.seen)
        make_due()
        assert sending.send_due() == 0
        assert len(target.seen) == sent
    assert (again(row).tries, "has rejected 2 of" in caplog.text) == (0, True)


def test_no_span_is_made_of_entries_that_were_changed(flows: History) -> None:
    with hook(**OTLP) as (place, row):
        first = LedgerEntry.objects.get(stream=str(flows.accepted), seq=1)
        ledger_tampering.execute(
            "UPDATE audit_ledgerentry SET body = prev_hash WHERE stream = %s AND seq = 1", [first.stream]
        )
        # Past it: what is sent now are entries that nobody has touched.
        Receiver.objects.update(next_leaf=Leaf.objects.get(entry_id=first.pk).index + 1)
        sending.send_due()
        assert not of(taken(place.target.seen), flows.accepted)
        assert f"entry 1 of the flow {first.stream} is missing or was changed" in again(row).error


@pytest.mark.once
def test_the_agents_trace_goes_on_and_a_wait_begins_anew_when_a_decision_is_taken_back() -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    told: list[tuple[str, dict[str, Any]]] = [
        (
            "flow:opened",
            {"agent_id": "ann", "traceparent": f"00-{trace}-{parent}-01", "parent_dfid": DFID},
        ),
        (
            "escalation:opened",
            {"escalation_id": "e", "family": "GOVERNANCE", "reason": "LIMIT", "impact": "X"},
        ),
        ("escalation:decided", {"escalation_id": "e", "action": "OVERRIDE"}),
        ("escalation:reopened", {"escalation_id": "e", "sequence": 1}),
        ("attempt:started", {"intent_id": "i", "number": 1, "step": "order", "purpose": "RESEND"}),
        ("intent:in_doubt", {"intent_id": "i", "number": 1}),
        ("attempt:finished", {"intent_id": "i", "number": 1, "result": "SUCCEEDED"}),
        ("attempt:started", {"intent_id": "i", "number": 2, "step": "order"}),
        ("intent:held", {"intent_id": "i", "why": "STOPPED"}),
        ("escalation:expired", {"escalation_id": "e"}),
        ("flow:moved", {"from_state": "ESCALATED", "to_state": "ABORTED", "reason": ""}),
        ("flow:moved", {"from_state": "ABORTED", "to_state": "CLOSED", "reason": ""}),
    ]
    entries = [
        FlowEntry(seq=seq, kind=kind, at=AT + timedelta(seconds=seq), payload=payload)
        for seq, (kind, payload) in enumerate(told, start=1)
    ]
    found = spans.of_flow(DFID, entries)
    assert {span.trace_id for span in found} == {trace}
    first, call, held, second, flow = found
    assert (first.name, second.name) == ("escalation wait", "escalation wait")
    assert first.span_id != second.span_id
    assert (first.attributes["dir.escalation.result"], second.attributes["dir.escalation.result"]) == (
        "OVERRIDE",
        "EXPIRED",
    )
    assert (second.end - second.start) == timedelta(seconds=6)
    assert (call.error, call.attributes["dir.purpose"], call.is_call) == ("UNKNOWN", "RESEND", True)
    assert (held.error, held.attributes["dir.result"]) == ("", "HELD")
    assert (flow.parent_id, flow.error, flow.attributes["dir.parent_dfid"]) == (parent, "ABORTED", DFID)
    assert {span.parent_id for span in (first, call, held, second)} == {flow.span_id}


@pytest.mark.once
def test_a_span_is_no_line_of_a_file() -> None:
    with pytest.raises(ValueError, match="several events"):
        delivery.line(EventFormat.SPANS, None)  # type: ignore[arg-type]

"""Spans in the form of OTLP, the protocol of OpenTelemetry: one request in protobuf, and its answer."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from runtime.outward.services.spans import Span, Value

MEDIA_TYPE: Final = "application/x-protobuf"
# More than an answer that names rejected spans needs.
MOST_ANSWER_BYTES: Final = 4096
_SERVICE: Final = "dir-console"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def encode(origin: str, spans: Iterable[Span]) -> bytes:
    """An ExportTraceServiceRequest; `origin` is the ledger's tree, which tells installations apart."""
    given = {"service.name": _SERVICE, "service.instance.id": origin}
    scope = trace_pb2.ScopeSpans(scope=InstrumentationScope(name=_SERVICE), spans=map(_span, spans))
    resource = Resource(attributes=[_attribute(name, value) for name, value in given.items()])
    whole = ExportTraceServiceRequest(
        resource_spans=[trace_pb2.ResourceSpans(resource=resource, scope_spans=[scope])]
    )
    return whole.SerializeToString(deterministic=True)


def rejected(answer: bytes) -> int:
    """How many spans a receiver has taken note of and rejected: they are not to be sent again."""
    try:
        return ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans
    except DecodeError:
        return 0


def _span(span: Span) -> trace_pb2.Span:
    status = trace_pb2.Status(code=trace_pb2.Status.STATUS_CODE_ERROR, message=span.error)
    kind = trace_pb2.Span.SPAN_KIND_CLIENT if span.is_call else trace_pb2.Span.SPAN_KIND_INTERNAL
    return trace_pb2.Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_id),
        name=span.name,
        kind=kind,
        start_time_unix_nano=_nanoseconds(span.start),
        end_time_unix_nano=_nanoseconds(span.end),
        attributes=[_attribute(name, value) for name, value in span.attributes.items()],
        status=status if span.error else None,
    )


def _attribute(name: str, value: Value) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=name, value=AnyValue(string_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    listed = ArrayValue(values=[AnyValue(string_value=one) for one in value])
    return KeyValue(key=name, value=AnyValue(array_value=listed))


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000

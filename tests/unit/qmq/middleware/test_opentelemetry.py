"""Spans of the OpenTelemetry middleware, with the real SDK."""

import asyncio
import re
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from qmq.client.middleware import OutgoingMessage
from qmq.errors import LocalProtocolError, SendFailed
from qmq.middleware.opentelemetry import OpenTelemetryMiddleware, error_type
from tests.unit.qmq.middleware.deliveries import RECEIPT, delivery, process, send

PROPAGATOR = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])


class Traces:
    """A middleware and the spans that it has ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("tests")
        self.middleware = OpenTelemetryMiddleware(self.provider, PROPAGATOR)

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())


@pytest.fixture
def traces() -> Traces:
    return Traces()


def ids(span: Any) -> tuple[int, int]:
    found = span if hasattr(span, "trace_id") else span.context
    return found.trace_id, found.span_id


def test_a_send_is_a_producer_span_whose_context_is_in_the_message(traces: Traces) -> None:
    properties = send(traces.middleware)
    (span,) = traces.spans()
    assert (span.name, span.kind, span.parent, span.links) == ("send orders", SpanKind.PRODUCER, None, ())
    assert span.attributes == {
        "messaging.system": "qmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": "m1",
    }
    assert span.status.status_code is StatusCode.UNSET
    trace_id, span_id = ids(span)
    assert re.fullmatch(f"00-{trace_id:032x}-{span_id:016x}-0[13]", properties.pop("traceparent"))
    assert properties == {"number": "1"}


def test_a_send_is_a_child_of_the_current_span_and_carries_baggage(traces: Traces) -> None:
    with traces.tracer.start_as_current_span("request") as request:
        token = context.attach(baggage.set_baggage("tenant", "a"))
        properties = send(traces.middleware)
        context.detach(token)
    sent = traces.spans()[0]
    assert sent.parent is not None
    assert ids(sent.parent) == ids(request.get_span_context())
    assert properties["baggage"] == "tenant=a"


def test_a_failed_send_has_the_code_of_its_error(traces: Traces) -> None:
    send(traces.middleware, outcome=SendFailed("the subject is archived", code="subject.closed"))
    (span,) = traces.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "the subject is archived"
    assert (span.attributes or {})["error.type"] == "subject.closed"


def test_a_context_that_the_message_already_has_is_kept_and_linked(traces: Traces) -> None:
    own = {"traceparent": f"00-{7:032x}-{9:016x}-01", "tracestate": "vendor=1"}
    assert send(traces.middleware, dict(own)) == own
    (span,) = traces.spans()
    assert [ids(link) for link in span.links] == [(7, 9)]
    assert "traceparent" in send(traces.middleware, {"traceparent": "invalid"})
    assert traces.spans()[1].links == ()


def test_processing_is_a_consumer_span_in_the_trace_of_the_producer(traces: Traces) -> None:
    received = delivery(send(traces.middleware), attempt=3)
    inside: list[Any] = []
    process(traces.middleware, received, handler=lambda: inside.append(trace.get_current_span().get_span_context()))
    sent, processed = traces.spans()
    assert (processed.name, processed.kind) == ("process orders", SpanKind.CONSUMER)
    assert processed.attributes == {
        "messaging.system": "qmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.consumer.group.name": "billing",
        "messaging.message.id": "m1",
        "qmq.attempt": 3,
    }
    assert processed.parent is not None
    assert ids(processed.parent) == ids(sent)
    assert [ids(link) for link in processed.links] == [ids(sent)]
    assert [ids(each) for each in inside] == [ids(processed)]
    assert not trace.get_current_span().get_span_context().is_valid


def test_inside_another_span_the_producer_is_linked_only(traces: Traces) -> None:
    received = delivery(send(traces.middleware))
    with traces.tracer.start_as_current_span("batch") as batch:
        process(traces.middleware, received)
        assert trace.get_current_span() is batch
    sent, processed, _ = traces.spans()
    assert processed.parent is not None
    assert ids(processed.parent) == ids(batch.get_span_context())
    assert [ids(link) for link in processed.links] == [ids(sent)]


def test_baggage_of_the_producer_is_in_the_context_of_the_handler(traces: Traces) -> None:
    token = context.attach(baggage.set_baggage("tenant", "a"))
    properties = send(traces.middleware)
    context.detach(token)
    found: list[object] = []
    process(traces.middleware, delivery(properties), handler=lambda: found.append(baggage.get_baggage("tenant")))
    assert found == ["a"]
    assert baggage.get_baggage("tenant") is None


def test_a_message_without_context_starts_a_trace(traces: Traces) -> None:
    process(traces.middleware, delivery({"traceparent": "x"}))
    (span,) = traces.spans()
    assert (span.parent, span.links) == (None, ())


def test_a_failing_handler_is_recorded(traces: Traces) -> None:
    process(traces.middleware, delivery(), ValueError("no card"))
    (span,) = traces.spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no card")
    assert (span.attributes or {})["error.type"] == "ValueError"
    (event,) = span.events
    assert (event.name, (event.attributes or {})["exception.message"]) == ("exception", "no card")


def test_nested_deliveries_end_in_their_own_spans(traces: Traces) -> None:
    outer, inner = delivery(message_id="outer"), delivery(message_id="inner")
    process(traces.middleware, outer, handler=lambda: process(traces.middleware, inner))
    first, second = traces.spans()
    assert first.parent is not None
    assert ids(first.parent) == ids(second)
    assert (first.attributes or {})["messaging.message.id"] == "inner"


async def test_concurrent_handlers_have_spans_of_their_own(traces: Traces) -> None:
    go = asyncio.Event()

    async def handle(number: int) -> tuple[str, int]:
        received = delivery(message_id=str(number))
        traces.middleware.before_process(received)
        await go.wait()
        current = trace.get_current_span().get_span_context().span_id
        traces.middleware.after_process(received, None)
        return str(number), current

    tasks = [asyncio.create_task(handle(number)) for number in range(3)]
    await asyncio.sleep(0)
    go.set()
    seen = await asyncio.gather(*tasks)
    assert sorted(seen) == sorted(
        (str((span.attributes or {})["messaging.message.id"]), ids(span)[1]) for span in traces.spans()
    )
    assert len(traces.spans()) == 3


def test_an_end_without_a_begin_changes_nothing(traces: Traces) -> None:
    traces.middleware.after_process(delivery(), None)
    traces.middleware.after_send(OutgoingMessage("orders", "m1", {}), RECEIPT)
    assert traces.spans() == []


def test_types_of_errors() -> None:
    assert error_type(LocalProtocolError("x")) == "protocol.misuse"
    assert error_type(KeyError("x")) == "KeyError"
    assert error_type(asyncio.CancelledError()) == "asyncio.exceptions.CancelledError"


def test_the_global_provider_and_propagator_are_the_defaults() -> None:
    properties = send(OpenTelemetryMiddleware())
    assert properties == {"number": "1"}, "without a configured SDK nothing is sent"

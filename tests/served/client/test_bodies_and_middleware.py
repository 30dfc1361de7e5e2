"""Bodies of every kind, and middleware, through real nodes and sockets."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry

from qmq import Consumer, Producer
from qmq.client.bodies import Json, body_bytes, body_text, decode_body
from qmq.errors import BodyUndecodable, LocalProtocolError
from qmq.middleware.opentelemetry import OpenTelemetryMiddleware
from qmq.middleware.prometheus import PrometheusMiddleware
from qmq_testing import Server


@dataclass
class Order:
    number: int
    amount: Decimal
    lines: list[str]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    with Server() as found:
        yield found


BODIES: list[Any] = [
    "text", "é" * 40_000, b"\x00\xff", bytes(range(256)) * 400, Order(17, Decimal("19.90"), ["a"]), Json({"a": [1, None]}),
    Json(["x" * 100] * 1000),
]  # fmt: skip


@pytest.mark.parametrize("above", [None, 1000])
async def test_every_body_comes_back(server: Server, above: int | None) -> None:
    async with (
        Producer(server.url, compress_above=above) as producer,
        Consumer(server.url, "orders", "billing", start="earliest") as consumer,
    ):
        for body in BODIES:
            await producer.send("orders", body)
            (delivery,) = await consumer.pull(1, timeout=30)
            async with delivery:
                properties = delivery.message.properties
                assert decode_body(properties, type(body)) == body
                assert delivery.body == body_text(properties)
                is_large = len(body_bytes(properties) or b"") > 1000
                is_compressed = "zstd" in properties.get("qmq_contentEncoding", "")
                assert is_compressed == (above is not None and is_large)


async def test_a_body_survives_a_retry(server: Server) -> None:
    async with (
        Producer(server.url, compress_above=100) as producer,
        Consumer(server.url, "orders", "billing", start="earliest") as consumer,
    ):
        await producer.send("orders", Json(["a"] * 1000))
        (first,) = await consumer.pull(1, timeout=30)
        with pytest.raises(BodyUndecodable):
            async with first:
                decode_body(first.message.properties, Order)
        await server.time.aio.advance(timedelta(seconds=10))
        (second,) = await consumer.pull(1, timeout=30)
        assert (second.attempt, second.retry_cause) == (2, "BodyUndecodable")
        assert decode_body(second.message.properties, Json) == Json(["a"] * 1000)
        await second.ack()


async def test_sends_have_spans_and_metrics_and_the_trace_is_hidden_from_the_handler(server: Server) -> None:
    exporter, provider, registry = InMemorySpanExporter(), TracerProvider(), CollectorRegistry()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    middleware = [
        OpenTelemetryMiddleware(provider, TraceContextTextMapPropagator()),
        PrometheusMiddleware(registry),
    ]
    async with (
        Producer(server.url, middleware=middleware) as producer,
        Consumer(server.url, "orders", "billing", start="earliest") as consumer,
    ):
        await producer.send("orders", {"number": 1})
        with pytest.raises(LocalProtocolError):
            await producer.send("orders", {"number": "x" * 40_000})
        (delivery,) = await consumer.pull(1, timeout=30)
        await delivery.ack()
    sent, failed = exporter.get_finished_spans()
    assert sent.context is not None
    trace = delivery.message.properties["traceparent"]
    assert trace.split("-")[1:3] == [f"{sent.context.trace_id:032x}", f"{sent.context.span_id:016x}"]
    assert delivery.properties == {"number": "1"}
    assert (failed.attributes or {})["error.type"] == "protocol.misuse"
    assert registry.get_sample_value("qmq_client_sent_messages_total", {"subject": "orders"}) == 1
    labels = {"subject": "orders", "reason": "protocol.misuse"}
    assert registry.get_sample_value("qmq_client_send_failures_total", labels) == 1

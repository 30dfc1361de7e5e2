"""Message bodies of our client read by the official Java client, and the reverse; docs/how-to/bodies.md has the table."""

import asyncio
import json
import math
from decimal import Decimal

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from qmq import Consumer, Producer
from qmq.client.bodies import Json, decode_body
from qmq.middleware.opentelemetry import OpenTelemetryMiddleware
from qmq.receipt import Receipt
from tests.served.conformance.bodies import (
    BASE64_LARGE,
    BORN,
    FROM_JAVA,
    LARGE,
    LARGE_PAYLOAD,
    PAID_AT,
    SENT,
    TEXT,
    TYPED,
    Color,
    Paid,
    PaidModel,
    PaidStruct,
    Reads,
    ms,
    read_all,
    receive,
    traceparent,
    without_attempt,
)
from tests.served.conformance.driver import JavaClient, Make, group_begun, listen
from tests.support.servers.system import System
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.usefixtures("java_tools")


@pytest.fixture
async def listening(served: System, java: Make, version: str, request: pytest.FixtureRequest) -> tuple[JavaClient, str]:
    """A Java client that listens to a subject of the test in group g and retains its messages, and the subject."""
    subject = f"{request.function.__name__[:60]}-{version}"
    client = await asyncio.to_thread(java, served)
    await asyncio.to_thread(listen, client, subject, retain=True)
    await asyncio.to_thread(group_begun, served, subject, "g")
    return client, subject


async def test_java_reads_every_body_of_python(served: System, listening: tuple[JavaClient, str]) -> None:
    client, subject = listening
    async with Producer(served.meta_url, app="python") as producer:
        receipts = {name: await producer.send(subject, body, tags=["eu", "字"]) for name, (body, _) in SENT.items()}
    events = await asyncio.to_thread(client.wait, "message", len(SENT))
    assert {json.dumps(event["tags"]) for event in events} == {'["eu", "\\u5b57"]'}
    for name, (_, expected) in SENT.items():
        found = await asyncio.to_thread(read_all, client, f"{subject}/g", receipts[name].message_id, expected)
        assert found == expected, name


async def test_java_sees_that_a_body_is_compressed(served: System, listening: tuple[JavaClient, str]) -> None:
    # Java programs can't read it as it is; these properties say why.
    client, subject = listening
    body = Json(["a"] * 1000)
    async with Producer(served.meta_url, compress_above=100) as producer:
        receipt = await producer.send(subject, body)
    await asyncio.to_thread(client.wait, "message", 1)
    attributes = await asyncio.to_thread(client.read, f"{subject}/g", receipt.message_id, "getAttrs")
    assert attributes["qmq_contentType"] == "application/json"
    assert attributes["qmq_contentEncoding"] == "zstd+base64"
    assert decode_body(attributes, Json) == body


async def test_java_reads_the_trace_and_the_messages_of_every_way_to_send(
    served: System, listening: tuple[JavaClient, str]
) -> None:
    client, subject = listening
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    middleware = [OpenTelemetryMiddleware(provider, TraceContextTextMapPropagator())]
    outcomes: list[object] = []
    async with Producer(served.meta_url, app="python", middleware=middleware) as producer:
        receipts = await producer.send_many(subject, [{"data": TEXT}, TEXT, LARGE], tags=["many"])
        receipts.append(await producer.send_soon(subject, TEXT, tags=["soon"]))
        producer.send_soon(subject, TEXT, tags=["soon"], callback=outcomes.append)
        await producer.flush()
    receipts += [each for each in outcomes if isinstance(each, Receipt)]
    spans = {(span.attributes or {})["messaging.message.id"]: span for span in exporter.get_finished_spans()}
    assert len(receipts) == len(spans) == 5
    events = await asyncio.to_thread(client.wait, "message", 5)
    assert sorted(event["tags"] for event in events) == [["many"]] * 3 + [["soon"]] * 2
    for receipt, text in zip(receipts, [TEXT, TEXT, LARGE, TEXT, TEXT], strict=True):
        listener = f"{subject}/g"
        expected: Reads = {
            ("getLargeString", "data"): text,
            ("getStringProperty", "traceparent"): traceparent(spans[receipt.message_id]),
        }
        assert await asyncio.to_thread(read_all, client, listener, receipt.message_id, expected) == expected


@pytest.fixture
async def sender(served: System, java: Make, version: str, request: pytest.FixtureRequest) -> tuple[JavaClient, str]:
    """A Java client and a subject of the test."""
    return await asyncio.to_thread(java, served), f"{request.function.__name__[:60]}-{version}"


async def test_python_reads_every_property_of_java(served: System, sender: tuple[JavaClient, str]) -> None:
    client, subject = sender
    client.do("send", subject=subject, typed=TYPED, tags=["eu", "字"])
    await asyncio.to_thread(client.wait, "sent", 1)
    (delivery,) = await receive(served, subject, 1)
    assert delivery.tags == ("eu", "字")
    assert (delivery.body, delivery.content) == (None, None)
    assert {key: text for key, text in delivery.properties.items() if not key.startswith("note#part")} == {
        "number": "0", "text": TEXT, "count": "-17", "total": str(2**62), "rate": "0.1", "price": "19.9", "ratio": "1.0E-10",
        "limit": "Infinity", "paid": "true", "open": "false", "at": str(ms(PAID_AT)), "born": str(ms(BORN)), "color": "red",
    }  # fmt: skip
    assert delivery.decode(Paid) == Paid(
        TEXT, -17, 2**62, 0.1, Decimal("19.9"), 1e-10, math.inf, True, False, PAID_AT, BORN, LARGE, Color.RED
    )
    expected = {"count": -17, "paid": True, "at": PAID_AT, "born": BORN, "note": LARGE}
    assert delivery.decode(PaidStruct) == PaidStruct(price=19.9, **expected)
    assert delivery.decode(PaidModel) == PaidModel(price=Decimal("19.9"), **expected)
    rates = {key: delivery.properties[key] for key in ("rate", "price", "ratio", "limit")}
    assert decode_body(rates, dict[str, float]) == {"rate": 0.1, "price": 19.9, "ratio": 1e-10, "limit": math.inf}


async def test_python_reads_every_body_of_java(served: System, sender: tuple[JavaClient, str]) -> None:
    client, subject = sender
    for name, (typed, *_) in FROM_JAVA.items():
        client.do("send", subject=subject, typed={"name": ["string", name], **typed})
    await asyncio.to_thread(client.wait, "sent", len(FROM_JAVA))
    found = {delivery.properties["name"]: delivery for delivery in await receive(served, subject, len(FROM_JAVA))}
    for name, (_, type_, expected, text, data) in FROM_JAVA.items():
        delivery = found[name]
        assert delivery.decode(type_) == expected, name
        assert (delivery.body, delivery.content) == (text, data), name


async def test_java_reads_a_message_of_java_unchanged_after_python_failed(
    served: System, sender: tuple[JavaClient, str]
) -> None:
    client, subject = sender
    await asyncio.to_thread(listen, client, subject, "witness", retain=True)
    await asyncio.to_thread(group_begun, served, subject, "witness")
    content = {"data": ["largeString", BASE64_LARGE], "qmq_contentType": ["string", "application/octet-stream"]}
    client.do("send", subject=subject, typed={**TYPED, **content}, tags=["eu", "字"])
    (first,) = await asyncio.to_thread(client.wait, "message", 1, f"{subject}/witness")
    async with Consumer(served.meta_url, subject, "g", start="earliest") as consumer:
        (delivery,) = await consumer.pull(1, timeout=30)
        await delivery.retry(cause="OutOfStock")
    await asyncio.to_thread(listen, client, subject, "g", retain=True)
    (second,) = await asyncio.to_thread(client.wait, "message", 1, f"{subject}/g")
    assert (second["id"], second["subject"], second["times"]) == (first["id"], subject, 2)
    assert second["tags"] == first["tags"] == ["eu", "字"]
    before, after = [
        await asyncio.to_thread(client.read, f"{subject}/{group}", first["id"], "getAttrs")
        for group in ("witness", "g")
    ]
    assert after["qmq_retryCause"] == "OutOfStock"
    assert without_attempt(after) == without_attempt(before)
    assert after["qmq_contentType"] == "application/octet-stream"
    expected: Reads = {
        ("getIntProperty", "count"): -17,
        ("getLongProperty", "total"): 2**62,
        ("getFloatProperty", "rate"): 0.1,
        ("getDoubleProperty", "limit"): math.inf,
        ("getBooleanProperty", "paid"): True,
        ("getDateProperty", "born"): ms(BORN),
        ("getLargeString", "note"): LARGE,
        ("decodeBase64", "data"): list(LARGE_PAYLOAD),
    }
    assert await asyncio.to_thread(read_all, client, f"{subject}/g", first["id"], expected) == expected


async def test_python_reads_its_bodies_unchanged_after_java_failed(
    served: System, sender: tuple[JavaClient, str]
) -> None:
    client, subject = sender
    await asyncio.to_thread(listen, client, subject, fail=1000)
    await asyncio.to_thread(group_begun, served, subject, "g")
    async with Producer(served.meta_url, compress_above=1_000) as producer:
        sent = {(await producer.send(subject, body, tags=["eu"])).message_id: body for body, _ in SENT.values()}

    def failed_once() -> bool:
        return {str(event["id"]) for event in client.of("message")} == sent.keys()

    await eventually_async(failed_once, what="every message failed")
    client.do("stopListening", name=f"{subject}/g")
    found = {delivery.message_id: delivery for delivery in await receive(served, subject, len(sent), "g")}
    assert found.keys() == sent.keys()
    for message_id, body in sent.items():
        delivery = found[message_id]
        assert (delivery.attempt > 1, delivery.tags) == (True, ("eu",))
        if isinstance(body, dict):
            assert delivery.properties.keys() == body.keys()
        else:
            assert delivery.decode(type(body)) == body

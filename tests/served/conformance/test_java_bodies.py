"""Message bodies of our client read by the official Java client, and the reverse; docs/how-to/bodies.md has the table."""

import asyncio
import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec
import pydantic
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from qmq import Consumer, Producer
from qmq.client.bodies import Json, decode_body
from qmq.client.delivery import Delivery
from qmq.middleware.opentelemetry import OpenTelemetryMiddleware
from qmq.receipt import Receipt
from tests.served.conformance.driver import JavaClient, Make, Raised, group_begun, listen
from tests.support.servers.system import System
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.usefixtures("java_tools")

NOT_A_NUMBER = Raised("NumberFormatException")
NAN = pytest.approx(math.nan, nan_ok=True)
TEXT = "Grüße, 字母 😀 \x00\x1f\u2028"
WIDE = "字" * 10_000
"""Fits one property in UTF-8, and is longer than a part of a large string."""
LARGE = "ab字母😀" * 10_000
PAID_AT = datetime(2026, 7, 1, 12, 30, 15, 250_000, tzinfo=UTC)


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


class Color(Enum):
    RED = "red"


@dataclass
class Line:
    sku: str
    price: Decimal


@dataclass
class Order:
    order: int
    lines: list[Line]
    paid_at: datetime
    color: Color = Color.RED
    note: str | None = None


class Struct(msgspec.Struct):
    order: int
    names: list[str]


class Model(pydantic.BaseModel):
    order: int
    names: list[str]


ORDER = Order(17, [Line("Ä-1", Decimal("19.90"))], PAID_AT)
ORDER_JSON = {
    "order": 17,
    "lines": [{"sku": "Ä-1", "price": "19.90"}],
    "paid_at": "2026-07-01T12:30:15.250000+00:00",
    "color": "red",
    "note": None,
}
MANY_LINES = Order(18, [Line(f"字-{number}", Decimal(number)) for number in range(2_000)], PAID_AT)
PAYLOAD = bytes(range(256))
LARGE_PAYLOAD = PAYLOAD * 200
JSON_TYPE = {
    ("getStringProperty", "qmq_contentType"): "application/json",
    ("getStringProperty", "qmq_contentEncoding"): None,
}
BYTES_TYPE = {
    ("getStringProperty", "qmq_contentType"): "application/octet-stream",
    ("getStringProperty", "qmq_contentEncoding"): "base64",
}
NO_TYPE = {("getStringProperty", "qmq_contentType"): None, ("getStringProperty", "qmq_contentEncoding"): None}

Reads = dict[tuple[str, str], Any]


def as_text(text: str) -> Reads:
    return {("getLargeString", "data"): text, ("getStringProperty", "data"): text, **NO_TYPE}


SENT: dict[str, tuple[Any, Reads]] = {
    "text": (TEXT, as_text(TEXT)),
    "empty text": ("", as_text("")),
    "text that fits one property": (WIDE, as_text(WIDE)),
    "large text": (LARGE, {**as_text(LARGE), ("getStringProperty", "data"): None}),
    "mapping": (
        {
            "text": TEXT, "empty": "", "int": -17, "long": 2**40, "beyond": 2**63, "float": 19.9, "tiny": 1e-7, "huge": 1e22,
            "infinite": math.inf, "least": -math.inf, "none": math.nan, "true": True, "false": False, "at": ms(PAID_AT),
        },
        {
            ("getStringProperty", "text"): TEXT,
            ("getStringProperty", "empty"): "",
            ("getIntProperty", "int"): -17,
            ("getStringProperty", "int"): "-17",
            ("getIntProperty", "long"): NOT_A_NUMBER,
            ("getLongProperty", "long"): 2**40,
            ("getLongProperty", "beyond"): NOT_A_NUMBER,
            ("getStringProperty", "beyond"): str(2**63),
            ("getDoubleProperty", "float"): 19.9,
            ("getFloatProperty", "float"): 19.9,
            ("getDoubleProperty", "tiny"): 1e-7,
            ("getDoubleProperty", "huge"): 1e22,
            ("getDoubleProperty", "infinite"): math.inf,
            ("getDoubleProperty", "least"): -math.inf,
            ("getDoubleProperty", "none"): NAN,
            ("getBooleanProperty", "true"): True,
            ("getBooleanProperty", "false"): False,
            ("getDateProperty", "at"): ms(PAID_AT),
            ("getStringProperty", "data"): None,
            **NO_TYPE,
        },
    ),
    "dataclass": (ORDER, {("parseJson", "data"): ORDER_JSON, **JSON_TYPE}),
    "large dataclass": (
        MANY_LINES,
        {
            ("parseJson", "data"): {
                **ORDER_JSON,
                "order": 18,
                "lines": [{"sku": f"字-{number}", "price": str(number)} for number in range(2_000)],
            },
            ("getStringProperty", "data"): None,
            **JSON_TYPE,
        },
    ),
    "msgspec": (Struct(1, ["é"]), {("parseJson", "data"): {"order": 1, "names": ["é"]}, **JSON_TYPE}),
    "pydantic": (Model(order=2, names=["é"]), {("parseJson", "data"): {"order": 2, "names": ["é"]}, **JSON_TYPE}),
    "Json": (Json([1, {"a": None}]), {("parseJson", "data"): [1, {"a": None}], **JSON_TYPE}),
    "bytes": (
        PAYLOAD,
        {
            ("decodeBase64", "data"): list(PAYLOAD),
            ("getStringProperty", "data"): base64.b64encode(PAYLOAD).decode(),
            **BYTES_TYPE,
        },
    ),
    "large bytes": (
        LARGE_PAYLOAD,
        {("decodeBase64", "data"): list(LARGE_PAYLOAD), ("getStringProperty", "data"): None, **BYTES_TYPE},
    ),
}  # fmt: skip
"""Bodies of our producer, and what the getters of Java return for them."""


def read_all(client: JavaClient, listener: str, message_id: str, reads: Reads) -> Reads:
    return {(method, key): client.read(listener, message_id, method, key) for method, key in reads}


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


def traceparent(span: ReadableSpan) -> str:
    """The context of a span as W3C writes it."""
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


# --- Java to Python -------------------------------------------------------------------------------------------------


@dataclass
class Paid:
    """What the setters of Java write, by name."""

    text: str
    count: int
    total: int
    rate: float
    price: Decimal
    ratio: float
    limit: float
    paid: bool
    open: bool
    at: datetime
    born: datetime
    note: str
    color: Color
    missing: str | None = None


class PaidStruct(msgspec.Struct):
    count: int
    price: float
    paid: bool
    at: datetime
    born: datetime
    note: str


class PaidModel(pydantic.BaseModel):
    count: int
    price: Decimal
    paid: bool
    at: datetime
    born: datetime
    note: str


BORN = datetime(1961, 5, 1, tzinfo=UTC)
TYPED = {
    "text": ["string", TEXT],
    "count": ["int", "-17"],
    "total": ["long", str(2**62)],
    "rate": ["float", "0.1"],
    "price": ["double", "19.9"],
    "ratio": ["double", "1.0E-10"],
    "limit": ["double", "Infinity"],
    "paid": ["boolean", "true"],
    "open": ["boolean", "false"],
    "at": ["date", str(ms(PAID_AT))],
    "born": ["date", str(ms(BORN))],
    "note": ["largeString", LARGE],
    "color": ["string", "red"],
}


async def receive(served: System, subject: str, count: int, group: str = "python") -> list[Delivery]:
    """Get messages of a subject from its begin, and acknowledge them."""
    found: list[Delivery] = []
    async with Consumer(served.meta_url, subject, group, start="earliest") as consumer:
        while len(found) < count:
            for delivery in await consumer.pull(count, timeout=30):
                async with delivery:
                    found.append(delivery)
    return found


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


BASE64_LARGE = base64.b64encode(LARGE_PAYLOAD).decode()
FROM_JAVA: dict[str, tuple[dict[str, list[str]], type[Any], Any, str | None, bytes]] = {
    "text": ({"data": ["string", TEXT]}, str, TEXT, TEXT, TEXT.encode()),
    "large text": ({"data": ["largeString", LARGE]}, str, LARGE, LARGE, LARGE.encode()),
    "JSON": (
        {"data": ["largeString", json.dumps(ORDER_JSON)]},
        Order, ORDER, json.dumps(ORDER_JSON), json.dumps(ORDER_JSON).encode(),
    ),
    "JSON that says so": (
        {"data": ["string", '{"order":1,"names":["é"]}'], "qmq_contentType": ["string", "application/json"]},
        Struct, Struct(1, ["é"]), '{"order":1,"names":["é"]}', '{"order":1,"names":["é"]}'.encode(),
    ),
    "bytes": (
        {
            "data": ["largeString", BASE64_LARGE],
            "qmq_contentType": ["string", "application/octet-stream"],
            "qmq_contentEncoding": ["string", "base64"],
        },
        bytes, LARGE_PAYLOAD, None, LARGE_PAYLOAD,
    ),
}  # fmt: skip
"""Properties of a Java producer; the type to decode as and the result; the text and the bytes of the body."""


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


# --- retries by the other client ------------------------------------------------------------------------------------

OF_ATTEMPTS = {"qmq_times", "qmq_retryCause", "qmq_createTime", "qmq_expireTime", "qmq_consumerGroupName"}
"""Properties in which attempts differ."""


def without_attempt(attributes: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in attributes.items() if key not in OF_ATTEMPTS}


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

"""Message bodies of both clients, and what the other one reads of them."""

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
from opentelemetry.sdk.trace import ReadableSpan

from qmq import Consumer
from qmq.client.bodies import Json
from qmq.client.delivery import Delivery
from tests.served.conformance.driver import JavaClient, Raised
from tests.support.servers.system import System

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


# --- retries by the other client ------------------------------------------------------------------------------------

OF_ATTEMPTS = {"qmq_times", "qmq_retryCause", "qmq_createTime", "qmq_expireTime", "qmq_consumerGroupName"}
"""Properties in which attempts differ."""


def without_attempt(attributes: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in attributes.items() if key not in OF_ATTEMPTS}

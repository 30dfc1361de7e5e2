"""Bodies: what each kind looks like on the wire, decoding by type, compression, and damaged input."""

import base64
import importlib
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict
from uuid import UUID

import backports.zstd
import msgspec
import pydantic
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from qmq.client import conversion, models, zstd
from qmq.client.bodies import (
    SHORT_CHARS,
    Json,
    body_bytes,
    body_text,
    decode_body,
    encode_body,
    visible_properties,
)
from qmq.errors import BodyUndecodable, LocalProtocolError
from qmq.protocol.content_encoding import zstd_library
from qmq.protocol.frames import MESSAGE_BYTES_MAX
from qmq.protocol.messages import Message, decode_raw, encode_raw
from qmq.protocol.names import VALUE_BYTES_MAX


class Currency(Enum):
    EURO = "EUR"
    DOLLAR = "USD"


class Priority(IntEnum):
    LOW = 1
    HIGH = 2


OrderId = NewType("OrderId", int)


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal
    count: int = 1


@dataclass
class Order:
    id: OrderId
    lines: list[Line]
    paid_at: datetime
    due_on: date
    opens_at: time
    key: UUID
    currency: Currency
    priority: Priority
    weights: dict[str, float]
    by_number: dict[int, Line]
    flags: frozenset[int]
    pair: tuple[int, str]
    numbers: tuple[int, ...]
    raw: bytes
    is_gift: bool
    size: Literal["s", "m", 3]
    note: str | None = None
    parent: Optional["Order"] = None
    when: datetime | str | None = None
    rate: float | int = 0.5
    free: Any = None
    history: Sequence[Mapping[str, int]] = field(default_factory=list)
    label: Annotated[str, "shown"] = ""


TEXTS = st.text(max_size=20)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=30))])
LINES = st.builds(Line, TEXTS, st.decimals(allow_nan=False, allow_infinity=False), st.integers())
ORDERS = st.builds(
    Order,
    id=st.integers().map(OrderId),
    lines=st.lists(LINES, max_size=3),
    paid_at=st.datetimes(timezones=ZONES),
    due_on=st.dates(),
    opens_at=st.times(),
    key=st.uuids(),
    currency=st.sampled_from(Currency),
    priority=st.sampled_from(Priority),
    weights=st.dictionaries(TEXTS, FINITE, max_size=3),
    by_number=st.dictionaries(st.integers(), LINES, max_size=2),
    flags=st.frozensets(st.integers(), max_size=3),
    pair=st.tuples(st.integers(), TEXTS),
    numbers=st.lists(st.integers(), max_size=3).map(tuple),
    raw=st.binary(max_size=20),
    is_gift=st.booleans(),
    size=st.sampled_from(["s", "m", 3]),
    note=st.none() | TEXTS,
    when=st.none() | st.datetimes(timezones=ZONES) | st.sampled_from(["soon", "when paid", ""]),
    rate=FINITE | st.integers(-(2**60), 2**60),
    free=st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=2)),
    history=st.lists(st.dictionaries(TEXTS, st.integers(), max_size=2), max_size=2),
    label=TEXTS,
)
ORDERS = st.builds(lambda order, parent: setattr(order, "parent", parent) or order, ORDERS, st.none() | ORDERS)

BIG_TEXTS = st.builds(
    lambda unit, length, rest: (unit * length)[:length] + rest,
    st.sampled_from(["a", "é", "字", "😀", "a😀", "\0"]),
    st.sampled_from([0, 1, SHORT_CHARS, SHORT_CHARS + 1, VALUE_BYTES_MAX // 3, 16_384, VALUE_BYTES_MAX, 40_000]),
    TEXTS,
)
ABOVE = st.sampled_from([None, 0, 100, 30_000])


def over_the_wire(properties: dict[str, str]) -> dict[str, str]:
    """What a consumer reads from what a producer writes."""
    return decode_raw(encode_raw(Message("orders", "m1", properties)))[0].properties


# --- what is on the wire --------------------------------------------------------------------------------------------


def test_texts_and_flat_mappings_have_the_properties_that_they_always_had() -> None:
    assert encode_body("paid") == {"data": "paid"}
    assert encode_body({"order": 17, "rate": 0.5, "paid": True, "free": False, "by": "card"}) == {
        "order": "17", "rate": "0.5", "paid": "true", "free": "false", "by": "card",
    }  # fmt: skip
    assert encode_body({}) == {}
    assert encode_body({"a": "x" * 100}, compress_above=10) == {"a": "x" * 100}


@given(BIG_TEXTS)
def test_a_text_is_one_property_whenever_it_fits_and_parts_of_the_official_client_otherwise(text: str) -> None:
    properties = encode_body(text)
    if len(text.encode()) <= VALUE_BYTES_MAX:
        assert properties == {"data": text}
    else:
        assert list(properties) == [f"data#part{n}" for n in range(len(properties))]
        assert all(len(part.encode("utf-16-be")) // 2 <= 8192 for part in properties.values())
        assert "".join(properties.values()) == text
    assert body_text(over_the_wire(properties)) == text
    assert body_bytes(over_the_wire(properties)) == text.encode()
    assert decode_body(properties, str) == text


def test_bytes_are_base64_and_say_so() -> None:
    properties = encode_body(b"\x00\xff")
    assert properties == {
        "qmq_contentType": "application/octet-stream",
        "qmq_contentEncoding": "base64",
        "data": "AP8=",
    }
    assert encode_body(bytearray(b"\x00\xff")) == encode_body(memoryview(b"\x00\xff")) == properties
    assert body_text(properties) is None
    assert visible_properties(properties) == {"data": "AP8="}


@given(st.binary(max_size=50) | st.sampled_from([b"ab" * 40_000, bytes(range(256)) * 150]), ABOVE)
def test_bytes_come_back(data: bytes, above: int | None) -> None:
    properties = over_the_wire(encode_body(data, compress_above=above))
    assert body_bytes(properties) == data
    assert decode_body(properties, bytes) == data


def test_models_are_json_texts_that_java_programs_can_read() -> None:
    properties = encode_body(Line("a", Decimal("1.50")))
    assert properties == {"qmq_contentType": "application/json", "data": '{"sku":"a","price":"1.50","count":1}'}
    assert encode_body(Json({"a": [1, None], "é": {}}))["data"] == '{"a":[1,null],"é":{}}'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"a": {"b": 1}}, r"property 'a' is a dict; must be str, int, float or bool. Send nested data as Json\(...\)"),
        ({"a": None}, "property 'a' is a NoneType"),
        ({"qmq_contentType": "text/html"}, "'qmq_contentType' is reserved by the protocol"),
        ({"x": 1, "qmq_times": 3}, "'qmq_times' is reserved"),
        ([1, 2], r"body of type list can't be sent; use .* Json\(...\)"),
        (Line, "body of type type can't be sent"),
        (None, "body of type NoneType can't be sent"),
        (Json(object()), "a object is not supported"),
        (Json(float("nan")), "not JSON compliant"),
        (Json({(1, 2): 3}), "keys must be str"),
        ("\ud800", "can't be written as UTF-8"),
        ("x" * 9000 + "\ud800", "can't be written as UTF-8"),
    ],
)
def test_what_can_not_be_sent_is_named(body: Any, text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        encode_raw(Message("s", "m", encode_body(body)))


def test_a_value_that_contains_itself_is_rejected() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(LocalProtocolError, match="can't be written as JSON"):
        encode_body(Json(endless))


# --- models ---------------------------------------------------------------------------------------------------------


@given(ORDERS, ABOVE)
def test_a_dataclass_comes_back_equal(order: Order, above: int | None) -> None:
    found = decode_body(over_the_wire(encode_body(order, compress_above=above)), Order)
    assert found == order
    assert type(found.rate) is type(order.rate)
    assert type(found.when) is type(order.when)


class Point(msgspec.Struct, rename="camel"):
    x_value: int
    at: datetime
    tags: list[str] = []


class Customer(pydantic.BaseModel):
    name: str
    email: str = pydantic.Field(alias="eMail")
    since: datetime
    points: list[int] = []


@dataclass
class Mixed:
    point: Point
    customers: list[Customer]


POINT = Point(1, datetime(2026, 1, 2, tzinfo=UTC), ["a"])
CUSTOMER = Customer(name="Ann", eMail="ann@example.com", since=datetime(2026, 1, 2, tzinfo=UTC), points=[1])


def test_models_of_msgspec_and_pydantic_come_back_also_inside_others() -> None:
    assert json.loads(encode_body(POINT)["data"]) == {"xValue": 1, "at": "2026-01-02T00:00:00Z", "tags": ["a"]}
    assert "eMail" in json.loads(encode_body(CUSTOMER)["data"])
    for body in (POINT, CUSTOMER, Mixed(POINT, [CUSTOMER])):
        assert decode_body(over_the_wire(encode_body(body)), type(body)) == body
    assert decode_body(encode_body(Json([POINT, POINT])), list[Point]) == [POINT, POINT]


class Address(TypedDict):
    city: str
    zip: NotRequired[int]


def test_other_annotations_read_data_as_json() -> None:
    def read(text: str, hint: Any) -> Any:
        return decode_body({"data": text}, hint)

    assert read('[{"sku":"a","price":1.1}]', list[Line]) == [Line("a", Decimal("1.1"))]
    assert read('{"city":"Oslo"}', Address) == {"city": "Oslo"}
    assert read('{"city":"Oslo","zip":1,"more":2}', Address) == {"city": "Oslo", "zip": 1}
    assert read('{"a":[1]}', Json) == Json({"a": [1]})
    assert read("17", int) == 17
    assert read("null", int | None) is None
    assert read("1700000000000", datetime) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert read("[1, 2]", set[int]) == {1, 2}
    assert read("[1]", tuple) == (1,)


def test_unions_that_differ_in_the_order_of_their_members_do_not_share_a_converter() -> None:
    by_field = '{"id": 1}'

    @dataclass
    class First:
        id: int

    @dataclass
    class Second:
        id: int

    assert type(decode_body({"data": by_field}, First | Second)) is First  # type: ignore[arg-type]
    assert type(decode_body({"data": by_field}, Second | First)) is Second  # type: ignore[arg-type]


# --- plain properties of other programs -----------------------------------------------------------------------------


@dataclass
class Paid:
    order: int
    amount: Decimal
    rate: float
    is_new: bool
    at: datetime
    currency: Currency
    note: str | None = None
    lines: list[Line] = field(default_factory=list)


JAVA = {
    "order": "17", "amount": "19.90", "rate": "0.5", "is_new": "true", "at": "1700000000000", "currency": "EUR",
    "qmq_createTime": "1", "traceparent": "00-x", "other": "ignored",
}  # fmt: skip


def test_plain_properties_become_a_dataclass_by_name() -> None:
    expected = Paid(17, Decimal("19.90"), 0.5, True, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), Currency.EURO)
    assert decode_body(JAVA, Paid) == expected
    in_iso = {**JAVA, "at": "2023-11-14T22:13:20Z", "note": "x", "lines": '[{"sku":"a","price":"1"}]'}
    found = decode_body(in_iso, Paid)
    assert (found.at, found.note, found.lines) == (expected.at, "x", [Line("a", Decimal(1))])


def test_times_of_java_programs_are_milliseconds_also_before_1970_and_for_each_kind_of_model() -> None:
    @dataclass
    class Plain:
        at: datetime

    class Struct(msgspec.Struct, rename="camel"):
        paid_at: datetime
        sent: Annotated[datetime | None, "note"] = None
        text: str = ""

    class Model(pydantic.BaseModel):
        at: datetime = pydantic.Field(alias="paidAt")

    for text, expected in (
        ("1700000000000", datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("1000", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("-1000", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ):
        assert decode_body({"at": text}, Plain).at == expected
        struct = decode_body({"paidAt": text, "sent": text, "text": text}, Struct)
        assert struct == Struct(expected, expected, text)
        assert decode_body({"paidAt": text}, Model).at == expected
    for hint in (Plain, Struct, Model):
        with pytest.raises(BodyUndecodable):
            decode_body({"at": "9" * 30, "paidAt": "9" * 30}, hint)


def test_numbers_that_are_not_finite_are_written_as_java_parses_them() -> None:
    sent = encode_body({"high": math.inf, "low": -math.inf, "none": math.nan})
    assert sent == {"high": "Infinity", "low": "-Infinity", "none": "NaN"}
    assert str(decode_body(sent, dict[str, float])) == "{'high': inf, 'low': -inf, 'none': nan}"


def test_a_long_text_in_parts_is_joined_for_a_field() -> None:
    @dataclass
    class Report:
        rows: str

    assert decode_body({"rows#part0": "a" * 8192, "rows#part1": "b"}, Report).rows == "a" * 8192 + "b"


def test_plain_properties_become_other_models_and_mappings() -> None:
    assert decode_body({"xValue": "3", "at": "2026-01-02T00:00:00Z"}, Point) == Point(
        3, datetime(2026, 1, 2, tzinfo=UTC)
    )
    plain = {"name": "Ann", "eMail": "ann@example.com", "since": "2026-01-02T00:00:00Z"}
    assert decode_body(plain, Customer).email == "ann@example.com"
    assert decode_body({"city": "Oslo", "zip": "1"}, Address) == {"city": "Oslo", "zip": 1}
    assert decode_body({"a": "1", "qmq_times": "2", "tracestate": "x"}, dict) == {"a": "1"}
    assert decode_body({"a": "1"}, dict[str, int]) == {"a": 1}
    assert decode_body({"a": "1"}, Mapping) == {"a": "1"}
    assert decode_body(encode_body(Json({"a": [1]})), dict[str, Any]) == {"a": [1]}


def test_json_in_data_is_read_without_a_content_type_unless_a_field_is_among_the_properties() -> None:
    @dataclass
    class Data:
        data: str
        number: int = 0

    assert decode_body({"data": '{"sku":"a","price":1}'}, Line) == Line("a", Decimal(1))
    assert decode_body({"data": "not JSON", "number": "3"}, Data) == Data("not JSON", 3)
    assert decode_body({"sku": "a", "price": "1", "data": "{"}, Line) == Line("a", Decimal(1))


# --- what does not fit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "hint", "field_", "text"),
    [
        (encode_body(Json({"sku": "a"})), Line, "price", "as Line: field 'price': it is missing"),
        (encode_body(Json({"sku": 1, "price": 1})), Line, "sku", "expected a text, got a number: 1"),
        (encode_body(Json([{"sku": "a", "price": "x"}])), list[Line], "[0].price", r"got a text: 'x'"),
        (encode_body(Json({"a": [1, "b"]})), dict[str, list[int]], "a[1]", "expected a whole number"),
        (encode_body(Json([1])), Line, "", "expected an object, got a list"),
        (encode_body(Json(None)), int, "", "expected a whole number, got null"),
        (encode_body(Json(True)), int, "", "expected a whole number, got a truth value: True"),
        (encode_body(Json("EURO")), Currency, "", "expected a value of Currency"),
        (encode_body(Json({"x": "y" * 100})), list[int], "", r"yyy\.\.\."),
        ({**JAVA, "order": "x"}, Paid, "order", "expected a whole number, got a text: 'x'"),
        ({**JAVA, "is_new": "yes"}, Paid, "is_new", "expected true or false"),
        ({**JAVA, "lines": "["}, Paid, "lines", "is not JSON"),
        ({"order": "1"}, Paid, "amount", "it is missing"),
        ({"a": "x"}, dict[str, int], "a", "expected a whole number"),
        ({"a": "x"}, str, "", "there is no property 'data'; it has 'a'"),
        ({}, bytes, "", "there is no property 'data'"),
        ({}, list[int], "", "there is no property 'data'"),
        (encode_body(b"x"), str, "", "it is not text"),
        (encode_body(b"x"), Line, "", "it is not text"),
        (encode_body(Json("AAAA*")), bytes | None, "", "got a text: 'AAAA"),
        ({"data": "{"}, Json, "", "is not JSON"),
        ({"data": "[" * 100_000}, Json, "", "is not JSON"),
        (encode_body(Json({"xValue": "a", "at": 1})), Point, "xValue", "Expected `int`"),
        (encode_body(Json({"name": 1, "eMail": "", "since": 0})), Customer, "name", "valid string"),
        (encode_body(Json({"point": {}, "customers": []})), Mixed, "point", "missing required field `xValue`"),
        ({"qmq_contentType": "application/json", "data": '{"sku":1}'}, Address, "city", "it is missing"),
    ],
)
def test_what_does_not_fit_is_named(properties: dict[str, str], hint: Any, field_: str, text: str) -> None:
    with pytest.raises(BodyUndecodable, match=text) as caught:
        decode_body(properties, hint)
    assert caught.value.field == field_
    assert (caught.value.code, caught.value.retriable) == ("body.undecodable", False)


def test_a_class_that_rejects_its_values_is_named() -> None:
    @dataclass
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("must be positive")

    with pytest.raises(BodyUndecodable, match="Positive rejects the values: must be positive"):
        decode_body(encode_body(Json({"number": -1})), Positive)


class Opaque:
    pass


class OfObjects(Enum):
    A = Opaque()


@pytest.mark.parametrize("hint", [Opaque, complex, list[Opaque], Callable, OfObjects])
def test_an_annotation_that_is_not_supported_is_named(hint: Any) -> None:
    with pytest.raises(BodyUndecodable, match="is not supported") as caught:
        decode_body({"data": "[1]"}, hint)
    assert caught.value.code == "body.type_unsupported"


def test_annotations_that_can_not_be_resolved_are_named() -> None:
    @dataclass
    class Hidden:
        child: "Nowhere"  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(BodyUndecodable, match=r"Nowhere.*Define the types at the top level"):
        decode_body({"data": "{}"}, Hidden)


def test_the_cache_of_converters_has_a_limit() -> None:
    assert conversion._build.cache_info().maxsize == conversion.CONVERTERS_MAX
    assert conversion._object_converter.cache_info().maxsize == conversion.CONVERTERS_MAX
    assert models.names_of.cache_info().maxsize == models.CLASSES_MAX
    assert conversion._time_names.cache_info().maxsize == conversion.CONVERTERS_MAX


KEYS = st.sampled_from(["data", "data#part0", "sku", "price", "order", "at", "xValue", "name", "city", "a"])
ANY_PROPERTIES = st.builds(
    lambda plain, kind, encoding: {**plain, **kind, **encoding},
    st.dictionaries(
        KEYS, st.text(max_size=8) | st.sampled_from(["{}", "[1]", "null", '{"sku":1,"price":"1"}', "AAAA"])
    ),
    st.sampled_from([{}, *({"qmq_contentType": kind} for kind in ("application/json", "x/y", "", "text/plain"))]),
    st.sampled_from([{}, *({"qmq_contentEncoding": each} for each in ("base64", "zstd+base64", "gzip", ""))]),
)
HINTS = st.sampled_from(
    [str, bytes, Json, dict, dict[str, int], Line, Paid, Order, Point, Customer, Address, list[Line]]
)


@given(ANY_PROPERTIES, HINTS)
def test_whatever_comes_is_decoded_or_undecodable(properties: dict[str, str], hint: Any) -> None:
    for read in (body_text, body_bytes, lambda each: decode_body(each, hint)):
        with suppress(BodyUndecodable):
            read(properties)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "lines", "sku", "price", "when", "free", "key"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(ANY_JSON, HINTS)
def test_whatever_json_comes_is_decoded_or_undecodable(value: Any, hint: Any) -> None:
    with suppress(BodyUndecodable):
        decode_body({"qmq_contentType": "application/json", "data": json.dumps(value)}, hint)


# --- compression ----------------------------------------------------------------------------------------------------


LIBRARIES = ("compression.zstd", "backports.zstd")


def use_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make one library importable, or none."""
    standard: Any = backports.zstd
    if sys.version_info >= (3, 14):
        standard = importlib.import_module("compression.zstd")
    for each in LIBRARIES:
        monkeypatch.setitem(sys.modules, each, standard if each == name else None)
    zstd_library.cache_clear()


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each library alone."""
    use_library(request.param, monkeypatch)
    yield request.param
    zstd_library.cache_clear()


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_library("", monkeypatch)
    yield
    zstd_library.cache_clear()


def packed(data: bytes, **options: Any) -> dict[str, str]:
    """A compressed body that another program has sent."""
    text = base64.b64encode(zstandard.ZstdCompressor(**options).compress(data)).decode()
    return {
        "qmq_contentType": "text/plain",
        "qmq_contentEncoding": "zstd+base64",
        **{f"data#part{n}": text[n * 8192 : (n + 1) * 8192] for n in range(len(text) // 8192 + 1)},
    }


def test_only_what_is_larger_and_becomes_smaller_is_compressed(library: str) -> None:
    zstd.require_zstd()
    assert encode_body("a" * 100, compress_above=100) == {"data": "a" * 100}
    properties = encode_body("a" * 101, compress_above=100)
    assert properties.keys() == {"qmq_contentType", "qmq_contentEncoding", "data"}
    assert properties["qmq_contentEncoding"] == "zstd+base64"
    assert len(properties["data"]) < 60
    assert body_text(properties) == decode_body(properties, str) == "a" * 101
    assert encode_body("é" * 51, compress_above=100)["qmq_contentEncoding"] == "zstd+base64"
    incompressible = base64.b85encode(bytes(range(256))).decode()
    assert encode_body(incompressible, compress_above=10) == {"data": incompressible}
    order = Json(["abc"] * 1000)
    properties = encode_body(order, compress_above=100)
    assert properties["qmq_contentType"] == "application/json"
    assert decode_body(properties, Json) == order
    assert json.loads(body_text(properties) or "") == order.value
    data = bytes(100_000)
    properties = encode_body(data, compress_above=100)
    assert sum(map(len, properties.values())) < 200
    assert (body_bytes(properties), body_text(properties)) == (data, None)
    assert encode_body(b"", compress_above=0)["qmq_contentEncoding"] == "base64"


@pytest.mark.usefixtures("library")
def test_another_implementation_reads_what_is_written_frame_by_frame() -> None:
    for text in ("a" * 50_000, "b" * 300, "a" * 50_000):
        frame = base64.b64decode(encode_body(text, compress_above=100)["data"])
        assert zstandard.frame_content_size(frame) == len(text)
        assert zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False) == text.encode()
    assert body_text(packed(b"a" * 50_000)) == "a" * 50_000


def test_a_body_decompresses_to_as_much_as_a_message_may_have_and_no_more(library: str) -> None:
    assert body_bytes(packed(bytes(MESSAGE_BYTES_MAX))) == bytes(MESSAGE_BYTES_MAX)
    with pytest.raises(BodyUndecodable, match=f"more than {MESSAGE_BYTES_MAX} bytes") as caught:
        body_text(packed(bytes(MESSAGE_BYTES_MAX + 1)))
    assert caught.value.code == "body.too_large"
    with pytest.raises(BodyUndecodable) as caught:
        decode_body(packed(bytes(200 << 20), level=1), str)
    assert caught.value.code == "body.too_large"
    assert body_bytes(packed(b"a" * 1000, write_content_size=False)) == b"a" * 1000
    for size in (MESSAGE_BYTES_MAX + 1, 200 << 20):
        with pytest.raises(BodyUndecodable) as caught:
            body_bytes(packed(bytes(size), write_content_size=False))
        assert caught.value.code == "body.too_large"


def test_a_window_larger_than_a_message_is_rejected_before_it_is_allocated(library: str) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = stream.compress(bytes(1000)) + stream.flush()
    assert zstandard.get_frame_parameters(frame).window_size == 1 << 27
    with pytest.raises(BodyUndecodable, match="damaged"):
        body_bytes({"qmq_contentEncoding": "zstd+base64", "data": base64.b64encode(frame).decode()})


def test_a_body_that_consumers_would_reject_is_not_sent(library: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"the limit is {MESSAGE_BYTES_MAX} also with compression"):
        encode_body(bytes(MESSAGE_BYTES_MAX + 1), compress_above=100)
    assert body_bytes(encode_body(bytes(MESSAGE_BYTES_MAX), compress_above=100)) == bytes(MESSAGE_BYTES_MAX)


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        ("A", "base64", "it is not base64"),
        ("é", "base64", "it is not base64"),
        ("AAAA*", "base64", "it is not base64"),
        ("A", "zstd+base64", "it is not base64"),
        ("AAAA", "zstd+base64", "damaged"),
        ("", "zstd+base64", "damaged"),
        (base64.b64encode(zstandard.compress(b"abc" * 99)[:-1]).decode(), "zstd+base64", "damaged"),
        (base64.b64encode(zstandard.compress(b"abc" * 99) + b"x").decode(), "zstd+base64", "damaged"),
        ("AAAA", "br", "unknown encoding 'br', this version knows base64 and zstd.base64. Upgrade the consumer"),
        ("/////w==", "base64", "is not UTF-8 text although its content type is 'text/plain'"),
    ],
)
def test_damaged_and_unknown_encodings_are_named(library: str, text: str, encoding: str, message: str) -> None:
    properties = {"data": text, "qmq_contentEncoding": encoding, "qmq_contentType": "text/plain"}
    for read in (body_text, lambda each: decode_body(each, str), lambda each: decode_body(each, Line)):
        with pytest.raises(BodyUndecodable, match=message):
            read(properties)


@pytest.mark.usefixtures("no_library")
def test_a_missing_library_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(LocalProtocolError, match=r"compress_above: .* pip install 'pyqmq\[zstd\]'"):
        zstd.require_zstd()
    with pytest.raises(LocalProtocolError, match=r"pyqmq\[zstd\]"):
        encode_body("a" * 1000, compress_above=10)
    with pytest.raises(BodyUndecodable, match=r"the body is compressed; .*pyqmq\[zstd\]") as caught:
        body_text(packed(b"a"))
    assert caught.value.code == "body.codec_missing"
    assert encode_body("a", compress_above=10) == {"data": "a"}


def test_bodies_need_no_library() -> None:
    code = """
import sys
for name in ("msgspec", "pydantic", "zstandard", "backports", "compression", "opentelemetry", "prometheus_client"):
    sys.modules[name] = None
from dataclasses import dataclass
from qmq.client.bodies import Json, decode_body, encode_body
@dataclass
class Line:
    sku: str
for body in (Line("a"), "text", b"bytes", Json([1])):
    assert decode_body(encode_body(body), type(body)) == body
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr

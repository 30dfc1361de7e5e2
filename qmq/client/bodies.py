"""Bodies of messages as properties, and back: texts, mappings, bytes, models.

    str                                      property `data`
    flat mapping                             one property for each key
    bytes                                    `data` in base64
    dataclass, msgspec, pydantic, Json       `data` as JSON text
    all but mappings, compressed             `data` as base64 of a Zstandard frame

A text that does not fit one property is split into `data#part0`, `data#part1`, ... as the official client does it. The properties
`qmq_contentType` and `qmq_contentEncoding` describe `data`; a text and a flat mapping have neither.
"""

import sys
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Protocol, TypeVar, cast

from qmq.client import conversion, zstd
from qmq.client.models import Mismatch, is_dataclass_instance, to_json
from qmq.errors import BodyUndecodable, LocalProtocolError
from qmq.protocol.content_encoding import CONTENT_BYTES_MAX, ENCODING_BASE64, ENCODING_ZSTD, content_bytes
from qmq.protocol.messages import (
    HIDDEN_KEYS,
    KEY_CONTENT_ENCODING,
    KEY_CONTENT_TYPE,
    RESERVED_KEYS,
    get_large_string,
    set_large_string,
)
from qmq.protocol.names import VALUE_BYTES_MAX
from qmq.protocol.primitives import utf8

T = TypeVar("T")

KEY_DATA = "data"
KEY_FIRST_PART = "data#part0"
TYPE_TEXT = "text/plain"
TYPE_JSON = "application/json"
TYPE_BYTES = "application/octet-stream"
SHORT_CHARS = VALUE_BYTES_MAX // 4
"""A text with at most this number of characters fits one property, whatever the characters are."""


@dataclass(frozen=True, slots=True)
class Json:
    """A body that is sent as JSON text: nested dicts and lists, texts, numbers, truth values and None.

    Also datetimes, dates, Decimals, UUIDs, enums, bytes (as base64) and dataclasses at any depth, as JSON texts and objects.
    """

    value: Any


@dataclass(frozen=True, slots=True)
class EncodedBody:
    """A body as `encode_body` returned it once: the properties of a copy of a message, with content type and encoding."""

    properties: Mapping[str, str]


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class _Struct(Protocol):
    __struct_fields__: ClassVar[tuple[str, ...]]


class _PydanticModel(Protocol):
    def model_dump_json(self, *, by_alias: bool | None = None) -> str: ...


Body = (
    Mapping[str, str | int | float | bool]
    | str
    | bytes
    | bytearray
    | memoryview
    | Json
    | EncodedBody
    | _Dataclass
    | _Struct
    | _PydanticModel
)
"""What can be sent: properties; a text; bytes; an instance of a dataclass, msgspec.Struct or pydantic.BaseModel; Json."""


def encode_body(body: Body, *, compress_above: int | None = None) -> dict[str, str]:
    """Return a body as the properties of a message.

    Args:
        compress_above: compress a body of more bytes than this, if it becomes smaller; None: never. Mappings are not compressed.

    Raises:
        LocalProtocolError: a type, value or reserved name that can't be sent, or a body above `CONTENT_BYTES_MAX`.
    """
    kind = type(body)
    if kind is str:
        text = cast(str, body)
        if compress_above is None and len(text) <= SHORT_CHARS:
            return {KEY_DATA: text}
        return _encode_text(text, None, compress_above)
    if kind is dict or isinstance(body, Mapping):
        return _encode_mapping(cast("Mapping[str, str | int | float | bool]", body))
    if isinstance(body, str):
        return _encode_text(str(body), None, compress_above)
    if isinstance(body, EncodedBody):
        return dict(body.properties)
    if isinstance(body, bytes | bytearray | memoryview):
        return _encode_bytes(bytes(body), compress_above)
    return _encode_text(_json_text(body), TYPE_JSON, compress_above)


def _encode_mapping(body: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    if not RESERVED_KEYS.isdisjoint(body):
        key = next(key for key in body if key in RESERVED_KEYS)
        raise LocalProtocolError(f"property {key!r} is reserved by the protocol and can't be set")
    properties = {}
    for key, value in body.items():
        if type(value) is str:
            properties[key] = value
        elif isinstance(value, bool):
            properties[key] = "true" if value else "false"
        elif isinstance(value, float) and not isfinite(value):
            properties[key] = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # as Java parses it
        elif isinstance(value, str | int | float):
            properties[key] = str(value)
        else:
            raise LocalProtocolError(
                f"property {key!r} is a {type(value).__name__}; must be str, int, float or bool. "
                "Send nested data as Json(...) or as a dataclass"
            )
    return properties


def _encode_text(text: str, content_type: str | None, compress_above: int | None) -> dict[str, str]:
    if compress_above is not None and len(text) * 4 > compress_above:
        data = utf8(text, "the body")
        if (packed := _packed(data, compress_above, len(data))) is not None:
            head = {KEY_CONTENT_TYPE: content_type or TYPE_TEXT, KEY_CONTENT_ENCODING: ENCODING_ZSTD}
            return _with_data(head, packed)
    return _with_data({} if content_type is None else {KEY_CONTENT_TYPE: content_type}, text)


def _encode_bytes(data: bytes, compress_above: int | None) -> dict[str, str]:
    text, encoding = b64encode(data).decode("ascii"), ENCODING_BASE64
    if compress_above is not None:
        packed = _packed(data, compress_above, len(text))
        if packed is not None:
            text, encoding = packed, ENCODING_ZSTD
    return _with_data({KEY_CONTENT_TYPE: TYPE_BYTES, KEY_CONTENT_ENCODING: encoding}, text)


def _packed(data: bytes, compress_above: int, plain_bytes: int) -> str | None:
    """Compressed data as text; None if the plain form is to be sent, which has `plain_bytes` bytes."""
    if len(data) <= compress_above:
        return None
    if len(data) > CONTENT_BYTES_MAX:
        # Consumers reject what decompresses to more, so that no message can exhaust their memory.
        raise LocalProtocolError(
            f"body of {len(data)} bytes, the limit is {CONTENT_BYTES_MAX} also with compression; store large data elsewhere "
            "and send a reference to it"
        )
    packed = b64encode(zstd.compress(data)).decode("ascii")
    return packed if len(packed) < plain_bytes else None


def _with_data(properties: dict[str, str], text: str) -> dict[str, str]:
    if len(text) <= SHORT_CHARS or len(utf8(text, "the body")) <= VALUE_BYTES_MAX:
        properties[KEY_DATA] = text
    else:
        set_large_string(properties, KEY_DATA, text)
    return properties


def _json_text(body: object) -> str:
    try:
        if isinstance(body, Json):
            return to_json(body.value)
        msgspec = sys.modules.get("msgspec")
        if msgspec is not None and isinstance(body, msgspec.Struct):
            return cast(bytes, msgspec.json.encode(body)).decode()
        pydantic = sys.modules.get("pydantic")
        if pydantic is not None and isinstance(body, pydantic.BaseModel):
            return cast(str, body.model_dump_json(by_alias=True))
        if is_dataclass_instance(body):
            return to_json(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(f"a body of type {type(body).__name__} can't be written as JSON: {error}") from error
    raise LocalProtocolError(
        f"a body of type {type(body).__name__} can't be sent; use str, bytes, a flat dict, a dataclass, a msgspec.Struct, a "
        "pydantic model, or Json(...) for nested data"
    )


def visible_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that the producer has set, without those of the protocol and the trace context."""
    return {key: value for key, value in properties.items() if key not in HIDDEN_KEYS}


def body_text(properties: Mapping[str, str]) -> str | None:
    """Return the text of `data`, decompressed; None if there is none or if it contains bytes. Raises BodyUndecodable."""
    if KEY_CONTENT_ENCODING not in properties:
        return get_large_string(properties, KEY_DATA)
    kind = _kind_of(properties)
    if kind and not kind.startswith("text/") and not _is_json(kind):
        return None
    data = body_bytes(properties)
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BodyUndecodable(
            f"the body is not UTF-8 text although its content type is {properties.get(KEY_CONTENT_TYPE)!r}: {error}"
        ) from error


def body_bytes(properties: Mapping[str, str]) -> bytes | None:
    """Return the body as bytes, decompressed; a text in UTF-8. None without property `data`. Raises BodyUndecodable."""
    text = get_large_string(properties, KEY_DATA)
    if text is None:
        return None
    encoding = properties.get(KEY_CONTENT_ENCODING)
    return text.encode("utf-8", "surrogatepass") if encoding is None else content_bytes(text, encoding)


def _is_json(kind: str) -> bool:
    return kind == TYPE_JSON or kind.endswith("+json")


def _kind_of(properties: Mapping[str, str]) -> str:
    """The content type without parameters; "" if there is none."""
    return properties.get(KEY_CONTENT_TYPE, "").partition(";")[0].strip().lower()


def decode_body(properties: Mapping[str, str], type_: type[T]) -> T:
    """Return the body of a message as an instance of a type.

    - `str`, `bytes`: as `body_text` and `body_bytes`.
    - `Json`: `data` as JSON, without conversion.
    - `dict`, `Mapping`, `dict[str, int]` and so on: the properties, each converted from its text; `data` as JSON if its content
      type is JSON.
    - A dataclass, TypedDict, msgspec.Struct or pydantic.BaseModel: `data` as JSON. If the content type is not JSON: the properties
      with the names of the fields, if there is at least one of these or no `data`.
    - Any other annotation, such as `list[Order]`: `data` as JSON.

    Raises:
        BodyUndecodable: the body does not fit; `field` and the message name the first field that does not. Whatever the body
            contains and the type raises, it is this error.
    """
    if type_ is str or type_ is bytes:
        body = body_text(properties) if type_ is str else body_bytes(properties)
        if body is None:
            raise _undecodable(type_, _no_text(properties))
        return cast(T, body)
    is_json = _is_json(_kind_of(properties))
    try:
        if not is_json and _is_by_name(properties, type_):
            return cast(T, conversion.from_properties(visible_properties(properties), type_))
        text = body_text(properties)
        if text is None:
            raise Mismatch(_no_text(properties))
        if type_ is Json:
            return cast(T, Json(conversion.load(text)))
        return cast(T, conversion.from_json(text, type_))
    except BodyUndecodable:
        raise
    except Mismatch as error:
        raise _undecodable(type_, error.reason, error.field, error.code) from error
    except RecursionError as error:
        raise _undecodable(type_, "it is nested too deeply") from error
    except Exception as error:  # raised by the type itself, for example by its `__post_init__` or a validator
        raise _undecodable(type_, f"{type(error).__name__}: {error}") from error


def _is_by_name(properties: Mapping[str, str], type_: Any) -> bool:
    """Whether the properties are the fields of the type, not a text in `data`."""
    if conversion.is_mapping(type_):
        return True
    names = conversion.field_names(type_)
    if names is None:
        return False
    return not _has_data(properties) or any(name in properties or f"{name}#part0" in properties for name in names)


def _has_data(properties: Mapping[str, str]) -> bool:
    return KEY_DATA in properties or KEY_FIRST_PART in properties


def _no_text(properties: Mapping[str, str]) -> str:
    if _has_data(properties):
        return "it is not text"
    names = sorted(visible_properties(properties))[:10]
    return f"there is no property {KEY_DATA!r}" + (f"; it has {', '.join(map(repr, names))}" if names else "")


def _undecodable(type_: Any, reason: str, field: str = "", code: str | None = None) -> BodyUndecodable:
    name = conversion.type_name(type_)
    place = f"field {field!r}: " if field else ""
    return BodyUndecodable(f"the body can't be decoded as {name}: {place}{reason}", field=field, code=code)

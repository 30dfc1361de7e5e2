"""Bodies of QMQ's own commands. Field names are ours; docstrings give the wire's.

Bodies differ by header version only in PULL and ACK. Source: docs/reference/wire.md, sections 4 to 9.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Annotated, Any, ClassVar, Self

from qmq.errors import ProtocolError
from qmq.protocol.codes import (
    CURRENT_VERSION,
    BrokerGroupState,
    BrokerRequestType,
    ClientRequestType,
    ClientType,
    FilterType,
    OnlineState,
    Role,
    SendResult,
    TagType,
)
from qmq.protocol.kinds import (
    Bool,
    Choice,
    I8Field,
    I16Field,
    I32Field,
    I64Field,
    Kind,
    MapKind,
    MapText,
    Number,
    Part,
    Rest,
    Str,
    String,
)
from qmq.protocol.primitives import Reader
from qmq.protocol.structures import Body, ByVersion, Counted, Nested, Structure, UntilEnd

VERSION_WITH_TAGS = 8
"""From here on a PULL ends with a filter and an ACK with the broadcast byte."""
VERSION_WITH_FILTERS = 9
"""From here on a PULL ends with a counted list of filters."""
FILTERS_MAX = 64
"""Most filters of a pull; clients send two at the most."""

PULL_RESPONSE_HEAD = Struct(">qq")
"""Before the messages of a pull's answer: first pull sequence, consumer log offset (-1)."""

# --- send -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendFailure(Structure):
    """What became of a message that was not stored."""

    message_id: Str
    result: I32Field
    remark: Str


@dataclass(frozen=True, slots=True)
class SendResponse(Structure):
    """The answer to a SEND: only what failed; empty when all was stored."""

    failures: Annotated[tuple[SendFailure, ...], UntilEnd(SendFailure)]


def encode_send_response(failures: Iterable[SendFailure]) -> bytes:
    """The body of a `SendResponse`."""
    return SendResponse(tuple(failures)).encode()


def decode_send_response(body: Body) -> dict[str, SendFailure]:
    """Failures by message id; an explicit success is left out."""
    if not body:
        return {}
    failures = SendResponse.decode(body).failures
    return {failure.message_id: failure for failure in failures if failure.result != SendResult.SUCCESS}


# --- pull -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TagFilter(Structure):
    """Messages with one (OR) or all (AND) of these tags; `tag_type` is a `TagType`."""

    tag_type: I16Field
    tags: Annotated[tuple[str, ...], Counted("B", String(), "tags")]


@dataclass(frozen=True, slots=True)
class SubEnvFilter(Structure):
    """Messages of an environment and sub-environment (wire: SUB_ENV_ISOLATION)."""

    env: Str
    sub_env: Str


Filter = TagFilter | SubEnvFilter
NO_TAG_FILTER = TagFilter(TagType.NO_TAG, ())


class _AnyFilter(Kind):
    """A filter behind the number of its type."""

    _types: ClassVar = {FilterType.TAG: Nested(TagFilter), FilterType.SUB_ENV: Nested(SubEnvFilter)}
    _number = Number("h")
    least_bytes = _number.least_bytes + min(kind.least_bytes for kind in _types.values())
    label = "i16 1 and TagFilter or i16 2 and SubEnvFilter"

    def read(self, reader: Reader) -> Any:
        number = self._number.read(reader)
        kind = self._types.get(number)
        if kind is None:
            raise ProtocolError(f"filter type {number} is not supported; must be 1 (tag) or 2 (sub-environment)")
        return kind.read(reader)

    def write(self, parts: list[Part], value: Any) -> None:
        number = FilterType.TAG if isinstance(value, TagFilter) else FilterType.SUB_ENV
        self._number.write(parts, number)
        self._types[number].write(parts, value)


class _OneTagFilter(Kind):
    """A tag filter, which filters nothing when there is none."""

    _kind = Nested(TagFilter)
    least_bytes = _kind.least_bytes
    label = "TagFilter"

    def read(self, reader: Reader) -> Any:
        return (self._kind.read(reader),)

    def write(self, parts: list[Part], value: Any) -> None:
        tag_filters = [item for item in value if isinstance(item, TagFilter)]
        self._kind.write(parts, tag_filters[0] if tag_filters else NO_TAG_FILTER)


_FILTERS = ByVersion(
    {
        VERSION_WITH_TAGS: _OneTagFilter(),
        VERSION_WITH_FILTERS: Counted("i", _AnyFilter(), "filters", FILTERS_MAX),
    }
)


# Requests of every pull and ack are not frozen: to make a frozen value costs as much as to decode it.


@dataclass(slots=True)
class PullRequest(Structure):
    """A pull. `limit` is the wire's requestNum; `pull_begin` and `pull_last` are its pullOffsetBegin and -Last
    (closed, -1: none yet); a negative `timeout_ms` requests an answer at once."""

    is_exact = True

    subject: Str
    group: Str
    consumer_id: Str
    limit: I32Field
    offset: ClassVar[I64Field] = -1
    pull_begin: I64Field
    pull_last: I64Field
    timeout_ms: I64Field
    broadcast: Bool
    filters: Annotated[tuple[Filter, ...], _FILTERS] = ()


@dataclass(frozen=True, slots=True)
class PullResponse(Structure):
    """The answer to a pull that found something: `raws` back to back, the first one is pull sequence `pull_begin`.

    An empty body means that there is nothing: it is decoded as -1 and no messages.
    """

    pull_begin: I64Field
    log_offset: ClassVar[I64Field] = -1
    raws: Annotated[memoryview, Rest("raw messages")]

    @classmethod
    def decode(cls, body: Body, version: int = CURRENT_VERSION) -> Self:
        return super(PullResponse, cls).decode(body, version) if body else cls(-1, memoryview(b""))


# --- ack ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AckRequest(Structure):
    """The closed range [pull_begin, pull_last] is processed; -1, -1 only reports that the consumer is running."""

    is_exact = True

    subject: Str
    group: Str
    consumer_id: Str
    pull_begin: I64Field
    pull_last: I64Field
    broadcast: Annotated[bool, ByVersion({VERSION_WITH_TAGS: Number("?")})] = False

    @property
    def is_heartbeat(self) -> bool:
        return self.pull_begin < 0


# --- clients and the metaserver -------------------------------------------------------------------------------------


class _MapByte(MapKind):
    """A decimal that an i8 can echo; else the default, as in QMQ: an error code would leave the client waiting (T1)."""

    label = "integer"

    def parse(self, key: str, text: str) -> Any:
        try:
            value = int(text)
        except ValueError:
            return self.missing
        return value if -128 <= value <= 127 else self.missing


@dataclass(frozen=True, slots=True)
class ClientRegisterRequest(Structure):
    """A client requests a subject's route and reports that it is running.

    `client_type` is a `ClientType`, `request_type` a `ClientRequestType`. `agent` is PyQMQ's: library and language with their
    versions; metaservers of QMQ ignore it.
    """

    subject: Annotated[str, MapText()]
    client_type: Annotated[int, _MapByte("clientTypeCode", missing=int(ClientType.OTHER))]
    app: Annotated[str, MapText("appCode")]
    client_id: Annotated[str, MapText("clientId")]
    group: Annotated[str, MapText("consumerGroup")]
    request_type: Annotated[int, _MapByte("requestType", missing=int(ClientRequestType.ONLINE))]
    data_center: Annotated[str, MapText("clientLDC", is_optional=True)] = ""
    agent: Annotated[str, MapText("clientAgent", is_optional=True)] = ""


@dataclass(frozen=True, slots=True)
class BrokerGroupRoute(Structure):
    """One broker group of a route; `master` is `host:port`, `state` a `BrokerGroupState`."""

    name: Str
    master: Str
    updated_at_ms: I64Field
    state: I8Field


class _Online(Number):
    """A truth value as `OnlineState`: 0 for true."""

    def __init__(self) -> None:
        super().__init__("b")
        self.label = "i8, 0 when true"

    def read(self, reader: Reader) -> Any:
        return super().read(reader) == OnlineState.ONLINE

    def write(self, parts: list[Part], value: Any) -> None:
        super().write(parts, OnlineState.ONLINE if value else OnlineState.OFFLINE)


@dataclass(frozen=True, slots=True)
class ClientRegisterResponse(Structure):
    """A route. Subject, group and client type echo the request: clients match answers by them (traps T19, T7)."""

    timestamp_ms: I64Field
    subject: Str
    group: Str
    online: Annotated[bool, _Online()]
    client_type: I8Field
    broker_groups: Annotated[tuple[BrokerGroupRoute, ...], Counted("h", BrokerGroupRoute, "broker groups")]


# --- nodes of QMQ and the metaserver --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerAcquireMetaRequest(Structure):
    """A node of QMQ requests the group it belongs to."""

    hostname: Str
    port: I32Field


@dataclass(frozen=True, slots=True)
class BrokerAcquireMetaResponse(Structure):
    """Group, address a slave syncs from (empty for a master), `Role`."""

    broker_group: Str
    master_sync_address: Str
    role: I32Field


@dataclass(frozen=True, slots=True)
class BrokerRegisterRequest(Structure):
    """The state of a node of QMQ."""

    request_type: Annotated[int, Choice("i", BrokerRequestType)]
    broker_group: Str
    address: Str
    role: Annotated[int, Choice("i", Role)]
    state: Annotated[int, Choice("i", BrokerGroupState)]


@dataclass(frozen=True, slots=True)
class ConsumeManageRequest(Structure):
    """Set a group to the end (`where` 1) or the beginning (2) of a subject."""

    subject: Str
    group: Str
    where: I32Field

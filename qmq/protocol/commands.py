"""A frozen value per request and answer, decode beside encode. Field names are ours; docstrings give the wire's.

Bodies differ by header version only in PULL and ACK. Source: docs/reference/wire.md, sections 4 to 9.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from qmq.errors import ProtocolError
from qmq.protocol.codes import (
    BrokerGroupState,
    BrokerRequestType,
    ClientRequestType,
    ClientType,
    FilterType,
    OnlineState,
    Role,
    SendResult,
    SyncType,
    TagType,
)
from qmq.protocol.primitives import Reader, Writer

VERSION_WITH_TAGS = 8
"""From here on a PULL ends with a filter and an ACK with the broadcast byte."""
VERSION_WITH_FILTERS = 9
"""From here on a PULL ends with a counted list of filters."""
FILTERS_MAX = 64
"""Most filters of a pull; clients send two at the most."""

PULL_RESPONSE_HEAD = Struct(">qq")
"""Before the messages of a pull's answer: first pull sequence, consumer log offset (-1)."""

Body = memoryview | bytes

# --- send -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendFailure:
    """What became of a message that was not stored."""

    message_id: str
    result: int
    remark: str


def encode_send_response(failures: Iterable[SendFailure]) -> bytes:
    """The answer to a SEND: only what failed; empty when all was stored."""
    writer = Writer()
    for failure in failures:
        writer.str_(failure.message_id).i32(failure.result).str_(failure.remark)
    return writer.done()


def decode_send_response(body: Body) -> dict[str, SendFailure]:
    """Failures by message id; an explicit success is left out."""
    reader = Reader(body)
    failures: dict[str, SendFailure] = {}
    while reader.remaining:
        failure = SendFailure(reader.str_(), reader.i32(), reader.str_())
        if failure.result != SendResult.SUCCESS:
            failures[failure.message_id] = failure
    return failures


# --- pull -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TagFilter:
    """Messages with one (OR) or all (AND) of these tags."""

    tag_type: int
    tags: tuple[str, ...]

    def write(self, writer: Writer) -> None:
        writer.i16(self.tag_type).i8(len(self.tags))
        for tag in self.tags:
            writer.str_(tag)

    @classmethod
    def read(cls, reader: Reader) -> "TagFilter":
        tag_type = reader.i16()
        count = reader.count(reader.i8() & 0xFF, 2, "tags")
        return cls(tag_type, tuple(reader.str_() for _ in range(count)))


@dataclass(frozen=True, slots=True)
class SubEnvFilter:
    """Messages of an environment and sub-environment (wire: SUB_ENV_ISOLATION)."""

    env: str
    sub_env: str

    def write(self, writer: Writer) -> None:
        writer.str_(self.env).str_(self.sub_env)

    @classmethod
    def read(cls, reader: Reader) -> "SubEnvFilter":
        return cls(reader.str_(), reader.str_())


Filter = TagFilter | SubEnvFilter
NO_TAG_FILTER = TagFilter(TagType.NO_TAG, ())


@dataclass(frozen=True, slots=True)
class PullRequest:
    """PULL_MESSAGE. `limit` is the wire's requestNum; `pull_begin` and `pull_last` are its pullOffsetBegin and -Last
    (closed, -1: none yet); a negative `timeout_ms` asks for an answer at once."""

    subject: str
    group: str
    consumer_id: str
    limit: int
    pull_begin: int
    pull_last: int
    timeout_ms: int
    broadcast: bool
    filters: tuple[Filter, ...] = ()
    offset: int = -1

    def encode(self, version: int) -> bytes:
        writer = Writer().str_(self.subject).str_(self.group).str_(self.consumer_id).i32(self.limit)
        writer.i64(self.offset).i64(self.pull_begin).i64(self.pull_last).i64(self.timeout_ms).i8(self.broadcast)
        if version >= VERSION_WITH_FILTERS:
            writer.i32(len(self.filters))
            for item in self.filters:
                writer.i16(FilterType.TAG if isinstance(item, TagFilter) else FilterType.SUB_ENV)
                item.write(writer)
        elif version == VERSION_WITH_TAGS:
            tag_filters = [item for item in self.filters if isinstance(item, TagFilter)]
            (tag_filters[0] if tag_filters else NO_TAG_FILTER).write(writer)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "PullRequest":
        reader = Reader(body)
        subject, group, consumer_id = reader.str_(), reader.str_(), reader.str_()
        limit, offset = reader.i32(), reader.i64()
        pull_begin, pull_last, timeout_ms = reader.i64(), reader.i64(), reader.i64()
        broadcast = reader.bool_()
        filters: tuple[Filter, ...] = ()
        if version >= VERSION_WITH_FILTERS:
            count = reader.count(reader.i32(), 5, "filters")
            if count > FILTERS_MAX:
                raise ProtocolError(f"{count} filters, at most {FILTERS_MAX}")
            filters = tuple(_read_filter(reader) for _ in range(count))
        elif version == VERSION_WITH_TAGS:
            filters = (TagFilter.read(reader),)
        reader.expect_end()
        return cls(subject, group, consumer_id, limit, pull_begin, pull_last, timeout_ms, broadcast, filters, offset)


def _read_filter(reader: Reader) -> Filter:
    kind = reader.i16()
    if kind == FilterType.TAG:
        return TagFilter.read(reader)
    if kind == FilterType.SUB_ENV:
        return SubEnvFilter.read(reader)
    raise ProtocolError(f"filter type {kind} is not supported; must be 1 (tag) or 2 (sub-environment)")


@dataclass(frozen=True, slots=True)
class PullResponse:
    """The answer to a pull that found something: `raws` back to back, the first one is pull sequence `pull_begin`."""

    pull_begin: int
    raws: memoryview
    log_offset: int = -1

    def encode(self, version: int) -> bytes:
        return PULL_RESPONSE_HEAD.pack(self.pull_begin, self.log_offset) + self.raws

    @classmethod
    def decode(cls, body: Body, version: int) -> "PullResponse | None":
        """None for an empty body, which also means that there is nothing."""
        reader = Reader(body)
        if not reader.remaining:
            return None
        pull_begin, log_offset = reader.i64(), reader.i64()
        return cls(pull_begin, reader.rest(), log_offset)


# --- ack ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AckRequest:
    """ACK_REQUEST: the closed range [pull_begin, pull_last] is done; -1, -1 only says that the consumer lives."""

    subject: str
    group: str
    consumer_id: str
    pull_begin: int
    pull_last: int
    broadcast: bool

    @property
    def is_heartbeat(self) -> bool:
        return self.pull_begin < 0

    def encode(self, version: int) -> bytes:
        writer = Writer().str_(self.subject).str_(self.group).str_(self.consumer_id)
        writer.i64(self.pull_begin).i64(self.pull_last)
        if version >= VERSION_WITH_TAGS:
            writer.i8(self.broadcast)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "AckRequest":
        reader = Reader(body)
        subject, group, consumer_id = reader.str_(), reader.str_(), reader.str_()
        pull_begin, pull_last = reader.i64(), reader.i64()
        broadcast = reader.bool_() if version >= VERSION_WITH_TAGS else False
        reader.expect_end()
        return cls(subject, group, consumer_id, pull_begin, pull_last, broadcast)


# --- clients and the metaserver -------------------------------------------------------------------------------------


def _byte(entries: dict[str, str], key: str, default: int) -> int:
    """A decimal that an i8 can echo; else the default, as in QMQ: an error code would leave the client waiting (T1)."""
    try:
        value = int(entries.get(key, ""))
    except ValueError:
        return default
    return value if -128 <= value <= 127 else default


@dataclass(frozen=True, slots=True)
class ClientRegisterRequest:
    """CLIENT_REGISTER: a client asks for a subject's route and shows that it lives."""

    subject: str
    client_type: int
    app: str
    client_id: str
    group: str
    request_type: int
    data_center: str = ""

    def encode(self, version: int) -> bytes:
        entries = {
            "subject": self.subject,
            "clientTypeCode": str(int(self.client_type)),
            "appCode": self.app,
            "clientId": self.client_id,
            "consumerGroup": self.group,
            "requestType": str(int(self.request_type)),
        }
        if self.data_center:
            entries["clientLDC"] = self.data_center
        return Writer().strmap(entries).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "ClientRegisterRequest":
        entries = Reader(body).strmap()
        return cls(
            entries.get("subject", ""),
            _byte(entries, "clientTypeCode", ClientType.OTHER),
            entries.get("appCode", ""),
            entries.get("clientId", ""),
            entries.get("consumerGroup", ""),
            _byte(entries, "requestType", ClientRequestType.ONLINE),
            entries.get("clientLDC", ""),
        )


@dataclass(frozen=True, slots=True)
class BrokerGroupRoute:
    """One broker group of a route; `master` is `host:port`."""

    name: str
    master: str
    updated_at_ms: int
    state: int


@dataclass(frozen=True, slots=True)
class ClientRegisterResponse:
    """A route. Subject, group and client type echo the request: clients match answers by them (traps T19, T7)."""

    timestamp_ms: int
    subject: str
    group: str
    online: bool
    client_type: int
    broker_groups: tuple[BrokerGroupRoute, ...]

    def encode(self, version: int) -> bytes:
        writer = Writer().i64(self.timestamp_ms).str_(self.subject).str_(self.group)
        writer.i8(OnlineState.ONLINE if self.online else OnlineState.OFFLINE).i8(self.client_type)
        writer.i16(len(self.broker_groups))
        for route in self.broker_groups:
            writer.str_(route.name).str_(route.master).i64(route.updated_at_ms).i8(route.state)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "ClientRegisterResponse":
        reader = Reader(body)
        timestamp_ms, subject, group = reader.i64(), reader.str_(), reader.str_()
        online, client_type = reader.i8() == OnlineState.ONLINE, reader.i8()
        count = reader.count(reader.i16(), 13, "broker groups")
        routes = tuple(BrokerGroupRoute(reader.str_(), reader.str_(), reader.i64(), reader.i8()) for _ in range(count))
        return cls(timestamp_ms, subject, group, online, client_type, routes)


# --- nodes of QMQ and the metaserver --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerAcquireMetaRequest:
    """BROKER_ACQUIRE_META: a node asks which group it belongs to."""

    hostname: str
    port: int

    def encode(self, version: int) -> bytes:
        return Writer().str_(self.hostname).i32(self.port).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "BrokerAcquireMetaRequest":
        reader = Reader(body)
        return cls(reader.str_(), reader.i32())


@dataclass(frozen=True, slots=True)
class BrokerAcquireMetaResponse:
    """Group, address a slave syncs from (empty for a master), role."""

    broker_group: str
    master_sync_address: str
    role: int

    def encode(self, version: int) -> bytes:
        return Writer().str_(self.broker_group).str_(self.master_sync_address).i32(self.role).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "BrokerAcquireMetaResponse":
        reader = Reader(body)
        return cls(reader.str_(), reader.str_(), reader.i32())


@dataclass(frozen=True, slots=True)
class BrokerRegisterRequest:
    """BROKER_REGISTER: a node's state; answered with an empty body."""

    request_type: int
    broker_group: str
    address: str
    role: int
    state: int

    def encode(self, version: int) -> bytes:
        writer = Writer().i32(self.request_type).str_(self.broker_group).str_(self.address)
        return writer.i32(self.role).i32(self.state).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "BrokerRegisterRequest":
        reader = Reader(body)
        request = cls(reader.i32(), reader.str_(), reader.str_(), reader.i32(), reader.i32())
        for value, known in (
            (request.request_type, BrokerRequestType),
            (request.role, Role),
            (request.state, BrokerGroupState),
        ):
            if value not in {int(item) for item in known}:
                raise ProtocolError(f"{value} is no {known.__name__}")
        return request


@dataclass(frozen=True, slots=True)
class ConsumeManageRequest:
    """CONSUME_MANAGE: set a group to the end (`where` 1) or the beginning (2) of a subject."""

    subject: str
    group: str
    where: int

    def encode(self, version: int) -> bytes:
        return Writer().str_(self.subject).str_(self.group).i32(self.where).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "ConsumeManageRequest":
        reader = Reader(body)
        return cls(reader.str_(), reader.str_(), reader.i32())


# --- master and slave of QMQ ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SyncLogRequest:
    """SYNC_LOG_REQUEST to a broker: what the slave has."""

    sync_type: int
    message_log_offset: int
    action_log_offset: int

    def encode(self, version: int) -> bytes:
        return Writer().i8(self.sync_type).i64(self.message_log_offset).i64(self.action_log_offset).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "SyncLogRequest":
        reader = Reader(body)
        request = cls(reader.i8(), reader.i64(), reader.i64())
        if request.sync_type not in {int(item) for item in SyncType}:
            raise ProtocolError(f"sync type {request.sync_type} is not known")
        return request


@dataclass(frozen=True, slots=True)
class DelaySyncLogRequest:
    """SYNC_LOG_REQUEST to a delay node; unused fields are -1."""

    sync_type: int
    message_log_offset: int
    dispatch_segment_base: int
    dispatch_offset: int
    last_dispatch_segment_base: int
    last_dispatch_offset: int

    def encode(self, version: int) -> bytes:
        writer = Writer().i8(self.sync_type).i64(self.message_log_offset).i64(self.dispatch_segment_base)
        writer.i64(self.dispatch_offset).i64(self.last_dispatch_segment_base).i64(self.last_dispatch_offset)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "DelaySyncLogRequest":
        reader = Reader(body)
        return cls(reader.i8(), reader.i64(), reader.i64(), reader.i64(), reader.i64(), reader.i64())


@dataclass(frozen=True, slots=True)
class SyncLogResponse:
    """A piece of log from `start_offset` on; empty: nothing new."""

    start_offset: int
    data: memoryview

    def encode(self, version: int) -> bytes:
        return Writer().i32(len(self.data)).i64(self.start_offset).raw(self.data).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "SyncLogResponse":
        reader = Reader(body)
        size, start_offset = reader.i32(), reader.i64()
        return cls(start_offset, reader.bytes_(size))


@dataclass(frozen=True, slots=True)
class DelaySyncLogResponse:
    """A piece of a dispatch log segment."""

    start_offset: int
    segment_base: int
    data: memoryview

    def encode(self, version: int) -> bytes:
        writer = Writer().i32(len(self.data)).i64(self.start_offset).i64(self.segment_base)
        return writer.raw(self.data).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "DelaySyncLogResponse":
        reader = Reader(body)
        size, start_offset, segment_base = reader.i32(), reader.i64(), reader.i64()
        return cls(start_offset, segment_base, reader.bytes_(size))


@dataclass(frozen=True, slots=True)
class SyncHeartbeatResponse:
    """Where the master's logs end."""

    message_log_end: int
    action_log_end: int

    def encode(self, version: int) -> bytes:
        return Writer().i64(self.message_log_end).i64(self.action_log_end).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "SyncHeartbeatResponse":
        reader = Reader(body)
        return cls(reader.i64(), reader.i64())


@dataclass(frozen=True, slots=True)
class SyncCheckpointResponse:
    """A master's two checkpoints, as text in QMQ's own form."""

    message_checkpoint: bytes
    action_checkpoint: bytes

    FORMAT = 1

    def encode(self, version: int) -> bytes:
        writer = Writer().i8(self.FORMAT)
        for checkpoint in (self.message_checkpoint, self.action_checkpoint):
            writer.i32(len(checkpoint)).raw(checkpoint)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "SyncCheckpointResponse":
        reader = Reader(body)
        form = reader.i8()
        if form != cls.FORMAT:
            raise ProtocolError(f"checkpoint format {form}, known is {cls.FORMAT}")
        return cls(bytes(reader.bytes_(reader.i32())), bytes(reader.bytes_(reader.i32())))

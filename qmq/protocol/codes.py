"""Numbers of the wire format. Source: QMQ 1.1.x as described in docs/reference/wire.md; ours are those from 200 up."""

from enum import IntEnum

CURRENT_VERSION = 9
"""Header version of the official client 1.1.5 and later, and of ours."""


def is_served(version: int) -> bool:
    """Whether a node answers a header version; those above 9 are read as 9, as by the official server.

    Version 3 (C++, Erlang) sends messages without a CRC and is refused (trap T28).
    """
    return version == 0 or version >= 4


class Command(IntEnum):
    """Request codes."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    ACK_REQUEST = 12
    CONSUME_MANAGE = 25
    BROKER_REGISTER = 30
    CLIENT_REGISTER = 35
    BROKER_ACQUIRE_META = 40
    HEARTBEAT = 100
    # PyQMQ's own: clients of QMQ do not use them.
    NODE_REGISTER = 200
    ENSURE_GROUP = 201
    LEAVE_GROUP = 202
    FIND_DELAYED = 203
    LIST_DELAYED = 204
    CHANGE_DELAYED = 205
    CANCEL_DELAYED = 206
    DELAYED_CALENDAR = 207
    NODE_POLICY = 208
    LIST_RANGES = 209
    READ_INDEX = 210
    READ_PROGRESS = 211
    READ_MESSAGES = 212
    LIST_HOURS = 213
    READ_SCHEDULE = 214
    LIST_NODES = 215
    AUTHENTICATE = 216


class ResponseCode(IntEnum):
    """Header code of an answer."""

    SUCCESS = 0
    UNKNOWN_CODE = 3
    NO_MESSAGE = 4
    BROKER_ERROR = 51
    BROKER_REJECT = 52
    PARAM_ERROR = 53


class SendResult(IntEnum):
    """What became of one message of a SEND; successes are not listed in the answer."""

    SUCCESS = 0
    BROKER_BUSY = 1
    MESSAGE_DUPLICATE = 2
    SUBJECT_NOT_ASSIGNED = 3
    BROKER_READ_ONLY = 4
    BLOCK = 5
    STORE_ERROR = 6


class Role(IntEnum):
    """What a node is in its group."""

    MASTER = 0
    SLAVE = 1
    STANDBY = 2
    DELAY = 3
    BACKUP = 4
    DELAY_MASTER = 5
    DELAY_SLAVE = 6
    DELAY_BACKUP = 7


MASTER_ROLES = frozenset({Role.MASTER, Role.DELAY, Role.DELAY_MASTER})
"""Roles of nodes that serve clients. A delay node of QMQ registers DELAY or DELAY_MASTER."""


class BrokerGroupState(IntEnum):
    """What a broker group does for clients (wire: RW, R, W, NRW)."""

    READ_WRITE = 1
    READ_ONLY = 2
    WRITE_ONLY = 3
    OFFLINE = 4


class ClientType(IntEnum):
    """Why a client registers a subject with the metaserver."""

    PRODUCER = 1
    CONSUMER = 2
    OTHER = 3
    DELAY_PRODUCER = 4


class ClientRequestType(IntEnum):
    """CLIENT_REGISTER: first time, or again."""

    ONLINE = 1
    HEARTBEAT = 2


class BrokerRequestType(IntEnum):
    """BROKER_REGISTER and NODE_REGISTER; numbered otherwise than the client's (trap T21)."""

    ONLINE = 0
    HEARTBEAT = 1
    OFFLINE = 2


class OnlineState(IntEnum):
    """Whether a consumer may pull."""

    ONLINE = 0
    OFFLINE = 1


class FilterType(IntEnum):
    """Kinds of filter in a PULL of version 9."""

    TAG = 1
    SUB_ENV = 2


class TagType(IntEnum):
    """How the tags of a tag filter combine."""

    NO_TAG = 0
    OR = 1
    AND = 2


class ConsumeFrom(IntEnum):
    """CONSUME_MANAGE: where a group is set to."""

    LATEST = 1
    EARLIEST = 2

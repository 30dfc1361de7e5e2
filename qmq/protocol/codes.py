"""Numbers of the wire format. Source: QMQ 1.1.x as described in docs/reference/wire.md; ours are those from 200 up."""

from enum import IntEnum

CURRENT_VERSION = 9
"""Header version of the official client 1.1.5 and later, and of PyQMQ's."""


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
    FOLLOW = 217
    COMMITS = 218
    CONFIRM = 219
    READ_COPY = 220
    CHANGE_IN_SYNC = 221
    RESIGN = 222
    ROLE = 223
    DELAY_CLOCK = 224
    KNOWN_GROUPS = 225
    READ_RANGE = 226


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
SLAVE_ROLES = {Role.MASTER: Role.SLAVE, Role.DELAY_MASTER: Role.DELAY_SLAVE}
"""By the role with which the nodes of a kind register as master: that of their slaves."""


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


class ReplicaRole(IntEnum):
    """What a node does in the replication of its broker group; `Role` is what it is for clients."""

    NONE = 0
    """Not reported: the node's version has no replication."""
    WAITING = 1
    """It neither serves clients nor follows a master until it has the membership of its group."""
    SPARE = 2
    """It is no member: the group has all its members. It stores nothing."""
    COPYING = 3
    """A slave that copies the master's state and log. Its confirmations do not count."""
    FOLLOWING = 4
    """A slave that syncs every commit, and is not in the in-sync set yet."""
    IN_SYNC = 5
    """A slave in the in-sync set. Answers wait for its confirmations, and it can be promoted."""
    PROMOTED = 6
    """The membership names it as master; it serves clients once its in-sync set has the first commit of its epoch."""
    MASTER = 7
    """It serves clients."""
    STEPPING_DOWN = 8
    """A former master that closes its client connections and its store, to follow the new one."""
    FAILED = 9
    """It can't take part in replication until an operator has solved its problems."""


class FollowResult(IntEnum):
    """Result of a FOLLOW."""

    ACCEPTED = 0
    UNKNOWN_GROUP = 1
    """The node belongs to another broker group than the slave."""
    NOT_MASTER = 2
    """The node is not a master that serves."""
    NOT_MEMBER = 3
    """The slave is not a member of the broker group."""
    UNPROVEN = 4
    """The connection has not proved that it belongs to the slave that it states, in the epoch and promotion that it states."""
    OLDER_EPOCH = 5
    """The slave's epoch is older than the master's. The slave waits for the newer membership."""
    NEWER_EPOCH = 6
    """The slave's epoch is newer than the master's. The master steps down."""
    OTHER_PROMOTION = 7
    """Same epoch, different promotion ids: the database gave an epoch twice. An operator has to decide."""
    END_BEYOND = 8
    """In the master's own epoch, the slave's log ends beyond the master's. An operator has to decide."""
    CRC_DIFFERS = 9
    """The logs differ where both have commits of the same epoch. An operator has to decide."""
    TOO_FAR_BEHIND = 10
    """The master's log begins behind the end of what both logs have in common. The slave has to copy state and log."""
    BUSY = 11
    """The master examines as many slaves as it does at a time, or its log or membership changed meanwhile. The slave
    tries again."""


class FollowState(IntEnum):
    """What a slave does with the commits that it receives."""

    COPYING = 1
    """It syncs many at a time; its confirmations report progress only."""
    FOLLOWING = 2
    """It syncs each one; its confirmations count."""
    LEAVING = 3
    """As FOLLOWING, and its process is about to end: the master removes it from the in-sync set at once."""
    DAMAGED = 4
    """As FOLLOWING, and its disk has damage that is not repaired: a master that may choose has another slave promoted."""

    @property
    def is_following(self) -> bool:
        """Whether it syncs each commit, and continues to."""
        return self in (FollowState.FOLLOWING, FollowState.DAMAGED)

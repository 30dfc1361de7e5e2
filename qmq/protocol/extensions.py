"""Our own commands, from code 200 up. Bodies are maps of strings, so that fields can be added: see `structures`."""

from dataclasses import dataclass
from typing import Annotated

from qmq.protocol.codes import ReplicaRole
from qmq.protocol.group_memberships import MEMBERS_MAX, GroupMembership
from qmq.protocol.kinds import Block, Flag, Float, Int, MapFlag, MapHex, MapInt, MapText, String, Text
from qmq.protocol.limited_kinds import (
    I64_MAX,
    MapChoice,
    MapCount,
    MapIncarnation,
    MapName,
    MapNote,
    MapRange,
    MapUuid,
    Name,
)
from qmq.protocol.reasons import MapReason, Reason, ReasonNote
from qmq.protocol.structures import Counted, Maybe, Row, Structure

PROBLEMS_MAX = 16
"""Most problems of a NODE_REGISTER."""
KNOWN_GROUPS_MAX = 2_000
"""Most consumer groups of one KNOWN_GROUPS."""

State = Annotated[int, MapInt(missing=1)]
"""A `BrokerGroupState`; a node that reports none reads and writes."""
_Unknown = Annotated[int, MapRange(-1, I64_MAX)]
"""A number, or -1 if it is unknown."""


@dataclass(frozen=True, slots=True)
class Refusal(Structure):
    """The answer with header code PARAM_ERROR: why our own command was refused. `code` is one of docs/reference/errors.md."""

    code: Text
    message: Text


@dataclass(frozen=True, slots=True)
class SlaveEnd(Structure):
    """The end of a slave's log, in bytes, as the slave last confirmed it to its master."""

    node_id: Annotated[str, MapName()]
    end: MapCount


@dataclass(frozen=True, slots=True)
class NodeRegisterRequest(Structure):
    """One of our nodes reports its identity and state. `log_end` is in bytes, addresses are `host:port`.

    `request_type` is a `BrokerRequestType`, `role` a `Role`, `state` a `BrokerGroupState`, `policy_version` the version of
    the policy it applies, "" from a node that has none.

    The fields from `boot_id` on are for replication; versions without it do not send them. `boot_id` identifies the process,
    `incarnation` the data folder. `epoch` and `promotion_id` are those that the node has on disk; `log_epoch` is the epoch of its
    last commit, 0 if its log is empty. `high_watermark` is in bytes, -1 if the node knows none. `was_clean` is whether the previous
    process closed the log in order, so that none of its synced commits can be missing. `master_silent_ms` is the time since the
    node last received something from its master, -1 if it never has. `problems` are the reasons why the node can't be promoted.
    `slaves` are those that follow this node.

    A master also reports `led_membership`, the newest membership of its epoch that it knows to be stored, and
    `counted`, the members that have to sync a commit before it is acknowledged. They replace a membership that was
    restored from a backup.

    `membership_version` and `membership_in_sync` are version and in-sync set of the newest membership of the epoch that
    the node has acted on, 0 and nothing if it has acted on none. With them, a metaserver notices that the membership
    that it reads is older.

    `limitations` are the reasons why another node should be promoted if one can be. `stuck_ms` is for how long the disk has not
    completed a write that is under way, 0 if there is none. `unreachable` are slaves that a master counts and can't reach: without
    them fewer members than the minimum would be in sync.

    `pending_messages` is how many delayed messages a delay node has that are not delivered, held ones included; -1 from others.

    `damaged_bytes` are bytes of the log below its end that are damaged, and that the group is not known to have lost. `lacks_to` is
    the log offset up to which acknowledged bytes are missing at the end of the log, 0 if none are.
    """

    request_type: Int
    broker_group: Text
    node_id: Text
    kind: Annotated[str, MapText(missing="broker")]
    role: Int
    address: Text
    admin_address: Text
    state: State
    epoch: Int
    log_end: Int
    started_at_ms: Int
    version: Text
    policy_version: Text = ""
    boot_id: Annotated[str, MapName(may_be_empty=True)] = ""
    sync_address: Annotated[str, MapName(may_be_empty=True)] = ""
    rack: Annotated[str, MapName(may_be_empty=True)] = ""
    replica_role: Annotated[ReplicaRole, MapChoice(ReplicaRole)] = ReplicaRole.NONE
    promotion_id: Annotated[str, MapUuid()] = ""
    log_epoch: MapCount = 0
    high_watermark: _Unknown = -1
    was_clean: Flag = False
    master_silent_ms: _Unknown = -1
    problems: Annotated[tuple[Reason, ...], Counted("h", ReasonNote(), "problems", PROBLEMS_MAX)] = ()
    slaves: Annotated[tuple[SlaveEnd, ...], Counted("h", SlaveEnd, "slaves", MEMBERS_MAX)] = ()
    led_membership: Annotated[GroupMembership | None, Maybe(GroupMembership)] = None
    counted: Annotated[tuple[str, ...], Counted("b", Name(), "counted members", MEMBERS_MAX)] = ()
    incarnation: Annotated[str, MapIncarnation()] = ""
    membership_version: MapCount = 0
    membership_in_sync: Annotated[tuple[str, ...], Counted("b", Name(), "in-sync members", MEMBERS_MAX)] = ()
    stuck_ms: MapCount = 0
    limitations: Annotated[tuple[Reason, ...], Counted("h", ReasonNote(), "limitations", PROBLEMS_MAX)] = ()
    unreachable: Annotated[tuple[str, ...], Counted("b", Name(), "unreachable slaves", MEMBERS_MAX)] = ()
    pending_messages: Annotated[int, MapRange(-1, I64_MAX, is_optional=True)] = -1
    damaged_bytes: MapCount = 0
    lacks_to: MapCount = 0


@dataclass(frozen=True, slots=True)
class NodeRegisterResponse(Structure):
    """Whether the node may serve, in which epoch and state, and how long its lease runs from the moment of its request.

    `policy_version` is the version of the policy it must apply; "" when the metaserver has none: the node keeps what it
    has. `code` names why a registration was refused, such as `node.address_bound`; "" when it was accepted.
    `membership` is the membership of the node's broker group; None: the node was refused. `database_is_away` is whether
    the metaserver's database does not respond: no change of the membership can be made.
    """

    accepted: Flag
    reason: Annotated[Reason, MapReason()]
    epoch: Int
    state: State
    lease_seconds: Float
    heartbeat_seconds: Float
    policy_version: Text = ""
    code: Text = ""
    membership: Annotated[GroupMembership | None, Maybe(GroupMembership)] = None
    database_is_away: Annotated[bool, MapFlag(is_optional=True)] = False


@dataclass(frozen=True, slots=True)
class NodePolicyRequest(Structure):
    """A node requests the policy document of its broker group, because it has `policy_version`."""

    broker_group: Text
    node_id: Text
    policy_version: Text


@dataclass(frozen=True, slots=True)
class NodePolicyResponse(Structure):
    """The document, JSON; empty when the node has it already, or the metaserver has none (`policy_version` is "").

    It is a block behind the map: strings on the wire hold at most 32767 bytes.
    """

    policy_version: Text
    document: Annotated[bytes, Block(is_copied=True)]


@dataclass(frozen=True, slots=True)
class KnownGroupsRequest(Structure):
    """A broker requests the consumer groups of the subjects that its broker group serves, because it may have lost some.

    `after` is `next` of the answer before, 0 in the first request.
    """

    broker_group: Annotated[str, MapName()]
    node_id: Annotated[str, MapName()]
    after: MapCount = 0


@dataclass(frozen=True, slots=True)
class KnownGroupsResponse(Structure):
    """Subjects and names of consumer groups. More of them follow after `next`, unless it is 0.

    `problem` is why the metaserver can't answer, such as a database that does not respond, or too many requests at a time; "" if it
    can. It names no groups then, and the node tries again.
    """

    broker_group: Annotated[str, MapName()]
    next: MapCount = 0
    problem: Annotated[str, MapNote()] = ""
    groups: Annotated[
        tuple[tuple[str, str], ...], Counted("i", Row(String(), String()), "consumer groups", KNOWN_GROUPS_MAX)
    ] = ()


@dataclass(frozen=True, slots=True)
class EnsureGroupRequest(Structure):
    """Create a consumer group at a position, or set it there (`only_if_new` false).

    `start` is "earliest", "latest", "time" or "sequence"; `value` is milliseconds since the epoch for "time", a consume sequence
    for "sequence", else unused.
    """

    subject: Text
    group: Text
    start: Annotated[str, MapText(missing="latest")]
    value: Int
    only_if_new: Flag
    broadcast: Flag


@dataclass(frozen=True, slots=True)
class EnsureGroupResponse(Structure):
    """Whether the group was created, and the consume sequence it continues at."""

    created: Flag
    next_sequence: Int


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest(Structure):
    """A consumer ends; its messages that are not acknowledged go to the retry subject at once."""

    subject: Text
    group: Text
    consumer_id: Text


NONCE_BYTES = 32
PROOF_BYTES = 32
CLIENT_CONTEXT = "pyqmq connection v1 client"
SERVER_CONTEXT = "pyqmq connection v1 server"
"""Contexts of the two proofs: neither can be used as the other."""

Nonce = Annotated[bytes, MapHex(NONCE_BYTES)]
Proof = Annotated[bytes, MapHex(PROOF_BYTES)]


@dataclass(frozen=True, slots=True)
class AuthenticateRequest(Structure):
    """`proof` is empty in the first request. `purpose` is part of both proofs.

    It is "node" or "console", and on a sync port "sync", broker group, node ID, epoch and promotion ID of the slave, one a line.
    """

    purpose: Text
    nonce: Nonce
    proof: Proof = b""


@dataclass(frozen=True, slots=True)
class AuthenticateResponse(Structure):
    """The server's nonce, and in the second answer its proof."""

    nonce: Nonce
    proof: Proof = b""

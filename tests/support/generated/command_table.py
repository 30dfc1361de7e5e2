"""All commands: their senders and receivers, the structures of their bodies, and the version that introduced them.

docs/reference/wire.md is generated from this table and the structures that it names.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from qmq.protocol.bulk_read import (
    HoursPage,
    IndexPage,
    ListHoursRequest,
    ListNodesRequest,
    ListRangesRequest,
    MessagesPage,
    NodesPage,
    ProgressPage,
    RangesPage,
    ReadRequest,
    ReadScheduleRequest,
    SchedulePage,
)
from qmq.protocol.codes import Command
from qmq.protocol.commands import (
    AckRequest,
    BrokerAcquireMetaRequest,
    BrokerAcquireMetaResponse,
    BrokerRegisterRequest,
    ClientRegisterRequest,
    ClientRegisterResponse,
    ConsumeManageRequest,
    PullRequest,
    PullResponse,
    SendResponse,
)
from qmq.protocol.delayed import (
    CancelDelayedRequest,
    CancelDelayedResponse,
    ChangeDelayedRequest,
    ChangeDelayedResponse,
    DelayClockResponse,
    DelayedCalendar,
    DelayedCalendarRequest,
    DelayedPage,
    FindDelayedRequest,
    ListDelayedRequest,
)
from qmq.protocol.extensions import (
    AuthenticateRequest,
    AuthenticateResponse,
    EnsureGroupRequest,
    EnsureGroupResponse,
    KnownGroupsRequest,
    KnownGroupsResponse,
    LeaveGroupRequest,
    NodePolicyRequest,
    NodePolicyResponse,
    NodeRegisterRequest,
    NodeRegisterResponse,
)
from qmq.protocol.group_memberships import ChangeInSyncRequest, GroupMembership, MembershipResponse, ResignRequest
from qmq.protocol.kinds import Kind
from qmq.protocol.replication import (
    Commits,
    Confirm,
    FollowRequest,
    FollowResponse,
    ReadCopyRequest,
    ReadCopyResponse,
    ReadRangeRequest,
    ReadRangeResponse,
)
from qmq.protocol.structures import Nested, Structure, fields_of

QMQ = "QMQ"
"""In place of a version: the command is one of QMQ's own."""
FIRST = "0.1.0"

CLIENT = "client"
NODE = "node"
BROKER = "broker node"
DELAY = "delay node"
META = "metaserver"
MASTER = "master"
SLAVE = "slave"
MEMBER = "member of the broker group"


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A command.

    Args:
        request: structure of the request's body; None: it is empty, or entries (SEND_MESSAGE).
        response: structure of the body of an answer with code 0; None: it is empty, or there is no answer.
        sender: the process that sends the request.
        receivers: the processes that answer it.
        since: the version of PyQMQ that it came with; `QMQ` for QMQ's own.
        summary: what it does, in one line.
        is_one_way: whether there is no answer.
    """

    request: type[Structure] | None
    response: type[Structure] | None
    sender: str
    receivers: tuple[str, ...]
    since: str
    summary: str
    is_one_way: bool = False


COMMANDS: dict[Command, CommandInfo] = {
    Command.SEND_MESSAGE: CommandInfo(
        None, SendResponse, CLIENT, (BROKER, DELAY), QMQ, "Store messages. The body has entries, see section 4"
    ),
    Command.PULL_MESSAGE: CommandInfo(
        PullRequest, PullResponse, CLIENT, (BROKER,), QMQ, "Deliver messages to a consumer; waits until there are some"
    ),
    Command.ACK_REQUEST: CommandInfo(AckRequest, None, CLIENT, (BROKER,), QMQ, "Acknowledge a range of messages"),
    Command.CONSUME_MANAGE: CommandInfo(
        ConsumeManageRequest, None, META, (BROKER,), QMQ, "Set a consumer group to the end or the beginning of a subject"
    ),
    Command.BROKER_REGISTER: CommandInfo(
        BrokerRegisterRequest, None, "node of QMQ", (META,), QMQ, "Register a node of QMQ and report its state"
    ),
    Command.CLIENT_REGISTER: CommandInfo(
        ClientRegisterRequest, ClientRegisterResponse, CLIENT, (META,), QMQ, "Request the route of a subject"
    ),
    Command.BROKER_ACQUIRE_META: CommandInfo(
        BrokerAcquireMetaRequest, BrokerAcquireMetaResponse, "node of QMQ", (META,), QMQ,
        "Look up the broker group of a node of QMQ",
    ),
    Command.HEARTBEAT: CommandInfo(
        None, None, CLIENT, (BROKER, DELAY, META), QMQ, "Keep a connection open; the answer's code is 100"
    ),
    Command.NODE_REGISTER: CommandInfo(
        NodeRegisterRequest, NodeRegisterResponse, NODE, (META,), FIRST, "Register a node, report its state, renew its lease"
    ),
    Command.ENSURE_GROUP: CommandInfo(
        EnsureGroupRequest, EnsureGroupResponse, "client, console", (BROKER,), FIRST, "Create a consumer group at a position"
    ),
    Command.LEAVE_GROUP: CommandInfo(
        LeaveGroupRequest, None, CLIENT, (BROKER,), FIRST, "End a consumer and retry its unacknowledged messages"
    ),
    Command.FIND_DELAYED: CommandInfo(
        FindDelayedRequest, DelayedPage, "client, console", (DELAY,), FIRST, "Find a delayed message by its ID"
    ),
    Command.LIST_DELAYED: CommandInfo(
        ListDelayedRequest, DelayedPage, "client, console", (DELAY,), FIRST, "List delayed messages by due time"
    ),
    Command.CHANGE_DELAYED: CommandInfo(
        ChangeDelayedRequest, ChangeDelayedResponse, "client, console", (DELAY,), FIRST,
        "Cancel, reschedule or deliver delayed messages",
    ),
    Command.CANCEL_DELAYED: CommandInfo(
        CancelDelayedRequest, CancelDelayedResponse, "client, console", (DELAY,), FIRST, "Cancel delayed messages by filter"
    ),
    Command.DELAYED_CALENDAR: CommandInfo(
        DelayedCalendarRequest, DelayedCalendar, "client, console", (DELAY,), FIRST,
        "Count pending delayed messages by hour of due time",
    ),
    Command.NODE_POLICY: CommandInfo(
        NodePolicyRequest, NodePolicyResponse, NODE, (META,), FIRST, "Fetch the policy of a broker group"
    ),
    Command.LIST_RANGES: CommandInfo(
        ListRangesRequest, RangesPage, "analytics", (BROKER,), FIRST, "List stored ranges of subjects and consumer groups"
    ),
    Command.READ_INDEX: CommandInfo(ReadRequest, IndexPage, "analytics", (BROKER,), FIRST, "Read index entries of a subject"),
    Command.READ_PROGRESS: CommandInfo(
        ReadRequest, ProgressPage, "analytics", (BROKER,), FIRST, "Read entries of a consumer group's progress log"
    ),
    Command.READ_MESSAGES: CommandInfo(
        ReadRequest, MessagesPage, "analytics", (BROKER,), FIRST, "Read messages of a subject with their index entries"
    ),
    Command.LIST_HOURS: CommandInfo(
        ListHoursRequest, HoursPage, "analytics", (DELAY,), FIRST, "List the hours of due time that have delayed messages"
    ),
    Command.READ_SCHEDULE: CommandInfo(
        ReadScheduleRequest, SchedulePage, "analytics", (DELAY,), FIRST, "Read the delayed messages of an hour"
    ),
    Command.LIST_NODES: CommandInfo(ListNodesRequest, NodesPage, "analytics", (META,), FIRST, "List the nodes of the system"),
    Command.AUTHENTICATE: CommandInfo(
        AuthenticateRequest, AuthenticateResponse, "node, console", (NODE, META), FIRST,
        "Prove that both sides of a connection have the node secret",
    ),
    Command.FOLLOW: CommandInfo(
        FollowRequest, FollowResponse, SLAVE, (MASTER,), FIRST, "Request the commits of the master from the slave's log end on"
    ),
    Command.COMMITS: CommandInfo(
        Commits, None, MASTER, (SLAVE,), FIRST, "Send commits and the high watermark; without commits, a heartbeat",
        is_one_way=True,
    ),
    Command.CONFIRM: CommandInfo(
        Confirm, None, SLAVE, (MASTER,), FIRST, "Report up to where the slave has synced and applied commits", is_one_way=True
    ),
    Command.READ_COPY: CommandInfo(
        ReadCopyRequest, ReadCopyResponse, SLAVE, (MASTER,), FIRST, "Read the master's state, to copy it"
    ),
    Command.CHANGE_IN_SYNC: CommandInfo(
        ChangeInSyncRequest, MembershipResponse, MASTER, (META,), FIRST, "Add a member to the in-sync set, or remove it"
    ),
    Command.RESIGN: CommandInfo(
        ResignRequest, MembershipResponse, MASTER, (META,), FIRST, "Request that an in-sync member become the master"
    ),
    Command.ROLE: CommandInfo(
        GroupMembership, None, META, (NODE,), FIRST, "Send the membership of a broker group to its nodes", is_one_way=True
    ),
    Command.DELAY_CLOCK: CommandInfo(
        None, DelayClockResponse, CLIENT, (DELAY,), FIRST, "Read the clock by which messages become due"
    ),
    Command.KNOWN_GROUPS: CommandInfo(
        KnownGroupsRequest, KnownGroupsResponse, NODE, (META,), FIRST, "Read the consumer groups of a broker group's subjects"
    ),
    Command.READ_RANGE: CommandInfo(
        ReadRangeRequest, ReadRangeResponse, MEMBER, (MEMBER,), FIRST, "Read what is damaged on the own disk from another member"
    ),
}  # fmt: skip
"""Every command, in the order of their codes."""


def reachable(kinds: Iterable[type[Structure] | None]) -> list[type[Structure]]:
    """These structures and their parts, each once and before its parts."""
    found: dict[type[Structure], None] = {}
    for kind in kinds:
        if kind is not None and kind not in found:
            found[kind] = None
            for field in fields_of(kind):
                found.update(dict.fromkeys(reachable(_structures_in(field.kind))))
    return list(found)


def _structures_in(kind: object) -> Iterator[type[Structure]]:
    """The structures that a value of a kind consists of."""
    if isinstance(kind, Nested):
        yield kind.kind
        return
    for value in (*vars(type(kind)).values(), *vars(kind).values()):
        for inner in value.values() if isinstance(value, dict) else (value,):
            if isinstance(inner, Kind):
                yield from _structures_in(inner)

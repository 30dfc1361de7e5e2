"""Reasons why a node does not accept sends, serve, lead, follow or count, and why its membership was changed. Pure.

A reason is made as a code with values. The code has its sentence in English, for logs and commands; the console has the same codes
in `reasons.json` of each language.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Self

from qmq.protocol.limited_kinds import MapNote, Note

RESTORED = (
    "the database was restored from a backup. The last master brings it up to date while it runs; if it has ended, promote the"
    " member that has the newest messages"
)
"""Why a membership is older than one that is known, and what to do."""
Value = str | int | float
"""What a sentence mentions; a `Reason` is a part of the sentence."""


class Sentence(StrEnum):
    """A code with its sentence in English. The names of the values are those in the sentence."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> Self:
        code = str.__new__(cls, word)
        code._value_, code.sentence = word, sentence
        return code


class Code(Sentence):
    """What is the matter."""

    MASTER_SILENT = "master_silent", "master {master} has sent no heartbeat for {seconds} s"
    MASTER_DISCONNECTED = (
        "master_disconnected",
        "the connection of master {master} has ended, and no slave receives anything of it",
    )
    MASTER_RESTARTED = "master_restarted", "master {master} restarted and waits for a new epoch"
    MASTER_LOST_DATA = "master_lost_data", "master {master} has lost its data"
    MASTER_WAITS = "master_waits", "master {master} waits: {why}"
    MASTER_DOES_NOT_LEAD = "master_does_not_lead", "master {master} does not lead: {why}"
    MASTER_STUCK = "master_stuck", "master {master} does not lead: its disk has not completed a write for {seconds} s"
    MASTER_CUT_OFF = "master_cut_off", "master {master} can't reach {slaves}, and {running} run"
    PROMOTED = "promoted", "{why}; node {node} is promoted"
    REPLACED = "replaced", "node {node} replaces {master}, which is silent"
    REPLACES = "replaces", "node {node} is to replace {replaced}"
    LEAVES = "leaves", "node {node} has replaced {replaced}"
    LEAVES_FOR = "leaves_for", "node {replaced} leaves so that node {node} can replace it"
    COPIES_MISSING = "copies_missing", "the group has {members} of {copies} copies"
    RECOVERED = "recovered", "the database was restored from a backup; the membership is that of master {master}"
    SWITCHES_OVER = "switches_over", "{master} switches over to {node}"
    STOPS_AND_SWITCHES_OVER = "stops_and_switches_over", "{master} switches over to {node} and stops"

    NODE = "node", "node {node}"
    NODE_WITH = "node_with", "node {node}: {why}"
    CAUGHT_UP = "caught_up", "it caught up"
    NOT_CONNECTED = "not_connected", "it has not been connected for {seconds} s"
    STOPS = "stops", "it stops"
    COPIES_LOG = "copies_log", "it copies the log"
    CONFIRMS_NOTHING = "confirms_nothing", "it has confirmed nothing for {seconds} s"
    LOST_DATA = "lost_data", "its log ends at {end}, below the high watermark {high_watermark}: it has lost data"

    DISK_FULL = "disk_full", "its disk is full"
    FOLDER_EMPTY = "folder_empty", "its data folder is empty"
    HANDS_OVER_LATER = "hands_over_later", "another node is to replace it, but it can't switch over yet: {why}"
    DISK_STUCK = "disk_stuck", "its disk does not complete a write"
    LOG_DAMAGED = "log_damaged", "its log is damaged between offsets {begin} and {end}"
    LOG_LACKS_END = "log_lacks_end", "its log lacks acknowledged bytes from offset {begin} to {end} at its end"

    ROLE = "role", "its role is {role}"
    LOG_SHORTER = "log_shorter", "its log ends at {end}, before the {highest} that it reported"
    OTHER_FOLDER = "other_folder", "its data folder is not the one that was in sync"
    NOT_MEMBER = "not_member", "it is not a member"
    NO_HEARTBEATS = "no_heartbeats", "it does not send heartbeats"
    NO_REPLICATION = "no_replication", "its version has no replication"
    NOT_IN_SYNC = "not_in_sync", "it is not in sync"
    ONE_MEMBER = "one_member", "the group has one member"
    RESTORED = "restored", f"the stored membership is older than epoch {{epoch}}, version {{version}}: {RESTORED}"
    AND = "and", "{first}; {rest}"

    ONLY_MEMBER = (
        "only_member",
        "node {node} is the only member of {kind} group {group}: no other node can serve its messages",
    )
    ONLY_IN_SYNC = "only_in_sync", "node {node} is the only member of {kind} group {group} that is in sync"
    BELOW_MINIMUM = (
        "below_minimum",
        "{kind} group {group} would have {in_sync} in-sync members, below its minimum of {minimum}: sends would be rejected"
        " until it is back",
    )
    NO_OTHER_MASTER = "no_other_master", "no member of {kind} group {group} could be its master: {why}"
    NO_OTHER_CANDIDATE = (
        "no_other_candidate",
        "no other member of {kind} group {group} could replace master {master} if that failed",
    )
    NONE_ELSEWHERE = "none_elsewhere", "all nodes that could lead it are on rack {rack}"

    REFUSES = "refuses", "read only: {why}"
    STARTED_READ_ONLY = "started_read_only", "the {kind} was started read only"
    SET_READ_ONLY = "set_read_only", "set to read-only by an operator"
    REJECTED = "rejected", "the metaserver rejected this node: {why}"
    PENDING_APPROVAL = "pending_approval", "broker group {group} is pending approval"
    FOLDER_OF_REMOVED = (
        "folder_of_removed",
        "broker group {group} was removed with the loss of its messages, and this node has a data folder of it: empty the folder,"
        " or approve the group to serve these messages again",
    )
    GROUP_DRAINS = "group_drains", "the group is draining"
    APPROVE = "approve", "{why}: approve it in the console or with the API"
    SPARE = "spare", "node {node} is not a member of broker group {group}: {why}"
    SPARE_OF_FULL = (
        "spare_of_full",
        "node {node} is not a member of broker group {group}, which has all of its {copies}"
        " copies; raise `copies`, or stop the node",
    )
    SPARE_WITH_DATA = (
        "spare_with_data",
        "node {node} is not a member of broker group {group}, and its data folder is not empty:"
        " only a node with an empty folder becomes a member. Stop it, and empty its data folder if it is to be one",
    )
    LEAVES_FIRST = "leaves_first", "node {node}, which it replaces, leaves first"
    REPLACED_FIRST = "replaced_first", "node {node} is to replace {replaced} first"
    MEMBERSHIP_NOT_STORED = "membership_not_stored", "the change of the group's membership is not stored yet"
    OLDER_FOLDER = (
        "older_folder",
        "its log ends at {end} but had reached {highest}: its data folder is an older copy, or"
        " empty; acknowledged messages are missing",
    )
    LACKS_GROUPS = (
        "lacks_groups",
        "consumer groups that were known before data was lost are not created yet: {why}",
    )
    GROUPS_REQUESTED = "groups_requested", "they are requested from a metaserver"
    LOSS_UNDECIDED = (
        "loss_undecided",
        "its data folder is an older copy, or empty: acknowledged messages are missing, and no operator has accepted that,"
        " as far as this node knows",
    )
    LOG_CORRUPTED = "log_corrupted", "the message log is corrupted; see the node's log"
    WRITE_WAITS = "write_waits", "the disk has not completed a write for {seconds} s"
    NODE_SILENT = "node_silent", "node {node} has not responded for {seconds} s: {why}"
    UNUSUAL_SENT = "unusual_sent", "{value} messages were sent in an hour, expected {low} to {high}"
    UNUSUAL_ACKED = "unusual_acked", "{value} messages were acknowledged in an hour, expected {low} to {high}"
    UNUSUAL_LAG = "unusual_lag", "the lag was {value} messages, expected {low} to {high}"
    UNUSUAL_TIME_LAG = "unusual_time_lag", "the time lag was {value} s, expected {low} to {high}"
    UNUSUAL_LATENCY = "unusual_latency", "the end-to-end latency (p99) was {value} ms, expected {low} to {high}"
    UNUSUAL_FAILURES = "unusual_failures", "{value} retries and dead letters in an hour, expected {low} to {high}"
    CONNECTION_REFUSED = "connection_refused", "connection refused"
    NO_RESPONSE = "no_response", "no response within {seconds} s"
    HEARTBEATS_MISSING = "heartbeats_missing", "no heartbeat for {seconds} s"
    DISK_SPACE = "disk_space", "no space: {free} bytes free on disk, the reserve is {reserve}"
    LOG_SPACE = "log_space", "no space: {room} bytes left in the log, the reserve is {reserve}"
    NO_SEGMENT = (
        "no_segment",
        "the next segment is not created yet: {room} bytes left in the log, the reserve is {reserve}",
    )
    ONE_IN_SYNC = "one_in_sync", "{required} copies are required, {in_sync} is in sync"
    FEW_IN_SYNC = "few_in_sync", "{required} copies are required, {in_sync} are in sync"
    SLAVES_WAITED = "slaves_waited", "stored messages have waited {seconds} s for slaves"

    NOT_SERVING = "not_serving", "not serving"
    NOT_REGISTERED = "not_registered", "not registered: {why}"
    IN_ROLE = "in_role", "{role}: {why}"
    NO_CLIENTS = "no_clients", "serves no clients: {role}"
    WAITS_FOR_MASTER = "waits_for_master", "waits for the metaserver to name a master"
    SLAVE_COPIES = "slave_copies", "slave, copies the log of its master"
    SLAVE_FOLLOWS = "slave_follows", "slave, catches up with its master"
    SLAVE_IN_SYNC = "slave_in_sync", "slave, in sync"

    NO_MEMBERSHIP = "no_membership", "no metaserver has named its master yet"
    NEWER_EPOCH = "newer_epoch", "this node is not master any more: another member knows epoch {epoch}"
    OTHER_LEADS = "other_leads", "this node is not master any more: node {node} leads epoch {epoch}"
    NOT_ALONE = "not_alone", "this node is not the only member any more; members are {members}"
    NOT_AMONG = "not_among", "it is not a member; members are {members}"
    ALSO_LEADS = "also_leads", "node {node} leads epoch {epoch}, too"
    TWO_PROMOTIONS = "two_promotions", "epoch {epoch} has two promotions: {one} and {other}"
    COPY_INCOMPLETE = (
        "copy_incomplete",
        "it copies the log, and what it has is not complete: it can't lead epoch {epoch}",
    )
    ADDRESS_UNKNOWN = "address_unknown", "the sync address of master {master} is not known yet"
    COPIES_MASTER = "copies_master", "it copies the log of the master and confirms nothing yet"
    TRUNCATED = "truncated", "its log is truncated to offset {end}"
    BECAUSE = "because", "{problem}: {why}"
    COPIES_LATER = "copies_later", "{problem}: it copies the log when the master's state can be read: {why}"
    NO_ANSWER = "no_answer", "the master has not answered yet"
    LOG_REPLACED = "log_replaced", "its log is replaced by a copy of the master's: {why}"
    REPAIRS_LOG = "repairs_log", "{problem}: it is read from other members"
    FIRST_COMMIT = "first_commit", "the in-sync set has not stored the first commit of the epoch yet"
    NO_SLAVES = "no_slaves", "it has no slaves: {why}"
    OTHER_MASTER = "other_master", "node {node} is not the master any more"
    CANNOT_LEAD = "cannot_lead", "it can't lead epoch {epoch}"
    LOG_STAYS = "log_stays", "its log stays until master {master} has removed it from the in-sync set"
    NO_MASTER = "no_master", "no master yet"
    LED = "led", "it led epoch {epoch} before it started again"
    WAS_PROMOTED = "was_promoted", "it was promoted to lead epoch {epoch} before it started again"
    FLUSH_NOT_ALWAYS = (
        "flush_not_always",
        "flush is {flush}, and broker group {group} has several members, which requires flush=always: start the node with"
        " --flush always",
    )

    REGISTERED = "registered", "registered"
    NO_HEARTBEAT = "no_heartbeat", "no heartbeat"
    OTHER_KIND = "other_kind", "group {group} is of kind {kind}, not {reported}"
    UPGRADE_MASTER = (
        "upgrade_master",
        "group {group} has slaves, and this node's version has no replication. Upgrade it",
    )
    UPGRADE_SLAVE = (
        "upgrade_slave",
        "group {group} already has master {master}, and this node's version has no replication. Upgrade it",
    )
    MASTER_HAS_LEASE = (
        "master_has_lease",
        "group {group} already has master {master} with a valid lease. Use another group for this node, or stop the other node",
    )
    REPLACEMENT_NOT_STORED = (
        "replacement_not_stored",
        "group {group} has master {master}, and its replacement by this node is not stored yet",
    )
    TOO_MANY_NODES = (
        "too_many_nodes",
        "{count} nodes send heartbeats for group {group}, the maximum; stop those that are not needed",
    )
    TOO_MANY_UNAPPROVED = (
        "too_many_unapproved",
        "{count} broker groups are pending approval, the maximum; remove those that are not yours, or create group {group}"
        " before its node starts",
    )
    ADDRESS_BOUND = (
        "address_bound",
        "node {node} of group {group} is registered at {address} with a valid lease; stop that process, or wait until the"
        " lease has expired ({seconds} s without a heartbeat)",
    )
    ADMIN_ADDRESS_BOUND = "admin_address_bound", "node {node} has admin address {address} until it restarts"
    NODE_RESTARTED = (
        "node_restarted",
        "node {node} was restarted: the offline request of an earlier process is ignored",
    )
    MEMBER_ELSEWHERE = (
        "member_elsewhere",
        "node id {node} is a member of broker group {group}; use another node id",
    )
    LEASE_ELSEWHERE = "lease_elsewhere", "node id {node} has a running lease in group {group}"
    FOLDER_OF_NAMESAKE = (
        "folder_of_namesake",
        "the data folder of node {node} belongs to a broker group {group} that was removed with the loss of its messages, and"
        " there is another group of this name now; start the node with an empty data folder",
    )
    LOG_END_INVALID = "log_end_invalid", "log end {end} is not between 0 and {highest}"
    LOG_END_JUMP = (
        "log_end_jump",
        "log end {end} is implausible: it was {before} {seconds} s ago, and a log grows at most {rate} bytes a second",
    )


class Reason(str):
    """A sentence in English that also has the code and the values it was made of. One without a code is only a text."""

    __slots__ = ("code", "values")
    code: str
    """A `Sentence`, that of another version, or "" if there is none."""
    values: Mapping[str, Value]

    def __new__(cls, text: str = "", code: str = "", values: Mapping[str, Value] | None = None) -> Self:
        made = super().__new__(cls, text)
        made.code, made.values = code, values or {}
        return made

    @classmethod
    def of(cls, code: Sentence, **values: Value) -> Self:
        """Return the reason with this code; `joined` makes one value of several reasons."""
        return cls(code.sentence.format(**values), code, values)

    def as_json(self) -> dict[str, Any]:
        """Return code, values and text, as the database has them and as the API returns them."""
        values = {name: value.as_json() if isinstance(value, Reason) else value for name, value in self.values.items()}
        return {"code": self.code, "values": values, "text": str(self)}

    @classmethod
    def from_json(cls, found: Any) -> Self:
        """Return what `as_json` returned. Raises KeyError, TypeError or AttributeError if it is something else."""
        return cls(_text(found["text"]), _text(found["code"]), {n: _value(v) for n, v in found["values"].items()})

    def sent(self, chars_max: int) -> str:
        """Return the reason as a text that `received` reads: JSON, or the sentence if there is no code or that is too long."""
        if not self.code:
            return str(self)
        text = json.dumps(self.as_json(), ensure_ascii=False, separators=(",", ":"))
        return text if len(text) <= chars_max else str(self)

    @classmethod
    def received(cls, text: str) -> Self:
        """Return a reason that was sent. A text that is none is the sentence."""
        if not text.startswith("{"):
            return cls(text)
        try:
            found = json.loads(text)
            # Half a surrogate pair, or a number that is none, can't be stored.
            json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
            return cls.from_json(found)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(text)


NO_REASON = Reason()
_FORM = "a sentence, or JSON with `code`, `values` and the sentence as `text`"


class ReasonNote(Note):
    """A `Reason`: JSON with its code, values and sentence, or only the sentence if there is no code or that is too long."""

    label = f"{Note.label}: {_FORM}"

    def read(self, reader: Any) -> Any:
        return Reason.received(super().read(reader))

    def write(self, parts: list[Any], value: Any) -> None:
        super().write(parts, sent(value, self.limit.chars_max))


class MapReason(MapNote):
    """A `ReasonNote` in the map."""

    def __init__(self) -> None:
        super().__init__()
        self.label, self.missing = f"text ({self.limit.label}): {_FORM}", NO_REASON

    def parse(self, key: str, text: str) -> Any:
        return Reason.received(super().parse(key, text))

    def text(self, value: Any) -> str:
        return super().text(sent(value, self.limit.chars_max))


def _value(found: Any) -> Value:
    if isinstance(found, dict):
        return Reason.from_json(found)
    if isinstance(found, str | int | float):
        return found
    raise TypeError(f"{found!r} is no value of a reason")


def _text(found: Any) -> str:
    if isinstance(found, str):
        return found
    raise TypeError(f"{found!r} is no text")


def joined(reasons: Sequence[str]) -> Reason:
    """Return several reasons as one; "" if there are none."""
    if not reasons:
        return Reason()
    first = reasons[0] if isinstance(reasons[0], Reason) else Reason(reasons[0])
    return Reason.of(Code.AND, first=first, rest=joined(reasons[1:])) if len(reasons) > 1 else first


def sent(text: str, chars_max: int) -> str:
    """Return a reason or another text as it is written."""
    return text.sent(chars_max) if isinstance(text, Reason) else text

"""Reasons why a node does not accept sends, serve, lead, follow or count, and why its membership was changed. Pure.

A reason is made as a code with values. TEXTS has its sentence in English, for logs and commands; the console has the same codes in
`reasons.json` of each language.
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


class Code(StrEnum):
    """What is the matter. The names of the values are those in the sentence."""

    MASTER_SILENT = "master_silent"
    MASTER_DISCONNECTED = "master_disconnected"
    MASTER_RESTARTED = "master_restarted"
    MASTER_LOST_DATA = "master_lost_data"
    MASTER_WAITS = "master_waits"
    MASTER_DOES_NOT_LEAD = "master_does_not_lead"
    MASTER_STUCK = "master_stuck"
    MASTER_CUT_OFF = "master_cut_off"
    PROMOTED = "promoted"
    REPLACED = "replaced"
    COPIES_MISSING = "copies_missing"
    RECOVERED = "recovered"
    SWITCHES_OVER = "switches_over"
    STOPS_AND_SWITCHES_OVER = "stops_and_switches_over"

    NODE = "node"
    NODE_WITH = "node_with"
    CAUGHT_UP = "caught_up"
    NOT_CONNECTED = "not_connected"
    STOPS = "stops"
    COPIES_LOG = "copies_log"
    CONFIRMS_NOTHING = "confirms_nothing"
    LOST_DATA = "lost_data"

    DISK_FULL = "disk_full"
    FOLDER_EMPTY = "folder_empty"
    DISK_STUCK = "disk_stuck"
    LOG_DAMAGED = "log_damaged"

    ROLE = "role"
    LOG_SHORTER = "log_shorter"
    OTHER_FOLDER = "other_folder"
    NOT_MEMBER = "not_member"
    NO_HEARTBEATS = "no_heartbeats"
    NO_REPLICATION = "no_replication"
    NOT_IN_SYNC = "not_in_sync"
    ONE_MEMBER = "one_member"
    RESTORED = "restored"
    AND = "and"

    REFUSES = "refuses"
    STARTED_READ_ONLY = "started_read_only"
    SET_READ_ONLY = "set_read_only"
    REJECTED = "rejected"
    PENDING_APPROVAL = "pending_approval"
    GROUP_DRAINS = "group_drains"
    APPROVE = "approve"
    SPARE = "spare"
    SPARE_OF_FULL = "spare_of_full"
    SPARE_WITH_DATA = "spare_with_data"
    DELAY_GROUP = "delay_group"
    MEMBERSHIP_NOT_STORED = "membership_not_stored"
    OLDER_FOLDER = "older_folder"
    LOG_CORRUPTED = "log_corrupted"
    WRITE_WAITS = "write_waits"
    DISK_SPACE = "disk_space"
    LOG_SPACE = "log_space"
    NO_SEGMENT = "no_segment"
    ONE_IN_SYNC = "one_in_sync"
    FEW_IN_SYNC = "few_in_sync"
    SLAVES_WAITED = "slaves_waited"

    NOT_SERVING = "not_serving"
    NOT_REGISTERED = "not_registered"
    IN_ROLE = "in_role"
    NO_CLIENTS = "no_clients"
    WAITS_FOR_MASTER = "waits_for_master"
    SLAVE_COPIES = "slave_copies"
    SLAVE_FOLLOWS = "slave_follows"
    SLAVE_IN_SYNC = "slave_in_sync"

    NO_MEMBERSHIP = "no_membership"
    NEWER_EPOCH = "newer_epoch"
    OTHER_LEADS = "other_leads"
    NOT_ALONE = "not_alone"
    NOT_AMONG = "not_among"
    ALSO_LEADS = "also_leads"
    TWO_PROMOTIONS = "two_promotions"
    COPY_INCOMPLETE = "copy_incomplete"
    ADDRESS_UNKNOWN = "address_unknown"
    COPIES_MASTER = "copies_master"
    TRUNCATED = "truncated"
    BECAUSE = "because"
    COPIES_LATER = "copies_later"
    NO_ANSWER = "no_answer"
    LOG_REPLACED = "log_replaced"
    FIRST_COMMIT = "first_commit"
    NO_SLAVES = "no_slaves"
    OTHER_MASTER = "other_master"
    CANNOT_LEAD = "cannot_lead"
    LOG_STAYS = "log_stays"
    NO_MASTER = "no_master"
    LED = "led"
    WAS_PROMOTED = "was_promoted"


TEXTS: Mapping[str, str] = {
    Code.MASTER_SILENT: "master {master} has sent no heartbeat for {seconds} s",
    Code.MASTER_DISCONNECTED: "the connection of master {master} has ended, and no slave receives anything of it",
    Code.MASTER_RESTARTED: "master {master} restarted and waits for a new epoch",
    Code.MASTER_LOST_DATA: "master {master} has lost its data",
    Code.MASTER_WAITS: "master {master} waits: {why}",
    Code.MASTER_DOES_NOT_LEAD: "master {master} does not lead: {why}",
    Code.MASTER_STUCK: "master {master} does not lead: its disk has not completed a write for {seconds} s",
    Code.MASTER_CUT_OFF: "master {master} can't reach {slaves}, and {running} run",
    Code.PROMOTED: "{why}; node {node} is promoted",
    Code.REPLACED: "node {node} replaces {master}, which is silent",
    Code.COPIES_MISSING: "the group has {members} of {copies} copies",
    Code.RECOVERED: "the database was restored from a backup; the membership is that of master {master}",
    Code.SWITCHES_OVER: "{master} switches over to {node}",
    Code.STOPS_AND_SWITCHES_OVER: "{master} switches over to {node} and stops",
    Code.NODE: "node {node}",
    Code.NODE_WITH: "node {node}: {why}",
    Code.CAUGHT_UP: "it caught up",
    Code.NOT_CONNECTED: "it has not been connected for {seconds} s",
    Code.STOPS: "it stops",
    Code.COPIES_LOG: "it copies the log",
    Code.CONFIRMS_NOTHING: "it has confirmed nothing for {seconds} s",
    Code.LOST_DATA: "its log ends at {end}, below the high watermark {high_watermark}: it has lost data",
    Code.DISK_FULL: "its disk is full",
    Code.FOLDER_EMPTY: "its data folder is empty",
    Code.DISK_STUCK: "its disk does not complete a write",
    Code.LOG_DAMAGED: "its log is damaged between offsets {begin} and {end}",
    Code.ROLE: "its role is {role}",
    Code.LOG_SHORTER: "its log ends at {end}, before the {highest} that it reported",
    Code.OTHER_FOLDER: "its data folder is not the one that was in sync",
    Code.NOT_MEMBER: "it is not a member",
    Code.NO_HEARTBEATS: "it does not send heartbeats",
    Code.NO_REPLICATION: "its version has no replication",
    Code.NOT_IN_SYNC: "it is not in sync",
    Code.ONE_MEMBER: "the group has one member",
    Code.RESTORED: f"the stored membership is older than epoch {{epoch}}, version {{version}}: {RESTORED}",
    Code.AND: "{first}; {rest}",
    Code.REFUSES: "read only: {why}",
    Code.STARTED_READ_ONLY: "the {kind} was started read only",
    Code.SET_READ_ONLY: "set to read-only by an operator",
    Code.REJECTED: "the metaserver rejected this node: {why}",
    Code.GROUP_DRAINS: "the group is draining",
    Code.APPROVE: "{why}: approve it in the console or with the API",
    Code.SPARE: "node {node} is not a member of broker group {group}: {why}",
    Code.SPARE_OF_FULL: (
        "node {node} is not a member of broker group {group}, which has all of its {copies}"
        " copies; raise `copies`, or stop the node"
    ),
    Code.SPARE_WITH_DATA: (
        "node {node} is not a member of broker group {group}, and its data folder is not empty:"
        " only a node with an empty folder becomes a member"
    ),
    Code.DELAY_GROUP: "a delay group has one member",
    Code.MEMBERSHIP_NOT_STORED: "the change of the group's membership is not stored yet",
    Code.PENDING_APPROVAL: "broker group {group} is pending approval",
    Code.OLDER_FOLDER: (
        "its log ends at {end} but had reached {highest}: its data folder is an older copy, or"
        " empty; acknowledged messages are missing"
    ),
    Code.LOG_CORRUPTED: "the message log is corrupted; see the node's log",
    Code.WRITE_WAITS: "the disk has not completed a write for {seconds} s",
    Code.DISK_SPACE: "no space: {free} bytes free on disk, the reserve is {reserve}",
    Code.LOG_SPACE: "no space: {room} bytes left in the log, the reserve is {reserve}",
    Code.NO_SEGMENT: "the next segment is not created yet: {room} bytes left in the log, the reserve is {reserve}",
    Code.ONE_IN_SYNC: "{required} copies are required, {in_sync} is in sync",
    Code.FEW_IN_SYNC: "{required} copies are required, {in_sync} are in sync",
    Code.SLAVES_WAITED: "stored messages have waited {seconds} s for slaves",
    Code.NOT_SERVING: "not serving",
    Code.NOT_REGISTERED: "not registered: {why}",
    Code.IN_ROLE: "{role}: {why}",
    Code.NO_CLIENTS: "serves no clients: {role}",
    Code.WAITS_FOR_MASTER: "waits for the metaserver to name a master",
    Code.SLAVE_COPIES: "slave, copies the log of its master",
    Code.SLAVE_FOLLOWS: "slave, catches up with its master",
    Code.SLAVE_IN_SYNC: "slave, in sync",
    Code.NO_MEMBERSHIP: "no metaserver has named its master yet",
    Code.NEWER_EPOCH: "this node is not master any more: another member knows epoch {epoch}",
    Code.OTHER_LEADS: "this node is not master any more: node {node} leads epoch {epoch}",
    Code.NOT_ALONE: "this node is not the only member any more; members are {members}",
    Code.NOT_AMONG: "it is not a member; members are {members}",
    Code.ALSO_LEADS: "node {node} leads epoch {epoch}, too",
    Code.TWO_PROMOTIONS: "epoch {epoch} has two promotions: {one} and {other}",
    Code.COPY_INCOMPLETE: "it copies the log, and what it has is not complete: it can't lead epoch {epoch}",
    Code.ADDRESS_UNKNOWN: "the sync address of master {master} is not known yet",
    Code.COPIES_MASTER: "it copies the log of the master and confirms nothing yet",
    Code.TRUNCATED: "its log is truncated to offset {end}",
    Code.BECAUSE: "{problem}: {why}",
    Code.COPIES_LATER: "{problem}: it copies the log when the master's state can be read: {why}",
    Code.NO_ANSWER: "the master has not answered yet",
    Code.LOG_REPLACED: "its log is replaced by a copy of the master's: {why}",
    Code.FIRST_COMMIT: "the in-sync set has not stored the first commit of the epoch yet",
    Code.NO_SLAVES: "it has no slaves: {why}",
    Code.OTHER_MASTER: "node {node} is not the master any more",
    Code.CANNOT_LEAD: "it can't lead epoch {epoch}",
    Code.LOG_STAYS: "its log stays until master {master} has removed it from the in-sync set",
    Code.NO_MASTER: "no master yet",
    Code.LED: "it led epoch {epoch} before it started again",
    Code.WAS_PROMOTED: "it was promoted to lead epoch {epoch} before it started again",
}
"""By code, the sentence in English, with the names of its values."""


class Reason(str):
    """A sentence in English that also has the code and the values it was made of. One without a code is only a text."""

    __slots__ = ("code", "values")
    code: str
    """A `Code`, that of another version, or "" if there is none."""
    values: Mapping[str, Value]

    def __new__(cls, text: str = "", code: str = "", values: Mapping[str, Value] | None = None) -> Self:
        made = super().__new__(cls, text)
        made.code, made.values = code, values or {}
        return made

    @classmethod
    def of(cls, code: Code, **values: Value) -> Self:
        """Return the reason with this code; `joined` makes one value of several reasons."""
        return cls(TEXTS[code].format(**values), code, values)

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

    def __init__(self) -> None:
        super().__init__()
        self.label = f"str ({self.limit.label}): {_FORM}"

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

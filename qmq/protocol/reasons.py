"""Reasons why a member of a broker group does not lead, follow or count, and why its row was changed. Pure.

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
"""Why a row is older than one that is known, and what to do."""
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
    Code.RECOVERED: "the database was restored from a backup; the row is that of master {master}",
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
    Code.RESTORED: f"the stored row is older than epoch {{epoch}}, version {{version}}: {RESTORED}",
    Code.AND: "{first}; {rest}",
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
        self.label = f"text ({self.limit.label}): {_FORM}"

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

"""The membership of a broker group, and the commands that change it (221, 222) and send it to nodes (223).

They run on the connection that a node opens to a metaserver. CHANGE_IN_SYNC and RESIGN are requests of the master. ROLE
is a one-way request of the metaserver; its body is a `GroupMembership`. All bodies are maps of strings, as those of all
own commands, so that fields can be added. A new field of the membership has to be an entry of its map, because other
bytes may follow its lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from qmq.errors import ProtocolError
from qmq.protocol.kinds import MapFlag, MapWord
from qmq.protocol.limited_kinds import (
    MapAddresses,
    MapCount,
    MapCrc,
    MapIncarnation,
    MapIncarnations,
    MapName,
    MapNote,
    MapRange,
    MapUuid,
    Name,
)
from qmq.protocol.reasons import NO_REASON, MapReason, Reason
from qmq.protocol.structures import Counted, Maybe, Structure

MEMBERS_MAX = 3
"""Most members of a broker group."""


@dataclass(frozen=True, slots=True)
class GroupMembership(Structure):
    """The membership of a broker group in the database: which node is master in which epoch, and which members are in sync.

    `master` and the members are node ids; `master` is "" if there is none. `promotion_id` identifies the promotion that began the
    epoch, "" if the group never had one. `master_sync_address` is `host:port`, "" if the master has no sync port.
    `in_sync_version` rises with each change of the in-sync set. Sends need `in_sync_min` in-sync members, or all members if the
    group has fewer. `joining` has bit n set if the n-th member has not been in sync since it became one: it does not count there.

    `incarnations` has, for each of the first members, that of the data folder with which the member was last added to the in-sync
    set, "" if it never was. `master_boot_id` identifies the process that was promoted, "" if the master was never promoted since
    the group has several members: no other process leads the epoch.

    `loss_id` identifies the newest loss of acknowledged messages that the group may have had and an operator accepted, "" if there
    was none. A master that has not created the consumer groups of its subjects since then does so before it accepts sends
    (KNOWN_GROUPS).

    `replaced` is the member that `replacement` replaces, "" if no replacement is pending. Either may be a member or not. A master
    that is replaced switches over before it leaves.

    `sync_addresses` has, for each of the first members, the `host:port` of its sync port, "" if it is not known. Members read there
    what is damaged on their own disks (READ_RANGE).
    """

    broker_group: Annotated[str, MapName()]
    epoch: MapCount
    promotion_id: Annotated[str, MapUuid()]
    master: Annotated[str, MapName(may_be_empty=True)]
    master_sync_address: Annotated[str, MapName(may_be_empty=True)]
    in_sync_version: MapCount
    in_sync_min: Annotated[int, MapRange(1, MEMBERS_MAX)]
    members: Annotated[tuple[str, ...], Counted("b", Name(), "members", MEMBERS_MAX)]
    in_sync: Annotated[tuple[str, ...], Counted("b", Name(), "in-sync members", MEMBERS_MAX)]
    joining: Annotated[int, MapRange(0, (1 << MEMBERS_MAX) - 1)] = 0
    incarnations: Annotated[tuple[str, ...], MapIncarnations(MEMBERS_MAX)] = ()
    master_boot_id: Annotated[str, MapName(may_be_empty=True)] = ""
    loss_id: Annotated[str, MapUuid(is_optional=True)] = ""
    replaced: Annotated[str, MapName(may_be_empty=True)] = ""
    replacement: Annotated[str, MapName(may_be_empty=True)] = ""
    sync_addresses: Annotated[tuple[str, ...], MapAddresses(MEMBERS_MAX)] = ()

    def check(self) -> None:
        """Reject a node that is listed twice, and a master or an in-sync member that is not a member. Raises ProtocolError."""
        if self.joining >> len(self.members):
            raise ProtocolError(
                f"GroupMembership.joining: {self.joining} has bits for more than {len(self.members)} members"
            )
        if len(self.incarnations) > len(self.members):
            raise ProtocolError(
                f"GroupMembership.incarnations: there are {len(self.incarnations)} for {len(self.members)} members"
            )
        if len(self.sync_addresses) > len(self.members):
            raise ProtocolError(
                f"GroupMembership.sync_addresses: there are {len(self.sync_addresses)} for {len(self.members)} members"
            )
        self._check_names("members", self.members)
        self._check_names("in_sync", self.in_sync)
        self._check_names("master", (self.master,) if self.master else ())

    def _check_names(self, field: str, names: Sequence[str]) -> None:
        for place, name in enumerate(names):
            if name in names[:place]:
                raise ProtocolError(f"GroupMembership.{field}: {name} is listed twice")
            if name not in self.members:
                raise ProtocolError(
                    f"GroupMembership.{field}: {name} is not a member; members are {', '.join(self.members)}"
                )


class InSyncChange(StrEnum):
    """What CHANGE_IN_SYNC does with a member."""

    ADD = "add"
    REMOVE = "remove"


class MembershipResult(StrEnum):
    """Result of a request to change the membership."""

    DONE = "done"
    STALE = "stale"
    """The membership has another epoch, promotion id or version than the request. Nothing was changed."""
    REFUSED = "refused"
    """The change is not allowed. Nothing was changed; the reason says why."""
    UNAVAILABLE = "unavailable"
    """The database does not respond, so the membership may or may not have been changed. The same request can be sent again."""


@dataclass(frozen=True, slots=True)
class ChangeInSyncRequest(Structure):
    """The master, node `node_id`, requests that `member` be added to the in-sync set or removed from it.

    `epoch`, `promotion_id` and `in_sync_version` are those of the membership that the master has. The metaserver
    changes only a membership with the same values. `incarnation` identifies the data folder of a member that is added.
    """

    broker_group: Annotated[str, MapName()]
    node_id: Annotated[str, MapName()]
    epoch: MapCount
    promotion_id: Annotated[str, MapUuid()]
    in_sync_version: MapCount
    change: Annotated[InSyncChange, MapWord(InSyncChange)]
    member: Annotated[str, MapName()]
    reason: Annotated[Reason, MapReason()] = NO_REASON
    incarnation: Annotated[str, MapIncarnation()] = ""


@dataclass(frozen=True, slots=True)
class ResignRequest(Structure):
    """The master, node `node_id`, has stopped writing and requests that `successor` be promoted.

    Its log ends at `end` with a commit whose CRC is `crc`; every in-sync member has synced all of it. `epoch`, `promotion_id` and
    `in_sync_version` as in a CHANGE_IN_SYNC. `is_leaving`: the process ends, so the master does not stay in the in-sync set.
    """

    broker_group: Annotated[str, MapName()]
    node_id: Annotated[str, MapName()]
    epoch: MapCount
    promotion_id: Annotated[str, MapUuid()]
    in_sync_version: MapCount
    successor: Annotated[str, MapName()]
    end: MapCount
    crc: MapCrc
    is_leaving: Annotated[bool, MapFlag(is_optional=True)] = False


@dataclass(frozen=True, slots=True)
class MembershipResponse(Structure):
    """The result of a CHANGE_IN_SYNC or RESIGN, and the membership after it; no membership if the metaserver can't read it."""

    result: Annotated[MembershipResult, MapWord(MembershipResult)]
    reason: Annotated[str, MapNote()] = ""
    membership: Annotated[GroupMembership | None, Maybe(GroupMembership)] = None

"""The membership of a broker group: who is master, who is in sync, and the changes of both. Pure."""

from dataclasses import dataclass, replace

from qmq.conversion import convert
from qmq.protocol.group_memberships import (
    MEMBERS_MAX,
    ChangeInSyncRequest,
    GroupMembership,
    InSyncChange,
    ResignRequest,
)
from qmq.protocol.reasons import RESTORED


class ChangeRejected(Exception):
    """A change of a membership that is not made. `is_stale`: the membership has changed since the change was requested."""

    def __init__(self, reason: str, *, is_stale: bool = False) -> None:
        super().__init__(reason)
        self.is_stale = is_stale


@dataclass(frozen=True, slots=True)
class Membership:
    """Who is master of a broker group and who is in sync. Each change raises `version`; each promotion raises `epoch`."""

    broker_group: str
    members: tuple[str, ...]
    """Node ids."""
    master: str
    """The node id of the member that was promoted last; "" before the first promotion."""
    in_sync: tuple[str, ...]
    """The members that may be promoted: each has everything that was acknowledged. In the order of `members`."""
    epoch: int
    version: int
    """Number of changes, `in_sync_version` in the database and on the wire."""
    promotion_id: str
    """Identifies the promotion that began the epoch."""
    in_sync_min: int = 2
    joining: tuple[str, ...] = ()
    """The members that have not been in sync since they became members. They do not raise the minimum: a group whose first slave
    copies the log accepts sends."""
    incarnations: tuple[str, ...] = ()
    """In the order of `members`: the incarnation of the data folder with which a member was last added to the in-sync set. The set
    consists of these folders: a node whose disk was replaced since has less. "" or none at all: the member was never added, or the
    group had one member only until now."""
    master_boot_id: str = ""
    """Identifies the process of the master that was promoted. No other leads the epoch: after a restart, the node may have lost
    what it had not synced, or have an older copy of its data folder. "": the master began the epoch as the only member."""
    loss_id: str = ""
    """Identifies the newest loss of acknowledged messages that an operator accepted, or that was possible when another node
    replaced the only member; "": there was none. Consumer groups may have been lost, too (`ReplicaState.lacks_groups`)."""
    copies: int = 1
    """How many members the group should have, where the membership was read from the database. Nodes do not get it."""
    known_place: tuple[int, int] = (0, 0)
    """As `copies`: the highest place of which a metaserver recorded that it is known although the stored membership is older."""
    replaced: str = ""
    """The member that `replacement` replaces; "": no replacement is pending. It may have left already."""
    replacement: str = ""
    """The node that becomes a member instead of `replaced`. It may be one already."""

    @classmethod
    def of(cls, sent: GroupMembership) -> "Membership":
        """Return a membership as a metaserver sent it."""
        joining = tuple(member for place, member in enumerate(sent.members) if sent.joining >> place & 1)
        return convert(cls, sent, version=sent.in_sync_version, joining=joining, copies=1, known_place=(0, 0))

    def sent(self, master_sync_address: str, sync_addresses: tuple[str, ...] = ()) -> GroupMembership:
        """Return the membership to send to nodes; "" for sync addresses that are not known."""
        joining = sum(1 << place for place, member in enumerate(self.members) if member in self.joining)
        return convert(
            GroupMembership,
            self,
            master_sync_address=master_sync_address,
            sync_addresses=sync_addresses if any(sync_addresses) else (),
            in_sync_version=self.version,
            joining=joining,
        )

    def incarnation_of(self, member: str) -> str:
        """Return the incarnation of the data folder with which a member was last added to the in-sync set; "" if there is none."""
        return dict(zip(self.members, self.incarnations, strict=False)).get(member, "")

    def with_incarnation(self, member: str, incarnation: str) -> "Membership":
        """Return the membership with another data folder of a member, in the same version."""
        of_members = {other: self.incarnation_of(other) for other in self.members} | {member: incarnation}
        return replace(self, incarnations=tuple(of_members.values()) if any(of_members.values()) else ())

    @property
    def in_sync_min_in_force(self) -> int:
        """How many members have to be in sync so that sends are accepted."""
        return min(self.in_sync_min, len(self.members) - len(self.joining))

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and version: the membership with the higher place is newer."""
        return self.epoch, self.version

    @property
    def content(self) -> tuple[str, frozenset[str]]:
        """What has to be equal in memberships of the same place: the promotion and the in-sync set."""
        return self.promotion_id, frozenset(self.in_sync)

    def contradicts(self, other: "Membership") -> bool:
        """Whether both memberships have one place and another content: one of them was stored after the database was restored.

        Memberships of one member may differ: two metaservers may have created the group at the same time.
        """
        has_several = len(self.members) > 1 or len(other.members) > 1
        return has_several and self.place == other.place and self.content != other.content

    @property
    def accepts_loss(self) -> bool:
        """Whether an operator has accepted the loss of what its master lacks, and of what is damaged there, by its promotion."""
        return self.promotion_id != "" and self.loss_id == self.promotion_id

    def check_not_restored(self, newest_place: tuple[int, int]) -> None:
        """Raises ChangeRejected if the membership was newer before: the database was restored from a backup.

        Its in-sync set may then name a member that was removed since, and lacks acknowledged messages. No change is made until
        the last master reported (`qmq_node.replication.rules.promotion.recovered`) or an operator decided.

        Args:
            newest_place: the highest that the metaserver has seen, in the database or of a node.
        """
        newest_place = max(newest_place, self.known_place)
        if self.place < newest_place:
            raise ChangeRejected(
                f"the stored membership of {self.broker_group} has epoch {self.epoch}, version {self.version}, and had epoch"
                f" {newest_place[0]}, version {newest_place[1]} before: {RESTORED}"
            )

    def check_not_contradicted(self, known: "Membership") -> None:
        """Raises ChangeRejected if a membership of the same place with another content is known."""
        if self.contradicts(known):
            raise ChangeRejected(
                f"the stored membership of {self.broker_group} has another in-sync set or promotion than was known of epoch"
                f" {self.epoch}, version {self.version}: {RESTORED}"
            )

    def with_in_sync(self, in_sync: frozenset[str]) -> "Membership":
        """Return the next version of the membership, with this in-sync set."""
        ordered = tuple(member for member in self.members if member in in_sync)
        joining = tuple(member for member in self.joining if member not in in_sync)
        return replace(self, in_sync=ordered, version=self.version + 1, joining=joining)

    def with_master(self, node_id: str) -> "Membership":
        """Return this version of the membership as it would be if another member were the master."""
        return replace(self, master=node_id)

    def without(self, node_id: str) -> "Membership":
        """Return the next version of the membership, without a member. A replacement that is complete by that is not pending any
        more, nor is one by the removed node."""
        members = tuple(member for member in self.members if member != node_id)
        incarnations = tuple(self.incarnation_of(member) for member in members)
        is_over = self.replacement == node_id or (self.replaced not in members and self.replacement in members)
        return replace(
            self,
            members=members,
            in_sync=tuple(member for member in self.in_sync if member in members),
            version=self.version + 1,
            joining=tuple(member for member in self.joining if member in members),
            incarnations=incarnations if any(incarnations) else (),
            replaced="" if is_over else self.replaced,
            replacement="" if is_over else self.replacement,
        )


@dataclass(frozen=True, slots=True)
class AddMember:
    """The change that makes a node a member. It is not in sync until the master requests that."""

    epoch: int
    version: int
    node_id: str
    master_incarnation: str
    """Of the data folder with which the master serves now: while it was the only member, the membership did not have to name it."""

    def applied_to(self, membership: Membership) -> Membership:
        """Return the changed membership. Raises ChangeRejected."""
        check_place(membership, self.epoch, self.version)
        if self.node_id in membership.members:
            raise ChangeRejected(f"node {self.node_id!r} is a member of broker group {membership.broker_group} already")
        if len(membership.members) >= MEMBERS_MAX:
            raise ChangeRejected(f"broker group {membership.broker_group} has {MEMBERS_MAX} members, the maximum")
        if membership.replacement not in ("", self.node_id):
            raise ChangeRejected(
                f"node {membership.replacement!r} is to replace {membership.replaced!r} in broker group"
                f" {membership.broker_group} first"
            )
        is_complete = membership.replaced not in membership.members
        of_master = membership.incarnation_of(membership.master)
        if len(membership.members) == 1:
            if of_master not in ("", self.master_incarnation):
                raise ChangeRejected(
                    f"node {membership.master!r} has another data folder than the one that was in sync"
                )
            of_master = self.master_incarnation
        return replace(
            membership,
            members=(*membership.members, self.node_id),
            version=membership.version + 1,
            joining=(*membership.joining, self.node_id),
            replaced="" if is_complete else membership.replaced,
            replacement="" if is_complete else membership.replacement,
        ).with_incarnation(membership.master, of_master)


class ChangeInSync(ChangeInSyncRequest):
    """A master's request to change the in-sync set, valid for one version of the membership only."""

    __slots__ = ()

    def applied_to(self, membership: Membership) -> Membership:
        """Return the changed membership. Raises ChangeRejected."""
        _check_sender(membership, self)
        if self.member not in membership.members:
            raise ChangeRejected(f"node {self.member!r} is not a member of broker group {membership.broker_group}")
        if self.member == membership.master:
            raise ChangeRejected(f"node {self.member!r} is the master, which is always in sync")
        if self.change is InSyncChange.ADD:
            added = membership.with_in_sync(frozenset(membership.in_sync) | {self.member})
            return added.with_incarnation(self.member, self.incarnation)
        return membership.with_in_sync(frozenset(membership.in_sync) - {self.member})


@dataclass(frozen=True, slots=True)
class Promotion:
    """The change that makes a member the master. `epoch` and `version` are those of the membership that it replaces."""

    epoch: int
    version: int
    candidate: str
    boot_id: str
    """Of the process of the candidate."""
    new_epoch: int
    promotion_id: str
    keeps_master: bool = False
    """Whether the old master stays in sync: it resigned, and has nothing that the candidate lacks."""

    def applied_to(self, membership: Membership) -> Membership:
        """Return the changed membership. Raises ChangeRejected."""
        check_place(membership, self.epoch, self.version)
        if self.candidate not in membership.in_sync:
            raise ChangeRejected(f"node {self.candidate!r} is not in sync, it may lack acknowledged messages")
        if self.new_epoch <= membership.epoch:
            raise ChangeRejected(f"epoch {self.new_epoch} is not above {membership.epoch}")
        gone = set() if self.keeps_master else {membership.master} - {self.candidate}
        changed = membership.with_in_sync(frozenset(membership.in_sync) - gone)
        return replace(
            changed,
            master=self.candidate,
            master_boot_id=self.boot_id,
            epoch=self.new_epoch,
            promotion_id=self.promotion_id,
        )


@dataclass(frozen=True, slots=True)
class UncleanPromotion:
    """An operator's change that makes a member the master although it may lack acknowledged messages, or the membership
    was restored.

    It is the only change by which acknowledged messages can be lost: those that the candidate does not have, and those that a
    master of an older epoch still acknowledges while it runs. The candidate alone is in sync afterwards: after a restore, the
    stored set may name members that lack what it has. `epoch` and `version` are those of the membership that it replaces.
    """

    epoch: int
    version: int
    candidate: str
    incarnation: str
    """Of the data folder of the candidate."""
    boot_id: str
    """Of its process."""
    newest_place: tuple[int, int]
    """The highest place of the membership that is known. The changed membership is above it: after a restore, changes
    are possible again."""
    promotion_id: str

    def applied_to(self, membership: Membership) -> Membership:
        """Return the changed membership. Raises ChangeRejected."""
        check_place(membership, self.epoch, self.version)
        if self.candidate not in membership.members:
            raise ChangeRejected(f"node {self.candidate!r} is not a member of broker group {membership.broker_group}")
        epoch, version = max(membership.epoch, self.newest_place[0]), max(membership.version, self.newest_place[1])
        changed = replace(membership, version=version).with_in_sync(frozenset({self.candidate}))
        changed = changed.with_incarnation(self.candidate, self.incarnation)
        return replace(
            changed,
            master=self.candidate,
            master_boot_id=self.boot_id,
            epoch=epoch + 1,
            promotion_id=self.promotion_id,
            loss_id=self.promotion_id,
        )


class Resignation(ResignRequest):
    """A master's request to be succeeded by a member whose log ends where its own does. It stays in sync unless it stops."""

    __slots__ = ()

    def applied_to(self, membership: Membership, boot_id: str, new_promotion_id: str) -> Membership:
        """Return the changed membership, in the next epoch. Raises ChangeRejected.

        Args:
            boot_id: of the process of the successor.
        """
        _check_sender(membership, self)
        if self.successor == self.node_id:
            raise ChangeRejected(f"node {self.node_id!r} can't succeed itself")
        promotion = Promotion(
            membership.epoch, membership.version, self.successor, boot_id, membership.epoch + 1, new_promotion_id,
            keeps_master=not self.is_leaving,
        )  # fmt: skip
        return promotion.applied_to(membership)


def check_place(membership: Membership, epoch: int, version: int) -> None:
    """Raises ChangeRejected, as stale, unless the membership has this epoch and version."""
    if (epoch, version) != membership.place:
        raise ChangeRejected(
            f"the change is for epoch {epoch}, version {version}; the membership has"
            f" epoch {membership.epoch}, version {membership.version}",
            is_stale=True,
        )


def _check_sender(membership: Membership, request: ChangeInSyncRequest | ResignRequest) -> None:
    check_place(membership, request.epoch, request.in_sync_version)
    if request.promotion_id != membership.promotion_id:
        raise ChangeRejected(
            f"epoch {request.epoch} has promotion {membership.promotion_id!r}, not {request.promotion_id!r}"
        )
    if request.node_id != membership.master:
        raise ChangeRejected(f"node {request.node_id!r} is not the master of broker group {membership.broker_group}")

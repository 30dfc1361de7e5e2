"""What a node does about a membership that it learns from a metaserver. Pure."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from qmq_node.log.record import FIRST_EPOCH
from qmq_node.replication.rules.membership import Membership

NEW_FOLDER, OLDER_FOLDER = "new folder", "older folder"
"""As `ReplicaState.loss_id`: what the data folder may lack although no operator has accepted the loss of anything."""


class CopyPhase(Enum):
    """What a copying slave does. All but the last replace its log, and follow one another; the last one continues it."""

    CLEARING = "clearing"
    """The log and all that is derived from it are being removed: the master has no longer what follows on them. Files that the
    master's state has, too, stay."""
    STATE = "state"
    """There is no log. The master's state is read, and stored as a checkpoint."""
    FILES = "files"
    """The state is stored. The files that it counts are copied; not of brokers, which make them from the log."""
    LOG = "log"
    """The state is stored. The log is copied from the master's begin on, at least up to `Copying.end`. Nothing is applied."""
    CATCHING_UP = "catching_up"
    """The log and what is derived from it are in use. The log is far behind the master's."""


@dataclass(frozen=True, slots=True)
class Copying:
    """A copy of the master's log that is not complete: log offsets [begin, end).

    While it is on disk, this member confirms nothing, and may write many commits with one sync. After a restart, a bad place at or
    behind `begin` is a torn tail, whatever follows it, and is truncated (`copied_from` of `qmq_node.log.opening.inspect`).
    """

    begin: int
    end: int
    """When the copy began, the master had this much. In phases FILES and LOG: the state holds nothing behind it. In phase CLEARING:
    where this log ended, up to which it may have been applied to files; 0: that is not known."""
    phase: CopyPhase = CopyPhase.CATCHING_UP
    state_offset: int = 0
    """In phases FILES and LOG: the log offset of the state. The master's log must not begin behind it."""
    state_epoch: int = 0
    """In phases FILES and LOG: the epoch of the master whose state it is. Another master may lack what it holds, if an operator
    accepted that, so its own state is read before the log is copied from it."""

    @property
    def is_usable(self) -> bool:
        """Whether the node could serve with what it has."""
        return self.phase is CopyPhase.CATCHING_UP


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What a member has on disk about its group before it acts on it. The default: it was never in a group of several members."""

    epoch: int = FIRST_EPOCH
    """The highest one that it has learned. Whatever is older is rejected. It never falls."""
    promotion_id: str = ""
    """Identifies the promotion that began the epoch; "" if there was none."""
    is_only_member: bool = True
    """Whether the group has no other member. Only then may the node serve as master after a restart, without being promoted."""
    copying: Copying | None = None
    is_new: bool = False
    """Whether the data folder was empty and no membership has said yet what the node is in its group. The folder may have been
    emptied, and others may have the data."""
    version: int = 0
    """That of the newest membership of the epoch that it has acted on; 0: of none. With it, a metaserver notices that
    the database was restored from a backup."""
    in_sync: tuple[str, ...] = ()
    """The in-sync set of that membership."""
    log_id: str = ""
    """Identifies the log, the same on all members: its first master makes it, and slaves take it from the master that they
    follow. A log that begins again from nothing, after an operator accepted that, has another one. "": there is no log yet."""
    loss_id: str = ""
    """Identifies the newest possible loss of acknowledged messages that it knows of: `Membership.loss_id`, NEW_FOLDER or
    OLDER_FOLDER; "": none."""
    groups_loss_id: str = ""
    """`loss_id` when this node last created, as master, the consumer groups that were known."""
    older_end: int = -1
    """Where the log ended when a metaserver said that the data folder is older than what the node had, whose loss no operator has
    accepted yet; -1: nothing of that."""

    @property
    def lacks_groups(self) -> bool:
        """Whether consumer groups that were known may be missing. As master it accepts no messages then: a group that is created
        later begins behind them."""
        return self.loss_id != self.groups_loss_id

    def has_unknown_loss(self, loss_id: str) -> bool:
        """Whether the loss that a membership names is another one than those of this state."""
        return loss_id not in ("", self.loss_id, self.groups_loss_id)

    def for_membership(self, membership: Membership) -> "ReplicaState":
        """Return what a node has to have on disk before it acts on a membership of which it is a member."""
        state = ReplicaState(
            membership.epoch,
            membership.promotion_id,
            len(membership.members) == 1,
            self.copying,
            version=membership.version,
            in_sync=membership.in_sync,
            log_id=self.log_id,
            loss_id=self._loss_after(membership),
            groups_loss_id=self.groups_loss_id,
            older_end=self.older_end,
        )
        return state.with_newest_membership(self)

    def _loss_after(self, membership: Membership) -> str:
        if self.has_unknown_loss(membership.loss_id):
            return membership.loss_id
        # A slave gets all groups from its master; the only member has no one to get them from.
        return NEW_FOLDER if self.is_new and len(membership.members) == 1 else self.loss_id

    def with_newest_membership(self, known: "ReplicaState") -> "ReplicaState":
        """Return this state with the membership of another one if that is a later one of the same epoch."""
        if known.epoch != self.epoch or known.version <= self.version:
            return self
        return replace(self, version=known.version, in_sync=known.in_sync, loss_id=known.loss_id)


class Step(Enum):
    """What a node does about a membership."""

    IGNORE = auto()
    """The membership is older than what the node has on disk."""
    ALARM = auto()
    """Two promotions, or two masters, have the same epoch, which the rules exclude: the node stops."""
    STAY = auto()
    """The node continues in its role; a master applies the in-sync set."""
    SERVE_ALONE = auto()
    """The node is the only member: it stores that, then serves without slaves. A group that was reduced to one member names the
    data folder that has everything; with another one, the node waits."""
    LEAD = auto()
    """The node was promoted: it stores the epoch, then leads it."""
    FOLLOW = auto()
    """The node stores the epoch, then follows the membership's master."""
    WAIT = auto()
    """The epoch has no master any more, or has none yet: the node waits for the next one."""
    SPARE = auto()
    """The node is not a member."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which node it is, in which process and with which data folder."""

    node_id: str
    boot_id: str
    incarnation: str

    def may_lead(self, membership: Membership) -> bool:
        """Whether this process was promoted, with its data folder. After a restart the node may have lost what it had not synced,
        and its disk may be another one, or hold an older copy of the folder. Others may have what it lacks."""
        return (self.boot_id, self.incarnation) == (membership.master_boot_id, membership.incarnation_of(self.node_id))


def step_for(node: Identity, state: ReplicaState, membership: Membership, *, leads: bool, follows: bool) -> Step:
    """Return what a node does about a membership. A node that leads or follows an older epoch ends that first.

    Args:
        leads: whether the node is master in the epoch of `state`.
        follows: whether it follows in the epoch of `state`.
    """
    if membership.epoch < state.epoch:
        return Step.IGNORE
    if membership.epoch == state.epoch and membership.promotion_id != state.promotion_id:
        return Step.ALARM
    if node.node_id not in membership.members:
        return Step.SPARE
    if membership.epoch == state.epoch and leads and membership.master not in ("", node.node_id):
        return Step.ALARM
    if membership.epoch == state.epoch and (leads or follows):
        return Step.STAY
    if (
        membership.master == node.node_id
        and membership.members == (node.node_id,)
        and (state.is_new or membership.epoch > state.epoch)
        and membership.incarnation_of(node.node_id) in ("", node.incarnation)
    ):
        return Step.SERVE_ALONE
    if membership.master == node.node_id:
        if not node.may_lead(membership):
            return Step.WAIT
        # A master that restarted may have lost what it had not synced, and its slaves have that: it never resumes in the same
        # epoch. It may have led this one already if the epoch is on its disk.
        return Step.LEAD if membership.epoch > state.epoch else Step.WAIT
    return Step.FOLLOW if membership.master else Step.WAIT

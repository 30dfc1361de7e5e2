"""What a node does about a row that it learns from a metaserver. Pure."""

from dataclasses import dataclass
from enum import Enum, auto

from qmq.replication.row import GroupRow


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What a node has on disk about its group before it acts on it."""

    epoch: int
    """The highest one that it has learned. Whatever is older is rejected."""
    promotion_id: str
    is_only_member: bool
    """Whether it is the only member of its group: then it serves after a restart without waiting for a row."""

    @classmethod
    def for_row(cls, row: GroupRow) -> "ReplicaState":
        """Return what a node has to have on disk before it acts on a row of which it is a member."""
        return cls(row.epoch, row.promotion_id, is_only_member=len(row.members) == 1)


class Step(Enum):
    """What a node does about a row."""

    IGNORE = auto()
    """The row is older than what the node has on disk."""
    ALARM = auto()
    """Two promotions have the same epoch, which the rules exclude: the node stops."""
    STAY = auto()
    """The node continues in its role; a master takes over the in-sync set."""
    LEAD = auto()
    """The node was promoted: it stores the epoch, then leads it."""
    FOLLOW = auto()
    """The node stores the epoch, then follows the row's master."""
    WAIT = auto()
    """The epoch has no master any more, or has none yet: the node waits for the next one."""
    SPARE = auto()
    """The node is not a member."""


def step_for(node_id: str, state: ReplicaState, row: GroupRow, *, leads: bool, follows: bool) -> Step:
    """Return what a node does about a row. A node that leads or follows an older epoch ends that first.

    Args:
        leads: whether the node is master in the epoch of `state`.
        follows: whether it follows in the epoch of `state`.
    """
    if row.epoch < state.epoch:
        return Step.IGNORE
    if row.epoch == state.epoch and row.promotion_id != state.promotion_id:
        return Step.ALARM
    if node_id not in row.members:
        return Step.SPARE
    if row.epoch == state.epoch and (leads or follows):
        return Step.STAY
    if row.master == node_id:
        # A master that restarted may have lost what it had not synced, and its slaves have that: it never resumes in the same
        # epoch. It may have led this one already if the epoch is on its disk.
        return Step.LEAD if row.epoch > state.epoch else Step.WAIT
    return Step.FOLLOW if row.master else Step.WAIT


def row_of_only_member(broker_group: str, node_id: str, state: ReplicaState) -> GroupRow | None:
    """Return the row by which a node serves after its start, before any metaserver has sent one; None: it waits for one."""
    if not state.is_only_member:
        return None
    return GroupRow(broker_group, (node_id,), node_id, (node_id,), state.epoch, 0, state.promotion_id)

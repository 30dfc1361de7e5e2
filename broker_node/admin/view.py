"""What the operators' pages see of a broker."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from broker_node.progress import Consumer
from broker_node.rates import RateTable
from broker_node.store import MessageStore
from broker_node.subject_changes import SubjectChanges
from qmq.clock import Clock
from qmq.policy import NodePolicy

IsPaused = Callable[[str, str, str], bool]
"""By subject, group and consumer id; "" for the whole group."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """Access to the state of a broker. Changes are actions of the store; pages change nothing else."""

    store: MessageStore
    clock: Clock
    rates: RateTable
    changes: SubjectChanges
    boot_id: str
    """Identifies this process in cursors of changes."""
    lease_seconds: float
    """A consumer that was last seen longer ago is offline."""
    describe: Callable[[], dict[str, Any]]
    """The node's own fields of /stats."""
    policy: Callable[[], NodePolicy]
    """The policy that the node enforces now."""
    is_paused: IsPaused
    address_of: Callable[[str], str | None]
    """Returns `host:port` of a consumer id; None without an open connection."""
    duplicate_addresses: Callable[[Consumer, float], list[str]]
    """Returns the addresses that use a consumer's id at the same time, at a monotonic time."""
    deferred_settlements: Callable[[], int]
    """Consumers whose unacknowledged messages wait for free space to be retried."""
    wake: Callable[[str], None]
    """Try the parked pulls of a subject."""
    synced: Callable[[int], Awaitable[None]]
    """Wait until the record at a log offset is on disk."""

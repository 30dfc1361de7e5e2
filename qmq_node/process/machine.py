"""class Machine: what a daemon uses of the machine it runs on. A simulation provides its own."""

from dataclasses import dataclass, field
from random import Random

from qmq.clock import Clock, SystemClock
from qmq_node.log.disk import Disk, SystemDisk
from qmq_node.process.copy_counters import CopyCounters
from qmq_node.process.job_thread import OsThread, StartThread
from qmq_node.process.loop_pauses import LoopPauses
from qmq_node.process.role_changes import RoleChanges
from qmq_node.server.listener import MakeListener, SocketListener


@dataclass(frozen=True, slots=True)
class Machine:
    """Clock, disk, listening sockets, threads and randomness of one process."""

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=SystemDisk)
    listen: MakeListener = SocketListener
    start_thread: StartThread = OsThread
    rng: Random = field(default_factory=Random)
    """For choices that need no secrecy; secrets come from `secrets`."""
    role_changes: RoleChanges = field(default_factory=RoleChanges)
    """Of the node, in all its lives."""
    copy_counters: CopyCounters = field(default_factory=CopyCounters)
    """Of the node, in all its lives."""
    loop_pauses: LoopPauses = field(default_factory=LoopPauses)
    """Of the event loop that the process runs on; empty unless `run_until_signal` made the loop."""

"""class Machine: what a daemon uses of the machine it runs on. A simulation provides its own."""

from dataclasses import dataclass, field
from random import Random

from qmq.clock import Clock, SystemClock
from qmq.daemon.job_thread import OsThread, StartThread
from qmq.daemon.loop_pauses import LoopPauses
from qmq.daemon.role_changes import RoleChanges
from qmq.log.disk import Disk, SystemDisk
from qmq.net.listener import MakeListener, SocketListener


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
    loop_pauses: LoopPauses = field(default_factory=LoopPauses)
    """Of the event loop that the process runs on; empty unless `run_until_signal` made the loop."""

"""class NodeFolder: the data folder of a node, and what it says of the node's place in its group."""

import asyncio

from qmq.net.open_files import FileBudget
from qmq_node.daemon.daemon import Daemon
from qmq_node.daemon.options import NodeOptions
from qmq_node.daemon.part import Part
from qmq_node.node.data_dir import DataDir, DataDirOwner
from qmq_node.replication.replica_state import ReplicaStateFile


class NodeFolder(Part):
    """It is locked while the node runs, and belongs to no other node."""

    def __init__(self, daemon: Daemon, options: NodeOptions, node_id: str) -> None:
        self._owner = DataDirOwner(daemon.kind, options.broker_group, node_id)
        self._machine = daemon.machine
        self.path = options.data_dir
        self.incarnation = ""
        """Identifies the data folder (`DataDir.incarnation`); "" until it is open."""
        self.replica = ReplicaStateFile(daemon.disk, options.data_dir)
        self._data_dir: DataDir | None = None

    async def open(self, budget: FileBudget) -> None:
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        self._data_dir = DataDir.open(self.path, self._owner, self._machine.disk, self._machine.rng)
        self.incarnation = self._data_dir.incarnation
        self.replica.on_first = self._data_dir.note_replica
        self.replica.load(is_expected=self._data_dir.has_replica)
        if self.replica.is_stored and not self._data_dir.has_replica:
            # The process ended between the two files.
            self._data_dir.note_replica()

    async def release(self) -> None:
        if self._data_dir is not None:
            self._data_dir.close()

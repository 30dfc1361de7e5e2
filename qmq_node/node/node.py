"""class Node: a daemon with a message log."""

from typing import Any, ClassVar

from qmq import __version__
from qmq.protocol.codes import Role
from qmq_node.commits.checkpointing import Checkpointing
from qmq_node.commits.committer import Committer
from qmq_node.daemon.daemon import Daemon, Serving
from qmq_node.daemon.options import NodeOptions
from qmq_node.log.log import SegmentedLog
from qmq_node.node.folder import NodeFolder
from qmq_node.node.registration import Registration
from qmq_node.node.reports import log_report, state_reason
from qmq_node.node.storage import NodeStore, Storage
from qmq_node.policy import NodePolicy
from qmq_node.process.machine import Machine
from qmq_node.server.server_limits import ServerLimits


class Node(Daemon):
    """What broker nodes and delay nodes have in common: a folder, a log, and registrations."""

    role: ClassVar[Role]
    options: NodeOptions

    def __init__(self, options: NodeOptions, machine: Machine | None, store: NodeStore) -> None:
        super().__init__(options, machine, bulk_bytes_per_second=options.read_bytes_per_second)
        self.node_id = options.node_id or f"{options.broker_group}-a"
        self.title = f"{self.kind} node {self.node_id} of group {options.broker_group}"
        self.port, self.admin_address = options.port, (options.admin_host, options.admin_port)
        self.folder = NodeFolder(self, options, self.node_id)
        self.storage = Storage(self, store)
        self.registration = Registration(self)

    # What most of the program asks a node for.

    @property
    def log(self) -> SegmentedLog:
        return self.storage.log

    @property
    def committer(self) -> Committer:
        return self.storage.committer

    @property
    def checkpoints(self) -> Checkpointing[Any]:
        return self.storage.checkpoints

    @property
    def policy(self) -> NodePolicy:
        """The policy in force."""
        return self.registration.policy

    def stats_head(self) -> dict[str, Any]:
        """Return what `/stats` begins with, also of a node that does not serve. Sizes in bytes."""
        return {
            "broker_group": self.options.broker_group,
            "node_id": self.node_id,
            "epoch": self.folder.replica.state.epoch,
            "version": __version__,
            "uptime_seconds": round(self.uptime_seconds, 3),
            "disk_free_bytes": self.storage.space.disk_free_bytes,
            "disk_total_bytes": self.storage.space.disk_total_bytes,
            "disk_stuck_seconds": round(self.storage.write_watch.stuck_seconds, 1),
            "connections": len(self.server.connections),
        }

    def serving_stats(self) -> dict[str, Any]:
        """Return the head of `/stats` of a node that serves clients."""
        registration, policy = self.registration, self.policy
        refused, metaservers = registration.refuse_sends(), registration.metaservers
        return {
            **self.stats_head(),
            "role": "master",
            "state": "read_only" if refused else "read_write",
            **state_reason(refused),
            "policy": {
                "version": policy.version,
                "subjects": len(policy.subjects),
                "paused": len(policy.paused),
                "read_only": policy.read_only,
                "problem": metaservers.policies.problem if metaservers is not None else "",
            },
            "metaservers": metaservers.report() if metaservers is not None else [],
            "log": {
                **log_report(self.log),
                "reported_end": registration.older_folder.reported_end(self.log.synced_end),
            },
        }


class NodeServing(Serving):
    """The part of a node that answers clients and operators."""

    def __init__(self, node: Node) -> None:
        self._node, self._storage = node, node.storage

    def limits(self, connections: int) -> ServerLimits:
        options = self._node.options
        return ServerLimits(
            connections_max=connections,
            frame_bytes_max=options.frame_bytes_max,
            large_frames_bytes_max=options.large_frames_bytes_max,
            in_flight_total_bytes_max=options.in_flight_total_bytes_max,
            in_flight_bytes_max=options.in_flight_bytes_max,
            answer_total_bytes_max=options.answer_total_bytes_max,
        )

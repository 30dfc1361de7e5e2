"""class DelayNode: a node that stores messages until they are due, then delivers them to brokers."""

from delay_node.delay_data import DelayData
from delay_node.group_clock import ClockWatch
from delay_node.handlers import Handlers
from delay_node.hour_damage import DamageWatch
from delay_node.options import DelayOptions
from delay_node.serving import DelayServing
from delay_node.store import DelayStore
from qmq.protocol.codes import Role
from qmq_node.member.replication import Replication
from qmq_node.node.node import Node
from qmq_node.process.machine import Machine


class DelayNode(Node):
    """One delay node."""

    kind = "delay"
    role = Role.DELAY_MASTER
    options: DelayOptions
    serving: DelayServing

    def __init__(self, options: DelayOptions, machine: Machine | None = None) -> None:
        machine = machine or Machine()
        self.data = DelayData(options, machine)
        super().__init__(options, machine, self.data)
        # Damage of the log can make the counters negative, which must not keep the node from registering.
        self.registration.pending_messages = lambda: max(0, self.store.pending + self.store.refused)
        self.replication = Replication(self, self.data)
        self.data.holds_files = lambda: self.replication.holds_files
        self.data.is_alone = lambda: self.replication.member.is_alone
        self.serving = DelayServing(self, options, self.replication, self.data)
        clock, damage = ClockWatch(self, self.data.group_time), DamageWatch(self, self.data.damage)
        self.parts = (
            self.folder, self.replication, self.storage, self.replication.scrubbing, clock, damage, self.registration,
            self.serving,
        )  # fmt: skip

    @property
    def store(self) -> DelayStore:
        return self.data.store

    @property
    def handlers(self) -> Handlers:
        return self.serving.handlers

"""class Broker: a node that keeps real-time messages and delivers them to consumers."""

from broker_node.delivery.delivery import Delivery
from broker_node.handlers import Handlers
from broker_node.known_groups import KnownGroups
from broker_node.options import BrokerOptions
from broker_node.recovery.broker_data import BrokerData
from broker_node.serving import BrokerServing
from broker_node.storage.store import MessageStore
from qmq.protocol.codes import Role
from qmq_node.member.replication import Replication
from qmq_node.node.node import Node
from qmq_node.process.machine import Machine


class Broker(Node):
    """One broker node."""

    kind = "broker"
    role = Role.MASTER
    options: BrokerOptions
    serving: BrokerServing

    def __init__(self, options: BrokerOptions, machine: Machine | None = None) -> None:
        machine = machine or Machine()
        self.data = BrokerData(options, machine)
        super().__init__(options, machine, self.data)
        self.replication = Replication(self, self.data)
        self.serving = BrokerServing(self, options, self.replication, self.data)
        self.registration.on_policy = self.serving.apply_policy
        known_groups = KnownGroups(self, self.replication, self.data)
        self.parts = (
            self.folder, self.replication, self.storage, self.replication.scrubbing, self.registration, self.serving,
            known_groups,
        )  # fmt: skip

    @property
    def store(self) -> MessageStore:
        return self.data.store

    @property
    def handlers(self) -> Handlers:
        return self.serving.handlers

    @property
    def delivery(self) -> Delivery:
        return self.serving.delivery

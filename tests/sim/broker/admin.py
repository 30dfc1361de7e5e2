"""Admin pages of a broker, asked for in the test's process."""

from broker_node.broker import Broker
from qmq.node_admin import NodeAdmin

RETRY = "%RETRY%orders%g"


DEAD = "%DEAD_RETRY%orders%g"


def admin_of(broker: Broker) -> NodeAdmin:
    return NodeAdmin("{}:{}".format(*broker.admin.address), timeout_seconds=20)

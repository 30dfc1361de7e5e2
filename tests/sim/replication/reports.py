"""Numbers of a member."""

import re

from broker_node.broker import Broker


async def series(broker: Broker) -> dict[str, float]:
    """The metrics of a node's replication, by name and labels."""
    text = (await broker.admin.metrics_text()).decode()
    found = re.findall(r"^qmq_broker_replication_(.+?) (\S+)$", text.replace('broker_group="g1",', ""), re.MULTILINE)
    return {name.replace('{broker_group="g1"}', ""): float(value) for name, value in found}

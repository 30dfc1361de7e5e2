"""Admin pages of a broker, asked for in the test's process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from broker_node.broker import Broker
from qmq.node_admin import NodeAdmin
from tests.support.drivers.in_process import Client, connected, running_broker

RETRY = "%RETRY%orders%g"


DEAD = "%DEAD_RETRY%orders%g"


def admin_of(broker: Broker) -> NodeAdmin:
    return NodeAdmin("{}:{}".format(*broker.admin.address), timeout_seconds=20)


@asynccontextmanager
async def asked(folder: Path, **settings: Any) -> AsyncIterator[tuple[Broker, Client, NodeAdmin]]:
    """A broker with a client, and its admin pages."""
    async with running_broker(folder, **settings) as broker, connected(broker) as client:
        yield broker, client, admin_of(broker)


def sequences(page: dict[str, Any]) -> list[int]:
    """The sequences of a page's messages."""
    return [item["sequence"] for item in page["messages"]]

"""Bulk reads."""

from collections.abc import Callable
from typing import TypeVar

from broker_node.broker import Broker
from qmq.protocol.bulk_read import SubjectRange
from spark_analytics.source.node_reader import NodeReader
from tests.support.drivers.in_process import (
    blocking,
)

T = TypeVar("T")


async def read(broker: Broker, ask: Callable[[NodeReader], T], **settings: object) -> T:
    """What a reader is answered, asked in a thread as executors ask."""

    def work() -> T:
        with NodeReader("{}:{}".format(*broker.server.address), **settings) as reader:  # type: ignore[arg-type]
            return ask(reader)

    return await blocking(work)


async def ranges(broker: Broker, from_ms: int = -1, to_ms: int = -1) -> dict[str, SubjectRange]:
    return {found.name: found for found in await read(broker, lambda r: list(r.ranges(from_ms, to_ms)))}

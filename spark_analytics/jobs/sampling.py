"""What is measured at each ingestion: nodes with their disks, and what subjects keep."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from qmq.errors import QmqError
from qmq.protocol.bulk_read import NodeLine
from spark_analytics.schemas import NODES, SEQUENCES_PER_LOG
from spark_analytics.source.node_reader import NodeReader
from spark_analytics.source.planning import masters
from spark_analytics.source.selection import Selection

BROKER = "broker"
PROBE_ATTEMPTS_MAX = 3
"""How often a node is asked whether it can be read."""
PROBED_AT_ONCE = 8


@dataclass(slots=True)
class Brokers:
    """The broker groups there are."""

    nodes: dict[str, NodeLine] = field(default_factory=dict)
    """Broker group -> the node to read."""
    logs: dict[str, str] = field(default_factory=dict)
    """Broker group -> the ID of its log; of those that can be read."""
    missing: dict[str, str] = field(default_factory=dict)
    """Broker group that can't be read -> why."""


def sample_nodes(spark: SparkSession, source: Mapping[str, str]) -> DataFrame:
    """Every node as it is now (NODES)."""
    return spark.createDataFrame(
        spark.read.format("qmq").options(**source).option("table", "nodes").load().toArrow(), NODES
    )


def probe(nodes: Sequence[NodeLine], token: str) -> Brokers:
    """Ask each broker group for a page of what it holds, to find out which can be read."""
    found = Brokers({node.broker_group: node for node in masters(nodes, BROKER, Selection())})

    def ask(node: NodeLine) -> tuple[str, str]:
        try:
            with NodeReader(node.address, token=token, attempts_max=PROBE_ATTEMPTS_MAX) as reader:
                return next(reader.range_pages()).log_id, ""
        except QmqError as error:
            return "", f"{node.address}: {error}"

    with ThreadPoolExecutor(PROBED_AT_ONCE) as pool:
        for node, (log_id, why) in zip(found.nodes.values(), pool.map(ask, found.nodes.values()), strict=True):
            if why:
                found.missing[node.broker_group] = why
            else:
                found.logs[node.broker_group] = log_id
    return found


def sample_ranges(
    brokers: Brokers, known: Mapping[str, Sequence[str]], token: str, at: datetime
) -> Iterator[tuple[datetime, str, str, int, int]]:
    """What each subject keeps on each broker group that can be read: rows of table `ranges` of the lake. One that fails
    meanwhile is missing.

    Args:
        known: broker group -> the IDs of its logs, the oldest first.
    """
    for group, log_id in list(brokers.logs.items()):
        shift = known[group].index(log_id) * SEQUENCES_PER_LOG if log_id else 0
        try:
            with NodeReader(brokers.nodes[group].address, token=token) as reader:
                held = [(subject.name, subject.begin + shift, subject.end + shift) for subject in reader.ranges()]
        except QmqError as error:
            brokers.missing[group] = f"{brokers.nodes[group].address}: {error}"
            del brokers.logs[group]
            continue
        yield from ((at, group, *subject) for subject in held)

"""What is measured at each ingestion: nodes with their disks, and what subjects keep."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from qmq.client.reading import NodeReader
from qmq.errors import QmqError
from spark_analytics.jobs.states import SAMPLED_RANGES, STATE_SCHEMAS
from spark_analytics.schemas import NODES, SCHEMAS

BROKER, MASTER = "broker", "master"


class NodeUnreadable(QmqError):
    """A node that should have been read could not be; the text says which."""

    code = "analytics.node_unreadable"


def schema_of(table: str) -> StructType:
    """What rows of a table of the lake are like."""
    return ({"ranges": SAMPLED_RANGES} | STATE_SCHEMAS | SCHEMAS)[table]


def sample_nodes(spark: SparkSession, source: Mapping[str, str]) -> tuple[DataFrame, list[dict[str, Any]]]:
    """Every node as it is now (NODES), as a frame and as rows."""
    found = spark.read.format("qmq").options(**source).option("table", "nodes").load().toArrow()
    return spark.createDataFrame(found, NODES), found.to_pylist()


def sample_ranges(
    nodes: list[dict[str, Any]], token: str, at: datetime
) -> Iterator[tuple[datetime, str, str, int, int]]:
    """What each subject keeps on each broker group: rows of SAMPLED_RANGES.

    Raises:
        NodeUnreadable: a master can't be asked.
    """
    for node in nodes:
        if node["kind"] == BROKER and node["role"] == MASTER:
            try:
                with NodeReader(node["address"], token=token) as reader:
                    for subject in reader.ranges():
                        yield at, node["broker_group"], subject.name, subject.begin, subject.end
            except QmqError as error:
                raise NodeUnreadable(f"{node['node_id']} of {node['broker_group']}: {error}") from error

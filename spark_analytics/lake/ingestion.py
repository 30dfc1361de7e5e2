"""From nodes into the lake: streams that read what is new and end.

A stream's batch is one change of its table, and the change says which batch it was. Spark runs a batch again that it did not see
the end of; then the table has it already, and nothing is added. So each row is in the lake exactly once, whatever is killed when.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_analytics.lake.files import LakeError
from spark_analytics.lake.lake import Lake
from spark_analytics.lake.log import Batch, Change
from spark_analytics.lake.tables import STREAMED
from spark_analytics.source.offsets import complete_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

SOURCE = "qmq"
"""The Spark data source; it has to be registered with the session."""
STARTS_MAX = 4
"""How often a stream is started whose Python process is not there in time. Spark gives it 10 s, which no setting changes, and all
streams start theirs at once, with low priority: a busy machine may need longer for that."""
NOT_THERE = "Python worker failed to connect back"
"""What Spark says of such a process."""


@dataclass(slots=True)
class Ingested:
    """What came of it."""

    rows: dict[str, int] = field(default_factory=dict)
    """Table -> rows added."""


def ingest(
    lake: Lake,
    source: Mapping[str, str],
    broker_groups: Iterable[str],
    *,
    tables: Iterable[str] = STREAMED,
    source_format: str = SOURCE,
    complete: Callable[[str], Mapping[str, int]] = complete_ms,
    say: Callable[[str], None] = lambda text: None,
) -> Ingested:
    """Read what nodes have and the lake has not, of these tables side by side, and advance their watermarks.

    A broker group's watermark is the time of its own node, as of when the node listed what it holds: rows are compared with it, and
    they carry that node's time.

    Args:
        source: options of the data source, without `table`.
        broker_groups: whose rows these are; all of them have to answer, or nothing is said to be complete.
        source_format: the data source's name.
        complete: up to when (ms since the epoch) each broker group is read at an offset of the stream, which is given as JSON.
        say: told of each batch.

    Raises:
        LakeError: a table of the lake can't take rows; LakeBusy: somebody else fills it.
        StreamingQueryException: a node can't be read; batches before that are in the lake, and the next call goes on behind them.
    """
    groups = sorted(broker_groups)
    found, failures = Ingested(), list[Exception]()
    queries: dict[str, StreamingQuery] = {}
    try:
        for table in tables:
            found.rows[table] = 0
            settle_checkpoint(lake, table)
            queries[table] = _start(lake, table, source, source_format, found, failures, say)
        for table in queries:
            for starts in range(1, STARTS_MAX + 1):
                try:
                    queries[table].awaitTermination()
                    break
                except Exception as error:
                    if failures:  # the lake's own word, rather than Spark's about it
                        raise failures[0] from None
                    if NOT_THERE not in str(error) or starts == STARTS_MAX:
                        raise
                say(f"{table}: started again, its Python process was not there in time")
                settle_checkpoint(lake, table)
                queries[table] = _start(lake, table, source, source_format, found, failures, say)
            reached = complete(_offset(lake, table))
            watermarks = {group: reached[group] for group in groups if group in reached}
            lake.commit(table, lake.snapshot(table), Change(watermarks=watermarks))
    finally:
        for query in queries.values():
            with suppress(Exception):  # it has ended, or the session has
                query.stop()
    return found


def settle_checkpoint(lake: Lake, table: str) -> None:
    """Take out of a stream's checkpoint what the lake does not know of.

    The lake's change is what makes a batch count. Plans of later batches can be made anew, and the end of the last one written
    again; after a power cut either may be there by half, and Spark would stop at it.
    """
    batch = lake.snapshot(table).batch
    folder = lake.checkpoint(table)
    if batch is None:
        if lake.files.names(folder):
            # Nothing of this stream is in the lake: it begins anew.
            lake.files.delete(folder)
        return
    for part in ("offsets", "commits"):
        for name in lake.files.names(f"{folder}/{part}"):
            path = f"{folder}/{part}/{name}"
            number = name.removeprefix(".").removesuffix(".crc")
            is_torn = (
                number == str(batch.number) and part == "commits" and not _is_whole(lake, f"{folder}/{part}/{number}")
            )
            if not number.isdigit() or int(number) > batch.number or is_torn:
                lake.files.delete(path)


def _is_whole(lake: Lake, path: str) -> bool:
    """Whether a file of a checkpoint is as Spark writes them: a version, then JSON."""
    try:
        version, _, rest = lake.files.read(path).partition(b"\n")
        return version.startswith(b"v") and isinstance(json.loads(rest), dict)
    except (FileNotFoundError, ValueError):
        return False


def _offset(lake: Lake, table: str) -> str:
    """The offset behind the last batch that a table has, as JSON; an empty one before the first batch."""
    batch = lake.snapshot(table).batch
    if batch is None:
        return "{}"
    path = f"{lake.checkpoint(table)}/offsets/{batch.number}"
    try:
        # A version, what Spark knows of the batch, then a line for each source.
        return lake.files.read(path).decode().splitlines()[2]
    except (FileNotFoundError, IndexError) as error:
        raise LakeError(f"{lake.root}/{path} can't be read: {error}") from error


def stream_id(lake: Lake, table: str) -> str:
    """The id that Spark gave the stream when its checkpoint was made.

    Raises:
        LakeError: the checkpoint has none.
    """
    path = f"{lake.checkpoint(table)}/metadata"
    try:
        return str(json.loads(lake.files.read(path))["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise LakeError(f"{lake.root}/{path} can't be read: {error}") from error


def _start(
    lake: Lake,
    table: str,
    source: Mapping[str, str],
    source_format: str,
    found: Ingested,
    failures: list[Exception],
    say: Callable[[str], None],
) -> "StreamingQuery":
    def add(rows: "DataFrame", number: int) -> None:
        try:
            added = lake.append(table, rows, batch=Batch(stream_id(lake, table), number))
        except LakeError as error:
            failures.append(error)
            raise
        found.rows[table] += added
        say(f"{table}: batch {number}, {added} rows")

    reader = lake.spark.readStream.format(source_format).options(**source).option("table", table)
    return (
        reader.load()
        .writeStream.queryName(f"ingest {table}")
        .foreachBatch(add)
        .option("checkpointLocation", f"{lake.root}/{lake.checkpoint(table)}")
        .trigger(availableNow=True)
        .start()
    )

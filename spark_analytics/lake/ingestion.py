"""From nodes into the lake: streams that read what is new and end.

A stream's batch is one change of its table, and the change says which batch it was. Spark runs a batch again that it
did not see the end of; then the table has it already, and nothing is added. So each row is in the lake exactly once,
whatever is killed when.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_analytics.lake.delta import Batch, Change
from spark_analytics.lake.files import LakeError
from spark_analytics.lake.lake import Lake
from spark_analytics.lake.tables import STREAMED, TABLES
from spark_analytics.source.offset_files import Offsets
from spark_analytics.source.offsets import Offset, complete_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

HOUR_MS = 3_600_000
SOURCE = "qmq"
"""The Spark data source; it has to be registered with the session."""
MANY_HOURS_MS = 4 * HOUR_MS
"""A batch that may have rows of more than this is brought together by hour before it is written."""
OFFSETS_FOLDER = "ranges"
"""In a stream's checkpoint: the files of offsets with very many ranges."""
OFFSETS_KEPT = "spark.sql.streaming.minBatchesToRetain"
"""How many offsets of a stream Spark keeps."""
STARTS_MAX = 4
"""How often a stream is started whose Python process is not there in time. Spark gives it 10 s, which no setting changes, and it
starts with low priority: a busy machine may need longer for that."""
NOT_THERE = "Python worker failed to connect back"
"""What Spark says of such a process."""
_OF_BROKER_GROUP = re.compile(r"\b(?:NodeUnreadable|StreamError): (broker group (\S+)[^\n]*)")
"""What the data source raises about one broker group, in Spark's text about it."""


@dataclass(slots=True)
class Ingested:
    """What came of it."""

    rows: dict[str, int] = field(default_factory=dict)
    """Table -> rows added."""
    missing: dict[str, str] = field(default_factory=dict)
    """Broker group that could not be read -> why."""


def ingest(
    lake: Lake,
    source: Mapping[str, str],
    broker_groups: Iterable[str],
    *,
    missing: Mapping[str, str] | None = None,
    tables: Iterable[str] = STREAMED,
    source_format: str = SOURCE,
    complete: Callable[[str], Mapping[str, int]] = complete_ms,
    without_news: Callable[[str, Offset], Mapping[str, int] | None] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Ingested:
    """Read what nodes have and the lake has not, of these tables one after the other, and advance their watermarks.

    A broker group's watermark is the time of its own node, as of when the node listed what it holds: rows are compared with it, and
    they carry that node's time. A broker group that can't be read is left out; the others are read, and tables remember which ones
    are missing. When it is read again, its hours since then are remembered as late (`Snapshot.late`), as are those of rows
    that come after their steps may have been published.

    Args:
        source: options of the data source, without `table`.
        broker_groups: all that there are.
        missing: those of them that are known to be unreadable, and why.
        source_format: the data source's name.
        complete: up to when (ms since the epoch) each broker group is read at an offset of the stream, which is given as JSON.
        without_news: the same of an offset of a table behind which nodes hold nothing; None: they hold something. A stream
            without news is not started. By default all are.
        say: receives a line per batch.

    Raises:
        LakeError: a table of the lake can't take rows; LakeBusy: another run fills it.
        StreamingQueryException: a stream failed; batches before that are in the lake, and the next call continues behind them.
    """
    groups = sorted(broker_groups)
    found = Ingested(missing=dict(missing or {}))
    wanted = tuple(tables)
    reached: dict[str, Mapping[str, int]] = {}
    for table in wanted:
        found.rows[table] = 0
        settle_checkpoint(lake, table)
        known = without_news(table, _place(lake, table)) if without_news is not None else None
        if known is None:
            _read(lake, table, source, groups, source_format, found, say)
            known = complete(_offset(lake, table))
        reached[table] = known
    # At the end, when all broker groups are known that are missing.
    for table in wanted:
        _complete(lake, table, groups, found.missing, reached[table])
    return found


def _read(
    lake: Lake,
    table: str,
    source: Mapping[str, str],
    groups: Sequence[str],
    source_format: str,
    found: Ingested,
    say: Callable[[str], None],
) -> None:
    """Run a table's stream to its end, again without a broker group that turns out to be unreadable."""
    starts = 1
    while True:
        left_out = frozenset(found.missing)
        options = dict(source)
        if left_out:
            options["broker_groups"] = ",".join(group for group in groups if group not in left_out)
        failures: list[Exception] = []
        settle_checkpoint(lake, table)
        query = _start(lake, table, options, source_format, found, failures, say)
        try:
            query.awaitTermination()
            return
        except Exception as error:
            if failures:  # the lake's own error, rather than Spark's about it
                raise failures[0] from None
            unreadable = _unreadable(error, set(groups) - left_out)
            if unreadable is not None and set(groups) - found.missing.keys() - {unreadable[0]}:
                group, why = unreadable
                found.missing.setdefault(group, why)
                say(f"{table}: started again without broker group {group}: {why}")
            elif NOT_THERE in str(error) and starts < STARTS_MAX:
                starts += 1
                say(f"{table}: started again, its Python process was not there in time")
            else:
                raise
        finally:
            with suppress(Exception):  # it has ended, or the session has
                query.stop()


def _unreadable(error: Exception, groups: Set[str]) -> tuple[str, str] | None:
    """The one of these broker groups that an error is about, and what it says; None: it is about none."""
    for found in _OF_BROKER_GROUP.finditer(str(error)):
        if found[2] in groups:
            return found[2], found[1]
    return None


def _complete(
    lake: Lake, table: str, groups: Sequence[str], missing: Mapping[str, str], reached: Mapping[str, int]
) -> None:
    """Set a table's watermarks and the broker groups that are missing; hours since one went missing that is back are
    late."""
    base = lake.snapshot(table)
    watermarks = {group: reached[group] for group in groups if group in reached}
    back = [group for group in base.missing if group not in missing and group in base.watermarks]
    since = [lake.complete_ms(base.watermarks[group]) for group in back]
    late = {at_ms - at_ms % HOUR_MS: 0 for at_ms in since}
    lake.commit(
        table, base, Change(watermarks=watermarks, missing=tuple(sorted(set(missing) & set(groups))), late=late)
    )


def settle_checkpoint(lake: Lake, table: str) -> None:
    """Take out of a stream's checkpoint what the lake does not know of.

    The lake's commit is what makes a batch count. Plans of later batches can be made again, and the end of the last one written
    again; after a power cut either may be there by half, and Spark would stop at it. The plan of a batch that is counted in the
    table's silver already, and is not in the table yet, stays: it has to bring the same rows.
    """
    batch = lake.snapshot(table).batch
    folder = lake.checkpoint(table)
    has_checkpoint = "metadata" in lake.files.names(folder)
    if batch is not None and not has_checkpoint:
        raise lake.checkpoint_is_missing(table)
    done = planned = batch.number if batch is not None else -1
    silver = TABLES[table].silver
    counted = lake.snapshot(silver).batch if silver else None
    if counted is not None and has_checkpoint and _is_of_stream(lake, table, counted):
        planned = max(done, counted.number)
    if planned < 0:
        # Nothing of this stream is in the lake: it starts from the beginning.
        if lake.files.names(folder):
            lake.files.delete(folder)
        return
    for part, last in (("offsets", planned), ("commits", done)):
        for name in lake.files.names(f"{folder}/{part}"):
            number = name.removeprefix(".").removesuffix(".crc")
            is_torn = part == "commits" and number == str(done) and not _is_whole(lake, f"{folder}/{part}/{number}")
            if not number.isdigit() or int(number) > last or is_torn:
                lake.files.delete(f"{folder}/{part}/{name}")


def _is_of_stream(lake: Lake, table: str, batch: Batch) -> bool:
    try:
        return stream_id(lake, table) == batch.stream
    except LakeError:  # torn, before anything was read
        return False


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


def _place(lake: Lake, table: str) -> Offset:
    """The same as a value. Raises StreamError."""
    return Offsets(_offsets_folder(lake, table)).of_json(json.loads(_offset(lake, table)))


def _offsets_folder(lake: Lake, table: str) -> str:
    return f"{lake.root}/{lake.checkpoint(table)}/{OFFSETS_FOLDER}"


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
    # No job has published more of this table's rows than up to here.
    published_ms = lake.watermark_ms((table,))
    read_to_ms = min(lake.snapshot(table).watermarks.values(), default=0)
    is_of_many_hours = lake.now_ms() - read_to_ms > MANY_HOURS_MS

    def add(rows: "DataFrame", number: int) -> None:
        try:
            batch = Batch(stream_id(lake, table), number)
            added = lake.append(
                table, rows, batch=batch, late_before_ms=published_ms, is_of_many_hours=is_of_many_hours
            )
        except LakeError as error:
            failures.append(error)
            raise
        found.rows[table] += added
        say(f"{table}: batch {number}, {added} rows")

    reader = lake.spark.readStream.format(source_format).options(**source).option("table", table)
    # A part of the checkpoint, which is deleted as a whole.
    reader = reader.option("offsets", _offsets_folder(lake, table))
    reader = reader.option("offsets_kept", lake.spark.conf.get(OFFSETS_KEPT))
    return (
        reader.load()
        .writeStream.queryName(f"ingest {table}")
        .foreachBatch(add)
        .option("checkpointLocation", f"{lake.root}/{lake.checkpoint(table)}")
        .trigger(availableNow=True)
        .start()
    )

"""Tables as streams: every row once into Parquet, whatever is killed in between."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from qmq import Producer
from qmq.node_admin import NodeAdmin
from spark_analytics.source.datasource import QmqDataSource, QmqStreamReader
from spark_analytics.source.offsets import complete_ms
from spark_analytics.source.options import parse_options
from tests.served.spark.reading import read_table
from tests.served.spark.shop import send, take
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System
from tests.support.waiting import eventually
from tests.support.whole import in_whole_spark_runs

pytestmark = in_whole_spark_runs

SEGMENT_BYTES = 1 << 20


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One broker group that keeps little."""
    flags = ("--segment-bytes", str(SEGMENT_BYTES), "--retention-bytes", str(4 * SEGMENT_BYTES))
    found = System(
        tmp_path_factory.mktemp("streams"), groups=1, broker_flags=(*flags, "--checkpoint-bytes", str(SEGMENT_BYTES))
    )
    try:
        found.start()
        yield found
    finally:
        found.stop()


def add(system: System, subject: str, first: int, count: int, size: int = 0) -> None:
    """Send messages."""

    async def work() -> None:
        async with Producer(system.meta_url, app="streams") as producer:
            await send(producer, subject, first, count, size=size)

    asyncio.run(work())


def run(
    spark: SparkSession, system: System, table: str, folder: Path, source_format: str = "qmq", **options: str
) -> StreamingQuery:
    """Append what is there to Parquet, and end."""
    stream = spark.readStream.format(source_format).options(metaserver=system.meta_url, table=table, **options).load()
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def sequences(spark: SparkSession, folder: Path) -> Counter[tuple[str, int]]:
    """What was written."""
    found = spark.read.parquet(str(folder / "rows")).select("subject", "sequence").collect()
    return Counter((row.subject, row.sequence) for row in found)


def numbers(subject: str, begin: int, end: int) -> Counter[tuple[str, int]]:
    return Counter((subject, number) for number in range(begin, end))


@in_whole_spark_runs
def test_new_subjects_and_groups_appear_by_themselves_and_batches_are_capped(
    spark: SparkSession, system: System, tmp_path: Path
) -> None:
    add(system, "first", 0, 250)
    query = run(spark, system, "index", tmp_path / "index", subjects="first,second", rows_per_batch="100")
    batches = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert batches == [100, 100, 50]
    offset = query.lastProgress.sources[0].endOffset
    assert set(complete_ms(offset if isinstance(offset, str) else json.dumps(offset))) == {"g1"}
    add(system, "first", 250, 10)
    add(system, "second", 0, 20)
    run(spark, system, "index", tmp_path / "index", subjects="first,second", rows_per_batch="100")
    assert sequences(spark, tmp_path / "index") == numbers("first", 0, 260) + numbers("second", 0, 20)

    asyncio.run(take(system, "first", "one", 260))
    run(spark, system, "progress", tmp_path / "progress")
    asyncio.run(take(system, "second", "two", 20))
    run(spark, system, "progress", tmp_path / "progress")
    rows = spark.read.parquet(str(tmp_path / "progress" / "rows")).collect()
    assert len({(row.subject, row.group, row.position) for row in rows}) == len(rows)
    acked = Counter[str]()
    for row in rows:
        acked[row.group] += row.end - row.begin if row.kind == "ack" else 0
    assert acked == {"one": 260, "two": 20}


def test_offsets_in_files_are_continued_from_and_old_ones_go(
    spark: SparkSession, system: System, tmp_path: Path
) -> None:
    class Lowered(QmqDataSource):
        """Local, so that Spark's Python process gets it whole."""

        @classmethod
        def name(cls) -> str:
            return "qmq_lowered"

        def streamReader(self, schema: StructType) -> QmqStreamReader:
            return QmqStreamReader(parse_options(self.options), schema, inline_max=1)

    spark.dataSource.register(Lowered)
    ranges = tmp_path / "checkpoint" / "ranges"
    options = {"subjects": "filed-*", "offsets": ranges.as_uri(), "offsets_kept": "1"}
    for number in range(3):
        add(system, f"filed-{number}", 0, 40)
    run(spark, system, "index", tmp_path, "qmq_lowered", rows_per_batch="8", **options)
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    named = [json.loads(path.read_text().splitlines()[2])["ranges_file"] for path in offsets]
    files = {path.name: int(path.name.partition("-")[0]) for path in ranges.iterdir()}
    assert (len(named), files[named[-1]]) == (11, 15), "Spark keeps ten offsets behind the last one"
    assert set(named) <= files.keys()
    assert sorted(files.values()) == list(range(4, 16))
    add(system, "filed-1", 40, 5)
    # Also by the source as it is, which would not write files for so few.
    run(spark, system, "index", tmp_path, **options)
    add(system, "filed-2", 40, 5)
    run(spark, system, "index", tmp_path, "qmq_lowered", **options)
    expected = numbers("filed-0", 0, 40) + numbers("filed-1", 0, 45) + numbers("filed-2", 0, 45)
    assert sequences(spark, tmp_path) == expected


def history(spark: SparkSession, folder: Path, group: str) -> list[tuple[int, str, int]]:
    """What was written of a group: position, kind, and how many messages it is about."""
    found = spark.read.parquet(str(folder / "rows")).where(f"`group` = '{group}'").orderBy("position").collect()
    return [(row.position, row.kind, row.end - row.begin) for row in found]


def forget(system: System, subject: str, group: str) -> None:
    """As an operator does it."""

    async def work() -> None:
        await NodeAdmin(f"127.0.0.1:{system.ports['g1'][1]}").forget(subject, group, force=True)

    asyncio.run(work())


def test_a_forgotten_group_ends_with_a_row_and_one_made_again_goes_on_behind_it(
    spark: SparkSession, system: System, tmp_path: Path
) -> None:
    # It takes all there is: what it would give back comes again as a retry, and then counts there.
    add(system, "left", 0, 10)
    asyncio.run(take(system, "left", "leaver", 10))
    options = {"subjects": "left", "on_gap": "record", "holes": str(tmp_path / "holes")}
    run(spark, system, "progress", tmp_path, **options)
    before = history(spark, tmp_path, "leaver")
    assert sum(count for _, kind, count in before if kind == "ack") == 10

    forget(system, "left", "leaver")
    with pytest.raises(Exception, match=r"history of group leaver of subject left .* no longer exists"):
        run(spark, system, "progress", tmp_path, subjects="left")
    for _ in range(2):
        run(spark, system, "progress", tmp_path, **options)
        assert history(spark, tmp_path, "leaver") == [*before, (len(before), "forget", 0)]
    holes = read_table(spark, system.meta_url, "holes", holes=str(tmp_path / "holes")).collect()
    assert {(row.group, row.reason) for row in holes} == {("leaver", "forgotten")}

    # Made again; then forgotten and made again between two looks.
    add(system, "left", 10, 20)
    asyncio.run(take(system, "left", "leaver", 30))
    run(spark, system, "progress", tmp_path, **options)
    forget(system, "left", "leaver")
    asyncio.run(take(system, "left", "leaver", 20))
    run(spark, system, "progress", tmp_path, **options)
    found = history(spark, tmp_path, "leaver")
    assert [position for position, _, _ in found] == list(range(len(found)))
    acked = [0]
    for _, kind, count in found:
        if kind == "forget" and acked[-1]:
            acked.append(0)
        acked[-1] += count if kind == "ack" else 0
    assert acked == [10, 30, 20]


def test_a_history_that_its_node_made_anew_is_not_read_twice(
    spark: SparkSession, system: System, tmp_path: Path
) -> None:
    add(system, "anew", 0, 20)
    asyncio.run(take(system, "anew", "one", 20))
    options = {"subjects": "anew", "on_gap": "record", "holes": str(tmp_path / "holes")}
    run(spark, system, "progress", tmp_path, **options)
    end = 20

    def is_taken() -> bool:
        nonlocal end
        add(system, "anew", end, 300, size=8_000)
        end += 300
        return int(system.admin("g1", "/stats?subject=anew")["subjects"][0]["begin_sequence"]) > 20

    eventually(is_taken, what="retention takes the first messages, and what was done with them")
    asyncio.run(take(system, "anew", "one", 50, "c2"))
    run(spark, system, "progress", tmp_path, **options)
    broker = system.brokers["g1"]
    broker.kill()
    rmtree(system.folder / "g1" / "checkpoint")
    broker.start()
    asyncio.run(take(system, "anew", "one", 30, "c3"))
    run(spark, system, "progress", tmp_path, **options)

    written = spark.read.parquet(str(tmp_path / "rows")).orderBy("position").collect()
    assert [row.position for row in written] == list(range(len(written)))
    facts = Counter((row["at"], row.kind, row.consumer_key, row.begin, row.end, row.next_sequence) for row in written)
    assert set(facts.values()) == {1}, "nothing twice"
    now = read_table(spark, system.meta_url, "progress", subjects="anew").collect()
    assert 0 < len(now) < len(written), "the node knows the later ones only"
    assert {(row["at"], row.kind, row.consumer_key, row.begin, row.end, row.next_sequence) for row in now} <= set(facts)
    holes = read_table(spark, system.meta_url, "holes", holes=str(tmp_path / "holes")).collect()
    assert [(row.group, row.reason) for row in holes] == [("one", "rebuilt")]


KILLED = """
import sys
from tests.served.spark.sessions import quick_session
meta, folder = sys.argv[1:]
stream = quick_session().readStream.format("qmq").options(
    metaserver=meta, table="index", subjects="killed", rows_per_batch="40").load()
query = (stream.writeStream.format("parquet").option("path", folder + "/rows")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start())
query.awaitTermination()
"""


@in_whole_spark_runs
def test_a_query_that_is_killed_goes_on_with_every_row_once(
    spark: SparkSession, system: System, tmp_path: Path
) -> None:
    add(system, "killed", 0, 400)
    folder = tmp_path / "killed"
    offsets, commits = folder / "checkpoint" / "offsets", folder / "checkpoint" / "commits"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, system.meta_url, str(folder)], cwd=PROJECT, start_new_session=True
    )
    try:
        # Killed where its batches begin and end; half of the rows are not there yet.
        eventually(lambda: (commits / "2").exists() or process.poll() is not None, what="two batches are written")
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert len(list(offsets.glob("[0-9]*"))) < 10, "it was killed in the middle"
    add(system, "killed", 400, 30)
    run(spark, system, "index", folder, subjects="killed", rows_per_batch="1000")
    assert sequences(spark, folder) == numbers("killed", 0, 430)


def test_a_retention_gap_is_an_error_or_a_recorded_hole(spark: SparkSession, system: System, tmp_path: Path) -> None:
    add(system, "kept", 0, 50)
    run(spark, system, "index", tmp_path, subjects="kept")
    add(system, "kept", 50, 100)
    end = 150

    def is_taken() -> bool:
        """Push the segments with the first messages out of the log, which goes on with checkpoints only."""
        nonlocal end
        add(system, "kept", end, 300, size=8_000)
        end += 300
        return int(system.admin("g1", "/stats?subject=kept")["subjects"][0]["begin_sequence"]) > 150

    eventually(is_taken, what="retention takes the oldest messages")
    with pytest.raises(
        Exception, match=r"index of g1, subject kept: \[50, \d+\) can't be read: retention deleted them"
    ):
        run(spark, system, "index", tmp_path, subjects="kept")
    holes = str(tmp_path / "holes")
    run(spark, system, "index", tmp_path, subjects="kept", on_gap="record", holes=holes)
    found = [
        row
        for row in read_table(spark, system.meta_url, "holes", holes=holes).collect()
        if (row.broker_group, row.subject, row.reason) == ("g1", "kept", "retention")
    ]
    assert len(found) == 1
    assert found[0].begin == 50
    gone = numbers("kept", found[0].begin, found[0].end)
    assert sequences(spark, tmp_path) + gone == numbers("kept", 0, end)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"table": "delayed"}, "can't be a stream"), ({"to": "2026-01-01"}, "option to is not supported")],
)
def test_what_can_not_be_a_stream_says_so(
    spark: SparkSession, system: System, tmp_path: Path, options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        run(spark, system, options.pop("table", "index"), tmp_path, **options)

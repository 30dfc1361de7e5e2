"""A lake on S3: a real server, with conditional writes or without. Spark's side, Hadoop's S3A, is not there."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_analytics.lake import Lake, delta
from spark_analytics.lake.delta import GONE_HOURS, Batch, Change, Snapshot, TableLog
from spark_analytics.lake.files import CONDITIONAL_NAME, LakeBusy, LakeError, RemoteFiles
from spark_analytics.lake.node_logs import add_logs, known_logs
from spark_analytics.lake.tables import TABLES
from spark_analytics.local_rows import local_table
from spark_analytics.source.gaps import Hole, record, recorded
from spark_analytics.source.offset_files import Offsets
from spark_analytics.source.offsets import Offset, Place
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS
from tests.support.analytics.lake_files import NINE, write_rows
from tests.support.servers.s3 import HIDES, IGNORES, LOSES, OTHERS_COMMIT, REFUSES, WHOLE, S3Server, running_s3

INDEX = TABLES["index"]
LOG = "index/_delta_log"
BUCKETS = count(1)
PART = "date=2026-11-21/hour=09/part-0.parquet"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running_s3() as found:
        yield found


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with conditional writes, and where libraries look for it."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    server.set_mode(WHOLE)
    return server


@pytest.fixture
def root(s3: S3Server) -> str:
    """A lake's place in a bucket of its own, as Hadoop writes it."""
    bucket = f"bucket-{next(BUCKETS)}"
    s3.make_bucket(bucket)
    return f"s3a://{bucket}/lake"


@pytest.fixture
def files(root: str) -> RemoteFiles:
    return RemoteFiles(root)


@pytest.fixture
def log(files: RemoteFiles) -> TableLog:
    return TableLog(files, INDEX)


def reopened(files: RemoteFiles) -> Snapshot:
    """As another process sees it."""
    return TableLog(files, INDEX).snapshot()


def write(files: RemoteFiles, path: str, content: bytes) -> None:
    with files.system.open_output_stream(files.path_of(path)) as stream:
        stream.write(content)


def add(files: RemoteFiles, log: TableLog, name: str, begin: int = 0, end: int = 10, **change: object) -> Snapshot:
    return log.commit(log.snapshot(), Change(added=(write_rows(files, "index", name, begin, end),), **change))  # type: ignore[arg-type]


def test_s3a_is_s3_for_the_log_and_another_process_reads_what_was_committed(files: RemoteFiles, log: TableLog) -> None:
    assert (files.root.partition(":")[0], files.log_root.partition(":")[0]) == ("s3a", "s3")
    assert log.snapshot() == Snapshot()
    assert log.check() == []
    add(files, log, "a", 0, 10, batch=Batch("s", 0))
    last = add(files, log, "b", 10, 30, batch=Batch("s", 1), watermarks={"g1": 5}, missing=("g2",), late={NINE: 3})
    assert reopened(files) == last
    assert (last.version, last.batch, last.watermarks, last.missing, last.late) == (
        2, Batch("s", 1), {"g1": 5}, ("g2",), {NINE: 3},
    )  # fmt: skip
    assert {path: (item.rows, item.begin_ms) for path, item in last.files.items()} == {
        f"a/{PART}": (10, NINE),
        f"b/{PART}": (20, NINE),
    }
    assert DeltaTable(f"{files.log_root}/index").transaction_version("s") == 1
    assert TableLog(files, INDEX).check() == []


def test_readers_by_s3_count_each_row_once_at_each_version_also_of_a_compaction(
    files: RemoteFiles, log: TableLog
) -> None:
    add(files, log, "a", 0, 10)
    last = add(files, log, "b", 10, 30)
    whole = write_rows(files, "index", "whole", 0, 30)
    log.commit(last, Change(added=(whole,), removed=tuple(last.files), is_same_data=True))
    assert reopened(files).files == {whole.path: whole}
    for version, rows in enumerate((0, 10, 30, 30)):
        by_pandas = DeltaTable(f"{files.log_root}/index", version=version).to_pandas(columns=["sequence"])
        assert sorted(by_pandas["sequence"]) == list(range(rows))
        by_polars = pl.scan_delta(f"{files.log_root}/index", version=version).select("sequence").collect()
        assert sorted(by_polars["sequence"].to_list()) == list(range(rows))


def test_of_two_writers_the_second_changes_nothing(files: RemoteFiles, log: TableLog) -> None:
    other = TableLog(files, INDEX)
    first = add(files, log, "a")
    base = other.snapshot()
    second = add(files, log, "b", 10, 20)
    with pytest.raises(LakeBusy, match="run the job again"):
        other.commit(base, Change(removed=tuple(first.files)))
    assert reopened(files) == second


def test_a_commit_does_not_overwrite_one_that_another_writer_makes_at_this_moment(
    s3: S3Server, files: RemoteFiles, log: TableLog
) -> None:
    base = add(files, log, "a")
    s3.set_mode(LOSES)
    with pytest.raises(LakeBusy, match="run the job again"):
        log.commit(base, Change(watermarks={"g1": 7}))
    assert files.read(f"{LOG}/{2:020}.json") == OTHERS_COMMIT
    assert log.commit(log.snapshot(), Change(watermarks={"g1": 8})).version == 3
    assert reopened(files).watermarks == {"g1": 8}


@pytest.mark.parametrize("mode", [REFUSES, IGNORES])
def test_a_server_without_conditional_writes_is_refused_with_what_to_do(
    s3: S3Server, root: str, spark: SparkSession, mode: str
) -> None:
    s3.set_mode(mode)
    for _ in range(2):
        with pytest.raises(LakeError) as raised:
            Lake(spark, root).lock()
        assert str(raised.value) == (
            f"the S3 server of the lake {root} has no conditional writes (If-None-Match), without which two runs could"
            " overwrite each other's commits: set QMQ_ANALYTICS_LAKE to one that has, or to a folder"
        )
    s3.set_mode(WHOLE)
    lake = Lake(spark, root)
    assert lake.lock() == lake.lock() == []
    assert lake.files.names("") == [CONDITIONAL_NAME]


def test_a_lake_that_may_not_be_read_is_named(s3: S3Server, root: str, spark: SparkSession) -> None:
    s3.set_mode(HIDES)
    with pytest.raises(LakeError, match=rf"^the lake {root} can't be read: [^\n]*ACCESS_DENIED[^\n]*$"):
        Lake(spark, root).lock()


def test_a_commit_that_such_a_server_refuses_names_the_table_in_one_line(
    s3: S3Server, files: RemoteFiles, log: TableLog
) -> None:
    base = add(files, log, "a")
    s3.set_mode(REFUSES)
    with pytest.raises(
        LakeError, match=r"^s3://bucket-\d+/lake/index can't be written: [ -~]*501 Not Implemented[ -~]*$"
    ):
        log.commit(base, Change(watermarks={"g1": 7}))
    assert reopened(files) == base


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "NoSuchBucket|404 Not Found"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Could not connect|error sending request"),
    ],
)
def test_a_place_that_is_not_there_is_named(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], why: str
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LakeError, match=rf"^the lake s3a://nowhere/lake can't be written: [^\n]*({why})[^\n]*$"):
        RemoteFiles("s3a://nowhere/lake").lock()


@pytest.mark.parametrize("damage", ["empty", "torn", "file missing", "file short"])
def test_a_damaged_last_commit_is_named_and_nothing_is_taken_back(
    files: RemoteFiles, log: TableLog, damage: str
) -> None:
    add(files, log, "a")
    size = next(iter(log.snapshot().files.values())).size_bytes
    last = f"{LOG}/{1:020}.json"
    if damage == "empty":
        write(files, last, b"")
    elif damage == "torn":
        write(files, last, files.read(last)[:-20])
    elif damage == "file missing":
        files.delete(f"index/a/{PART}")
    else:
        write(files, f"index/a/{PART}", b"7 bytes")
    why = {
        "empty": "is empty",
        "torn": "is torn",
        "file missing": f"names a/{PART}, which is missing",
        "file short": f"names a/{PART} with {size} bytes, which has 7",
    }
    before = sorted(files.walk("index"), key=lambda found: found.path)
    with pytest.raises(LakeError, match=f"lake/index: commit 1 {why[damage]}, and may have been confirmed: restore"):
        TableLog(files, INDEX).check()
    assert sorted(files.walk("index"), key=lambda found: found.path) == before


def test_the_log_has_checkpoints_and_a_torn_one_is_made_again(
    files: RemoteFiles, log: TableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "CHECKPOINT_EVERY", 4)
    last = add(files, log, "a", batch=Batch("s", 3), watermarks={"g1": 5})
    while last.version < 6:
        last = log.commit(last, Change())
    name = f"{LOG}/{4:020}.checkpoint.parquet"
    assert json.loads(files.read(f"{LOG}/_last_checkpoint"))["version"] == 4
    assert reopened(files) == last
    write(files, name, files.read(name)[:200])
    again = TableLog(files, INDEX)
    assert again.check() == ["index: wrote the checkpoint of its log again, which was torn"]
    assert again.check() == []
    assert again.snapshot() == reopened(files) == last


def test_files_that_stopped_counting_go_after_a_while_and_new_ones_stay(files: RemoteFiles) -> None:
    clock = [int(time.time() * 1000) - (GONE_HOURS * HOUR_MS + 60_000)]
    log = TableLog(files, INDEX, lambda: clock[0])
    first = add(files, log, "a")
    log.commit(first, Change(removed=tuple(first.files)))
    add(files, log, "b", 10, 20)
    write_rows(files, "index", "just-written", 0, 5)
    assert log.clean() == 1
    assert sorted(files.names("index")) == ["_delta_log", "b", "just-written"]
    assert list(reopened(files).files) == [f"b/{PART}"]
    assert log.clean() == 0


def test_rows_of_the_driver_are_added_once_replaced_and_read(root: str, spark: SparkSession) -> None:
    name, day = "gold_lag", NINE - NINE % DAY_MS
    schema = TABLES[name].schema
    lake = Lake(spark, root, lambda: NINE + DAY_MS)
    assert lake.lock() == []

    def rows(*begins_ms: int) -> pa.Table:
        keys = [[datetime.fromtimestamp(at // 1000, UTC), HOUR_MS, "orders", "billing"] for at in begins_ms]
        return local_table([[*key, *[None] * (len(schema) - len(key))] for key in keys], schema)

    assert lake.append(name, rows(day, day + DAY_MS), batch=Batch("s", 0)) == 2
    assert lake.append(name, rows(day), batch=Batch("s", 0)) == 0, "the batch is there"
    assert lake.replace(name, rows(day, day + HOUR_MS, day + 2 * HOUR_MS), day, day + DAY_MS) == 3
    assert Lake(spark, root).arrow(name, day, day + DAY_MS, [TABLES[name].moment]).num_rows == 3
    assert Lake(spark, root).arrow(name, day, day + 2 * DAY_MS, [TABLES[name].moment]).num_rows == 4
    assert lake.retain(name, 1) == 1, "the file that was replaced days ago by the lake's clock"
    lake.unlock()


def test_what_is_kept_beside_the_tables_is_there_too(root: str, files: RemoteFiles) -> None:
    assert add_logs(files, {"g1": "one"}) == known_logs(files) == {"g1": ["one"]}
    hole = Hole("index", "g1", "orders", "", 5, 9, "retention")
    record(f"{root}/_holes", hole)
    assert [found for found, _ in recorded(f"{root}/_holes")] == [hole]
    ranges = {("g1", "orders", str(number)): Place(number, number, 0) for number in range(3)}
    offsets = Offsets(f"{root}/_checkpoints/index/ranges", inline_max=1)
    written = offsets.to_json(Offset(ranges, {}, {}), {})
    again = Offsets(f"{root}/_checkpoints/index/ranges", inline_max=1)
    assert again.of_json(written).ranges == ranges

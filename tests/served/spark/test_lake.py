"""The lake on Spark: what is written is read, whatever is killed or lost in between; hours, compaction, retention."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.lake import Lake, LakeError, ingestion
from spark_analytics.lake.delta import Batch, Change, Snapshot, TableLog
from spark_analytics.lake.ingestion import Ingested, ingest
from spark_analytics.lake.lake import WATERMARK_SECONDS, begin_of
from spark_analytics.lake.node_logs import add_logs, known_logs
from spark_analytics.lake.tables import TABLES
from spark_analytics.local_rows import local_table
from spark_analytics.session import register
from tests.served.spark.index_rows import EVER, NINE, index_rows, sequences
from tests.served.spark.sessions import attach_environment
from tests.served.spark.shop import ORDERS, PAYMENTS, Shop
from tests.support.servers.processes import PROJECT
from tests.support.whole import in_whole_spark_runs, is_whole_spark_run

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
GOLD = "gold_subject_rates"
SPARK_WAITS_SECONDS = 10
"""For a stream's Python process to call back."""


@dataclass
class Clock:
    """A clock that stands."""

    now_ms: int = NINE

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, clock: Clock) -> Lake:
    return Lake(spark, str(tmp_path / "lake"), clock)


def test_rows_lie_by_hour_and_a_window_opens_its_hours_only(spark: SparkSession, lake: Lake) -> None:
    assert sequences(lake) == []
    assert lake.append("index", index_rows(spark, 0, 150)) == 150
    assert lake.append("index", index_rows(spark, 150, 160)) == 10
    partitions = {item.begin_ms for item in lake.snapshot("index").files.values()}
    assert partitions == {NINE, NINE + HOUR_MS, NINE + 2 * HOUR_MS}
    assert sequences(lake) == list(range(160))
    half_ten, quarter_past = NINE + 90 * 60_000, NINE + 135 * 60_000
    assert sequences(lake, half_ten, quarter_past) == list(range(90, 135))
    assert {item.begin_ms for item in lake.files_of("index", half_ten, quarter_past)} == {
        NINE + HOUR_MS,
        NINE + 2 * HOUR_MS,
    }
    assert sequences(lake, NINE + 60 * 60_000, NINE + 120 * 60_000) == list(range(60, 120))
    assert {item.begin_ms for item in lake.files_of("index", NINE + HOUR_MS, NINE + 2 * HOUR_MS)} == {NINE + HOUR_MS}
    assert lake.first_ms("index") == NINE
    assert lake.read("index", *EVER).columns == TABLES["index"].schema.names


def test_a_message_without_a_moment_is_kept_and_in_no_window(spark: SparkSession, lake: Lake) -> None:
    withheld = index_rows(spark, 0, 2).withColumn("stored_at", F.lit(None).cast("timestamp"))
    assert lake.append("index", withheld) == 2
    assert sequences(lake) == []
    assert sum(item.rows for item in lake.snapshot("index").files.values()) == 2


def test_a_batch_that_is_run_again_counts_once(spark: SparkSession, lake: Lake) -> None:
    assert lake.append("index", index_rows(spark, 0, 10), batch=Batch("s", 0)) == 10
    assert lake.append("index", index_rows(spark, 0, 10), batch=Batch("s", 0)) == 0
    assert lake.append("index", index_rows(spark, 10, 20), batch=Batch("s", 1)) == 10
    with pytest.raises(LakeError, match="checkpoint is missing"):
        lake.append("index", index_rows(spark, 0, 10), batch=Batch("another", 0))
    assert sequences(lake) == list(range(20))


def test_replacing_hours_takes_the_old_rows_out(spark: SparkSession, lake: Lake) -> None:
    lake.append("index", index_rows(spark, 0, 125))
    assert lake.replace("index", index_rows(spark, 60, 62), NINE + HOUR_MS, NINE + 2 * HOUR_MS) == 2
    left = [*range(60), 60, 61, *range(120, 125)]
    assert sequences(lake) == left
    with pytest.raises(LakeError, match="outside of the replaced hours or days"):
        lake.replace("index", index_rows(spark, 0, 1), NINE + HOUR_MS, NINE + 2 * HOUR_MS)
    with pytest.raises(LakeError, match="whole hours"):
        lake.replace("index", index_rows(spark, 0, 1), NINE + 1, NINE + HOUR_MS)
    assert sequences(lake) == left
    assert lake.replace("index", index_rows(spark, 0, 0), NINE, NINE + 2 * HOUR_MS) == 0
    assert sequences(lake) == left[62:]


def test_the_watermark_is_that_of_the_slowest_table_and_group_less_what_may_be_late(lake: Lake) -> None:
    def say(table: str, **times: int) -> None:
        lake.commit(table, lake.snapshot(table), Change(watermarks=times))

    assert lake.watermark_ms(("index", "progress")) is None
    say("index", g1=NINE, g2=NINE + 500_000)
    assert lake.watermark_ms(("index", "progress")) is None
    say("progress", g1=NINE + 500_000, g2=NINE + 400_000)
    assert lake.watermark_ms(("index", "progress")) == NINE - WATERMARK_SECONDS * 1000
    say("index", g1=NINE + 600_000, g2=NINE + 600_000)
    assert lake.watermark_ms(("index", "progress")) == NINE + 400_000 - WATERMARK_SECONDS * 1000


class Steps:
    """What a lake does to its files, told step by step; at a chosen one it ends, as if the process had been killed
    there."""

    def __init__(self, lake: Lake) -> None:
        self.left: int | None = None
        self.synced: set[str] = set()
        self.at_commit: list[set[str]] = []
        self._files = lake.files
        self._sync = lake.files.sync
        lake.files.sync = self.sync  # type: ignore[method-assign]
        for log in lake._logs.values():
            self._tell_commit(log)

    def _step(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise InterruptedError("killed here")
            self.left -= 1

    def sync(self, paths: Iterable[str]) -> None:
        self._step()
        found = list(paths)
        self._sync(found)
        self.synced.update(found)
        self._step()

    def _tell_commit(self, log: TableLog) -> None:
        commit = log.commit

        def told(base: Snapshot, change: Change) -> Snapshot:
            self._step()
            self.at_commit.append(set(self.synced))
            return commit(base, change)

        log.commit = told  # type: ignore[method-assign]


def many_files(spark: SparkSession, lake: Lake) -> None:
    for number in range(4):
        lake.append("index", index_rows(spark, number * 10, number * 10 + 10, every_ms=1_000))


def test_a_compaction_cut_off_anywhere_leaves_every_row_exactly_once(
    spark: SparkSession, lake: Lake, clock: Clock, tmp_path: Path
) -> None:
    many_files(spark, lake)
    clock.now_ms = NINE + 3 * HOUR_MS
    assert len(lake.snapshot("index").files) > 1
    cuts = 0
    while True:
        cut = Lake(spark, str(tmp_path / "lake"), clock)
        steps = Steps(cut)
        steps.left = cuts
        try:
            done = list(cut.compact("index"))
            break
        except InterruptedError:
            cuts += 1
            assert sequences(Lake(spark, str(tmp_path / "lake"))) == list(range(40))
    after = Lake(spark, str(tmp_path / "lake"), clock)
    assert cuts >= 4, "before and after each step"
    assert sequences(after) == list(range(40))
    assert len(after.snapshot("index").files) == 1
    # The cut behind the last step had made the commit: then nothing was left to do.
    assert done in ([], [NINE])
    assert list(after.compact("index")) == []


def test_a_compaction_waits_until_an_hour_is_over_for_a_while(spark: SparkSession, lake: Lake, clock: Clock) -> None:
    many_files(spark, lake)
    clock.now_ms = NINE + 2 * HOUR_MS - 1
    assert list(lake.compact("index")) == []
    before = sequences(lake)
    clock.now_ms += 1
    assert list(lake.compact("index")) == [NINE]
    assert sequences(lake) == before


def test_a_compacted_file_is_in_the_tables_order(spark: SparkSession, lake: Lake, clock: Clock, tmp_path: Path) -> None:
    for subject in ("orders", "carts"):
        for begin in (20, 0, 10):
            rows = index_rows(spark, begin, begin + 10, every_ms=1_000).withColumn("subject", F.lit(subject))
            lake.append("index", rows)
    clock.now_ms = NINE + 3 * HOUR_MS
    assert list(lake.compact("index")) == [NINE]
    (path,) = lake.snapshot("index").files
    found = pq.read_table(tmp_path / "lake/index" / path, columns=["subject", "sequence"], partitioning=None)
    wanted = [{"subject": subject, "sequence": n} for subject in ("carts", "orders") for n in range(30)]
    assert found.to_pylist() == wanted


def test_a_compaction_that_has_other_rows_changes_nothing(
    spark: SparkSession, lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_files(spark, lake)
    clock.now_ms = NINE + 3 * HOUR_MS
    whole = lake._read_files

    def a_part(*arguments: Any) -> DataFrame:
        return whole(*arguments).where("sequence != 7")

    monkeypatch.setattr(lake, "_read_files", a_part)
    with pytest.raises(LakeError, match=r"index: 2026-11-21 09:00 has 40 rows, its compaction 39: it is left as it is"):
        list(lake.compact("index"))
    monkeypatch.undo()
    assert sequences(lake) == list(range(40))


KILLED = """
import os, signal, sys
from spark_analytics.lake import Lake, delta
from spark_analytics.lake.delta import Batch
from tests.served.spark.index_rows import index_rows
from tests.served.spark.sessions import attach

delta.CHECKPOINT_EVERY = 3
lake = Lake(attach(), sys.argv[1], lambda: int(sys.argv[2]))
left = int(sys.argv[3])
def step():
    global left
    if left == 0:
        print("killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
def killed(function):
    def around(*arguments, **values):
        step()
        found = function(*arguments, **values)
        step()
        return found
    return around
lake.files.sync = killed(lake.files.sync)
for log in lake._logs.values():
    log.commit = killed(log.commit)
lake.lock()
for number in range(2):
    rows = index_rows(lake.spark, number * 10, number * 10 + 10, every_ms=1_000)
    lake.append("index", rows, batch=Batch("s", number))
for table in ("index", "stored_seconds"):
    list(lake.compact(table))
    lake.retain(table, 100_000)
print("done", flush=True)
"""
KILLS = range(16) if is_whole_spark_run else (1, 5, 8)
"""Steps after which processes are killed, one after the other."""


@pytest.mark.slow
def test_a_process_killed_at_any_step_leaves_every_row_exactly_once_in_each_layer(
    spark: SparkSession, lake: Lake, clock: Clock, tmp_path: Path
) -> None:
    """Kills during writes, commits of silver and bronze, checkpoints of the log and compaction; each process continues
    after a kill."""
    clock.now_ms = NINE + 3 * HOUR_MS
    for step in (*KILLS, 10_000):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path / "lake"), str(clock.now_ms), str(step)],
            cwd=PROJECT, env=os.environ | attach_environment(spark), stdout=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip
        again = Lake(spark, str(tmp_path / "lake"))
        found = sequences(again)
        assert found in ([], list(range(10)), list(range(20)))
        assert counted(again) - len(found) in (0, 10), "silver is at most a batch ahead"
        assert (done.stdout.strip(), done.returncode) in (("killed", -9), ("done", 0))
    assert done.stdout.strip() == "done"
    assert sequences(again) == list(range(20))
    assert counted(again) == 20
    assert {name: len(again.snapshot(name).files) for name in ("index", "stored_seconds")} == {
        "index": 1,
        "stored_seconds": 1,
    }


def test_retention_forgets_old_hours_and_deletes_their_files_when_no_reader_can_have_them(
    spark: SparkSession, lake: Lake, clock: Clock, tmp_path: Path
) -> None:
    """When files stopped counting is the lake's clock, which stands in the past, as the log's library has the
    machine's."""
    day = 24 * HOUR_MS
    lake.append("index", index_rows(spark, 0, 5, from_ms=NINE - 3 * day))
    lake.append("index", index_rows(spark, 5, 8, from_ms=NINE - 2 * day))
    clock.now_ms = int(time.time() * 1000)
    lake.append("index", index_rows(spark, 8, 10, from_ms=clock.now_ms))
    reader = lake.read("index", *EVER)
    assert lake.retain("index", 100_000) == 0
    went = lake.retain("index", 3)
    assert went >= 2
    assert sequences(lake) == [8, 9]
    assert reader.count() == 10, "who began before reads on"
    assert lake.retain("index", 3) == 0


def gold_rows(begin_ms: int, *hours: int) -> pa.Table:
    """Rows of gold's `subject_rates` for these hours from a moment on; the messages are the hour's number."""
    schema = TABLES[GOLD].schema
    messages = schema.names.index("sent_messages")
    rows = []
    for hour in hours:
        row: list[Any] = [datetime.fromtimestamp(begin_ms / 1000 + hour * 3_600, UTC), HOUR_MS, "orders"]
        row += [None] * (len(schema) - 3)
        row[messages] = hour
        rows.append(row)
    return local_table(rows, schema)


def hours(lake: Lake, from_ms: int, to_ms: int) -> list[int]:
    found = sorted(row["sent_messages"] for row in lake.read(GOLD, from_ms, to_ms).collect())
    day_ms = from_ms - from_ms % DAY_MS
    with_arrow = lake.arrow(GOLD, from_ms, to_ms, ("sent_messages", "at")).to_pylist()
    ends = from_ms / 1000, to_ms / 1000
    assert min((row["at"].timestamp() * 1000 for row in with_arrow), default=day_ms) >= day_ms
    assert found == sorted(row["sent_messages"] for row in with_arrow if ends[0] <= row["at"].timestamp() < ends[1])
    return found


@pytest.mark.parametrize("is_by_spark", [False, True])
def test_gold_has_a_file_for_each_day(
    spark: SparkSession, lake: Lake, clock: Clock, tmp_path: Path, is_by_spark: bool
) -> None:
    """A window opens the files of the days it touches, whole days are replaced and compacted, and let go when they ended
    so long ago."""
    day = NINE - NINE % DAY_MS

    def rows(*hours: int) -> pa.Table | DataFrame:
        found = gold_rows(day, *hours)
        return spark.createDataFrame(found, TABLES[GOLD].schema).coalesce(1) if is_by_spark else found

    lake.append(GOLD, rows(*range(20, 50)))
    lake.append(GOLD, rows(19, 50))
    assert {item.begin_ms for item in lake.snapshot(GOLD).files.values()} == {day, day + DAY_MS, day + 2 * DAY_MS}
    assert {path.split("/", 1)[1].rpartition("/")[0] for path in lake.snapshot(GOLD).files} == {
        "date=2026-11-21",
        "date=2026-11-22",
        "date=2026-11-23",
    }
    assert hours(lake, day + 23 * HOUR_MS, day + 26 * HOUR_MS) == [23, 24, 25]
    opened = lake.files_of(GOLD, day + 23 * HOUR_MS, day + DAY_MS + 1)
    assert {item.begin_ms for item in opened} == {day, day + DAY_MS}
    assert lake.first_ms(GOLD) == day

    with pytest.raises(LakeError, match="only whole hours or days can be replaced"):
        lake.replace(GOLD, rows(24), day + DAY_MS, day + DAY_MS + HOUR_MS)
    with pytest.raises(LakeError, match="rows outside of the replaced hours or days"):
        lake.replace(GOLD, rows(23, 24), day + DAY_MS, day + 2 * DAY_MS)
    assert lake.replace(GOLD, rows(24, 30), day + DAY_MS, day + 2 * DAY_MS) == 2
    assert hours(lake, *EVER) == [19, 20, 21, 22, 23, 24, 30, 48, 49, 50]

    clock.now_ms = day + DAY_MS + HOUR_MS - 1
    assert list(lake.compact(GOLD)) == []
    clock.now_ms += 1
    assert list(lake.compact(GOLD)) == [day]
    assert [item.rows for item in lake.files_of(GOLD, day, day + DAY_MS)] == [5]
    assert hours(lake, *EVER) == [19, 20, 21, 22, 23, 24, 30, 48, 49, 50]

    clock.now_ms = day + 401 * DAY_MS - 1
    lake.retain(GOLD, TABLES[GOLD].keep_days)
    assert hours(lake, *EVER)[0] == 19, "400 days are kept"
    clock.now_ms += 1
    lake.retain(GOLD, TABLES[GOLD].keep_days)
    again = Lake(spark, str(tmp_path / "lake"), clock)
    assert hours(again, *EVER) == [24, 30, 48, 49, 50]
    assert again.first_ms(GOLD) == day + DAY_MS


def test_rows_of_other_columns_are_refused(lake: Lake) -> None:
    with pytest.raises(LakeError, match="other columns, or of other types: sent_bytes"):
        lake.append(GOLD, gold_rows(NINE, 0).drop_columns(["sent_bytes"]))


def test_rows_before_what_was_published_are_counted_by_hour_until_they_are_computed(
    spark: SparkSession, lake: Lake, clock: Clock
) -> None:
    half_past_ten = NINE + 90 * 60_000
    lake.append("index", index_rows(spark, 0, 150), late_before_ms=half_past_ten)
    assert lake.snapshot("index").late == {NINE: 60, NINE + HOUR_MS: 30}
    lake.append("index", index_rows(spark, 150, 160, from_ms=NINE), late_before_ms=half_past_ten)
    again = Lake(spark, lake.root, clock)
    assert again.snapshot("index").late == {NINE: 60, NINE + HOUR_MS: 30}
    again.append("index", index_rows(spark, 0, 2), late_before_ms=half_past_ten)
    assert again.snapshot("index").late == {NINE: 62, NINE + HOUR_MS: 30}
    again.commit("index", again.snapshot("index"), Change(is_late_done=True))
    assert again.snapshot("index").late == {}
    assert lake.snapshot("index").late == {}


def test_a_broker_group_that_is_missing_holds_up_nothing_and_is_named(lake: Lake) -> None:
    def change(**values: Any) -> None:
        lake.commit("index", lake.snapshot("index"), Change(**values))

    late_ms = WATERMARK_SECONDS * 1000
    change(watermarks={"g1": NINE + HOUR_MS, "g2": NINE}, missing=("g2", "g3"))
    assert lake.watermark_ms(("index",)) == NINE + HOUR_MS - late_ms
    assert lake.missing(("index",), NINE - late_ms) == ("g3",), "nothing of it was ever read"
    assert lake.missing(("index",), NINE) == ("g2", "g3")
    change(watermarks={"g1": NINE + HOUR_MS, "g2": NINE}, missing=())
    assert lake.watermark_ms(("index",)) == NINE - late_ms
    assert lake.missing(("index",), NINE) == ()


def test_logs_of_nodes_are_kept_in_their_order(lake: Lake) -> None:
    assert add_logs(lake.files, {"g1": "a", "g2": ""}) == {"g1": ["a"]}
    assert add_logs(lake.files, {"g1": "b", "g2": "c"}) == {"g1": ["a", "b"], "g2": ["c"]}
    assert add_logs(lake.files, {"g1": "a"}) == {"g1": ["a", "b"], "g2": ["c"]}
    assert known_logs(Lake(lake.spark, lake.root).files) == {"g1": ["a", "b"], "g2": ["c"]}


class Stream:
    """A query that ends at once, with an error or without."""

    def __init__(self, error: str = "") -> None:
        self.error = error

    def awaitTermination(self) -> None:
        if self.error:
            raise RuntimeError(self.error)

    def stop(self) -> None:
        pass


def test_streams_start_again_without_a_broker_group_that_fails_while_it_is_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, str]] = []
    failure = "Traceback:\nspark_analytics.source.planning.NodeUnreadable: broker group g2 (host:1): no answer\n"

    def start(lake: Lake, table: str, source: dict[str, str], *_: Any) -> Stream:
        started.append((table, source.get("broker_groups", "")))
        return Stream("" if "broker_groups" in source else failure)

    monkeypatch.setattr(ingestion, "_start", start)
    times = [{"g1": NINE, "g2": NINE}]

    def take() -> Ingested:
        return ingest(lake, {}, ["g1", "g2"], tables=("index", "progress"), complete=lambda offset: times[0])

    found = take()
    assert found.missing == {"g2": "broker group g2 (host:1): no answer"}
    assert started == [("index", ""), ("index", "g1"), ("progress", "g1")]
    for table in ("index", "progress"):
        assert lake.snapshot(table).missing == ("g2",)
        assert lake.snapshot(table).late == {}

    failure, times = "", [{"g1": NINE + HOUR_MS, "g2": NINE + HOUR_MS}]
    assert take().missing == {}
    assert lake.snapshot("index").missing == ()
    assert lake.snapshot("index").late == {NINE - HOUR_MS: 0}, "it is complete up to some minutes before nine only"

    failure = "StreamError: broker group g1 was started with an older folder; StreamError: broker group g9 is odd"
    assert take().missing == {"g1": failure.split("Error: ", 1)[1]}
    with pytest.raises(RuntimeError, match="g3"):
        failure = "NodeUnreadable: broker group g3 (host:1): no answer"
        take()


def test_a_stream_without_news_is_not_started_and_its_watermark_moves(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(ingestion, "_start", lambda lake, table, *_: [started.append(table), Stream()][1])
    found = ingest(
        lake,
        {},
        ["g1", "g2"],
        tables=("index", "progress"),
        complete=lambda offset: {"g1": NINE, "g2": NINE},
        without_news=lambda table, offset: {"g1": NINE + 1, "g2": NINE + 2} if table == "progress" else None,
    )
    assert started == ["index"]
    assert found.rows == {"index": 0, "progress": 0}
    assert lake.snapshot("index").watermarks == {"g1": NINE, "g2": NINE}
    assert lake.snapshot("progress").watermarks == {"g1": NINE + 1, "g2": NINE + 2}


# --- streams: Parquet files stand for nodes here; the data source has tests of its own ---


@pytest.fixture
def arrivals(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[int, int], None]]:
    """Write index rows to where the stream reads; each call is a batch."""
    (tmp_path / "node").mkdir()
    spark.conf.set("spark.sql.streaming.schemaInference", "true")

    def arrive(begin: int, end: int) -> None:
        index_rows(spark, begin, end).coalesce(1).write.mode("append").parquet(str(tmp_path / "node"))

    yield arrive
    spark.conf.set("spark.sql.streaming.schemaInference", "false")


def take_in(lake: Lake, tmp_path: Path, now_ms: int = NINE, **values: Any) -> int:
    source = {"path": str(tmp_path / "node"), "maxFilesPerTrigger": "1"}

    def complete(offset: str) -> dict[str, int]:
        return {"g1": now_ms}

    found = ingest(lake, source, ["g1"], tables=("index",), source_format="parquet", complete=complete, **values)
    return found.rows["index"]


def test_streams_go_on_where_they_were_and_move_the_watermark(
    lake: Lake, arrivals: Callable[[int, int], None], tmp_path: Path
) -> None:
    said: list[str] = []
    arrivals(0, 10)
    arrivals(10, 30)
    assert take_in(lake, tmp_path, say=said.append) == 30
    assert len(said) == 2
    assert lake.snapshot("index").watermarks == {"g1": NINE}
    assert take_in(lake, tmp_path, now_ms=NINE + 60_000) == 0
    assert lake.snapshot("index").watermarks == {"g1": NINE + 60_000}, "nothing new is known, too"
    arrivals(30, 40)
    assert take_in(lake, tmp_path) == 10
    assert sequences(lake) == list(range(40))


def test_what_a_commit_names_lasts_before_it_is_made(
    lake: Lake, arrivals: Callable[[int, int], None], tmp_path: Path
) -> None:
    told = Steps(lake)
    arrivals(0, 150)
    take_in(lake, tmp_path)
    rows = {f"{table}/{path}" for table in ("index", "stored_seconds") for path in lake.snapshot(table).files}
    assert len(rows) == 6
    # Without its plan a batch of this number could be planned anew, with another end.
    assert told.at_commit[0] == rows | {
        f"_checkpoints/index/{name}" for name in ("metadata", ".metadata.crc", "offsets/0", "offsets/.0.crc")
    }


@pytest.mark.parametrize("commits", [0, 1, 2])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_batch_that_was_cut_off_is_in_the_lake_and_counted_once(
    lake: Lake,
    arrivals: Callable[[int, int], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commits: int,
    is_first: bool,
) -> None:
    """After no commit of it, between those of its silver and of itself, and after both."""
    begin = 0
    if not is_first:
        arrivals(0, 10)
        take_in(lake, tmp_path)
        begin = 10
    arrivals(begin, 30)
    commit, left = lake.commit, [commits]

    def cut_off(table: str, base: Any, change: Change) -> Any:
        if not left[0]:
            raise LakeError("cut off")
        left[0] -= 1
        return commit(table, base, change)

    monkeypatch.setattr(lake, "commit", cut_off)
    with pytest.raises(LakeError, match=r"^cut off$"):
        take_in(lake, tmp_path)
    monkeypatch.undo()
    assert sequences(lake) == list(range(30 if commits == 2 else begin))
    assert lake.snapshot("index").watermarks == ({} if is_first else {"g1": NINE})
    # What came meanwhile is not taken into the batch that is counted.
    arrivals(30, 33)
    again = Lake(lake.spark, str(tmp_path / "lake"))
    take_in(again, tmp_path, now_ms=NINE + 1)
    assert sequences(again) == list(range(33))
    assert counted(again) == 33


def counted(lake: Lake) -> int:
    """Messages of the index's silver."""
    return sum(lake.arrow("stored_seconds", *EVER, ("messages",)).column("messages").to_pylist())


@pytest.mark.parametrize("torn", ["offsets/1", "commits/0"])
def test_a_checkpoint_that_a_power_cut_left_by_half_is_mended(
    lake: Lake, arrivals: Callable[[int, int], None], tmp_path: Path, torn: str
) -> None:
    arrivals(0, 10)
    take_in(lake, tmp_path)
    path = tmp_path / "lake/_checkpoints/index" / torn
    path.write_bytes(b"")
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    arrivals(10, 30)
    assert take_in(Lake(lake.spark, str(tmp_path / "lake")), tmp_path) == 20
    assert sequences(lake) == list(range(30))


@in_whole_spark_runs
def test_a_stream_whose_python_is_slow_to_call_back_is_started_again(
    spark: SparkSession, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, seen, said = tmp_path / "python", tmp_path / "seen", list[str]()
    slow.write_text(
        f'#!/bin/bash\ncase "$*" in *streaming_source*) mkdir {seen} 2> /dev/null && sleep {SPARK_WAITS_SECONDS + 2};; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    slow.chmod(0o700)
    lake = Lake(spark, str(tmp_path / "lake"))
    with monkeypatch.context() as patched:
        patched.setattr(spark.sparkContext, "pythonExec", str(slow))
        register(spark)
        found = ingest(lake, {"metaserver": shop.system.meta_url}, ["g1", "g2"], tables=("index",), say=said.append)
    register(spark)
    assert seen.exists()
    assert said[0] == "index: started again, its Python process was not there in time"
    rows = sum(item.rows for item in lake.snapshot("index").files.values())
    assert rows == found.rows["index"] >= ORDERS + PAYMENTS


def test_a_lost_checkpoint_is_said_and_nothing_is_read_twice(
    lake: Lake, arrivals: Callable[[int, int], None], tmp_path: Path
) -> None:
    arrivals(0, 10)
    take_in(lake, tmp_path)
    lake.files.delete("_checkpoints/index")
    with pytest.raises(LakeError, match="checkpoint is missing"):
        take_in(lake, tmp_path)
    assert sequences(lake) == list(range(10))


def test_a_table_that_was_removed_is_read_anew(
    lake: Lake, arrivals: Callable[[int, int], None], tmp_path: Path
) -> None:
    arrivals(0, 10)
    take_in(lake, tmp_path)
    lake.files.delete("index")
    assert take_in(Lake(lake.spark, str(tmp_path / "lake")), tmp_path) == 10
    assert sequences(Lake(lake.spark, str(tmp_path / "lake"))) == list(range(10))
    assert counted(lake) == 10, "its silver is built again"


def test_folders_name_hours_or_days() -> None:
    by_hour, by_day = TABLES["index"], TABLES[GOLD]
    assert begin_of(by_hour, "date=2026-11-21/hour=09/part-0.parquet") == NINE
    assert begin_of(by_day, "date=2026-11-21/part-0.parquet") == NINE - NINE % DAY_MS
    with pytest.raises(LakeError, match="no hour or day"):
        begin_of(by_hour, "date=__HIVE_DEFAULT_PARTITION__/hour=00/part-0.parquet")
    with pytest.raises(LakeError, match="no hour or day"):
        begin_of(by_day, "date=2026-11-21/hour=09/part-0.parquet")

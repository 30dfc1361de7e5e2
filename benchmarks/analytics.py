"""`python -m benchmarks.analytics`: the lag job over a day in Parquet, from an empty process to its rows; a table.

A day of 8 subjects (2 broker groups, 4 names each) with two consumer groups each, in the lake's layout, is made in a folder of
its own (100 million rows take 1 to 2 GB) and deleted afterwards. For each size a fresh process starts Spark and counts the index by
second, which ingestion does with each batch (silver). Another one starts Spark, works out backlog, in flight, lag and time lag of
each group for every second from that, and collects the rows of all four steps. DuckDB does both in SQL on the same files, in a
fresh process as well; both have to come to the same rows. Memory is
the greatest sum of what the process and all its children (JVM, Python workers) had at once; pages that several of them share
count once.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (10_000_000, 30_000_000, 100_000_000)
BROKER_GROUPS = ("broker-1", "broker-2")
SUBJECTS = ("orders", "payments", "shipping", "stock")
GROUPS = {"billing": 2_000, "search": 30_000}
"""Consumer group -> how long after it was stored a batch is pulled, in milliseconds."""
HANDLING_MS = 1_000
PULL_MESSAGES = 500
FIRST_MS = 1_768_435_200_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
SAMPLE_SECONDS = 0.25
MEMORY = "2g"
ROWS_BEFORE = 100_000
SILVER = "stored_seconds"
ARCHIVE = "classes"
"""The folder beside the days."""
COLUMNS = (
    "lag_messages_max",
    "lag_messages_mean",
    "backlog_messages_last",
    "in_flight_messages_max",
    "time_lag_seconds_mean",
)
"""What both sides' rows are compared by."""


# --- a day of Parquet -------------------------------------------------------------------------------------------------


def make_day(folder: Path, rows: int) -> None:
    """Write index and progress of a day as the lake has them: TABLE/date=YYYY-MM-DD/hour=HH/*.parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    places = [(broker_group, subject) for broker_group in BROKER_GROUPS for subject in SUBJECTS]
    each = rows // len(places)
    names = {"broker_group": BROKER_GROUPS, "subject": SUBJECTS}

    def time_of(ms: Any) -> Any:
        return pa.array(ms * 1000, pa.timestamp("us", "UTC"))

    def text(name: str, value: str, n: int) -> Any:
        """The same text n times, as a dictionary of all that the column has."""
        codes = pa.array(np.full(n, names[name].index(value), dtype=np.int8))
        return pa.DictionaryArray.from_arrays(codes, pa.array(names[name]))

    def write(table: str, hour: int, number: int, columns: dict[str, Any]) -> None:
        to = folder / table / "date=2026-01-15" / f"hour={hour:02d}"
        to.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), to / f"part-{number}.parquet", compression="snappy")

    for number, (broker_group, subject) in enumerate(places):
        for hour in range(24):
            sequence = np.arange(each * hour // 24, each * (hour + 1) // 24)
            n = len(sequence)
            index = {
                "broker_group": text("broker_group", broker_group, n),
                "subject": text("subject", subject, n),
                "sequence": sequence,
                "stored_at": time_of(FIRST_MS + sequence * DAY_MS // each),
                "size": (200 + sequence * 7919 % 700).astype(np.int32),
                "log_offset": sequence * 640,
                "tag_bits": np.zeros(n, dtype=np.int64),
                "is_withheld": np.zeros(n, dtype=np.bool_),
            }
            write("index", hour, number, index)
        for group_number, (group, behind_ms) in enumerate(GROUPS.items()):
            end = np.arange(PULL_MESSAGES, each + 1, PULL_MESSAGES)
            pulled = FIRST_MS + (end - 1) * DAY_MS // each + behind_ms
            at = np.concatenate([[FIRST_MS], pulled, pulled + HANDLING_MS])
            kind = np.concatenate([["start"], np.full(len(end), "pull"), np.full(len(end), "ack")])
            high = np.concatenate([[0], end, end])
            order = np.lexsort((kind == "pull", at))
            is_pull = kind[order] == "pull"
            columns = {
                "broker_group": pa.array([broker_group] * len(at)),
                "subject": pa.array([subject] * len(at)),
                "group": pa.array([group] * len(at)),
                "position": np.arange(len(at)),
                "at": time_of(at[order]),
                "kind": pa.array(kind[order]),
                "consumer_key": np.where(kind[order] == "start", 0, group_number + 7),
                "consumer_id": pa.array([f"{group}-1"] * len(at)),
                "begin": np.maximum(0, high[order] - PULL_MESSAGES),
                "end": high[order],
                "next_sequence": np.maximum.accumulate(np.where(is_pull, high[order], 0)),
                "is_broadcast": np.zeros(len(at), dtype=np.bool_),
            }
            write("progress", 0, number * len(GROUPS) + group_number, columns)


# --- the two sides ----------------------------------------------------------------------------------------------------


def make_silver(folder: Path) -> Any:
    """Count the index by second, beside it; how many rows that are, as an Arrow table."""
    import pyarrow as pa
    from pyarrow.dataset import dataset

    from spark_analytics.class_archive import ClassArchive
    from spark_analytics.java import java_home
    from spark_analytics.session import spark_session
    from spark_analytics.transforms.stored import silver_seconds

    archive = ClassArchive(folder.parent / ARCHIVE, java_home(), may_write=True)
    spark = spark_session(memory=MEMORY, class_archive=archive)
    silver_seconds(spark.read.parquet(str(folder / "index"))).write.parquet(str(folder / SILVER))
    spark.stop()
    archive.keep()
    return pa.table({"rows": [dataset(folder / SILVER).count_rows()]})


def by_spark(folder: Path) -> Any:
    """The rows of the lag job as an Arrow table."""
    from pyarrow.dataset import dataset

    from spark_analytics.class_archive import ClassArchive
    from spark_analytics.java import java_home
    from spark_analytics.local_rows import local_frame
    from spark_analytics.session import spark_session
    from spark_analytics.transforms.frames import GROUP_STATE, RANGES, bucket_count
    from spark_analytics.transforms.lag import lag
    from spark_analytics.transforms.runs import runs
    from spark_analytics.transforms.stored import seconds_of
    from spark_analytics.transforms.windows import SHORT_STEPS, Window

    archive = ClassArchive(folder.parent / ARCHIVE, java_home(), may_write=True)
    spark = spark_session(memory=MEMORY, class_archive=archive)
    window = Window(FIRST_MS, FIRST_MS + DAY_MS)
    silver, progress = (spark.read.parquet(str(folder / table)) for table in (SILVER, "progress"))
    state = local_frame(spark, [], GROUP_STATE)
    # The lake knows these from its log.
    rows = sum(dataset(folder / table).count_rows() for table in (SILVER, "progress"))
    buckets = bucket_count(rows, spark.sparkContext.defaultParallelism)
    followed = runs(progress, state, window=window, buckets=buckets)
    # A sample an hour of what is kept, as ingestion takes them: here retention removes nothing.
    places = [(broker_group, subject) for broker_group in BROKER_GROUPS for subject in SUBJECTS]
    samples = [(*place, FIRST_MS + hour * 3_600_000, 0, 0, None) for place in places for hour in range(24)]
    ranges = local_frame(spark, samples, RANGES)
    stored = seconds_of(silver)
    found = lag(
        stored, progress, state, followed, window=window, buckets=buckets, steps=SHORT_STEPS, ranges=ranges
    ).toArrow()
    spark.stop()
    archive.keep()
    return found


STATES = """
create temp table stored as
    select broker_group, subject, (epoch_ms(stored_at) // 1000) as second, min(sequence) as first_sequence,
        max(sequence) + 1 as end_sequence
    from read_parquet('{folder}/index/*/*/*.parquet') where not is_withheld group by all;
create temp table done as
    select broker_group, subject, "group", (epoch_ms("at") // 1000) as second, arg_max(next_sequence, position) as next_sequence,
        sum(case kind when 'pull' then "end" - "begin" else 0 end) as pulled,
        sum(case kind when 'ack' then "end" - "begin" else 0 end) as acked
    from read_parquet('{folder}/progress/*/*/*.parquet') group by all;
create temp table upto as
    select broker_group, subject, "group", second, next_sequence, sum(pulled) over before as pulled, sum(acked) over before as acked
    from done window before as (partition by broker_group, subject, "group" order by second);
create temp table grid as
    select broker_group, subject, "group", second
    from (select distinct broker_group, subject, "group" from done), range({first}, {first} + 86400) as seconds(second);
create temp table states as
    select g.subject, g."group", g.second, greatest(0, coalesce(s.end_sequence, 0) - u.next_sequence) as backlog,
        u.pulled - u.acked as in_flight, case when u.acked < coalesce(s.end_sequence, 0) then u.acked end as oldest, g.broker_group
    from grid g asof join upto u on g.broker_group = u.broker_group and g.subject = u.subject and g."group" = u."group"
            and g.second >= u.second
        asof left join stored s on g.broker_group = s.broker_group and g.subject = s.subject and g.second >= s.second;
create temp table sums as
    select t.subject, t."group", t.second, sum(backlog)::bigint as backlog, sum(in_flight)::bigint as in_flight,
        max(case when oldest is null then 0 else t.second + 1 - s.second end) as time_lag
    from states t asof left join stored s on t.broker_group = s.broker_group and t.subject = s.subject
        and t.oldest >= s.first_sequence
    group by all;
"""
ROWS = """
select {step} * 1000 as step_ms, (second - second % {step}) * 1000 as at_ms, subject, "group",
    max(backlog) as backlog_messages_max, avg(backlog) as backlog_messages_mean, arg_max(backlog, second) as backlog_messages_last,
    max(in_flight) as in_flight_messages_max, avg(in_flight) as in_flight_messages_mean,
    arg_max(in_flight, second) as in_flight_messages_last, min(backlog + in_flight) as lag_messages_min,
    max(backlog + in_flight) as lag_messages_max, avg(backlog + in_flight) as lag_messages_mean,
    arg_max(backlog + in_flight, second) as lag_messages_last, max(time_lag) as time_lag_seconds_max,
    avg(time_lag) as time_lag_seconds_mean, arg_max(time_lag, second) as time_lag_seconds_last
from sums group by 1, 2, 3, 4
"""


def by_duckdb(folder: Path) -> Any:
    """The same in SQL. It leans on what this day is like: each group has one consumer a broker group, and acks in order."""
    try:
        import duckdb
    except ImportError:
        sys.exit("DuckDB is not installed; it is part of the extra `dev`: pip install 'pyqmq[dev]'")
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    connection.execute("set timezone = 'UTC'")
    connection.execute(STATES.format(folder=folder, first=FIRST_MS // 1000))
    steps = " union all ".join(f"({ROWS.format(step=step)})" for step in (60, 600, 3600, 86_400))
    return connection.sql(steps).to_arrow_table()


SIDES: dict[str, Callable[[Path], Any]] = {"silver": make_silver, "Spark": by_spark, "DuckDB": by_duckdb}


def answer(side: str, folder: Path) -> None:
    """Run one side, and print what its rows come to."""
    found = SIDES[side](folder)
    sums = {
        name: float(np.asarray(found.column(name).to_numpy(zero_copy_only=False), dtype=float).sum())
        for name in COLUMNS
        if name in found.column_names
    }
    print(json.dumps({"rows": found.num_rows, "sums": sums}))


# --- measuring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """One run of one side."""

    seconds: float
    memory_mib: float
    rows: int
    sums: dict[str, float]


def measure(side: str, folder: Path) -> Measured:
    """Run one side in a fresh process.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", "benchmarks.analytics", "--side", side, "--folder", str(folder)]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    top = 0.0
    while True:
        try:
            out, problem = process.communicate(timeout=SAMPLE_SECONDS)
            break
        except subprocess.TimeoutExpired:
            top = max(top, memory_mib(process.pid))
    seconds = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{side} failed: {problem[-2000:]}")
    said = json.loads(out.strip().splitlines()[-1])
    return Measured(seconds, top, said["rows"], said["sums"])


def memory_mib(pid: int) -> float:
    """What a process and its children have, shared pages by halves, thirds and so on (PSS)."""
    import psutil  # type: ignore[import-untyped]

    total = 0
    try:
        parent = psutil.Process(pid)
        for one in (parent, *parent.children(recursive=True)):
            try:
                total += one.memory_full_info().pss
            except psutil.Error:
                continue
    except psutil.Error:
        return 0.0
    return total / (1 << 20)


def is_same(a: Measured, b: Measured) -> bool:
    return a.rows == b.rows and all(abs(a.sums[n] - b.sums[n]) <= 1e-9 * abs(a.sums[n]) for n in COLUMNS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics", description="The lag job, beside DuckDB.")
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES, help="index rows, one run for each figure")
    parser.add_argument("--folder", type=Path, help="where the Parquet is made (a temporary folder)")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        answer(options.side, options.folder)
        return
    print(
        "| index rows | Parquet MB | silver s | silver MiB | Spark s | Spark MiB | DuckDB s | DuckDB MiB | rows of lag | same |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="qmq-lake-") as name:
        folder = Path(name, "day")
        make_day(folder, ROWS_BEFORE)
        for side in ("silver", "Spark"):
            measure(side, folder)
        for rows in options.rows:
            shutil.rmtree(folder)
            make_day(folder, rows)
            size = sum(file.stat().st_size for file in folder.rglob("*.parquet")) / 1e6
            silver, spark, duck = (measure(side, folder) for side in SIDES)
            figures = " | ".join(f"{side.seconds:.1f} | {side.memory_mib:,.0f}" for side in (silver, spark, duck))
            print(
                f"| {rows:,} | {size:,.0f} | {figures} | {spark.rows:,} | {'yes' if is_same(spark, duck) else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""`python -m benchmarks.many_groups`: runs of the jobs with very many consumer groups, hour by hour; a table.

The lake of a system is made in a folder of its own: `--subjects` with GROUPS consumer groups each on two broker groups, of which a
share is busy (a message every other second on each broker group). The others had their last messages in the first hour, and some of
their groups never pulled them. Behind it lies a history that jobs published: 12 weeks of what anomalies are compared with, and 14
days of the minutes that forecasts rest on. Then the jobs run at the end of each hour in a fresh process, as they do in operation,
on what ingestion would have added; ingestion itself is not a part (`benchmarks.spark_source`). Memory is the greatest sum of what
the process and all its children (JVM, Python workers) had at once; pages that several of them share count once. Nothing here
asserts: figures go to docs/performance.md by hand, with the date.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.analytics import SAMPLE_SECONDS, memory_mib

SUBJECTS = 40_000
GROUPS = 3
BUSY_RATIO = 0.02
BEHIND_RATIO = 0.02
"""Of the groups of idle subjects: those that never pulled."""
HOURS = 3
BROKER_GROUPS = ("broker-1", "broker-2")
MESSAGE_SECONDS = 2
PULL_MESSAGES = 10
IDLE_MESSAGES = 5
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
FIRST_MS = 1_768_435_200_000
BEHIND_MS = 130_000
"""How long behind an hour's end the jobs run."""
GOLD_WEEKS = 12
MINUTES_DAYS = 14
DATABASE = "QMQ_DATABASE_URL"


class Population:
    """The subjects and groups, and their rows."""

    def __init__(self, subjects: int, busy: float) -> None:
        self.subjects = np.array([f"population.team{i % 40}.events.{i}" for i in range(subjects)], dtype=object)
        self.groups = np.array([f"service-{i}" for i in range(GROUPS)], dtype=object)
        self.busy = np.arange(round(subjects * busy))
        self.idle = np.arange(len(self.busy), subjects)
        self.behind = self.idle[: round(len(self.idle) * BEHIND_RATIO)]

    def series(self, chosen: np.ndarray[Any, Any]) -> dict[str, Any]:
        """The groups of some subjects."""
        return {"subject": self.subjects[np.repeat(chosen, GROUPS)], "group": np.tile(self.groups, len(chosen))}

    def index(self, hour: int) -> Iterator[pa.Table]:
        """What is stored in an hour, a table for each broker group."""
        each = HOUR_MS // (MESSAGE_SECONDS * 1000)
        for broker_group in BROKER_GROUPS:
            parts = [(self.busy, each, hour * each)] + ([(self.idle, IDLE_MESSAGES, 0)] if hour == 0 else [])
            for chosen, count, first in parts:
                number = np.tile(np.arange(count), len(chosen))
                yield rows_of(
                    "index",
                    broker_group=broker_group,
                    subject=self.subjects[np.repeat(chosen, count)],
                    sequence=first + number,
                    stored_at=times(FIRST_MS + hour * HOUR_MS + number * (HOUR_MS // count)),
                    size=700,
                    log_offset=number * 640,
                )

    def progress(self, hour: int) -> Iterator[pa.Table]:
        """What groups did in an hour, a table for each broker group and kind of subject."""
        each = HOUR_MS // (MESSAGE_SECONDS * 1000)
        pulls = np.arange(each // PULL_MESSAGES)
        for broker_group in BROKER_GROUPS:
            if hour == 0:
                at = np.full(len(self.subjects) * GROUPS, FIRST_MS)
                named = self.series(np.arange(len(self.subjects)))
                yield self._did(broker_group, named, "start", at, np.zeros(len(at)), np.zeros(len(at)), 0)
                named = self.series(self.idle[len(self.behind) :])
                count = len(named["subject"])
                for position, kind in enumerate(("pull", "ack"), 1):
                    at = np.full(count, FIRST_MS + HOUR_MS - 10_000 + position * 1_000)
                    yield self._did(
                        broker_group, named, kind, at, np.zeros(count), np.full(count, IDLE_MESSAGES), position
                    )
            named = self.series(np.repeat(self.busy, len(pulls)))
            number = np.repeat(np.tile(pulls, len(self.busy)), GROUPS)
            begin = hour * each + number * PULL_MESSAGES
            stored = FIRST_MS + (begin + PULL_MESSAGES - 1) * MESSAGE_SECONDS * 1000
            first = 1 + 2 * (hour * len(pulls) + number)
            for late, kind in enumerate(("pull", "ack")):
                at = stored + 500 + late * 900
                yield self._did(broker_group, named, kind, at, begin, begin + PULL_MESSAGES, first + late)

    def _did(
        self, broker_group: str, named: dict[str, Any], kind: str, at: Any, begin: Any, end: Any, position: Any
    ) -> pa.Table:
        return rows_of(
            "progress",
            broker_group=broker_group,
            **named,
            position=position,
            at=times(at),
            kind=kind,
            consumer_key=0 if kind == "start" else 7,
            consumer_id=None if kind == "start" else "c-1",
            begin=begin.astype(np.int64),
            end=end.astype(np.int64),
            next_sequence=end.astype(np.int64),
        )

    def ranges(self, hour: int, at_ms: int) -> Iterator[pa.Table]:
        """What was sampled: all subjects once, then those from which something was removed."""
        chosen = self.busy if hour else np.arange(len(self.subjects))
        stored = hour * HOUR_MS // (MESSAGE_SECONDS * 1000)
        for broker_group in BROKER_GROUPS:
            yield rows_of("ranges", sampled_at=times(np.full(len(chosen), at_ms)), broker_group=broker_group,
                          subject=self.subjects[chosen], begin=hour, end=max(IDLE_MESSAGES, stored))  # fmt: skip

    def gold(self, day_ms: int) -> Iterator[tuple[str, pa.Table]]:
        """The hours of a day as jobs published them, and the days of lag; series after series, as files are sorted."""
        hours = day_ms + np.arange(24) * HOUR_MS
        yield "gold_lag", pa.concat_tables([self._lag(hours, HOUR_MS), self._lag(hours[:1], DAY_MS)])
        for table, named in (
            ("subject_rates", {"subject": self.subjects[self.busy]}),
            ("group_rates", self.series(self.busy)),
            ("latencies", self.series(self.busy)),
        ):
            level = self._level(len(named["subject"]), hours)
            columns: dict[str, Any]
            if table == "latencies":
                columns = {"kind": "end_to_end", "messages": level.astype(np.int64), "p99_ms": level / 2}
            else:
                name = "sent" if table == "subject_rates" else "acked"
                columns = {f"{name}_messages": level.astype(np.int64), f"{name}_messages_per_second_mean": level / 3600}
            yield f"gold_{table}", self._at_each(f"gold_{table}", named, hours, HOUR_MS, columns)

    def _lag(self, at_ms: np.ndarray[Any, Any], step_ms: int) -> pa.Table:
        lag = np.zeros((len(self.subjects), GROUPS, len(at_ms)))
        busy = len(self.busy) * GROUPS
        lag[self.busy] = np.rint(self._level(busy, at_ms) / 200).reshape(-1, GROUPS, len(at_ms))
        lag[self.behind] = IDLE_MESSAGES * len(BROKER_GROUPS)
        values = lag.ravel()
        columns = {"lag_messages_mean": values, "time_lag_seconds_max": values * 2}
        columns |= {name: values.astype(np.int64) for name in ("lag_messages_max", "lag_messages_last")}
        return self._at_each("gold_lag", self.series(np.arange(len(self.subjects))), at_ms, step_ms, columns)

    def _level(self, series: int, at_ms: np.ndarray[Any, Any]) -> Any:
        """What comes in hours: more by day than by night, and noise that differs by hour and series."""
        each = HOUR_MS // (MESSAGE_SECONDS * 1000) * len(BROKER_GROUPS)
        noise = np.random.default_rng(at_ms[0] // HOUR_MS).normal(1, 0.1, series * len(at_ms))
        return each * np.tile(1 + 0.5 * np.sin((at_ms // HOUR_MS % 24) / 24 * 2 * np.pi), series) * noise

    def _at_each(
        self, table: str, named: dict[str, Any], at_ms: np.ndarray[Any, Any], step_ms: int, columns: dict[str, Any]
    ) -> pa.Table:
        count = len(at_ms)
        every = {
            name: pa.DictionaryArray.from_arrays(np.arange(len(values)).repeat(count), values)
            for name, values in named.items()
        }
        times_of = times(np.tile(at_ms, len(named["subject"])))
        return rows_of(table, at=times_of, step_ms=step_ms, **every, **columns)

    def minutes(self, day_ms: int) -> pa.Table:
        """The hours of a day of busy groups, which forecasts of drain times rest on."""
        named = self.series(self.busy)
        count = len(named["subject"]) * 24
        minute = np.tile(np.arange(60, dtype=np.int8), count)
        arrived = np.full(count * 60, 60 // MESSAGE_SECONDS * len(BROKER_GROUPS))
        lists = {"minutes": minute, "arrived_messages": arrived, "lag_messages": arrived // 6,
                 "was_reset": np.zeros(count * 60, dtype=bool)}  # fmt: skip
        offsets = pa.array(np.arange(0, count * 60 + 1, 60, dtype=np.int32))
        return rows_of(
            "group_minutes",
            at=times(np.repeat(day_ms + np.arange(24) * HOUR_MS, count // 24)),
            **{name: np.tile(values, 24) for name, values in named.items()},
            **{name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in lists.items()},
        )


def times(ms: Any) -> pa.Array:
    return pa.array(np.asarray(ms).astype("datetime64[ms]")).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


def rows_of(table: str, **columns: Any) -> pa.Table:
    """Rows of a table of the lake: a single value is that of all rows, and columns that are left out are null, 0 or false."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from spark_analytics.lake.tables import TABLES

    schema = to_arrow_schema(TABLES[table].schema, timezone="UTC")
    count = max(len(values) for values in columns.values() if isinstance(values, np.ndarray | pa.Array))
    made = []
    for field in schema:
        nothing = False if pa.types.is_boolean(field.type) else 0
        values = columns.pop(field.name, None if field.nullable else nothing)
        if isinstance(values, np.ndarray):
            made.append(pa.array(values).cast(field.type))
        elif isinstance(values, pa.Array):
            made.append(values.cast(field.type))
        else:
            made.append(pa.repeat(pa.scalar(values, field.type), count))
    assert not columns, f"{table} has no {', '.join(columns)}"
    return pa.Table.from_arrays(made, schema=schema)


def work(folder: Path, subjects: int, busy: float, hour: int) -> None:
    """Make the lake if there is none yet, add an hour and run the jobs behind it."""
    os.environ[DATABASE] = f"sqlite:///{folder}/meta.sqlite3"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    os.environ.setdefault("QMQ_SECRET_KEY", "a key for benchmarks only")
    import django

    django.setup()
    from django.core.management import call_command

    from spark_analytics.jobs.catalog import ORDER
    from spark_analytics.jobs.runner import Request, Runner
    from spark_analytics.lake import Lake
    from spark_analytics.lake.delta import Change
    from spark_analytics.lake.tables import STREAMED
    from spark_analytics.session import spark_session

    now_ms = FIRST_MS + (hour + 1) * HOUR_MS + BEHIND_MS
    spark = spark_session(scratch=folder / "scratch")
    lake = Lake(spark, str(folder / "lake"), now_ms=lambda: now_ms)
    population = Population(subjects, busy)
    if hour == 0:
        call_command("migrate", verbosity=0)
        for day in range(-GOLD_WEEKS * 7, 0):
            for table, rows in population.gold(FIRST_MS + day * DAY_MS):
                lake.append(table, rows)
            if day >= -MINUTES_DAYS:
                lake.append("group_minutes", population.minutes(FIRST_MS + day * DAY_MS))
    for table, parts in (
        ("index", population.index(hour)),
        ("progress", population.progress(hour)),
        ("ranges", population.ranges(hour, now_ms - BEHIND_MS - HOUR_MS)),
    ):
        for rows in parts:
            lake.append(table, rows)
    for table in STREAMED:
        lake.commit(table, lake.snapshot(table), Change(watermarks=dict.fromkeys(BROKER_GROUPS, now_ms)))
    # From here on it is measured.
    print("filled", flush=True)
    runner = Runner(lake, Request({}), say=lambda text: print(text, flush=True), now_ms=lambda: now_ms)
    report = runner.run(name for name in ORDER if name not in ("ingest", "delayed"))
    print(report.result().text, flush=True)
    spark.stop()
    if report.failed:
        sys.exit(f"failed: {report.failed}")


def measure(folder: Path, options: argparse.Namespace, hour: int) -> tuple[float, float]:
    """Run an hour in a fresh process: seconds and MiB from when it is filled."""
    command = [sys.executable, "-m", "benchmarks.many_groups", "--hour", str(hour), "--folder", str(folder)]
    command += ["--subjects", str(options.subjects), "--busy", str(options.busy)]
    with Path(folder, "out").open("w+") as out:
        process = subprocess.Popen(command, stdout=out)
        top, began = 0.0, None
        while process.poll() is None:
            time.sleep(SAMPLE_SECONDS)
            if began is None and "filled" in Path(folder, "out").read_text():
                began = time.perf_counter()
            if began is not None:
                top = max(top, memory_mib(process.pid))
        print(Path(folder, "out").read_text(), file=sys.stderr)
    if process.returncode or began is None:
        raise RuntimeError(f"hour {hour} failed")
    return time.perf_counter() - began, top


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_groups", description="Jobs with very many groups.")
    parser.add_argument("--subjects", type=int, default=SUBJECTS, help=f"with {GROUPS} groups each")
    parser.add_argument("--busy", type=float, default=BUSY_RATIO, help="share of subjects that are busy")
    parser.add_argument("--hours", type=int, default=HOURS, help="runs, one behind each hour")
    parser.add_argument("--folder", type=Path, help="where the lake is made (a temporary folder)")
    parser.add_argument("--hour", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hour is not None:
        work(options.folder, options.subjects, options.busy, options.hour)
        return
    print("| groups | hour | s | MiB |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="qmq-groups-") as name:
        for hour in range(options.hours):
            seconds, memory = measure(Path(name), options, hour)
            print(f"| {options.subjects * GROUPS:,} | {hour + 1} | {seconds:.1f} | {memory:,.0f} |", flush=True)


if __name__ == "__main__":
    main()

"""How fast Spark reads a live broker: `python -m benchmarks.spark_source [--messages N] [--rate-limit BYTES]`.

A broker on loopback is filled with small messages, then table `index` is counted and grouped by two workers, once to warm up and
then three times; beside it the same bytes by the client alone, without Spark.

`--ranges N` measures instead what a stream of N ranges costs its Python process, batch by batch, without Spark and without
nodes: their answers are given.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import functions as f
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.worker_util import pickleSer

from benchmarks.load import bench
from qmq.protocol.bulk_read import INDEX_ENTRY_BYTES, GroupRange, NodeLine, NodesPage, RangesPage, SubjectRange
from spark_analytics.schemas import PROGRESS
from spark_analytics.session import spark_session
from spark_analytics.source import planning
from spark_analytics.source.datasource import QmqStreamReader
from spark_analytics.source.node_reader import NodeReader
from spark_analytics.source.options import parse_options
from tests.support.servers.system import System

SUBJECTS = 4
ROUNDS = 3
GROUPS_PER_SUBJECT = 20
ENTRIES = 12
"""Entries that each group's history grows by from batch to batch."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument(
        "--rate-limit", type=int, default=0, help="bytes a second the broker gives readers; 0: no limit"
    )
    parser.add_argument("--ranges", type=int, default=0, help="only plan batches of a stream with so many ranges")
    arguments = parser.parse_args()
    if arguments.ranges:
        with tempfile.TemporaryDirectory() as folder:
            plan_batches(arguments.ranges, folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        system = System(Path(folder), groups=1, broker_flags=("--read-bytes-per-second", str(arguments.rate_limit)))
        try:
            system.start()
            for number in range(SUBJECTS):
                each = str(arguments.messages // SUBJECTS)
                bench(system, "produce", f"bench-{number}", "--count", each, "--size", "128", "--batch", "500")
            rows = arguments.messages // SUBJECTS * SUBJECTS
            begun = time.perf_counter()
            with NodeReader(f"127.0.0.1:{system.ports['g1'][0]}") as reader:
                got = sum(
                    len(page.data) // INDEX_ENTRY_BYTES
                    for subject in reader.ranges()
                    if subject.name.startswith("bench-")
                    for page in reader.index(subject.name, subject.begin, subject.end)
                )
            taken = time.perf_counter() - begun
            assert got == rows, (got, rows)
            print(f"client alone: {rows / taken / 1e6:.2f} million rows/s")
            spark = spark_session(settings={"spark.ui.showConsoleProgress": "false"})
            for columns in ("subject,stored_at,size", ""):
                seconds = []
                for _ in range(ROUNDS + 1):
                    frame = (
                        spark.read.format("qmq")
                        .options(metaserver=system.meta_url, table="index", subjects="bench-*", columns=columns)
                        .load()
                    )
                    begun = time.perf_counter()
                    found = (
                        frame.groupBy("subject")
                        .agg(f.count("*").alias("n"), f.sum("size"), f.max("stored_at"))
                        .collect()
                    )
                    seconds.append(time.perf_counter() - begun)
                    assert sum(row.n for row in found) == rows
                middle = statistics.median(seconds[1:])
                name = columns or "all columns"
                print(
                    f"Spark, {name}: {rows / middle / 1e6:.2f} million rows/s ({middle:.2f} s, first {seconds[0]:.2f} s)"
                )
            begun = time.perf_counter()
            frame = (
                spark.read.format("qmq")
                .options(metaserver=system.meta_url, table="messages", subjects="bench-*")
                .load()
            )
            found = frame.agg(f.count("message_id").alias("n"), f.sum(f.size("properties"))).collect()
            assert found[0].n == rows
            taken = time.perf_counter() - begun
            print(f"Spark, messages with properties: {rows / taken / 1e6:.2f} million rows/s ({taken:.2f} s)")
            spark.stop()
        finally:
            system.stop()


def plan_batches(ranges: int, folder: str) -> None:
    """Print the seconds that a stream's reader takes for each batch: from nodes' answers to the partitions as Spark gets them."""
    line = NodeLine("g1", "g1-0", "broker", "master", "127.0.0.1:1", "127.0.0.1:2", "read_write", 1, 0, 0)
    held = ENTRIES

    class Answers:
        """In place of a node's reader."""

        def __init__(self, address: str, token: str = "") -> None: ...

        def __enter__(self) -> "Answers":
            return self

        def __exit__(self, *_: object) -> None: ...

        def range_pages(self, from_ms: int, to_ms: int) -> Iterator[RangesPage]:
            return iter([page])

    options = {"metaserver": "127.0.0.1:1", "table": "progress", "offsets": folder}
    pickler: Any = pickleSer
    reader = QmqStreamReader(parse_options(options), PROGRESS)
    text = json.dumps(reader.initialOffset())
    with (
        patch.object(planning, "NodeReader", Answers),
        patch.object(planning, "find_nodes", lambda *_, **__: NodesPage(0, (line,))),
    ):
        for batch in range(1, 4):
            groups = tuple(
                GroupRange(f"group-{number}", False, 0, 0, held, 0, held, ((number, "a-consumer"),), began_at_ms=7)
                for number in range(GROUPS_PER_SUBJECT)
            )
            subjects = ranges // GROUPS_PER_SUBJECT
            page = RangesPage(
                "g1", "g1-0", batch, tuple(SubjectRange(f"a.subject.{n}", 0, 9, 0, 9, groups) for n in range(subjects))
            )
            began = [time.perf_counter()]
            reader.prepareForTriggerAvailableNow()
            began.append(time.perf_counter())
            after = json.dumps(reader.latestOffset(json.loads(text), ReadMaxRows(1 << 40)))
            began.append(time.perf_counter())
            partitions = reader.partitions(json.loads(text), json.loads(after))
            began.append(time.perf_counter())
            sent = sum(len(bytes(pickler.dumps(partition))) for partition in partitions)
            began.append(time.perf_counter())
            parts = [after - before for before, after in pairwise(began)]
            print(
                f"batch {batch}, {ranges:,} ranges: {sum(parts):.2f} s (answers {parts[0]:.2f}, offset {parts[1]:.2f}, partitions"
                f" {parts[2]:.2f}, sending {parts[3]:.2f}); offset {len(after):,} bytes, {len(partitions)} partitions,"
                f" {sent:,} bytes"
            )
            before, text, held = text, after, held + ENTRIES
        began.append(time.perf_counter())
        # A batch that a stream was killed in: its plan is made by another process, from the files.
        QmqStreamReader(parse_options(options), PROGRESS).partitions(json.loads(before), json.loads(text))
        print(f"the last batch after a restart: {time.perf_counter() - began[-1]:.2f} s")
    sizes = [path.stat().st_size for path in Path(folder).iterdir()]
    if sizes:
        print(f"{len(sizes)} files, {max(sizes):,} bytes at most")


if __name__ == "__main__":
    main()

"""How fast Spark reads a live broker: `python -m benchmarks.spark_source [--messages N] [--rate-limit BYTES]`.

A broker on loopback is filled with small messages, then table `index` is counted and grouped by two workers, once to warm up and
then three times; beside it the same bytes by the client alone, without Spark.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as f

from benchmarks.load import bench
from qmq.protocol.bulk_read import INDEX_ENTRY_BYTES
from spark_analytics.session import spark_session
from spark_analytics.source.node_reader import NodeReader
from tests.support.servers.system import System

SUBJECTS = 4
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument(
        "--rate-limit", type=int, default=0, help="bytes a second the broker gives readers; 0: no limit"
    )
    arguments = parser.parse_args()
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


if __name__ == "__main__":
    main()

"""`python -m benchmarks.lake`: what a commit of a batch takes in a table of many files, with all its syncs; prints a
table.

A table of the lake gets so many files by commits of 100, then batches of one file each: the file is written by pyarrow,
which is not measured, and synced with its folders, committed, and the log's file and folder are synced. Checkpoints of
the log are commits of their own in the table. Nothing here asserts: figures go to docs/performance.md by hand, with the
date.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_analytics.lake.delta import CHECKPOINT_EVERY, Batch, Change, DataFile, TableLog
from spark_analytics.lake.files import LocalFiles
from spark_analytics.lake.tables import TABLES

FILES = 2_500
BATCHES = 150
ROWS = 10_000
FIRST_MS = 1_768_435_200_000
HOUR_MS = 3_600_000
HOURS = 15 * 24


def data_file(files: LocalFiles, number: int, rows: pa.Table | None) -> DataFile:
    """A file of an hour; without rows it is named only, as none is read here."""
    at = np.datetime64(FIRST_MS + number % HOURS * HOUR_MS, "ms").item()
    path = f"{uuid4().hex}/date={at:%Y-%m-%d}/hour={at:%H}/part-00000.parquet"
    if rows is not None:
        place = Path(files.path_of(f"index/{path}"))
        place.parent.mkdir(parents=True)
        pq.write_table(rows, place)
    return DataFile(path, ROWS, 1_000, FIRST_MS + number % HOURS * HOUR_MS, stats='{"numRecords":10000}')


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake", description="Commits of a table of the lake.")
    parser.add_argument("--files", type=int, default=FILES, help="files in the table")
    parser.add_argument("--batches", type=int, default=BATCHES, help="batches that are measured")
    parser.add_argument("--folder", type=Path, help="where the lake is made (a temporary folder)")
    options = parser.parse_args()
    rows = pa.table({"sequence": np.arange(ROWS)})
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="qmq-lake-") as name:
        files = LocalFiles(Path(name, "lake"))
        log = TableLog(files, TABLES["index"])
        for first in range(0, options.files, 100):
            many = tuple(data_file(files, number, None) for number in range(first, min(first + 100, options.files)))
            log.commit(log.snapshot(), Change(added=many))
        log = TableLog(files, TABLES["index"])
        began = time.perf_counter()
        log.snapshot()
        opened = time.perf_counter() - began
        syncs: list[float] = []
        commits: list[float] = []
        checkpoints: list[float] = []
        for number in range(options.batches):
            item = data_file(files, number, rows)
            began = time.perf_counter()
            files.sync([f"index/{item.path}"])
            synced = time.perf_counter()
            found = log.commit(log.snapshot(), Change(added=(item,), batch=Batch("stream", number)))
            taken = time.perf_counter() - synced
            syncs.append(synced - began)
            (commits if found.version % CHECKPOINT_EVERY else checkpoints).append(taken)
    print(
        "| files | opening ms | syncs of the data ms | commit with syncs ms | p95 | with a checkpoint of the log ms |"
    )
    print("|---|---|---|---|---|---|")
    commits.sort()
    figures = (opened, median(syncs), median(commits), commits[len(commits) * 95 // 100], median(checkpoints or [0.0]))
    print(f"| {options.files:,} | {' | '.join(f'{1000 * figure:.1f}' for figure in figures)} |")


if __name__ == "__main__":
    main()

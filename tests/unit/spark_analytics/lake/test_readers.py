"""Other programs read tables while they are written: each row once, at each version."""

import time
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest
from deltalake import DeltaTable

from spark_analytics.lake.delta import Change, TableLog
from spark_analytics.lake.files import LocalFiles
from spark_analytics.lake.tables import TABLES
from tests.support.analytics.lake_files import write_rows

COMMITS = 50
ROWS = 10


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table with 50 commits and then a compaction."""
    files = LocalFiles(tmp_path / "lake")
    log = TableLog(files, TABLES["index"])
    found = log.snapshot()
    for number in range(COMMITS):
        item = write_rows(files, "index", f"f{number}", number * ROWS, number * ROWS + ROWS)
        found = log.commit(found, Change(added=(item,)))
    whole = write_rows(files, "index", "whole", 0, COMMITS * ROWS)
    log.commit(found, Change(added=(whole,), removed=tuple(found.files), is_same_data=True))
    return files.path_of("index")


def rows_at(version: int) -> int:
    """Version 0 made the table."""
    return min(version, COMMITS) * ROWS


def test_pandas_and_polars_count_each_row_once_at_each_version(table: str) -> None:
    for version in range(COMMITS + 2):
        wanted = list(range(rows_at(version)))
        with_pandas: pd.DataFrame = DeltaTable(table, version=version).to_pandas(columns=["sequence"])
        assert sorted(with_pandas["sequence"]) == wanted
        with_polars = pl.scan_delta(table, version=version).select("sequence").collect()
        assert sorted(with_polars["sequence"].to_list()) == wanted


def test_duckdb_reads_by_arrow_and_by_folders_columns(table: str) -> None:
    rows = DeltaTable(table).to_pyarrow_dataset()
    with duckdb.connect() as database:
        found = database.sql(
            "select count(*), count(distinct sequence), min(date)::text, max(hour) from rows"
        ).fetchall()
    assert rows is not None
    assert found == [(COMMITS * ROWS, COMMITS * ROWS, "2026-11-21", 9)]


def test_readers_beside_a_writer_see_whole_commits(tmp_path: Path) -> None:
    """A reader that opened a version reads it to its end, whatever is committed and cleaned meanwhile."""
    files = LocalFiles(tmp_path / "lake")
    log = TableLog(files, TABLES["index"], lambda: int(time.time() * 1000))
    found = log.snapshot()
    readers: list[tuple[DeltaTable, int]] = []
    for number in range(COMMITS):
        item = write_rows(files, "index", f"f{number}", number * ROWS, number * ROWS + ROWS)
        found = log.commit(found, Change(added=(item,)))
        readers.append((DeltaTable(files.path_of("index")), number * ROWS + ROWS))
        if number % 10 == 9:
            whole = write_rows(files, "index", f"whole{number}", 0, number * ROWS + ROWS)
            found = log.commit(found, Change(added=(whole,), removed=tuple(found.files), is_same_data=True))
            log.clean()
            found = log.snapshot()
    for reader, rows in readers:
        assert sorted(reader.to_pyarrow_table(columns=["sequence"]).column("sequence").to_pylist()) == list(range(rows))

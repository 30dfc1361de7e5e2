"""The programs of "Read the lake" read what the jobs wrote."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_analytics.lake import Lake
from spark_analytics.lake.tables import TABLES
from spark_analytics.local_rows import local_table
from tests.served.spark.index_rows import index_rows
from tests.support.servers.processes import PROJECT

PAGE = PROJECT / "docs/how-to/read-the-lake.md"
BLOCKS = re.findall(r"## ([^\n]+)\n(?:(?!\n## ).)*?```py\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_programs_of_other_tools_read_the_lake(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    lake.append("index", index_rows(spark, 0, 150))
    lake.append("index", index_rows(spark, 150, 160))
    schema = TABLES["gold_lag"].schema
    last, most = (schema.names.index(name) for name in ("lag_messages_last", "lag_messages_max"))
    for step_ms, hour in ((3_600_000, 9), (3_600_000, 10), (86_400_000, 0)):
        row: list[Any] = [datetime(2026, 11, 21, hour, tzinfo=UTC), step_ms, "orders", "billing"]
        row += [None] * (len(schema) - len(row))
        row[last] = row[most] = hour
        lake.append("gold_lag", local_table([row], schema))
    assert [name for name, _ in BLOCKS] == [
        "pandas",
        "Polars",
        "DuckDB",
        "Hours and days that jobs published",
        "An earlier version",
    ]
    for name, program in BLOCKS:
        exec(compile(program, name, "exec"), {"LAKE": str(tmp_path / "lake")})
        said = capsys.readouterr().out
        if name == "An earlier version":
            versions = said.split()
            assert versions[0] == "2"
            assert int(versions[2]) < int(versions[1])
        elif name.startswith("Hours"):
            assert re.search(r"2026-11-21 10:00\S*\W+orders\W+billing\W+10\W+10", said), said
            assert len(re.findall("billing", said)) == 2, said
        else:
            assert re.search(r"2026-11-21\W+orders\W+160(\.0)?\W+16000", said), said

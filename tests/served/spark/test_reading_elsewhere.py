"""The programs of "Read the lake" read what the jobs wrote."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analytics.lake import Lake
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
    assert [name for name, _ in BLOCKS] == ["pandas", "Polars", "DuckDB", "An earlier version"]
    for name, program in BLOCKS:
        exec(compile(program, name, "exec"), {"LAKE": str(tmp_path / "lake")})
        said = capsys.readouterr().out
        if name == "An earlier version":
            versions = said.split()
            assert versions[0] == "2"
            assert int(versions[2]) < int(versions[1])
        else:
            assert re.search(r"2026-11-21\W+orders\W+160(\.0)?\W+16000", said), said

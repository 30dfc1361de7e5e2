"""The session that everything runs in."""

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from qmq.private_files import restrict_umask
from spark_analytics.lake.tables import SAMPLED_RANGES
from spark_analytics.local_rows import local_frame
from spark_analytics.schemas import SCHEMAS
from spark_analytics.session import spark_session


def ddl(schema: StructType) -> str:
    """A schema as Spark's DDL text."""
    return ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}" for field in schema
    )


def test_times_are_utc_whatever_zone_the_machine_has(spark: SparkSession) -> None:
    found = spark.sql("select timestamp_millis(0) as at, date_format(timestamp_millis(0), 'HH') as hour").collect()[0]
    assert (found["at"].astimezone(UTC), found["hour"]) == (datetime(1970, 1, 1, tzinfo=UTC), "00")


def test_python_workers_run_what_the_driver_runs(spark: SparkSession) -> None:
    found = spark.range(4, numPartitions=2).toArrow()
    assert sorted(found["id"].to_pylist()) == [0, 1, 2, 3]
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyarrow").__name__).collect() == ["pyarrow"]


def test_rows_of_the_driver_keep_their_moments_and_types_whatever_zone_they_are_in(spark: SparkSession) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone(timedelta(hours=5)))
    rows = [(at, "broker-1", "orders", 2, 1 << 40), (at, "broker-2", "stock", 0, 0)]
    frame = local_frame(spark, rows, SAMPLED_RANGES)
    assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in SAMPLED_RANGES]
    assert [tuple(row.values()) for row in frame.toArrow().to_pylist()] == rows
    empty = local_frame(spark, [], SAMPLED_RANGES)
    assert (empty.columns, empty.count()) == (SAMPLED_RANGES.names, 0)


def test_every_schema_is_the_same_as_ddl_and_in_arrow(spark: SparkSession) -> None:
    for name, schema in SCHEMAS.items():
        made = spark.createDataFrame([], ddl(schema)).schema
        assert [(f.name, f.dataType) for f in made] == [(f.name, f.dataType) for f in schema], name
        assert to_arrow_schema(schema, timezone="UTC").names == schema.names


def test_what_spark_writes_is_for_its_user_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Both the JVM, which the fixture starts with the umask of the product's jobs, and the Python that drives it."""
    folder = tmp_path / "lake"
    table = str(folder / "table")
    before = os.umask(0o022)
    restrict_umask()
    try:
        spark.range(10).selectExpr("id", "id % 2 AS hour").write.partitionBy("hour").parquet(table)
        stream = spark.readStream.schema("id LONG, hour LONG").parquet(table).groupBy("hour").count().writeStream
        stream = stream.outputMode("complete").option("checkpointLocation", str(folder / "_checkpoints/counts"))

        def write(rows: DataFrame, _: int) -> None:
            rows.write.mode("append").parquet(str(folder / "counts"))

        stream.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
    finally:
        os.umask(before)
    scratch = Path(spark.sparkContext.getConf().get("spark.local.dir", ""))
    found = [folder, scratch, *folder.rglob("*"), *scratch.rglob("*")]
    names = {path.name for path in found}
    assert {"metadata", "_SUCCESS", "state", "offsets", "commits"} <= names
    assert any(name.endswith(".parquet") for name in names)
    assert any(name.startswith("shuffle_") for name in names)
    assert {str(path) for path in found if not path.is_symlink() and path.stat().st_mode & 0o077} == set()


def test_a_running_session_keeps_its_settings(spark: SparkSession) -> None:
    before = dict(spark.sparkContext.getConf().getAll())
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        again = spark_session(app="another", shuffle_partitions=9, settings={"spark.sql.ansi.enabled": "false"})
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.shuffle.partitions") == "3"
        assert dict(spark.sparkContext.getConf().getAll()) == before
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before["spark.sql.shuffle.partitions"])


def test_shuffle_partitions_are_ours_with_a_local_master_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a session is built with, without building it."""
    wanted: dict[str, str] = {}

    class Built(SparkSession.Builder):
        def getOrCreate(self) -> SparkSession:
            wanted.update(self._options)
            raise NotImplementedError

    monkeypatch.setattr(SparkSession, "Builder", Built)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    for master, partitions in (("spark://host:7077", None), ("yarn", None), ("local[2]", "8")):
        wanted.clear()
        with pytest.raises(NotImplementedError):
            spark_session(master=master)
        assert wanted["spark.master"] == master
        assert wanted.get("spark.sql.shuffle.partitions") == partitions

"""Sessions for tests: what a session costs is seconds of starting and compiling, not rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_analytics.session import SHUFFLE_PARTITIONS, spark_session

QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Only the quick compiler. By itself it has 48 MB for its code; Spark fills them, and then the JVM throws code away and compiles it
again."""
FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Java is not generated, compiled and warmed up for each query: with few rows that takes longer than the query."""

NO_CALL_SITES = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""PySpark walks the Python stack and calls the JVM several times for each function on a column, for the texts of errors: a quarter
of the time of the tests' Python."""

PARTITIONS = "spark.sql.shuffle.partitions"


def quick_session(scratch: Path | None = None) -> SparkSession:
    """A local session with two workers, two shuffle partitions and the data source `qmq`, quick with few rows."""
    session = spark_session(
        app="tests",
        shuffle_partitions=2,
        scratch=scratch,
        settings={"spark.driver.extraJavaOptions": QUICK_JVM, **NO_CALL_SITES},
    )
    for name, value in FEW_ROWS.items():
        session.conf.set(name, value)
    return session


def quick_environment(folder: Path) -> dict[str, str]:
    """What makes the product's own command quick with few rows: variables, and a file of settings that is written to a folder."""
    lines = [f"{name} {value}\n" for name, value in (FEW_ROWS | NO_CALL_SITES).items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(folder), "JAVA_TOOL_OPTIONS": QUICK_JVM}


def attach_environment(session: SparkSession) -> dict[str, str]:
    """Return the variables with which `attach` in another process connects to this session's JVM, as `spark-submit` sets them."""
    gateway: Any = session.sparkContext._gateway
    parameters = gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": str(parameters.auth_token)}


def attach() -> SparkSession:
    """Return a session of this process in the JVM of another one.

    A test that kills a Python process needs no second JVM, whose start and cold code take most of the test's time.
    """
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    running = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    first = jvm.SparkSession.getDefaultSession().get()
    session = SparkSession(SparkContext(conf=SparkConf(_jconf=running.getConf()), jsc=running), first.newSession())
    jvm.SparkSession.setDefaultSession(first)
    for name, value in FEW_ROWS.items():
        session.conf.set(name, value)
    return session


@contextmanager
def as_in_production(quick: SparkSession) -> Iterator[None]:
    """Meanwhile the session runs queries as the product's does."""
    ours = {name: quick.conf.get(name) for name in (*FEW_ROWS, PARTITIONS)}
    for name in FEW_ROWS:
        quick.conf.unset(name)
    quick.conf.set(PARTITIONS, str(SHUFFLE_PARTITIONS))
    try:
        yield
    finally:
        for name, value in ours.items():
            quick.conf.set(name, str(value))

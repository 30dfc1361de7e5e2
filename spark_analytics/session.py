"""The one place that builds a SparkSession."""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from qmq.private_files import UMASK
from spark_analytics.class_archive import ClassArchive
from spark_analytics.java import java_home
from spark_analytics.source.datasource import QmqDataSource

MASTER = "local[2]"
MEMORY = "1g"
"""The driver's heap; with a local master all work is done in it."""
SHUFFLE_PARTITIONS = 8
"""With a local master; a cluster's default, or what the operator has set, stays."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""In the environment of what spark-submit starts."""
ALWAYS_OURS = {"spark.sql.session.timeZone": "UTC"}
"""What results depend on."""
NAME = "spark.app.name"
LOCAL_PREFIX = "local"
ARROW_ROWS = 65_536
"""Rows of a batch between the JVM and Python."""


def spark_session(
    *,
    app: str = "pyqmq",
    master: str = MASTER,
    memory: str = MEMORY,
    shuffle_partitions: int = SHUFFLE_PARTITIONS,
    settings: Mapping[str, str] | None = None,
    scratch: Path | None = None,
    class_archive: ClassArchive | None = None,
) -> SparkSession:
    """A session in UTC with the data source `qmq` and Arrow on; the running one, with its own settings, when there is one.

    What spark-submit was given wins over our settings and `settings`, except ALWAYS_OURS.

    `memory` is the driver's heap as Spark writes it ("1g"); `scratch` a folder for shuffles and the warehouse, by default the
    system's temporary one; `settings` are Spark's own, and win over our defaults; `class_archive` makes the JVM start sooner.

    Raises:
        JavaMissing: there is no Java that Spark can use.
    """
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    is_local = master.startswith(LOCAL_PREFIX)
    if is_local:
        # Workers take the first `python3` of the PATH otherwise, which need not have pyarrow.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ours = {
        "spark.driver.memory": memory,
        # A stream continues from the last offset, or the one before it; each may be some MB.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Until a Python worker has to have called back; the default, 15 s, is short for a busy machine.
        "spark.python.authenticate.socketTimeout": "120s",
        # Serial collection: the heap is small, and the Python workers need the cores.
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {class_archive.java_options() if class_archive else ''}".strip(),
    }
    if is_local:
        ours |= {
            "spark.sql.shuffle.partitions": str(shuffle_partitions),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Hadoop sets modes itself, whatever the umask of the process is. On a cluster, executors may be other users.
            "spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}",
        }
    if scratch is not None:
        ours |= {
            "spark.local.dir": str(scratch / "spark"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        }
    if SparkContext._active_spark_context is not None:
        wanted = ALWAYS_OURS
    else:
        given = given_settings()
        if given.get(NAME) == os.path.basename(sys.argv[0]):
            # Without --name, spark-submit uses the script's.
            del given[NAME]
        wanted = {NAME: app} | ours | dict(settings or {}) | given | ALWAYS_OURS | {"spark.master": master}
    builder = SparkSession.Builder()
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # py4j logs each of its connections, and their ends when the streams are closed already.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    register(session)
    return session


def is_submitted() -> bool:
    """Whether spark-submit has started this process, and the JVM."""
    return SUBMITTED in os.environ


def given_settings() -> dict[str, str]:
    """Spark's settings that spark-submit was given: its options, and its file of defaults; none without it."""
    if not is_submitted():
        return {}
    # A configuration has the options of spark-submit only when connected to the JVM that it has started.
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def register(session: SparkSession) -> None:
    """Make `format("qmq")` known to a session that was built elsewhere."""
    session.dataSource.register(QmqDataSource)

"""`python -m spark_analytics.jobs [JOB]`, which `manage.py analytics` runs. The console never imports Spark: it starts this."""

import argparse
import json
import logging
import os
import signal
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from qmq.errors import QmqError
from qmq.private_files import restrict_umask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analytics.class_archive import ClassArchive

EXIT_FAILED = 1
"""A job failed; the others were run."""
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 3
"""Something is missing: PySpark, Java, the database, the lake."""
EXIT_BUSY = 4
"""Another run writes to the lake."""
EXIT_INTERRUPTED = 130
MASTER = "local[2]"
LOCAL_PREFIX = "local"
MEMORY = "1g"
DELTALAKE_LEAST = (1, 6)
CACHE = "cache"
"""The folder in the data folder for what can be made again."""


def main(arguments: list[str] | None = None) -> int:
    """Run; the exit code."""
    restrict_umask()
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.data_dir:
        os.environ["QMQ_DATA_DIR"] = os.path.abspath(options.data_dir)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    if options.package:
        from spark_analytics.jobs.package import write_package

        print(write_package(Path(options.package)))
        return 0
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return _complain("PySpark is not installed: pip install 'pyqmq[analytics]'", EXIT_UNAVAILABLE)
    if why := _without_log():
        return _complain(why, EXIT_UNAVAILABLE)
    import django

    django.setup()
    from spark_analytics.jobs.catalog import JOBS, ORDER, UPKEEP

    if options.list:
        for name in ORDER:
            job = JOBS.get(name)
            steps = (
                f" ({', '.join(job.tables)}; {', '.join(step.replace('_', ' ') for step in job.steps)})" if job else ""
            )
            print(f"{name:<10} {job.text if job else UPKEEP[name]}{steps}")
        return 0
    if options.job != "all" and options.job not in ORDER:
        parser.error(f"unknown job {options.job!r}; must be all, {', '.join(ORDER)}")
    if options.from_ms is not None and options.to_ms is not None and options.from_ms >= options.to_ms:
        parser.error("--to must be later than --from")
    return _run(options, list(ORDER) if options.job == "all" else [options.job])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manage.py analytics",
        description="Reads messages and histories from the nodes into the lake, computes due summaries, and publishes them for the"
        " Analytics page.",
    )
    parser.add_argument("job", nargs="?", default="all", metavar="JOB", help="a job of --list; default: all")
    parser.add_argument("--list", action="store_true", help="list the jobs")
    parser.add_argument(
        "--from", dest="from_ms", type=_moment, metavar="TIME", help="recompute from this time (ISO, UTC)"
    )
    parser.add_argument(
        "--to", dest="to_ms", type=_moment, metavar="TIME", help="up to this time; default: the watermark"
    )
    parser.add_argument(
        "--master", default="", metavar="URL", help="Spark master; default: local[2], or that of spark-submit"
    )
    parser.add_argument(
        "--lake", default="", metavar="URI", help="folder or Hadoop URI of the lake; default: QMQ_ANALYTICS_LAKE"
    )
    parser.add_argument("--memory", default=MEMORY, metavar="SIZE", help="heap of the driver; default: 1g")
    parser.add_argument(
        "--metaserver",
        default="",
        metavar="URL",
        help="address of the metaserver, several separated by commas; default: QMQ_META",
    )
    parser.add_argument("--data-dir", default="", metavar="DIR", help="data folder; default: QMQ_DATA_DIR")
    parser.add_argument("--package", default="", metavar="DIR", help="write the zip file for spark-submit --py-files")
    parser.add_argument("--scheduled", action="store_true", help=argparse.SUPPRESS)
    return parser


def _run(options: argparse.Namespace, names: list[str]) -> int:
    from django.conf import settings
    from django.db import Error as DatabaseError

    from console.analytics import queries
    from console.management.places import no_database
    from spark_analytics.jobs.runner import Request, Runner
    from spark_analytics.jobs.scratch import scratch_folder
    from spark_analytics.lake import Lake, LakeBusy, LakeError
    from spark_analytics.source.options import rows_per_batch

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _interrupt)
    source = {"metaserver": options.metaserver or settings.META_URL}
    if settings.ANALYTICS_TOKEN:
        source["token"] = settings.ANALYTICS_TOKEN
    is_kept = False
    try:
        # Where summaries can't be written, nothing is started for them.
        queries.states()
        with scratch_folder() as scratch:
            master = options.master or _given_master()
            # What all jobs need is worth keeping.
            archive = _class_archive(master, settings.DATA_DIR / CACHE, may_write=options.job == "all")
            spark = _session(master, options.memory, scratch, archive)
            try:
                source["rows_per_batch"] = str(
                    rows_per_batch(settings.ANALYTICS_BATCH_ROWS_MAX, spark.sparkContext.defaultParallelism)
                )
                plan = Request(source, options.from_ms, options.to_ms, options.scheduled, settings.ANALYTICS_LAKE_DAYS)
                late = settings.ANALYTICS_WATERMARK_SECONDS
                lake = Lake(spark, options.lake or settings.ANALYTICS_LAKE, watermark_seconds=late)
                days = settings.ANALYTICS_LAKE_DAYS
                plan = Request(source, options.from_ms, options.to_ms, options.scheduled, days, scratch)
                report = Runner(lake, plan, say=partial(print, flush=True)).run(names)
                is_kept = not report.failed
            finally:
                spark.stop()
                if archive is not None and archive.is_written:
                    archive.keep() if is_kept else archive.give_up()
    except LakeBusy as error:
        return _complain(str(error), EXIT_BUSY)
    except (LakeError, QmqError) as error:
        return _complain(str(error), EXIT_UNAVAILABLE)
    except DatabaseError as error:
        return _complain(no_database(error), EXIT_UNAVAILABLE)
    except KeyboardInterrupt:
        return _complain("interrupted: published results are kept, the rest is due again", EXIT_INTERRUPTED)
    for name, why in report.failed.items():
        print(f"{name} failed: {why}", file=sys.stderr)
    # The console stores the last line of a scheduled run, and shows its parts in the language of the viewer.
    found = report.result()
    print(json.dumps(asdict(found)) if options.scheduled else found.text)
    return EXIT_FAILED if report.failed else 0


def _without_log() -> str:
    """Why the library of the lake's log can't be used; "": it can."""
    try:
        found = version("deltalake")
    except PackageNotFoundError:
        return "deltalake is not installed: pip install 'pyqmq[analytics]'"
    if tuple(int(part) for part in found.split(".")[:2] if part.isdigit()) < DELTALAKE_LEAST:
        least = ".".join(map(str, DELTALAKE_LEAST))
        return f"deltalake {found} is too old, {least} is the least: pip install --upgrade 'pyqmq[analytics]'"
    return ""


def _class_archive(master: str, folder: Path, *, may_write: bool) -> "ClassArchive | None":
    """None where we don't start the JVM, or it does no work."""
    from spark_analytics.session import is_submitted

    if not master.startswith(LOCAL_PREFIX) or is_submitted():
        return None
    from spark_analytics.class_archive import ClassArchive
    from spark_analytics.java import java_home

    return ClassArchive(folder, java_home(), may_write=may_write)


def _session(master: str, memory: str, scratch: Path, archive: "ClassArchive | None") -> "SparkSession":
    from spark_analytics.jobs.package import write_package
    from spark_analytics.session import is_submitted, register, spark_session

    # Spark draws a bar of its tasks on standard error.
    bar = {"spark.ui.showConsoleProgress": "true"} if sys.stderr.isatty() else {}
    spark = spark_session(
        app="pyqmq analytics", master=master, memory=memory, settings=bar, scratch=scratch, class_archive=archive
    )
    if not master.startswith(LOCAL_PREFIX) and not is_submitted():
        # Executors elsewhere have none of our code; spark-submit is given it.
        spark.sparkContext.addPyFile(str(write_package(scratch)))
        # A data source takes along what was there to be sent when it was registered.
        register(spark)
    return spark


def _given_master() -> str:
    """The master given to spark-submit, under which the JVM already runs; otherwise this machine."""
    from spark_analytics.session import given_settings

    return given_settings().get("spark.master", MASTER)


def _moment(text: str) -> int:
    """An ISO time as ms since the epoch; UTC when it names no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an ISO time such as 2026-11-21 or 2026-11-21T14:00"
        ) from error
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _interrupt(*_: object) -> None:
    logging.disable()  # what is cut off complains, and there is nothing to do about it
    raise KeyboardInterrupt


def _complain(text: str, code: int) -> int:
    print(f"analytics: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

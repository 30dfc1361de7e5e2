"""Runs of the analytics jobs beside live nodes."""

from collections.abc import Iterable
from typing import Any

from console.analytics.tables import TABLES
from spark_analytics.jobs.runner import Report, Request, Runner
from spark_analytics.lake import Lake
from spark_analytics.lake.delta import Change, now_ms
from spark_analytics.lake.tables import STREAMED
from tests.support.servers.system import System

LATER_MS = 2 * 3_600_000
"""So far ahead the jobs' clock is, and so far watermarks are moved: the hour is over for them, and complete."""


def sums(table: str, column: str, **wanted: Any) -> Any:
    rows = TABLES[table].model._default_manager.filter(step_seconds=3600, **wanted)
    return sum(getattr(row, column) for row in rows)


def run(lake: Lake, nodes: System, jobs: tuple[str, ...]) -> Report:
    def part(names: Iterable[str]) -> Report:
        asked = Request({"metaserver": nodes.meta_url})
        report = Runner(lake, asked, say=print, now_ms=lambda: now_ms() + LATER_MS).run(names)
        assert not report.failed, report.failed
        return report

    read = part(["ingest"])
    for table in STREAMED:
        base = lake.snapshot(table)
        later = {group: at_ms + LATER_MS * (group not in base.missing) for group, at_ms in base.watermarks.items()}
        lake.commit(table, base, Change(watermarks=later))
    report = part([name for name in jobs if name != "ingest"])
    report.rows_read += read.rows_read
    report.missing = read.missing
    return report

"""Runs jobs: what is due, computed window by window and published, each day of a job a run of its own.

A run that is killed leaves what it had published, each table and step whole or as it was before; it is due again then, and the next
run publishes the same. What of the lake is complete (the watermark) is asked once at the beginning, so that all jobs of one
call go equally far.
"""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from console.analytics import queries, services
from console.analytics.models import DEMO_DATA, DEMO_JOB
from console.analytics.steps import Step
from console.jobs.results import Part, Result, counting, result
from qmq.protocol.values import moment
from qmq.words import counted
from spark_analytics.jobs.catalog import HISTORY, JOBS, ORDER, Job
from spark_analytics.jobs.inputs import Inputs
from spark_analytics.jobs.planning import HOUR_MS, Chunk, Idle, again, due
from spark_analytics.jobs.publishing import publish
from spark_analytics.jobs.reasons import reason
from spark_analytics.jobs.sampling import Brokers, look, sampled_ranges
from spark_analytics.jobs.states import States
from spark_analytics.lake import Lake
from spark_analytics.lake.delta import Change
from spark_analytics.lake.ingestion import ingest
from spark_analytics.lake.node_logs import add_logs
from spark_analytics.lake.tables import STREAMED, TABLES
from spark_analytics.local_rows import local_table
from spark_analytics.schemas import NODES
from spark_analytics.source.gaps import recorded
from spark_analytics.source.listing import write_listings
from spark_analytics.source.node_reader import find_nodes
from spark_analytics.source.offsets import Offset, complete_without_news
from spark_analytics.source.options import parse_options
from spark_analytics.source.planning import NodeUnreadable, observe
from spark_analytics.source.reading import Task, nodes_batch
from spark_analytics.source.selection import Selection
from spark_analytics.transforms.windows import Window

logger = logging.getLogger("qmq.analytics")


HOLES_FOLDER = "_holes"
"""Where the lake keeps what nodes had forgotten before it was read; table `holes` of the data source."""
HOLES_LOGGED_MAX = 20
"""Gaps that are logged one by one."""
IDLE_GROUP_DAYS_MAX = 20_000
"""Days without rows of a window, times consumer groups: each is 1,440 minutes of lag."""
SKIPPED = (
    "skipped because they contain demo data: {tables} (select 'Replace demo data' on the Analytics page or run"
    " `manage.py analytics`)"
)


class NothingKnown(Exception):
    """The lake does not have what a job needs yet."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a call."""

    source: Mapping[str, str]
    """Options of the data source, without `table`."""
    from_ms: int | None = None
    to_ms: int | None = None
    is_scheduled: bool = False
    """Not started by a user: demo data is replaced only in tables where an operator has requested it."""
    keep_days: Mapping[str, int] = field(default_factory=dict)
    """Lake table -> days, where it is not the table's own figure."""
    scratch: Path | None = None
    """Where temporary files go; None: where the system's are."""


@dataclass(slots=True)
class Report:
    """Result of a call."""

    jobs: int = 0
    rows_read: int = 0
    rows_written: int = 0
    watermark_ms: int | None = None
    holes: int = 0
    """Stretches that nodes had deleted before they were read."""
    late_rows: int = 0
    """Rows that came after their steps may have been published."""
    missing: dict[str, str] = field(default_factory=dict)
    """Broker group that could not be read -> why."""
    failed: dict[str, str] = field(default_factory=dict)
    """Job -> why."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Job -> why it had nothing to do."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Summary table -> why it was not filled although its job could."""

    def result(self) -> Result:
        """Return the report as the result of the background job."""
        until = self.watermark_ms
        missing, skipped = ", ".join(sorted(self.missing)), ", ".join(sorted(self.skipped))
        return result(
            counting("analytics.jobs", self.jobs, counted(self.jobs, "job")),
            counting("analytics.rows_read", self.rows_read, f"{self.rows_read:,} rows read"),
            counting("analytics.rows_written", self.rows_written, f"{self.rows_written:,} rows written"),
            Part("analytics.until", f"up to {_shown(until)}", {"at_ms": until}) if until is not None else None,
            counting("analytics.gaps", self.holes, counted(self.holes, "gap")) if self.holes else None,
            counting("analytics.late", self.late_rows, f"{self.late_rows:,} late rows") if self.late_rows else None,
            Part("analytics.missing", f"without {missing}", {"groups": missing}) if missing else None,
            counting("analytics.failed", len(self.failed), f"{len(self.failed)} failed") if self.failed else None,
            Part("analytics.skipped", SKIPPED.format(tables=skipped), {"tables": skipped}) if skipped else None,
        )


class Runner:
    """Runs jobs on one lake."""

    def __init__(
        self,
        lake: Lake,
        request: Request,
        *,
        say: Callable[[str], None] = lambda text: None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`say` receives each step."""
        self._lake, self._request, self._say, self._now_ms = lake, request, say, now_ms
        self._states = States(lake)
        self._inputs: dict[Window, Inputs] = {}
        self._again: dict[str, list[tuple[int, int]]] = {}
        """Job -> spans [from, to) that late rows changed, to be computed by this run; until then the lake remembers the late
        hours."""
        self.report = Report()

    def run(self, names: Iterable[str]) -> Report:
        """Run these jobs in order. A failed job is in the report, and the others run.

        Raises:
            LakeBusy: another run writes to the lake.
        """
        wanted = set(names)
        chosen = [name for name in ORDER if name in wanted]
        if self._request.is_scheduled:
            tables = {table for name in chosen if name in JOBS for table in JOBS[name].tables}
            kept = [state.table for state in queries.demo_states() if not state.is_replaceable]
            self.report.skipped = {table: DEMO_DATA for table in kept if table in tables}
        for mended in self._lake.lock():
            self._say(f"lake: {mended}")
        try:
            for name, work in (("ingest", self._ingest), ("state", self._advance)):
                if name in chosen:
                    self._guarded(name, work)
            self._run_summaries([JOBS[name] for name in chosen if name in JOBS])
            self._settle_late(wanted - self.report.failed.keys())
            for name, work in (("compact", self._compact), ("retain", self._retain)):
                if name in chosen:
                    self._guarded(name, work)
        finally:
            self._close_inputs()
            self._lake.unlock()
        return self.report

    # --- upkeep of the lake ---

    def _guarded(self, name: str, work: Callable[[], str]) -> None:
        began = time.monotonic()
        try:
            text = work()
        except NothingKnown as why:
            self._left_out(name, why)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and other jobs run
            self._failed(name, error)
            return
        self.report.jobs += 1
        self._say(f"{name}: {text} ({time.monotonic() - began:.1f} s)")

    def _ingest(self) -> str:
        run = services.start_run("ingest", inputs={"lake": self._lake.root}, skipped=self.report.skipped)
        try:
            text = self._read_nodes()
        except BaseException as error:
            services.fail_run(run, f"{type(error).__name__}: {reason(error)}")
            raise
        known = self._lake.watermark_ms()
        services.finish_run(
            run,
            watermark_at=moment(known) if known is not None else None,
            rows_read=self.report.rows_read,
            missing=sorted(self.report.missing),
            late_rows=self.report.late_rows,
            holes=self.report.holes,
        )
        return text

    def _read_nodes(self) -> str:
        now_ms = self._now_ms()
        before = [self._lake.snapshot(name) for name in STREAMED]
        known = frozenset(self._lake.snapshot("stored_seconds").files)
        token, metaserver = self._request.source.get("token", ""), self._request.source["metaserver"]
        columns = to_arrow_schema(NODES, timezone="UTC")
        sampled = nodes_batch(Task("nodes", columns, Selection(), token, "error", ""), metaserver)
        self._lake.append("nodes", pa.Table.from_batches([sampled]))
        brokers = look(find_nodes(metaserver, token=token).nodes, token)
        groups = brokers.names
        if groups and not groups - brokers.missing.keys():
            raise NodeUnreadable("; ".join(f"broker group {group}: {why}" for group, why in brokers.missing.items()))
        logs = add_logs(self._lake.files, brokers.logs)
        self._sample_ranges(brokers, logs, now_ms)
        holes = f"{self._lake.root}/{HOLES_FOLDER}"
        with tempfile.TemporaryDirectory(dir=self._request.scratch, prefix="qmq-listings-") as folder:
            listings = Path(folder, "listings")
            write_listings(listings, brokers.listings)
            source = {
                **self._request.source,
                "on_gap": "record",
                "holes": holes,
                "logs": json.dumps(logs, sort_keys=True),
                "listings": str(listings),
            }

            def without_news(table: str, place: Offset) -> dict[str, int] | None:
                seen, _ = observe(parse_options({**source, "table": table}), brokers.listings)
                return complete_without_news(place, seen)

            found = ingest(
                self._lake,
                source,
                groups,
                missing=brokers.missing,
                without_news=without_news,
                say=lambda text: self._say(f"ingest: {text}"),
            )
        for group, why in sorted(found.missing.items()):
            self._say(f"ingest: broker group {group} is missing: {why}")
        rows, lost = sum(found.rows.values()), self._holes(holes, now_ms)
        self.report.rows_read += rows
        self.report.holes, self.report.missing = lost, found.missing
        is_back = any(set(table.missing) - found.missing.keys() for table in before)
        is_left = any(table.late for table in before)
        self.report.late_rows = self._make_late_due(None if is_back or is_left else known)
        read = f"{rows:,} rows of {len(groups) - len(found.missing)} broker groups"
        lacking = f"; without {', '.join(sorted(found.missing))}" if found.missing else ""
        return read + (f"; {lost} holes" if lost else "") + lacking

    def _sample_ranges(self, brokers: Brokers, logs: Mapping[str, Sequence[str]], now_ms: int) -> None:
        """Of each hour first all that subjects keep, as many rows as there are subjects, then what was removed since."""
        columns = ("broker_group", "subject", "begin", "sampled_at")
        known = self._lake.arrow("ranges", now_ms, now_ms + 1, columns).sort_by("sampled_at")
        groups, subjects, begins = (known.column(name).to_pylist() for name in columns[:3])
        before = {(group, subject): begin for group, subject, begin in zip(groups, subjects, begins, strict=True)}
        rows = list(sampled_ranges(brokers, logs, moment(now_ms), before))
        if rows:
            self._lake.append("ranges", local_table(rows, TABLES["ranges"].schema))

    def _make_late_due(self, known: frozenset[str] | None = None) -> int:
        """Find what late rows change; how many there are.

        That is what is behind the first hour that has late rows for jobs that have memory; for others these hours, and those behind
        them whose states change. This run computes them again, and `_settle_late` forgets the late hours. If it is killed before,
        they are still remembered at the next run's beginning. Then what is behind the first one is due again for all jobs.

        Args:
            known: files of `stored_seconds` that were there before the late rows came; None: everything is due again from the first
                late hour on, because a run was killed that had begun to make states again, or a broker group is back and no
                longer missing in what was published.
        """
        late = {name: found.late for name in STREAMED if (found := self._lake.snapshot(name)).late}
        if not late:
            return 0
        of_states = sorted({hour for name in HISTORY for hour in late.get(name, ())})
        spans: list[tuple[int, int | None]] = []
        if of_states and known is not None:
            spans = self._states.redo(of_states, known)
        elif of_states:
            self._states.forget_after(of_states[0])
            spans = [(of_states[0], None)]
        for job in JOBS.values():
            hours = sorted({hour for name in job.inputs for hour in late.get(name, ())})
            if not hours or job.is_ahead:
                continue
            changed = spans if HISTORY[0] in job.inputs else [(hour, hour + HOUR_MS) for hour in hours]
            is_whole = job.has_memory or known is None
            if since := hours[:1] if is_whole else [begin for begin, end in changed if end is None]:
                services.make_due(job.tables, moment(since[0]))
            if not is_whole:
                self._again[job.name] = [(begin, end) for begin, end in changed if end is not None]
        for begin, end in spans:
            until = f"to {_shown(end)}" if end is not None else "on"
            self._say(f"ingest: recomputed from {_shown(begin)} {until}, because rows arrived late")
        if not any(self._again.values()):
            self._forget_late()
        return sum(rows for hours in late.values() for rows in hours.values())

    def _settle_late(self, done: Set[str]) -> None:
        """What jobs did not compute again is due for them from there on; the late hours need not be remembered any more."""
        for name, spans in self._again.items():
            if spans and name not in done:
                services.make_due(JOBS[name].tables, moment(min(spans)[0]))
        if any(self._again.values()):
            self._forget_late()

    def _forget_late(self) -> None:
        for name in STREAMED:
            if (found := self._lake.snapshot(name)).late:
                self._lake.commit(name, found, Change(is_late_done=True))

    def _holes(self, folder: str, since_ms: int) -> int:
        """Log the gaps that this ingestion found and return their number; they stay in the table `holes`."""
        found = [hole for hole, found_at_ms in recorded(folder) if found_at_ms >= since_ms]
        for hole in found[:HOLES_LOGGED_MAX]:
            place = "/".join(filter(None, (hole.broker_group, hole.subject, hole.group)))
            self._say(f"ingest: {hole.table} of {place}: {hole.begin} to {hole.end} are missing ({hole.reason})")
        return len(found)

    def _advance(self) -> str:
        if self._request.from_ms is not None:
            self._states.forget_after(self._request.from_ms - self._request.from_ms % HOUR_MS)
        watermark = self._watermark(("index", "progress"))
        made = self._states.advance(watermark, lambda text: self._say(f"state: {text}"))
        return f"{made} states"

    def _compact(self) -> str:
        done = 0
        for name in TABLES:
            for begin_ms in self._lake.compact(name):
                self._say(f"compact: {name}, {_shown(begin_ms)}")
                done += 1
        return f"{done} hours and days"

    def _retain(self) -> str:
        days = {name: self._request.keep_days.get(name, table.keep_days) for name, table in TABLES.items()}
        return f"{sum(self._lake.retain(name, kept) for name, kept in days.items())} files went"

    # --- summaries ---

    def _run_summaries(self, jobs: list[Job]) -> None:
        work: list[tuple[Job, Chunk]] = []
        for job in jobs:
            chunks = self._due_again(job)
            try:
                chunks += self._due(job)
            except NothingKnown as why:
                if not chunks:
                    self._left_out(job.name, why)
            work += [(job, chunk) for chunk in chunks]
        order = {job.name: number for number, job in enumerate(jobs)}
        day = -1
        # Day by day, all jobs of a day: what several of them need is made once.
        work.sort(key=lambda item: (item[1].day_ms, order[item[0].name]))
        for part, (job, chunk) in enumerate(work, 1):
            if chunk.day_ms != day:
                self._close_inputs()
                day = chunk.day_ms
            if job.name in self.report.failed or job.name in self.report.left_out:
                continue
            if missing := [name for name in job.after if name in self.report.failed]:
                self._left_out(job.name, NothingKnown(f"not run: {', '.join(missing)} failed"))
                continue
            self._run_chunk(job, chunk, part, len(work))

    def _due(self, job: Job) -> list[Chunk]:
        """What a job has to do.

        Raises:
            NothingKnown: why it has nothing to do.
        """
        if skipped := [name for name in job.tables if name in self.report.skipped]:
            raise NothingKnown(f"skipped: {', '.join(skipped)} contains demo data, which scheduled runs don't replace")
        end = self._watermark(job.inputs) if not job.is_ahead else self._now_ms()
        self.report.watermark_ms = min(end, self.report.watermark_ms or end)
        begin = self._begin_ms(job, end)
        if self._request.to_ms is not None:
            end = min(end, self._request.to_ms)
        chunks = due(begin, end, job.steps, Idle() if job.is_ahead else self._idle(end))
        if not chunks:
            raise NothingKnown("nothing is due")
        return chunks[-1:] if job.is_ahead else chunks

    def _due_again(self, job: Job) -> list[Chunk]:
        """What late rows changed of what a job has published."""
        spans, done = self._again.get(job.name), self._done_ms(job)
        if not spans or done is None:
            return []
        idle = self._idle(done)
        return [chunk for span in again(spans, done) for chunk in due(span.from_ms, span.to_ms, job.steps, idle)]

    def _idle(self, end_ms: int) -> Idle:
        """The days up to a moment of which the lake has no rows."""
        now = moment(self._now_ms())
        days_max = max(1, IDLE_GROUP_DAYS_MAX // max(1, self._states.groups_count()))
        return Idle(self._states.idle_days(end_ms), days_max, {step: queries.kept_since_ms(step, now) for step in Step})

    def _begin_ms(self, job: Job, end_ms: int) -> int:
        """Return the start of the time that a job computes: the requested one, otherwise the end of its tables; never before the
        lake's data.
        """
        if job.is_ahead:
            # Once an hour, or when it is asked for: delay nodes may hold millions.
            done = None if self._request.from_ms is not None else self._done_ms(job)
            return max(end_ms - HOUR_MS, done or 0)
        first, done = self._states.begin_ms(), self._done_ms(job)
        if first is None:
            raise NothingKnown("the lake has no rows yet")
        begin = self._request.from_ms if self._request.from_ms is not None else done
        if begin is None:
            return first
        if begin < first and done is not None:
            # Retention took a part of the first day: what was published of it was made from all of it.
            first += -first % Step.DAY.ms
            self._say(f"{job.name}: from {_shown(first)} on, the lake no longer has all earlier data")
        return max(begin, first)

    def _done_ms(self, job: Job) -> int | None:
        """Up to when a job's tables are complete; None: one was never filled, or with simulated rows."""
        states = queries.states()
        done: list[int] = []
        for name in job.tables:
            state = states.get(name)
            if state is None or state.complete_until is None or state.run.job == DEMO_JOB:
                return None
            done.append(int(state.complete_until.timestamp() * 1000))
        return min(done)

    def _watermark(self, tables: Iterable[str]) -> int:
        found = self._lake.watermark_ms(tables)
        if found is None:
            raise NothingKnown("nothing has been read from the nodes yet; run `manage.py analytics ingest`")
        return found

    def _run_chunk(self, job: Job, chunk: Chunk, part: int, parts: int) -> None:
        """One run: a day's windows of a job, which are this part of all that is due."""
        began = time.monotonic()
        done = self._done_ms(job)
        window = chunk.window
        run = services.start_run(
            job.name,
            from_at=moment(window.from_ms),
            to_at=moment(window.to_ms),
            inputs={"lake": self._lake.root, "tables": list(job.inputs)},
            part=part,
            parts=parts,
        )
        files: dict[str, int] = {}
        written = 0
        try:
            for piece in chunk.pieces[-1:] if job.is_ahead else chunk.pieces:
                steps = tuple((step, window) for step in job.steps) if job.is_ahead else piece.publications
                given = self._inputs_of(Window(piece.window.from_ms, piece.window.to_ms), job)
                for table, rows in job.compute(given).items():
                    written += publish(self._lake, run, table, rows, steps, is_ahead=job.is_ahead)
                files |= given.read_files
            # What a run says is complete is so only when nothing is left out between it and the run before it.
            is_gapless = self._request.from_ms is None or (done is not None and self._request.from_ms <= done)
            watermark = moment(window.to_ms) if is_gapless else None
            missing = self._lake.missing(job.inputs, window.to_ms)
            services.finish_run(run, watermark_at=watermark, rows_read=sum(files.values()), missing=missing)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run says it, and other jobs run
            services.fail_run(run, f"{type(error).__name__}: {reason(error)}")
            self._failed(job.name, error)
            return
        except BaseException:
            services.fail_run(run, "interrupted")
            raise
        self.report.jobs += 1
        self.report.rows_read += sum(files.values())
        self.report.rows_written += written
        span = f"{_shown(window.from_ms)} to {_shown(window.to_ms)}"
        self._say(f"{job.name}: {written:,} rows, {span}, run {run.pk} ({time.monotonic() - began:.1f} s)")

    def _inputs_of(self, window: Window, job: Job) -> Inputs:
        if window not in self._inputs:
            if not job.is_ahead:
                self._states.advance(window.from_ms)
            self._inputs[window] = Inputs(self._lake, self._states, window, self._request.source)
        return self._inputs[window]

    def _close_inputs(self) -> None:
        for given in self._inputs.values():
            given.close()
        self._inputs.clear()

    def _left_out(self, name: str, why: NothingKnown) -> None:
        self.report.left_out[name] = str(why)
        self._say(f"{name}: {why}")

    def _failed(self, name: str, error: Exception) -> None:
        logger.debug("%s failed", name, exc_info=error)
        self.report.failed[name] = f"{type(error).__name__}: {reason(error)}"
        self._say(f"{name}: FAILED: {reason(error)}")


def _shown(at_ms: int) -> str:
    """A moment for people."""
    return f"{moment(at_ms):%Y-%m-%d %H:%M}"

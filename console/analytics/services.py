"""The one way rows get into summary tables: a run starts, publishes, and finishes or fails.

What a publication replaces, it replaces whole: pages see all of the old rows or all of the new ones, also when the run is killed.
Of a window with more rows than one transaction takes they see none until the last transaction. Publishing the same again gives
the same table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from console.analytics.models import DEMO_JOB, AnalyticsRun, LeftOut, RunState, Summary, TableState
from console.analytics.rows import AT, PUBLISH_ROWS_MAX, WHOLE_MAX, Window, checked
from console.analytics.steps import Step, widened
from console.analytics.tables import TABLES, SummaryTable
from metaserver.errors import ChangeRefused, Conflict, NotFound
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, changing

ERROR_CHARS_MAX = 2_000
EVER = Window(0, WHOLE_MAX)
"""What a table that looks ahead is replaced in."""
PARAMETERS_MAX = 30_000
"""Values of one statement; SQLite takes 32,766."""


def start_run(
    job: str,
    *,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    inputs: Mapping[str, Any] | None = None,
    skipped: Mapping[str, str] | None = None,
    part: int | None = None,
    parts: int | None = None,
) -> AnalyticsRun:
    """Begin a run of a job over event time [from, to).

    `skipped` contains the tables that this call of all jobs does not fill, with the reason. `part` of `parts` says how far the
    call is.

    Running runs of the job whose range overlaps are considered dead: from now on they can't publish.

    Raises:
        ChangeRefused: a range that ends before it begins, or has one end only.
    """
    if (from_at is None) != (to_at is None) or (from_at is not None and to_at is not None and from_at >= to_at):
        raise ChangeRefused(f"a run from {from_at} to {to_at}: a range requires a start and a later end")
    with transaction.atomic():
        run = AnalyticsRun.objects.create(
            job=job, from_at=from_at, to_at=to_at, inputs=dict(inputs or {}), skipped=dict(skipped or {}),
            part=part, parts=parts,
        )  # fmt: skip
        older = AnalyticsRun.objects.filter(job=job, state=RunState.RUNNING, pk__lt=run.pk)
        if from_at is not None and to_at is not None:
            overlapping = Q(from_at__lt=to_at, to_at__gt=from_at)
            older = older.filter(overlapping | Q(from_at__isnull=True))
        older.update(
            state=RunState.FAILED, finished_at=timezone.now(), error=f"it did not finish; run {run.pk} replaced it"
        )
    return run


def publish(
    run: AnalyticsRun,
    table: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    step: Step,
    window: Window | None = None,
    totals: Mapping[int, int] | None = None,
) -> int:
    """Make `rows` all that a table says of a window at one step; how many they are.

    Up to PUBLISH_ROWS_MAX rows are one transaction. More are several, and meanwhile the window is unfinished (TableState): readers
    leave it out, and it is due again if the run is killed.

    Args:
        rows: each with `at_ms`, when its step begins, and the table's columns (console.analytics.tables).
        step: what each row stands for.
        window: by default the run's range. It is widened to whole steps. Tables that look ahead have none: they are replaced whole.
        totals: of moments of which rows were left out, how many rows there would be.

    The first real run that fills a table takes demo rows out of it.

    Raises:
        NotFound: there is no such table.
        ChangeRefused: the table has no such step, or no window is known.
        RowsRefused: rows are not as the table wants them. Nothing is changed, but a window of several transactions is unfinished.
        Conflict: the run is over; likewise.
    """
    found = TABLES.get(table)
    if found is None:
        raise NotFound(
            f"Summary table {table!r} not found. Available: {', '.join(TABLES)}.", code="analytics_table.unknown"
        )
    if step not in found.model.steps:
        raise ChangeRefused(f"{table} has no step {step}; it has {', '.join(found.model.steps)}")
    replaced = None if found.model.is_ahead else _window(run, table, step, window)
    parts = checked(found, step, rows, replaced)
    place = _Place(run, found, step, replaced or EVER)
    first, second = next(parts), next(parts, None)
    if second is None:
        with place.writing():
            place.rows().delete()
            place.finish(first, totals or {})
        return len(first)
    with place.writing():
        place.mark(is_unfinished=True)
    while place.delete_some():
        pass
    written = 0
    for part, following in pairwise(chain((first, second), parts, (None,))):
        assert part is not None
        with place.writing():
            if following is None:
                place.finish(part, totals or {})
            else:
                place.insert(part)
        written += len(part)
    return written


def finish_run(
    run: AnalyticsRun,
    *,
    watermark_at: datetime | None = None,
    rows_read: int | None = None,
    missing: Sequence[str] = (),
    late_rows: int | None = None,
    holes: int | None = None,
) -> None:
    """Mark a run as succeeded: it has published all it had, and everything before the watermark is in its tables.

    Args:
        missing: broker groups that could not be read: what it published is partial, and due again when they are back.
        late_rows: rows that came after their steps may have been published; known of runs that read the nodes, like `holes`.
        holes: stretches that nodes had deleted before they were read.

    Raises:
        Conflict: the run is over already.
    """
    with transaction.atomic():
        row = _claim(run)
        AnalyticsRun.objects.filter(pk=run.pk).update(
            state=RunState.SUCCEEDED,
            watermark_at=watermark_at,
            rows_read=rows_read,
            missing=list(missing),
            late_rows=late_rows,
            holes=holes,
            finished_at=timezone.now(),
        )
        if watermark_at is not None:
            is_behind = Q(watermark_at__isnull=True) | Q(watermark_at__lt=watermark_at)
            TableState.objects.filter(is_behind, table__in=row.tables).update(watermark_at=watermark_at)
    run.refresh_from_db()


def make_due(tables: Iterable[str], from_at: datetime) -> None:
    """Take the watermarks of tables back to a moment: what ends later is due again. Tables with demo rows are not changed."""
    filled = TableState.objects.filter(table__in=list(tables), watermark_at__gt=from_at)
    filled.exclude(run__job=DEMO_JOB).update(watermark_at=from_at)


def replace_demo(*, actor: Actor, reason: str = "", dry_run: bool = False) -> Change:
    """Let the next run, scheduled ones included, replace the demo data of all tables. Each table shows it until real data is there.

    Raises:
        Conflict: no table contains demo data.
    """
    with changing(dry_run=dry_run):
        found = TableState.objects.select_for_update().filter(run__job=DEMO_JOB)
        before = {state.table: state.is_replaceable for state in found}
        if not before:
            raise Conflict("No summary table contains demo data.", code="analytics_demo.absent")
        TableState.objects.filter(table__in=before).update(is_replaceable=True)
        change = Change(DEMO_JOB, before, dict.fromkeys(before, True))
        return audit.record_change(actor, "analytics.replace_demo", change, reason)


def fail_run(run: AnalyticsRun, error: str) -> None:
    """The run ended early. What it had published stays: each publication was whole. A run that is over stays as it is."""
    AnalyticsRun.objects.filter(pk=run.pk, state=RunState.RUNNING).update(
        state=RunState.FAILED, error=error[:ERROR_CHARS_MAX], finished_at=timezone.now()
    )
    run.refresh_from_db()


@dataclass(frozen=True, slots=True)
class _Place:
    """What a run publishes into: a window of a table at a step."""

    run: AnalyticsRun
    table: SummaryTable
    step: Step
    window: Window

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction of the run."""
        with transaction.atomic():
            row = _claim(self.run)
            _forget_demo(self.run, self.table.name, self.table.model)
            TableState.objects.update_or_create(
                table=self.table.name, defaults={"run": self.run, "is_replaceable": False}
            )
            if self.table.name not in row.tables:
                row.tables = sorted({*row.tables, self.table.name})
                row.save(update_fields=("tables",))
            yield

    def rows(self) -> "QuerySet[Any]":
        """The rows that are there."""
        return self._within(self.table.model._default_manager.all())

    def delete_some(self) -> bool:
        """Delete PUBLISH_ROWS_MAX rows; False: there was none."""
        with self.writing():
            keys = self.rows().order_by("pk").values_list("pk", flat=True)
            last = keys[PUBLISH_ROWS_MAX - 1 : PUBLISH_ROWS_MAX].first() or keys.last()
            return last is not None and self.rows().filter(pk__lte=last).delete()[0] > 0

    def insert(self, values: list[tuple[Any, ...]]) -> None:
        _insert(self.table, (self.run.pk, self.step.seconds), values)
        AnalyticsRun.objects.filter(pk=self.run.pk).update(
            rows_written=Coalesce("rows_written", 0) + len(values),
        )

    def finish(self, values: list[tuple[Any, ...]], totals: Mapping[int, int]) -> None:
        """Insert the last rows, and store what was left out."""
        self.insert(values)
        of_table = LeftOut.objects.filter(table=self.table.name)
        self._within(of_table).delete()
        if totals:
            there = dict(self.rows().order_by().values_list("at_ms").annotate(Count("pk")))
            LeftOut.objects.bulk_create(
                LeftOut(
                    table=self.table.name, step_seconds=self.step.seconds, at_ms=at_ms,
                    rows_count=total, left_out_count=total - there.get(at_ms, 0),
                )
                for at_ms, total in sorted(totals.items())
            )  # fmt: skip
        self.mark(is_unfinished=False)

    def mark(self, *, is_unfinished: bool) -> None:
        """Make the window unfinished, or finished: of windows that were unfinished and reach beyond it, the rest stays so."""
        state = TableState.objects.select_for_update().get(table=self.table.name)
        begin, end = self.window.from_ms, self.window.to_ms
        unfinished = [[self.step.seconds, begin, end]] if is_unfinished else []
        for seconds, from_ms, to_ms in state.unfinished or ():
            is_other = seconds != self.step.seconds
            rest = ((from_ms, to_ms),) if is_other else ((from_ms, min(to_ms, begin)), (max(from_ms, end), to_ms))
            unfinished += [[seconds, *span] for span in rest if span[0] < span[1]]
        if unfinished != (state.unfinished or []):
            state.unfinished = unfinished or None
            state.save(update_fields=("unfinished",))

    def _within(self, found: "QuerySet[Any]") -> "QuerySet[Any]":
        return found.filter(step_seconds=self.step.seconds, at_ms__gte=self.window.from_ms, at_ms__lt=self.window.to_ms)


def _window(run: AnalyticsRun, table: str, step: Step, window: Window | None) -> Window:
    if window is None:
        if run.from_at is None or run.to_at is None:
            raise ChangeRefused(f"{table}: run {run.pk} has no range, so the publication must specify its window")
        window = Window(int(run.from_at.timestamp() * 1000), int(run.to_at.timestamp() * 1000))
    return Window(*widened(window.from_ms, window.to_ms, step))


def _claim(run: AnalyticsRun) -> AnalyticsRun:
    """Return the locked row of a run. A run that was replaced in the meantime can't write."""
    row = AnalyticsRun.objects.select_for_update().get(pk=run.pk)
    if row.state != RunState.RUNNING:
        raise Conflict(f"run {run.pk} of {row.job} is over ({row.state}): {row.error or 'it has finished'}")
    return row


def _forget_demo(run: AnalyticsRun, table: str, model: type[Summary]) -> None:
    if run.job == DEMO_JOB:
        return
    if TableState.objects.filter(table=table, run__job=DEMO_JOB).delete()[0]:
        model._default_manager.filter(run__job=DEMO_JOB).delete()


def _insert(table: SummaryTable, common: tuple[Any, ...], rows: list[tuple[Any, ...]]) -> None:
    """As bulk_create would, in a part of its time: values are checked, and there are no objects to make."""
    names = ["run_id", "step_seconds", AT, *(column.name for column in table.columns)]
    quoted = connection.ops.quote_name
    into = f"{quoted(table.model._meta.db_table)} ({', '.join(map(quoted, names))})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Long lists of VALUES take the driver and the server twenty times as long.
            with cursor.copy(f"COPY {into} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row((*common, *row))
            return
        mark = f"({', '.join(['%s'] * len(names))})"
        at_once = PARAMETERS_MAX // len(names)
        for begin in range(0, len(rows), at_once):
            part = rows[begin : begin + at_once]
            values = [value for row in part for value in (*common, *row)]
            cursor.execute(f"INSERT INTO {into} VALUES {', '.join([mark] * len(part))}", values)

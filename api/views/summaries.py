"""/analytics/tables/: results of analytics jobs, at a step that suits a chart, with the runs that produced them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import Ordering
from api.pagination import PAGE_MAX
from api.problems import invalid
from api.serializers import summaries as shapes
from api.serializers.bodies import iso
from console.accounts.roles import Right
from console.analytics import queries
from console.analytics.models import AnalyticsRun, Summary, TableState
from console.analytics.rows import Window
from console.analytics.steps import DAY_MS, POINTS_MAX, Step, step_for
from console.analytics.tables import TABLES, Column, SummaryTable
from metaserver.errors import NotFound
from metaserver.services.changes import text_problem

BACK_MS = DAY_MS
"""Default length of the time range."""
AHEAD_MS = 90 * DAY_MS
"""The same for tables of forecasts."""
MOMENT_MS_MAX = 253_402_300_799_000
"""The end of the year 9999."""
AUTO = "auto"
STEPS = (AUTO, *Step)
ALL_FILTERS = tuple(dict.fromkeys(name for table in TABLES.values() for name in queries.filters_of(table)))
_FILTER_TEXTS = {
    "run": "only rows of this run",
    "team": "only subjects that this team owns now; in team_capacity, this team",
    "group": "empty: values of the subject itself (anomalies)",
}

_OF_A_RANGE = [
    OpenApiParameter("table", OpenApiTypes.STR, OpenApiParameter.PATH, enum=tuple(TABLES)),
    OpenApiParameter(
        "from",
        OpenApiTypes.DATETIME,
        description="Rows that start at or after this time. Default: a day before `to`; for forecasts, now.",
    ),
    OpenApiParameter(
        "to",
        OpenApiTypes.DATETIME,
        description="Rows that start before this time. Default: now; for forecasts, 90 days after `from`.",
    ),
    OpenApiParameter(
        "step",
        OpenApiTypes.STR,
        enum=STEPS,
        default=AUTO,
        description=f"auto: the finest step that is retained for the range and has at most {POINTS_MAX} points in it.",
    ),
]
_FILTERS = [
    OpenApiParameter(
        name,
        OpenApiTypes.BOOL if name.startswith("is_") else OpenApiTypes.STR,
        description=_FILTER_TEXTS.get(name, "exact match") + "; if the table has this column",
    )
    for name in ALL_FILTERS
]


def table_row(table: SummaryTable, state: TableState | None) -> dict[str, Any]:
    """A table in the list."""
    columns = shapes.ColumnRow(table.columns, many=True).data
    return {
        "name": table.name,
        "text": table.text,
        "columns": columns,
        "filters": queries.filters_of(table),
        "steps": table.model.steps,
        "is_ahead": table.model.is_ahead,
        **how_far(state),
    }


def how_far(state: TableState | None) -> dict[str, Any]:
    """Whether a table was ever filled, and until which time it is complete."""
    if state is None:
        return {"state": "no_run_yet", "as_of": None}
    return {"state": "filled", "as_of": state.complete_until}


class TablesView(ApiView):
    """List the summary tables and the meaning of their columns. Not paginated."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.Tables

    def get(self, request: Request) -> Response:
        states = queries.states()
        return Response({"results": [table_row(table, states.get(name)) for name, table in TABLES.items()]})


def _table(name: str) -> SummaryTable:
    found = TABLES.get(name)
    if found is None:
        raise NotFound(
            f"Summary table {name!r} not found. Available: {', '.join(TABLES)}.", code="analytics_table.unknown"
        )
    return found


class RowsView(ApiView):
    """Base of views that read rows of one table in a range."""

    rights = {"GET": Right.READ}
    points_max = POINTS_MAX
    """Most steps of a range, with the step that is chosen automatically."""

    def window(self, table: SummaryTable, now: datetime) -> Window:
        """Return `?from=` and `?to=`."""
        now_ms = int(now.timestamp() * 1000)
        begin, end = self.moment_ms("from"), self.moment_ms("to")
        if table.model.is_ahead:
            begin = now_ms - now_ms % Step.HOUR.ms if begin is None else begin
            end = begin + AHEAD_MS if end is None else end
        else:
            end = now_ms if end is None else end
            begin = end - BACK_MS if begin is None else begin
        if not 0 <= begin < end <= MOMENT_MS_MAX:
            raise invalid("from", "must be a time after 1970 and before `to`")
        return Window(begin, end)

    def step(self, table: SummaryTable, window: Window, now: datetime) -> Step:
        """Return `?step=`, or the one that suits the range."""
        text = self.request.query_params.get("step") or AUTO
        known = table.model.steps
        if text != AUTO:
            if text not in known:
                raise invalid("step", f"{text[:40]!r} must be one of {', '.join((AUTO, *known))}")
            return Step(text)
        now_ms = int(now.timestamp() * 1000)
        found = step_for(window.from_ms, window.to_ms, now_ms, known, queries.keep_days(), self.points_max)
        if found is None:
            raise invalid("to", f"covers more than {self.points_max} points of the coarsest step, {known[-1]}")
        return found

    def about(
        self, table: SummaryTable, window: Window, step: Step, now: datetime, run_ids: set[Any]
    ) -> dict[str, Any]:
        """Return what an answer says beside its rows: the effective query, the runs, what is missing.

        Args:
            run_ids: the runs that produced the rows.
        """
        state = TableState.objects.filter(table=table.name).first()
        runs = AnalyticsRun.objects.filter(pk__in=run_ids | ({state.run_id} if state is not None else set()))
        holes, late_rows = queries.found_while_reading(
            datetime.fromtimestamp(window.from_ms / 1000, UTC), datetime.fromtimestamp(window.to_ms / 1000, UTC)
        )
        omission = queries.omission(table, step, window)
        return {
            "table": table.name,
            **how_far(state),
            "step": step,
            "step_seconds": step.seconds,
            "from_at": iso(window.from_ms),
            "to_at": iso(window.to_ms),
            "kept_since": iso(queries.kept_since_ms(step, now)),
            "runs": shapes.RunOfRows(runs, many=True).data,
            "missing": sorted({name for run in runs for name in run.missing}),
            "holes": holes,
            "late_rows": late_rows,
            "omission": shapes.OmissionRow(omission).data if omission is not None else None,
            "scores": shapes.ScoreRow(queries.scores_of(table.name, now), many=True).data,
        }

    def filters(self, table: SummaryTable) -> dict[str, Any]:
        """Return the filters of the query."""
        known = queries.filters_of(table)
        choices = {column.name: column.choices for column in table.columns if column.choices}
        found: dict[str, Any] = {}
        for name in ALL_FILTERS:
            text = self.request.query_params.get(name)
            if text is None:
                continue
            if name not in known:
                raise invalid(name, f"is not a filter of {table.name}; available: {', '.join(known)}")
            if name == "run":
                found[name] = self.whole(name)
            elif name.startswith("is_"):
                found[name] = self.flag(name)
            elif text_problem(text):
                raise invalid(name, text_problem(text))
            elif name in choices and text not in choices[name]:
                raise invalid(name, f"{text[:40]!r} must be one of {', '.join(sorted(choices[name]))}")
            else:
                found[name] = text
        return found


class TableView(RowsView):
    """List rows of a summary table. For further pages repeat `from`, `to` and `step` of the first response."""

    serializer_class = shapes.SummaryPage
    filter_backends = [Ordering]
    ordering_fields: tuple[str, ...] = ()
    ordering_paths = {"at": "at_ms"}
    ordering = ("-at_ms",)

    @extend_schema(
        parameters=[
            *_OF_A_RANGE,
            OpenApiParameter(
                "ordering", OpenApiTypes.STR, default="-at",
                description="`at` or columns, separated by commas; '-' for descending.",
            ),
            *_FILTERS,
            OpenApiParameter("limit", int, description=f"rows per page, at most {PAGE_MAX}"),
            OpenApiParameter("cursor", str, description="`next` or `previous` of another page of the same query"),
        ],
    )  # fmt: skip
    def get(self, request: Request, table: str) -> Response:
        found = _table(table)
        now = timezone.now()
        window = self.window(found, now)
        step = self.step(found, window, now)
        filters = self.filters(found)
        self.ordering_fields = ("at", *(column.name for column in found.columns))
        page: list[Summary] = self.paginate_queryset(queries.rows(found, step, window, filters)) or []
        answer = self.get_paginated_response([_row(found.columns, row) for row in page])
        answer.data |= self.about(found, window, step, now, {row.run_id for row in page})
        return answer


class RankingView(RowsView):
    """List the keys of a summary table, such as consumer groups, with the highest or lowest values in a range: for each its
    latest row and how the column developed."""

    serializer_class = shapes.Ranking
    points_max = queries.RANKED_POINTS_MAX

    @extend_schema(
        parameters=[
            *_OF_A_RANGE,
            OpenApiParameter(
                "by",
                OpenApiTypes.STR,
                required=True,
                description="a column of numbers; '-' for the highest values first",
            ),
            *_FILTERS,
        ],
    )
    def get(self, request: Request, table: str) -> Response:
        found = _table(table)
        now = timezone.now()
        window = self.window(found, now)
        step = self.step(found, window, now)
        text = request.query_params.get("by", "")
        column = text.removeprefix("-")
        numbers = [each.name for each in found.columns if each.type in ("integer", "number") and not each.is_key]
        if column not in numbers:
            raise invalid("by", f"{text[:60]!r} must be one of {', '.join(numbers)}, with '-' for the highest first")
        rows = queries.rows(found, step, window, self.filters(found))
        ranked, total = queries.ranking(rows, found.model.key, column, descending=text.startswith("-"))
        return Response(
            {
                **self.about(found, window, step, now, {one.last.run_id for one in ranked}),
                "total": total,
                "results": [
                    {
                        "row": _row(found.columns, one.last),
                        "extreme": one.extreme,
                        "history": [{"at": iso(at_ms), "value": value} for at_ms, value in one.values],
                    }
                    for one in ranked
                ],
            }
        )


def _row(columns: Iterable[Column], row: Summary) -> dict[str, Any]:
    values = {column.name: getattr(row, column.name) for column in columns}
    return {"at": iso(row.at_ms), **values, "run": str(row.run_id)}

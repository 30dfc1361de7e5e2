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
    return {"state": "filled", "as_of": state.watermark_at}


class TablesView(ApiView):
    """List the summary tables and the meaning of their columns. Not paginated."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.Tables

    def get(self, request: Request) -> Response:
        states = queries.states()
        return Response({"results": [table_row(table, states.get(name)) for name, table in TABLES.items()]})


class TableView(ApiView):
    """List rows of a summary table. For further pages repeat `from`, `to` and `step` of the first response."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.SummaryPage
    filter_backends = [Ordering]
    ordering_fields: tuple[str, ...] = ()
    ordering_paths = {"at": "at_ms"}
    ordering = ("-at_ms",)

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "table", OpenApiTypes.STR, OpenApiParameter.PATH, enum=tuple(TABLES)
            ),
            OpenApiParameter(
                "from", OpenApiTypes.DATETIME,
                description="Rows that start at or after this time. Default: a day before `to`; for forecasts, now.",
            ),
            OpenApiParameter(
                "to", OpenApiTypes.DATETIME,
                description="Rows that start before this time. Default: now; for forecasts, 90 days after `from`.",
            ),
            OpenApiParameter(
                "step", OpenApiTypes.STR, enum=STEPS, default=AUTO,
                description=f"auto: the finest step that is retained for the range and has at most {POINTS_MAX} points in it.",
            ),
            OpenApiParameter(
                "ordering", OpenApiTypes.STR, default="-at",
                description="`at` or columns, separated by commas; '-' for descending.",
            ),
            *(
                OpenApiParameter(
                    name, OpenApiTypes.BOOL if name.startswith("is_") else OpenApiTypes.STR,
                    description=_FILTER_TEXTS.get(name, "exact match") + "; if the table has this column",
                )
                for name in ALL_FILTERS
            ),
            OpenApiParameter("limit", int, description=f"rows per page, at most {PAGE_MAX}"),
            OpenApiParameter("cursor", str, description="`next` or `previous` of another page of the same query"),
        ],
    )  # fmt: skip
    def get(self, request: Request, table: str) -> Response:
        found = TABLES.get(table)
        if found is None:
            raise NotFound(
                f"Summary table {table!r} not found. Available: {', '.join(TABLES)}.", code="analytics_table.unknown"
            )
        now = timezone.now()
        window = self._window(found, now)
        step = self._step(found, window, now)
        filters = self._filters(found)
        self.ordering_fields = ("at", *(column.name for column in found.columns))
        state = TableState.objects.filter(table=table).first()
        page: list[Summary] = self.paginate_queryset(queries.rows(found, step, window, filters)) or []
        answer = self.get_paginated_response([_row(found.columns, row) for row in page])
        made_by = {row.run_id for row in page} | ({state.run_id} if state is not None else set())
        runs = AnalyticsRun.objects.filter(pk__in=made_by)
        holes, late_rows = queries.found_while_reading(
            datetime.fromtimestamp(window.from_ms / 1000, UTC), datetime.fromtimestamp(window.to_ms / 1000, UTC)
        )
        answer.data |= {
            "table": table,
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
            "scores": shapes.ScoreRow(queries.scores_of(table, now), many=True).data,
        }
        return answer

    def _window(self, table: SummaryTable, now: datetime) -> Window:
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

    def _step(self, table: SummaryTable, window: Window, now: datetime) -> Step:
        text = self.request.query_params.get("step") or AUTO
        known = table.model.steps
        if text != AUTO:
            if text not in known:
                raise invalid("step", f"{text[:40]!r} must be one of {', '.join((AUTO, *known))}")
            return Step(text)
        now_ms = int(now.timestamp() * 1000)
        found = step_for(window.from_ms, window.to_ms, now_ms, known, queries.keep_days())
        if found is None:
            raise invalid("to", f"covers more than {POINTS_MAX} points of the coarsest step, {known[-1]}")
        return found

    def _filters(self, table: SummaryTable) -> dict[str, Any]:
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


def _row(columns: Iterable[Column], row: Summary) -> dict[str, Any]:
    values = {column.name: getattr(row, column.name) for column in columns}
    return {"at": iso(row.at_ms), **values, "run": str(row.run_id)}

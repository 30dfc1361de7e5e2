"""/analytics/runs/, /lag/ and /overview/."""

from typing import Any

import django_filters
from django.core import signing
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.filters import OrderingFilter
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.pagination import PAGE_DEFAULT, PAGE_MAX
from api.problems import Problem
from api.serializers import analytics as shapes
from console import overview
from console.accounts.roles import Right
from console.analytics import queries
from console.analytics.models import AnalyticsRun, RunState
from metaserver.services.changes import NotFound

LAG_ORDERINGS = ("-time_lag_seconds", "-lag", "subject")


class RunFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of runs can be narrowed by."""

    job = django_filters.CharFilter("job", label="the job's name")
    state = django_filters.ChoiceFilter(choices=[(s.value, s.value) for s in RunState])


def row(run: AnalyticsRun) -> dict[str, Any]:
    """A run as lists show it."""
    return {
        "id": str(run.pk),
        "job": run.job,
        "state": run.state,
        "from_at": run.from_at,
        "to_at": run.to_at,
        "watermark_at": run.watermark_at,
        "inputs": run.inputs,
        "tables": run.tables,
        "rows_read": None if run.rows_read is None else str(run.rows_read),
        "rows_written": None if run.rows_written is None else str(run.rows_written),
        "error": run.error,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
    }


class RunsView(ApiView):
    """Runs of analytics jobs."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.RunRow
    filter_backends = [DjangoFilterBackend, OrderingFilter]
    filterset_class = RunFilter
    ordering_fields = ("id", "started_at")
    ordering = ("-id",)

    def get_queryset(self) -> "QuerySet[Any]":
        return queries.runs()

    @extend_schema(operation_id="analytics_runs_list", responses=shapes.RunRow(many=True))
    def get(self, request: Request) -> Response:
        """List runs, the newest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([row(item) for item in page or []])


class RunView(ApiView):
    """One run."""

    rights = {"GET": Right.READ}

    @extend_schema(operation_id="analytics_runs_get", responses=shapes.RunRow)
    def get(self, request: Request, run_id: int) -> Response:
        """One run of a job."""
        found = queries.runs().filter(pk=run_id).first() if run_id < 1 << 63 else None
        if found is None:
            raise NotFound(f"there is no run {run_id}", code="analytics_run.unknown")
        return Response(row(found))


class OverviewView(ApiView):
    """The start page."""

    rights = {"GET": Right.READ}

    @extend_schema(operation_id="overview", responses=shapes.Overview)
    def get(self, request: Request) -> Response:
        """The whole system at a glance."""
        return Response(overview.overview())


class LagView(ApiView):
    """Live lag."""

    rights = {"GET": Right.READ}

    @extend_schema(
        operation_id="lag_list",
        responses=shapes.LagPage,
        parameters=[
            OpenApiParameter("subject", str),
            OpenApiParameter("group", str),
            OpenApiParameter("ordering", str, enum=LAG_ORDERINGS, description="unknown lags come first"),
            OpenApiParameter("limit", int, description=f"rows of a page, at most {PAGE_MAX}"),
            OpenApiParameter("cursor", str),
        ],
    )
    def get(self, request: Request) -> Response:
        """Consumer groups' lag as the collector measured it last, at most a second or two ago; the same as /ws/lag/ shows."""
        live = overview.numbers()
        limit = self.whole("limit", PAGE_DEFAULT, minimum=1, maximum=PAGE_MAX) or PAGE_DEFAULT
        ordering = request.query_params.get("ordering", LAG_ORDERINGS[0])
        if ordering not in LAG_ORDERINGS:
            what = f"one of {', '.join(LAG_ORDERINGS)} is needed"
            raise Problem(400, "request.invalid", f"ordering: {ordering[:40]!r}; {what}", {"ordering": what})
        after = self._after()
        rows = overview.lag_rows(live.state) if live.state is not None else []
        for name in ("subject", "group"):
            wanted = request.query_params.get(name)
            if wanted is not None:
                rows = [item for item in rows if item[name] == wanted]
        rows.sort(key=lambda item: _place(item, ordering))
        # Numbers change from page to page: a cursor is a place in the order, not a row.
        rest = [item for item in rows if after is None or _place(item, ordering) > after]
        page = rest[:limit]
        following = signing.dumps(_place(page[-1], ordering)) if len(rest) > limit else None
        return Response({"at": live.at, "reason": live.reason, "results": page, "next": following})

    def _after(self) -> list[Any] | None:
        text = self.request.query_params.get("cursor")
        if not text:
            return None
        try:
            found: list[Any] = signing.loads(text)
        except signing.BadSignature as error:
            raise Problem(400, "request.invalid", "cursor: it is none of ours", {"cursor": "none of ours"}) from error
        return found


def _place(item: dict[str, Any], ordering: str) -> list[Any]:
    names = [item["subject"], item["group"]]
    if ordering == "subject":
        return [0.0, *names]
    # JSON has no infinity; no lag is longer than this.
    return [max(overview.by_lag(item, ordering.removeprefix("-")), -1e18), *names]

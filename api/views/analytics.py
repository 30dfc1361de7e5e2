"""/analytics/runs/, /analytics/demo/, /lag/ and /overview/."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import django_filters
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.downloads import ROWS_MAX
from api.filters import search_words
from api.generics import ListView
from api.live_pages import LivePages
from api.problems import invalid
from api.serializers import analytics as shapes
from console.accounts.roles import Right
from console.analytics import queries, services
from console.analytics.models import AnalyticsRun, RunState
from console.jobs import jobs
from console.reports import overview
from console.reports.lag_table import LagTable, lag_value
from console.snapshot.lag_state import KEEPING_UP_SECONDS, LagState
from metaserver import queries as metadata
from metaserver.errors import Conflict, NotFound
from metaserver.services.changes import Change, text_problem
from metaserver.services.notes import NoteCode
from qmq.protocol.reasons import Reason

LAG_PAGES = LivePages(
    ("subject", "group"),
    (
        "-time_lag_seconds", "lag", "backlog", "in_flight", "drain_seconds", "pull_rate", "ack_rate", "consumers_online",
        "subject", "group",
    ),
    lag_value,
)  # fmt: skip
_LAG_STATES = (
    f"caught_up: no lag, or a time lag of at most {KEEPING_UP_SECONDS:g} s; idle: no lag, and no consumer is online; draining, "
    "growing: whether the lag decreases at the current rates; stopped: messages are pending, and none was acknowledged recently or "
    "no consumer is online; paused; unknown: not measured."
)


class RunsView(ListView):
    """List runs, newest first."""

    serializer_class = shapes.RunRow
    rows = staticmethod(AnalyticsRun.objects.all)
    filters = {
        "job": django_filters.CharFilter("job", label="name of the job"),
        "state": django_filters.ChoiceFilter(choices=[(s.value, s.value) for s in RunState]),
    }
    ordering_fields = ("id", "job", "state", "started_at", "finished_at")
    ordering = ("-id",)


class RunView(ApiView):
    """Return one run of a job."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.RunRow

    def get(self, request: Request, run_id: int) -> Response:
        found = AnalyticsRun.objects.filter(pk=run_id).first() if run_id < 1 << 63 else None
        if found is None:
            raise NotFound(f"Run {run_id} not found.", code="analytics_run.unknown")
        return Response(self.shown(found, shapes.RunRow))


class OverviewView(ApiView):
    """Summary of the whole system."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.Overview

    @extend_schema(operation_id="overview")
    def get(self, request: Request) -> Response:
        return Response(overview.overview())


class LagView(ApiView):
    """List the lag of consumer groups as of the collector's latest measurement, at most a second or two ago. Groups without a
    measurement are included; retries count towards their group.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.LagPage
    download_page_rows = ROWS_MAX
    """Return all rows at once, because numbers change between pages."""

    @extend_schema(
        parameters=[
            OpenApiParameter("subject", str, description="Only this subject."),
            OpenApiParameter("group", str, description="Only this consumer group."),
            OpenApiParameter(
                "search", str, description="Words that all occur in the subject or group name, ignoring case."
            ),
            OpenApiParameter("owner", str, description="Only subjects of this team."),
            OpenApiParameter("state", str, enum=list(LagState), description=_LAG_STATES),
            *LAG_PAGES.parameters,
        ],
    )
    def get(self, request: Request) -> Response:
        live = overview.numbers()
        query = self.request.query_params
        subject = query.get("subject")
        is_wanted = self._filter()
        if text_problem(subject or ""):
            table = LagTable({}, [], "")
        else:
            table = overview.lag_table(live, subject)
        rows, following = LAG_PAGES.page_of(
            self, table.ordered, table.row, partial(filter, lambda key: is_wanted(table, key))
        )
        owners = metadata.owners_of(item["subject"] for item in rows)
        page = [{**item, "owner": owners.get(item["subject"])} for item in rows]
        return Response(
            {"at": live.at, "reason": live.reason, "states": table.states, "results": page, "next": following}
        )

    def _filter(self) -> Callable[[LagTable, str], bool]:
        """Whether a group matches the query's filters."""
        query = self.request.query_params
        state, group, words = query.get("state"), query.get("group"), search_words(query.get("search", "").lower())
        if state is not None and state not in list(LagState):
            raise invalid("state", f"must be one of {', '.join(LagState)}", state)
        owner = query.get("owner")
        owned = metadata.subjects_of(owner) if owner is not None and text_problem(owner) == "" else None

        def is_wanted(table: LagTable, key: str) -> bool:
            subject, _, name = key.partition("\n")
            lowered = key.lower()
            return (
                (group is None or name == group)
                and (not words or all(word in lowered for word in words))
                and (state is None or table.state(key) == state)
                and (owned is None or subject in owned)
            )

        return is_wanted


class DemoView(ApiView):
    """Return the tables that contain demo data, and whether scheduled runs replace it."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.DemoData

    @extend_schema(operation_id="analytics_demo_get")
    def get(self, request: Request) -> Response:
        states = queries.demo_states()
        return Response(
            {
                "tables": [state.table for state in states],
                "from_at": min((state.run.from_at for state in states if state.run.from_at), default=None),
                "to_at": max((state.run.to_at for state in states if state.run.to_at), default=None),
                "is_replaceable": bool(states) and all(state.is_replaceable for state in states),
            }
        )


class ReplaceDemoView(ApiView):
    """Replace demo data: runs the job `analytics` now. A table keeps its demo data until it has real data."""

    rights = {"POST": Right.CHANGE_CLUSTER}

    def post(self, request: Request) -> Change:
        change = services.replace_demo(**self.arguments)
        try:
            jobs.run_now("analytics", **self.arguments)
        except Conflict as error:
            is_disabled = error.code == "job.disabled"
            note = NoteCode.ANALYTICS_DISABLED if is_disabled else NoteCode.ANALYTICS_RUNNING
            return replace(change, notes=(Reason.of(note),))
        return change

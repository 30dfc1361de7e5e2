"""/analytics/demo/: demo data in summary tables, and its replacement."""

from dataclasses import replace

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.schema import ChangeSerializer
from api.serializers import analytics as shapes
from api.serializers.bodies import Reason
from console.accounts.roles import Right
from console.analytics import queries, services
from console.jobs import jobs
from metaserver.errors import ChangeRefused


class DemoView(ApiView):
    """Demo data in summary tables."""

    rights = {"GET": Right.READ}

    @extend_schema(operation_id="analytics_demo_get", responses=shapes.DemoData)
    def get(self, request: Request) -> Response:
        """Return the tables that contain demo data, and whether scheduled runs replace it."""
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
    """Replacement of demo data."""

    rights = {"POST": Right.CHANGE_CLUSTER}

    @extend_schema(operation_id="analytics_demo_replace", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request) -> Response:
        """Replace demo data: runs the job `analytics` now. A table keeps its demo data until it has real data."""
        change = services.replace_demo(**self.arguments)
        try:
            jobs.run_now("analytics", **self.arguments)
        except ChangeRefused as error:
            change = replace(change, notes=(f"The next run replaces the demo data. It was not started now: {error}",))
        return self.changed(change)

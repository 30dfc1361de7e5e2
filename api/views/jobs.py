"""/jobs/: background jobs."""

from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.generics import action
from api.serializers import broker_groups as shapes
from console.accounts.roles import Right
from console.jobs import jobs
from metaserver.errors import NotFound


class JobsView(ApiView):
    """List all background jobs with last run, result and next run. Not paginated."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.Jobs

    def get(self, request: Request) -> Response:
        return Response({"results": shapes.JobRow(jobs.states(), many=True).data})


class JobView(ApiView):
    """Return one background job."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.JobRow

    def get(self, request: Request, name: str) -> Response:
        for state in jobs.states():
            if state.job.name == name:
                return Response(shapes.JobRow(state).data)
        raise NotFound(f"Background job {name!r} not found.", code="job.unknown")


DisableJobView = action(
    Right.CHANGE_CLUSTER,
    lambda view, name: jobs.set_enabled(name, False, **view.arguments),
    "Disable a background job.",
    is_versioned=False,
)
EnableJobView = action(
    Right.CHANGE_CLUSTER,
    lambda view, name: jobs.set_enabled(name, True, **view.arguments),
    "Enable a background job.",
    is_versioned=False,
)
RunJobView = action(
    Right.CHANGE_CLUSTER,
    lambda view, name: jobs.run_now(name, **view.arguments),
    "Run a background job now, instead of at its next scheduled time.",
    is_versioned=False,
)

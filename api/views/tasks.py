"""/tasks/: the control loops."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.schema import ChangeSerializer
from api.serializers import broker_groups as shapes
from api.serializers.bodies import Reason
from console import tasks as _registered  # noqa: F401 - importing it makes the loops known
from console.accounts.roles import Right
from console.tasks import loops
from metaserver.services.changes import NotFound


def row(state: loops.LoopState) -> dict[str, Any]:
    """A loop as the list shows it."""
    stored = state.row
    now = timezone.now()
    return {
        "name": state.loop.name,
        "text": state.loop.text,
        "every_seconds": state.loop.every_seconds,
        "is_enabled": stored is None or stored.is_enabled,
        "is_late": state.is_late,
        "is_running": stored is not None and stored.held_until is not None and stored.held_until > now,
        "holder": stored.holder if stored is not None else "",
        "queue": state.loop.queue,
        "started_at": stored.started_at if stored is not None else None,
        "finished_at": stored.finished_at if stored is not None else None,
        "succeeded_at": stored.succeeded_at if stored is not None else None,
        "next_run_at": state.next_run_at,
        "result": stored.result if stored is not None else "",
        "error": stored.error if stored is not None else "",
        "runs": str(stored.runs if stored is not None else 0),
        "failures": str(stored.failures if stored is not None else 0),
    }


class TasksView(ApiView):
    """Control loops."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.TaskRow

    @extend_schema(operation_id="tasks_list", responses=shapes.Tasks)
    def get(self, request: Request) -> Response:
        """Every control loop with its last run, its result, and when it runs next. There are few: no pages."""
        return Response({"results": [row(state) for state in loops.states()]})


class TaskView(ApiView):
    """One control loop."""

    rights = {"GET": Right.READ}

    @extend_schema(operation_id="tasks_get", responses=shapes.TaskRow)
    def get(self, request: Request, name: str) -> Response:
        """One control loop."""
        for state in loops.states():
            if state.loop.name == name:
                return Response(row(state))
        raise NotFound(f"Background job {name!r} not found.", code="task.unknown")


class SwitchTaskView(ApiView):
    """Switching a loop off."""

    rights = {"POST": Right.CHANGE_CLUSTER}
    enabled = False

    @extend_schema(operation_id="tasks_disable", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Let a control loop rest."""
        return self._switch(name)

    def _switch(self, name: str) -> Response:
        change = loops.set_enabled(name, self.enabled, **self.arguments)
        return self.changed(change)


class EnableTaskView(SwitchTaskView):
    """Switching a loop on."""

    enabled = True

    @extend_schema(operation_id="tasks_enable", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Let a control loop act again."""
        return self._switch(name)


class RunTaskView(ApiView):
    """Running a background job now."""

    rights = {"POST": Right.CHANGE_CLUSTER}

    @extend_schema(operation_id="tasks_run", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Run a background job now, instead of at its next scheduled time."""
        return self.changed(loops.run_now(name, **self.arguments))

"""/subjects/."""

from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.authentication import user_of
from api.base import ApiView
from api.filters import MemberFilter, PartFilter, PrefixFilter, TruthFilter
from api.generics import ListView, action
from api.serializers import subjects as shapes
from api.views.subject_orders import live_order, live_page
from console.accounts import preferences
from console.accounts.roles import Right
from console.cluster import subjects as on_nodes
from console.jobs.rebalance import waiting_for
from console.reports.subject_table import NUMBERS
from metaserver import queries
from metaserver.errors import NotFound
from metaserver.services import routes as route_service
from metaserver.services import subjects as service
from metaserver.services.changes import Change


class _FavouriteFilter(TruthFilter):
    """Whether a subject is one of the caller's favourites."""

    def filter(self, queryset: "QuerySet[Any]", value: bool | None) -> "QuerySet[Any]":
        if value is None:
            return queryset
        user = user_of(self.parent.request)
        named = {"name__in": preferences.shown(user.preferences)["favourite_subjects"]}
        return queryset.filter(**named) if value else queryset.exclude(**named)


class SubjectsView(ListView):
    """List subjects. `send_rate` and `highest_lag` (of the consumer group that is furthest behind) order by the collector's newest
    measurement, a second or two old, at most ten; unknown values come last in both directions, and `previous` is null.
    """

    rights = {"GET": Right.READ, "POST": Right.CHANGE_SUBJECTS}
    serializer_class = shapes.SubjectRow
    bodies = {"POST": shapes.NewSubject}
    rows = staticmethod(queries.subjects)
    filters = {
        "search": PartFilter("name", label="words that occur in the name"),
        "prefix": PrefixFilter("name", label="prefix of the name"),
        "owner": django_filters.CharFilter(
            "owner__name", label="owning team; use is_owned for subjects without an owner"
        ),
        "is_owned": TruthFilter("owner", "isnull", exclude=True, label="whether a team owns it"),
        "is_archived": TruthFilter("archived_at", "isnull", exclude=True, label="whether it is archived"),
        "is_favourite": _FavouriteFilter("name", label="whether it is one of the caller's favourites"),
        "broker_group": MemberFilter("route__broker_groups", label="broker group that serves it or is draining it"),
    }
    ordering_fields = (
        "name", "owner", "created_at", "updated_at", "archived_at", "consumer_groups", "retention_hours",
        "messages_per_second", "bytes_per_second", *NUMBERS,
    )  # fmt: skip
    ordering_paths = {"owner": "owner__name", "consumer_groups": "consumer_group_count"}
    ordering = ("name",)

    def get(self, request: Request) -> Response:
        if live_order(request.query_params.get("ordering", "")):
            return live_page(self)
        return super().get(request)

    def post(self, request: Request) -> Change:
        """Create a subject before its first message."""
        values = self.body()
        name = values.pop("name")
        self.note_subject(name)
        return service.create_subject(name, values, **self.arguments)


class SubjectView(ApiView):
    """One subject."""

    serializer_class = shapes.SubjectRow
    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_SUBJECTS, "DELETE": Right.CHANGE_SUBJECTS}
    bodies = {"PATCH": shapes.SubjectChange}

    def get(self, request: Request, subject: str) -> Response:
        """Return one subject."""
        return self.one(service.SUBJECT.one(queries.subjects().filter(name=subject), subject))

    def patch(self, request: Request, subject: str) -> Change:
        """Update a subject; omitted fields keep their value, null removes a limit."""
        return service.update_subject(subject, self.body(), **self.versioned_arguments)

    def delete(self, request: Request, subject: str) -> Change:
        """Delete an archived subject that has no messages and no clients, with its consumer groups."""
        return on_nodes.delete(subject, **self.versioned_arguments)


ArchiveView = action(
    Right.CHANGE_SUBJECTS,
    lambda view, subject: service.set_archived(subject, True, **view.versioned_arguments),
    "Archive a subject: it accepts no new messages; stored messages can be read until retention deletes them.",
)
RestoreView = action(
    Right.CHANGE_SUBJECTS,
    lambda view, subject: service.set_archived(subject, False, **view.versioned_arguments),
    "Restore an archived subject, so that it accepts messages again.",
)


class PlacementView(ApiView):
    """Placement of a subject."""

    rights = {"GET": Right.READ, "PUT": Right.CHANGE_CLUSTER}
    serializer_class = shapes.Route
    bodies = {"PUT": shapes.Placement}

    def get(self, request: Request, subject: str) -> Response:
        """Return the broker groups that serve a subject."""
        route = queries.routes().filter(subject__name=subject).first()
        if route is None:
            raise NotFound(f"Subject {subject!r} has no broker group yet.", code="route.unknown")
        body = {
            "broker_groups": route.broker_groups,
            "phases": route.phases,
            "waiting": waiting_for(subject) if route.phases else [],
            "version": str(route.version),
        }
        return self.tagged(body, route.version)

    @extend_schema(operation_id="subjects_place")
    def put(self, request: Request, subject: str) -> Change:
        """Move a subject to other broker groups. Groups that are not named accept no new messages and leave when they are empty."""
        return route_service.move(subject, self.body()["broker_groups"], **self.versioned_arguments)

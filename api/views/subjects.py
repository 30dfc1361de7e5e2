"""/subjects/."""

from typing import Any

import django_filters
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import MemberFilter, Ordering, PartFilter, PrefixFilter, TruthFilter
from api.schema import MADE, ChangeSerializer
from api.serializers import subjects as shapes
from api.serializers.bodies import Reason
from console import subjects as on_nodes
from console.accounts.roles import Principal, Right
from console.tasks.rebalance import waiting_for
from metaserver import queries
from metaserver.services import routes as route_service
from metaserver.services import subjects as service
from metaserver.services.changes import NotFound


class SubjectFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of subjects can be narrowed by."""

    search = PartFilter("name", label="substring of the name")
    prefix = PrefixFilter("name", label="beginning of the name")
    owner = django_filters.CharFilter("owner__name", label="owning team; use is_owned for subjects without an owner")
    is_owned = TruthFilter("owner", "isnull", exclude=True, label="whether a team owns it")
    is_archived = TruthFilter("archived_at", "isnull", exclude=True, label="whether it is archived")
    broker_group = MemberFilter(
        "route__broker_groups", label="broker group that serves it, or served it and is not empty yet"
    )


def row(subject: Any, principal: Principal) -> dict[str, Any]:
    """A subject as lists and details show it."""
    route = getattr(subject, "route", None)
    owner = subject.owner.name if subject.owner is not None else None
    return {
        "name": subject.name,
        "description": subject.description,
        "owner": owner,
        "tags": subject.tags,
        "messages_per_second": subject.messages_per_second,
        "bytes_per_second": subject.bytes_per_second,
        "retention_hours": subject.retention_hours,
        "allowed_groups": subject.allowed_groups,
        "is_archived": subject.archived_at is not None,
        "archived_at": subject.archived_at,
        "consumer_groups": subject.consumer_group_count,
        "broker_groups": route.broker_groups if route is not None else [],
        "phases": route.phases if route is not None else {},
        "may_change": principal.may(Right.CHANGE_SUBJECTS, owner),
        "version": str(subject.version),
        "created_at": subject.created_at,
        "updated_at": subject.updated_at,
    }


class SubjectsView(ApiView):
    """Subjects."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_SUBJECTS}
    serializer_class = shapes.SubjectRow
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class = SubjectFilter
    ordering_fields = (
        "name", "owner", "created_at", "updated_at", "archived_at", "consumer_groups", "retention_hours",
        "messages_per_second", "bytes_per_second",
    )  # fmt: skip
    ordering_paths = {"owner": "owner__name", "consumer_groups": "consumer_group_count"}
    ordering = ("name",)

    def get_queryset(self) -> "QuerySet[Any]":
        return queries.subjects()

    @extend_schema(operation_id="subjects_list", responses=shapes.SubjectRow(many=True))
    def get(self, request: Request) -> Response:
        """List subjects."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([row(item, self.principal) for item in page or []])

    @extend_schema(
        operation_id="subjects_create",
        request=shapes.NewSubject,
        responses=MADE,
    )
    def post(self, request: Request) -> Response:
        """Create a subject before its first message."""
        shape = shapes.NewSubject(data=request.data)
        shape.is_valid(raise_exception=True)
        values = dict(shape.validated_data)
        name = values.pop("name")
        reason = values.pop("reason", "")
        self.note_subject(name)
        self.require(Right.CHANGE_SUBJECTS, values.get("owner"))
        change = service.create_subject(name, values, actor=self.actor, reason=reason, dry_run=self.dry_run)
        return self.changed(change, 201)


class OneSubjectView(ApiView):
    """A view of one subject."""

    def owned(self, right: Right, subject: str) -> str | None:
        """The subject's owner, once the caller's right on it is checked. Raises 403."""
        owner = queries.owner_of(subject)
        self.require(right, owner)
        return owner


class SubjectView(OneSubjectView):
    """One subject."""

    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_SUBJECTS, "DELETE": Right.CHANGE_SUBJECTS}

    @extend_schema(operation_id="subjects_get", responses=shapes.SubjectRow)
    def get(self, request: Request, subject: str) -> Response:
        """One subject."""
        found = queries.subjects().filter(name=subject).first()
        if found is None:
            raise NotFound(f"Subject {subject!r} not found.", code="subject.unknown")
        return self.tagged(row(found, self.principal), found.version)

    @extend_schema(operation_id="subjects_update", request=shapes.SubjectChange, responses=ChangeSerializer)
    def patch(self, request: Request, subject: str) -> Response:
        """Change what the body names; null takes a limit away."""
        self.owned(Right.CHANGE_SUBJECTS, subject)
        shape = shapes.SubjectChange(data=request.data)
        shape.is_valid(raise_exception=True)
        values = dict(shape.validated_data)
        reason = values.pop("reason", "")
        if "owner" in values:
            # Whoever gives a subject away has to own it, and may only give it to a team he is in.
            self.require(Right.CHANGE_SUBJECTS, values["owner"])
        change = service.update_subject(
            subject,
            values,
            actor=self.actor,
            reason=reason,
            expected_version=self.expected_version,
            dry_run=self.dry_run,
        )
        return self.changed(change)

    @extend_schema(operation_id="subjects_delete", request=Reason, responses=ChangeSerializer)
    def delete(self, request: Request, subject: str) -> Response:
        """Delete an archived subject that holds no message and has no client, with its consumer groups."""
        self.owned(Right.CHANGE_SUBJECTS, subject)
        change = on_nodes.delete(
            subject, actor=self.actor, reason=self.reason, expected_version=self.expected_version, dry_run=self.dry_run
        )
        return self.changed(change)


class ArchiveView(OneSubjectView):
    """Archiving."""

    rights = {"POST": Right.CHANGE_SUBJECTS}
    versioned_methods = frozenset({"POST"})
    archived = True

    @extend_schema(operation_id="subjects_archive", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request, subject: str) -> Response:
        """Take no new messages of a subject any more; what it holds stays readable until retention takes it."""
        return self._set(subject)

    def _set(self, subject: str) -> Response:
        self.owned(Right.CHANGE_SUBJECTS, subject)
        change = service.set_archived(
            subject, self.archived, actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)


class RestoreView(ArchiveView):
    """Taking archiving back."""

    archived = False

    @extend_schema(operation_id="subjects_restore", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request, subject: str) -> Response:
        """Let an archived subject take messages again."""
        return self._set(subject)


class PlacementView(OneSubjectView):
    """Which broker groups serve a subject."""

    rights = {"GET": Right.READ, "PUT": Right.CHANGE_CLUSTER}

    @extend_schema(operation_id="subjects_placement", responses=shapes.Route)
    def get(self, request: Request, subject: str) -> Response:
        """The broker groups of a subject."""
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

    @extend_schema(operation_id="subjects_place", request=shapes.Placement, responses=ChangeSerializer)
    def put(self, request: Request, subject: str) -> Response:
        """Move a subject: groups that are not named any more take nothing new, and go when they are empty."""
        shape = shapes.Placement(data=request.data)
        shape.is_valid(raise_exception=True)
        change = route_service.move(
            subject, shape.validated_data["broker_groups"], actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)

"""/audit/."""

from typing import Any

import django_filters
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import Ordering, containing
from api.serializers import audit as shapes
from console.accounts.roles import Right
from metaserver import queries
from metaserver.services import audit

VERIFIED_MAX = 20_000
"""Entries that one request verifies."""


class AuditFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Filters of the audit log."""

    actor = django_filters.CharFilter("actor")
    action = django_filters.CharFilter("action", "startswith", label="action or its prefix, such as subject.")
    target = django_filters.CharFilter("target")
    since = django_filters.IsoDateTimeFilter("at", "gte", label="at or after this time")
    until = django_filters.IsoDateTimeFilter("at", "lt", label="before this time")
    search = django_filters.CharFilter(method="by_text", label="substring of user, action, target or reason")

    def by_text(self, rows: "QuerySet[Any]", name: str, value: str) -> "QuerySet[Any]":
        """Return entries with the text in user, action, target or reason."""
        return containing(rows, value, "actor", "action", "target", "reason")


class AuditView(ApiView):
    """The audit log."""

    rights = {"GET": Right.READ_AUDIT}
    serializer_class = shapes.AuditRow
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class = AuditFilter
    ordering_fields = ("id", "actor", "action", "target")
    ordering = ("-id",)

    def get_queryset(self) -> "QuerySet[Any]":
        return queries.audit_entries()

    @extend_schema(operation_id="audit_list", responses=shapes.AuditRow(many=True))
    def get(self, request: Request) -> Response:
        """List the entries of the audit log, newest first by default."""
        return self.listed()


class VerifyView(ApiView):
    """The hash chain of the audit log."""

    rights = {"GET": Right.READ_AUDIT}

    @extend_schema(
        operation_id="audit_verify",
        parameters=[
            OpenApiParameter("after", OpenApiTypes.INT64, description="Continue after this entry."),
            OpenApiParameter("limit", OpenApiTypes.INT, description=f"1 to {VERIFIED_MAX} entries."),
        ],
        responses=shapes.Verdict,
    )
    def get(self, request: Request) -> Response:
        """Verify the hash chain of the audit log: whether entries were modified or deleted."""
        after = self.whole("after", 0) or 0
        limit = self.whole("limit", 10_000, minimum=1, maximum=VERIFIED_MAX) or 10_000
        verdict = audit.verify(after, limit)
        return Response(self.shown(verdict, shapes.Verdict))

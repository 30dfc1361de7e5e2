"""/audit/."""

import django_filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import PartFilter
from api.generics import ListView
from api.serializers import audit as shapes
from console.accounts.roles import Right
from metaserver import queries
from metaserver.services import audit

VERIFIED_MAX = 20_000
"""Entries that one request verifies."""


class AuditView(ListView):
    """List the entries of the audit log, newest first by default."""

    rights = {"GET": Right.READ_AUDIT}
    serializer_class = shapes.AuditRow
    rows = staticmethod(queries.audit_entries)
    filters = {
        "actor": django_filters.CharFilter("actor"),
        "action": django_filters.CharFilter("action", "startswith", label="action or its prefix, such as subject."),
        "target": django_filters.CharFilter("target"),
        "since": django_filters.IsoDateTimeFilter("at", "gte", label="at or after this time"),
        "until": django_filters.IsoDateTimeFilter("at", "lt", label="before this time"),
        "search": PartFilter(
            "actor", "action", "target", "reason", label="words that occur in user, action, target or reason"
        ),
    }
    ordering_fields = ("id", "actor", "action", "target")
    ordering = ("-id",)


class VerifyView(ApiView):
    """Verify the hash chain of the audit log: whether entries were modified or deleted."""

    rights = {"GET": Right.READ_AUDIT}
    serializer_class = shapes.Verdict

    @extend_schema(
        operation_id="audit_verify",
        parameters=[
            OpenApiParameter("after", OpenApiTypes.INT64, description="Continue after this entry."),
            OpenApiParameter("limit", OpenApiTypes.INT, description=f"1 to {VERIFIED_MAX} entries."),
        ],
    )
    def get(self, request: Request) -> Response:
        after = self.whole("after", 0) or 0
        limit = self.whole("limit", 10_000, minimum=1, maximum=VERIFIED_MAX) or 10_000
        verdict = audit.verify(after, limit)
        return Response(self.shown(verdict, shapes.Verdict))

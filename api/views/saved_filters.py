"""/subjects/{subject}/saved-filters/."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.authentication import user_of
from api.base import ApiView
from api.filters import Ordering
from api.serializers import saved_filters as shapes
from console import saved_filters as service
from console.accounts.roles import Right
from console.models import SavedFilter
from metaserver import queries
from metaserver.services.changes import Change
from qmq.protocol.names import real_subject


class _OfSubject(ApiView):
    """Retries and dead letters have the filters of their subject."""

    def _checked(self, subject: str) -> str:
        self.require(Right.READ_MESSAGES, queries.owner_of(subject))
        return real_subject(subject)


class SavedFiltersView(_OfSubject):
    """Saved filters of a subject."""

    rights = {"GET": Right.READ_MESSAGES, "POST": Right.READ_MESSAGES}
    is_list = True
    serializer_class = shapes.SavedFilterRow
    bodies = {"POST": shapes.NewSavedFilter}
    answers = {"POST": shapes.MadeSavedFilter}
    filter_backends = [Ordering]
    ordering_fields = ("name", "created_at")
    ordering = ("name",)
    queryset = SavedFilter.objects.none()

    @extend_schema(operation_id="saved_filters_list")
    def get(self, request: Request, subject: str) -> Response:
        """List the caller's filters and those of the caller's teams. Administrators see those of all teams, deleted ones too."""
        name = self._checked(subject)
        rows = service.visible_to(name, user_of(request).username, self.principal.bound_to)
        return self.listed(self.filter_queryset(rows))

    @extend_schema(operation_id="saved_filters_create")
    def post(self, request: Request, subject: str) -> Response:
        """Save a filter. It is checked when it is used."""
        change, row = service.save(self._checked(subject), self.body(), user_of(request).username, **self.arguments)
        response = self.changed(change)
        response.data |= {"id": None if self.dry_run else str(row.pk)}
        return response


class SavedFilterView(_OfSubject):
    """Change or delete a saved filter: one's own, or one of one's team."""

    rights = {"PATCH": Right.READ_MESSAGES, "DELETE": Right.READ_MESSAGES}
    bodies = {"PATCH": shapes.SavedFilterChange}

    @extend_schema(operation_id="saved_filters_update")
    def patch(self, request: Request, subject: str, filter_id: int) -> Change:
        """Rename or change a saved filter, or share it; omitted fields keep their value. Team null makes it the caller's own."""
        return service.update(
            self._checked(subject), filter_id, self.body(), user_of(request).username, **self.versioned_arguments
        )

    @extend_schema(operation_id="saved_filters_delete")
    def delete(self, request: Request, subject: str, filter_id: int) -> Change:
        return service.delete(self._checked(subject), filter_id, user_of(request).username, **self.versioned_arguments)

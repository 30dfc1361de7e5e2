"""Views made of a declaration: lists, and one POST that changes one thing, such as archiving a subject."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import Ordering
from api.schema import ChangeSerializer
from api.serializers.bodies import Body, Reason
from console.accounts.roles import Right
from metaserver.services.changes import Change


class ListView(ApiView):
    """A list of rows that the query filters and orders.

    `class TeamsView(ListView, operation_id="teams_list", text="List teams.")`: the ID and the description of GET in the OpenAPI
    file. A view with a GET of its own names neither.
    """

    rights = {"GET": Right.READ}
    filter_backends = [DjangoFilterBackend, Ordering]
    rows: ClassVar[Callable[[], "QuerySet[Any]"]]
    """Makes the queryset."""

    def __init_subclass__(cls, operation_id: str = "", text: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if not operation_id:
            return
        assert cls.serializer_class is not None

        @extend_schema(operation_id=operation_id, responses=cls.serializer_class(many=True), description=text)
        def get(self: ListView, request: Request) -> Response:
            return self.listed(**self.context())

        cls.get = get  # type: ignore[attr-defined]

    def get_queryset(self) -> "QuerySet[Any]":
        return type(self).rows()

    def context(self) -> dict[str, Any]:
        """What the rows' shape needs besides them."""
        return {}


def action(
    operation_id: str,
    right: Right,
    change: Callable[..., Change],
    text: str,
    *,
    body: type[Body] = Reason,
    is_versioned: bool = True,
) -> type[ApiView]:
    """Return a view class for one such POST.

    Args:
        change: receives the view and the names in the URL, and makes the change.
        text: description for the OpenAPI file.
        is_versioned: whether it compares `If-Match` with the version of the changed object.
    """

    @extend_schema(operation_id=operation_id, request=body, responses=ChangeSerializer, description=text)
    def post(self: ApiView, request: Request, **names: Any) -> Response:
        return self.changed(change(self, **names))

    versioned = frozenset({"POST"}) if is_versioned else frozenset()
    return type(operation_id, (ApiView,), {"rights": {"POST": right}, "versioned_methods": versioned, "post": post})

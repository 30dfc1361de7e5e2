"""Views made of a declaration: lists, and one POST that changes one thing, such as archiving a subject."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import django_filters
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import Ordering
from api.serializers.bodies import Body, Reason
from console.accounts.roles import Right
from metaserver.services.changes import Change


class ListView(ApiView):
    """A list of rows that the query filters and orders. The docstring of the class describes it in the OpenAPI file."""

    rights = {"GET": Right.READ}
    is_list = True
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class: ClassVar[type[django_filters.FilterSet]]
    rows: ClassVar[Callable[[], "QuerySet[Any]"]]
    """Makes the queryset."""
    filters: ClassVar[Mapping[str, django_filters.Filter]] = {}
    """What selects rows, by the name of the query's parameter."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.filterset_class = type("Filters", (django_filters.FilterSet,), dict(cls.filters))

    def get(self, request: Request) -> Response:
        return self.listed(**self.context())

    def get_queryset(self) -> "QuerySet[Any]":
        return type(self).rows()

    def context(self) -> dict[str, Any]:
        """What the rows' shape needs besides them."""
        return {}


def action(
    right: Right,
    change: Callable[..., Change],
    text: str,
    *,
    body: type[Body] = Reason,
    is_versioned: bool = True,
    operation_id: str | None = None,
) -> type[ApiView]:
    """Return a view class for one such POST.

    Args:
        change: receives the view and the names in the URL, and makes the change.
        text: description for the OpenAPI file.
        is_versioned: whether it compares `If-Match` with the version of the changed object.
        operation_id: None: the words of the address.
    """

    @extend_schema(operation_id=operation_id, description=text)
    def post(self: ApiView, request: Request, **names: Any) -> Change:
        return change(self, **names)

    versioned = frozenset({"POST"}) if is_versioned else frozenset()
    members = {"rights": {"POST": right}, "bodies": {"POST": body}, "versioned_methods": versioned, "post": post}
    return type("ActionView", (ApiView,), members)

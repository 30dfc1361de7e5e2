"""Views of one POST that changes one thing, such as archiving a subject."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.schema import ChangeSerializer
from api.serializers.bodies import Body, Reason
from console.accounts.roles import Right
from metaserver.services.changes import Change


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

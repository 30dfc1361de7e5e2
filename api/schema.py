"""The OpenAPI file says of every operation what it may answer besides success: problems, each with its status."""

from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from api import downloads


class ProblemSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="stable, dotted; what a program goes by")
    detail = serializers.CharField()
    fields = serializers.DictField(child=serializers.CharField())  # type: ignore[assignment]
    request_id = serializers.CharField()


class ChangeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """What a change did, or in a dry run would do."""

    target = serializers.CharField()
    dry_run = serializers.BooleanField()
    is_change = serializers.BooleanField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    version = serializers.CharField()
    notes = serializers.ListField(child=serializers.CharField())


MADE = {200: ChangeSerializer, 201: ChangeSerializer}
"""Answers of what makes something: 200 for a dry run."""
PROBLEMS = {
    400: "The request is not allowed as it is.",
    401: "Not signed in, or the token is not valid.",
    403: "The right is missing.",
    404: "There is no such thing.",
    409: "Not possible in the present state.",
    412: "Changed by somebody else since it was read.",
    413: "The body is too large.",
    415: "JSON is needed.",
    422: "The idempotency key was used for another request.",
    429: "Too many requests.",
    503: "A part of the system can't be reached.",
}
_DOWNLOAD = (
    "The whole list as a file, from `cursor` on: csv (UTF-8 with BOM; also by `Accept: text/csv`) or json (this answer with `rows`,"
    f" `is_complete`, `notes`). {downloads.ROWS_MAX} rows at most, or `limit`; {downloads.ROWS_OF_NODES_MAX} of lists that nodes"
    f" are asked for. Header `{downloads.CUT_HEADER}` (true, false, unknown) and the end of the file say when something is missing."
)
_OF_ALL = (400, 401, 403, 404, 429, 503)
_OF_CHANGES = (409, 412, 413, 415, 422)


class Schema(AutoSchema):
    """Adds problems, `dry_run`, `If-Match` and `Idempotency-Key` where they apply."""

    def _is_change(self) -> bool:
        return self.method in ("POST", "PUT", "PATCH", "DELETE")

    def _is_download(self) -> bool:
        """Whether this answers with a list, which can be had as a file."""
        if self.method != "GET" or not getattr(self.view, "rights", None):
            return False
        shape = self.get_response_serializers()
        if isinstance(shape, serializers.ListSerializer):
            return True
        made = shape() if isinstance(shape, type) else shape
        return isinstance(made, serializers.Serializer) and "results" in made.fields

    def get_override_parameters(self) -> list[Any]:
        parameters = list(super().get_override_parameters())
        if self._is_download():
            parameters.append(
                OpenApiParameter("format", OpenApiTypes.STR, enum=list(downloads.FORMATS), description=_DOWNLOAD)
            )
        if self._is_change() and getattr(self.view, "has_dry_run", True):
            parameters.append(
                OpenApiParameter("dry_run", OpenApiTypes.BOOL, description="Say what would happen; do nothing.")
            )
        if self.method in ("PUT", "PATCH", "DELETE") or (
            self.method == "POST" and getattr(self.view, "has_etag", False)
        ):
            parameters.append(
                OpenApiParameter(
                    "If-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, pattern=r'^(\*|"v[0-9]{1,18}")$',
                    description="The ETag that was read: 412 when it is not the newest any more.",
                )
            )  # fmt: skip
        if self.method == "POST":
            parameters.append(
                OpenApiParameter(
                    "Idempotency-Key", OpenApiTypes.STR, OpenApiParameter.HEADER, pattern="^[!-~]{1,100}$",
                    description="The same key again: done once, answered alike.",
                )
            )  # fmt: skip
        return parameters

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        answer = self.get_response_serializers()
        if self.method == "DELETE" and isinstance(answer, type) and issubclass(answer, serializers.BaseSerializer):
            # A deletion says what it did, as every change does; it is taken for an empty 204 otherwise.
            bodies = {"200": self._get_response_for_code(answer, "200")}  # type: ignore[no-untyped-call]
        if not getattr(self.view, "rights", None):
            return bodies
        if self._is_download():
            bodies["200"].setdefault("content", {})["text/csv"] = {"schema": {"type": "string"}}
        for status in (*_OF_ALL, *(_OF_CHANGES if self._is_change() else ())):
            if str(status) not in bodies:
                body = self._get_response_for_code(ProblemSerializer, str(status), ["application/problem+json"])  # type: ignore[no-untyped-call]
                bodies[str(status)] = {**body, "description": PROBLEMS[status]}
        return bodies

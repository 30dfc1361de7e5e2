"""Generates the OpenAPI file. Every operation lists the errors of its own; `default` stands for those that any operation can answer
with. Error responses, and parameters that several operations take, are components, each described once."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from django.conf import settings
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from api import downloads, idempotency
from api.serializers.bodies import Reason
from api.serializers.reasons import Notes
from console.http import protocol
from console.models import ANSWERS_KEPT


class ProblemSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="stable dotted code for programs")
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
    notes = Notes(help_text="what happens next, and what the change does not do")


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """A response to an error that operations share."""

    name: str
    """Of the component."""
    description: str
    has_body: bool = True
    """Whether it has a problem as its body: the HTTP server itself answers without one."""
    may_have_retry_after: bool = False


_MIB = 1 << 20
ERRORS = {
    400: ErrorResponse("BadRequest", "A value is invalid or missing; `fields` names it."),
    401: ErrorResponse("Unauthorized", "The credential is missing, unknown, expired or revoked."),
    403: ErrorResponse(
        "Forbidden",
        "The caller lacks the right, the subject belongs to another team, the CSRF token is missing (`access.csrf`), or the"
        " password must be entered again (`access.reauthenticate`).",
    ),
    404: ErrorResponse("NotFound", "An object named in the path or the body does not exist."),
    406: ErrorResponse("NotAcceptable", "`Accept` matches no media type of this operation."),
    408: ErrorResponse(
        "RequestTimeout",
        f"The headers took longer than {protocol.HEADER_SECONDS:g} s, or the body longer than"
        f" {protocol.BODY_SECONDS:g} s. The connection is closed.",
        has_body=False,
    ),
    409: ErrorResponse(
        "Conflict",
        "Not possible in the current state, or the first request with this key is still running (`idempotency.running`).",
    ),
    412: ErrorResponse("PreconditionFailed", "The version of `If-Match` is not the current one (`change.stale`)."),
    413: ErrorResponse(
        "ContentTooLarge",
        f"The body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE // _MIB} MiB (`request.too_large`). Without a body of its"
        f" own when the whole request is larger than {protocol.MESSAGE_BYTES_MAX // _MIB} MiB. The connection is closed.",
    ),
    415: ErrorResponse("UnsupportedMediaType", "This operation does not accept the `Content-Type`."),
    422: ErrorResponse(
        "UnprocessableContent", "The idempotency key was used with another request (`idempotency.key_reused`)."
    ),
    429: ErrorResponse(
        "TooManyRequests",
        "The address, user or token is over a rate limit (`request.throttled`), or too many downloads are running"
        " (`download.too_many`).",
        may_have_retry_after=True,
    ),
    431: ErrorResponse(
        "RequestHeaderFieldsTooLarge",
        f"Request line and headers are larger than {protocol.HEADER_BYTES_MAX >> 10} KiB. The connection is closed.",
        has_body=False,
    ),
    500: ErrorResponse(
        "InternalServerError", "An unexpected error (`server.error`); the log has its cause under `request_id`."
    ),
    503: ErrorResponse(
        "ServiceUnavailable",
        "The database (`database.away`) or a node is unreachable, or the database (`database.busy`) or the console (`server.busy`)"
        " is at a limit. Try again.",
        may_have_retry_after=True,
    ),
}
_IDEMPOTENCY = (
    f"1 to {idempotency.KEY_CHARS_MAX} visible ASCII characters. A repeated request with the same key returns the stored"
    " response of the first one, after authorization is checked. 2xx responses and 409 responses whose code ends in `.exists` are"
    f" stored for {ANSWERS_KEPT.total_seconds() / 3600:g} h. Any other response releases the key."
)
_DOWNLOAD = (
    "Export the whole list, from `cursor` on, as a file: csv (UTF-8 with BOM; also by `Accept: text/csv`) or json (this response"
    f" with `rows`, `is_complete`, `notes`). At most `limit` or {downloads.ROWS_MAX} rows; {downloads.ROWS_OF_NODES_MAX} for lists"
    f" that are read from nodes. Header `{downloads.CUT_HEADER}` (true, false, unknown) and the end of the file report gaps."
)
COMMON_STATUSES = (401, 406, 408, 413, 429, 431, 500, 503)
"""Statuses that any operation can return because of sign-in, limits, or the layers before its view: the response `default`."""
_COMMON = ErrorResponse(
    "Error",
    "An error that any operation can return. "
    + " ".join(f"{status}: {ERRORS[status].description}" for status in COMMON_STATUSES)
    + f" {' and '.join(str(status) for status in COMMON_STATUSES if not ERRORS[status].has_body)} have no body.",
    may_have_retry_after=True,
)
_OF_ALL = (400, 403, 404)
_OF_CHANGES = (409, 412, 415, 422)
SHARED_FROM = 2
"""A parameter that this many operations take alike is a component."""


def close(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """State that bodies of requests have no other fields than those described (`api.operations`). A hook of drf-spectacular."""
    schemas = result["components"]["schemas"]
    waiting = [operation.get("requestBody") for path in result["paths"].values() for operation in path.values()]
    closed: set[str] = set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            name = str(item.get("$ref", "")).rpartition("/")[2]
            if name and name not in closed:
                closed.add(name)
                waiting.append(schemas[name])
            if "properties" in item and item.get("type") == "object":
                item.setdefault("additionalProperties", False)
            waiting += item.values()
    return result


def share(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """Replace what operations repeat: parameters by references to components, the usual security by that of the whole file. A hook
    of drf-spectacular."""
    operations = [operation for path in result["paths"].values() for operation in path.values()]
    uses = Counter(_text(parameter) for operation in operations for parameter in operation.get("parameters", ()))
    shared: dict[str, Any] = {}
    usual = operations[0]["security"]
    for operation in operations:
        parameters = operation.get("parameters", [])
        parameters[:] = [
            _reference(parameter, shared) if uses[_text(parameter)] >= SHARED_FROM else parameter
            for parameter in parameters
        ]
        if operation.setdefault("security", []) == usual:
            del operation["security"]
    result["components"]["parameters"] = dict(sorted(shared.items()))
    result["security"] = usual
    return result


def _text(parameter: dict[str, Any]) -> str:
    return json.dumps(parameter, sort_keys=True)


def _reference(parameter: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """The component of a parameter, which is added on first use: named by its place and name, and numbered where that is taken."""
    words = f"{parameter['in']}_{parameter['name']}".replace("-", "_").split("_")
    base = name = "".join(word[:1].upper() + word[1:] for word in words)
    number = 1
    while shared.setdefault(name, parameter) != parameter:
        number += 1
        name = f"{base}{number}"
    return {"$ref": f"#/components/parameters/{name}"}


_OPERATIONS = {"GET": "list", "POST": "create", "PATCH": "update", "DELETE": "delete"}
"""By method, the last word of the ID of an operation on a list or on one of its rows; of a row, GET is `get`."""


class Schema(AutoSchema):
    """Describes views as they declare themselves; adds problems, `dry_run`, `If-Match` and `Idempotency-Key` where they apply."""

    view: Any
    """An `api.base.ApiView`."""

    def get_operation_id(self) -> str:
        """The words of the address and the operation. What is below a row has the words only, such as `subjects_archive`, and so
        has a POST to what is no list. `extend_schema` names the others.
        """
        words = [word.replace("-", "_") for word in self._tokenize_path()]
        is_row = self.path.endswith("}/")
        if not is_row and ("}" in self.path or (self.method == "POST" and not self.view.is_list)):
            return "_".join(words)
        return "_".join([*words, "get" if is_row and self.method == "GET" else _OPERATIONS[str(self.method)]])

    def _is_change(self) -> bool:
        return self.method in ("POST", "PUT", "PATCH", "DELETE")

    def _is_download(self) -> bool:
        """Whether this answers with a list, which can be exported as a file."""
        if self.method != "GET":
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
        if self._is_change():
            parameters.append(
                OpenApiParameter(
                    "dry_run",
                    OpenApiTypes.BOOL,
                    description="Preview: return what would change without changing anything.",
                )
            )
        if self._is_change() and self.method in self.view.versioned_methods:
            parameters.append(
                OpenApiParameter(
                    "If-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, pattern=r'^(\*|(W/)?"v[0-9]{1,18}")$',
                    description="The ETag that was read; 412 if the version has changed. `*` or no header matches any version.",
                )
            )  # fmt: skip
        if self.method == "POST":
            parameters.append(
                OpenApiParameter(
                    idempotency.HEADER, OpenApiTypes.STR, OpenApiParameter.HEADER, pattern=f"^{idempotency.KEY_PATTERN}$",
                    description=_IDEMPOTENCY,
                )
            )  # fmt: skip
        return parameters

    def get_request_serializer(self) -> Any:
        return self.view.bodies.get(self.method, Reason)

    def get_response_serializers(self) -> Any:
        if self.method == "GET":
            shape = self.view.serializer_class
            return shape(many=True) if self.view.is_list else shape
        shape = self.view.answers.get(self.method, ChangeSerializer)
        return {200: shape, 201: shape} if self.method == "POST" and self.view.is_list else shape

    def _get_request_body(self, direction: Literal["request", "response"] = "request") -> Any:
        """Deletions have a body as every change: OpenAPI 3.1 allows one."""
        if self.method != "DELETE":
            return super()._get_request_body(direction)  # type: ignore[no-untyped-call]
        component = self.resolve_serializer(self.get_request_serializer(), "request")
        return {"content": {"application/json": {"schema": component.ref}}}

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        answer = self.get_response_serializers()
        if self.method == "DELETE" and isinstance(answer, type) and issubclass(answer, serializers.BaseSerializer):
            # A deletion returns what it did, as every change does; without this it is treated as an empty 204.
            bodies = {"200": self._get_response_for_code(answer, "200")}  # type: ignore[no-untyped-call]
        if self._is_download():
            bodies["200"].setdefault("content", {})["text/csv"] = {"schema": {"type": "string"}}
        for status in (*_OF_ALL, *(_OF_CHANGES if self._is_change() else ())):
            bodies.setdefault(str(status), self._error(ERRORS[status]))
        bodies["default"] = self._error(_COMMON)
        return bodies

    def _error(self, error: ErrorResponse) -> dict[str, Any]:
        """A reference to a shared response, which is registered on first use."""
        described: dict[str, Any] = {"description": error.description}
        if error.may_have_retry_after:
            seconds = {"type": "integer", "minimum": 1}
            described["headers"] = {
                "Retry-After": {"schema": seconds, "description": "Seconds to wait before the next attempt."}
            }
        if error.has_body:
            problem = self.resolve_serializer(ProblemSerializer, "response").ref
            described["content"] = {"application/problem+json": {"schema": problem}}
        component = ResolvedComponent(error.name, ResolvedComponent.RESPONSE, described, error.name)  # type: ignore[no-untyped-call]
        self.registry.register_on_missing(component)
        reference: dict[str, Any] = component.ref
        return reference

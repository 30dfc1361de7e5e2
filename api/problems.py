"""Every error as application/problem+json (RFC 9457) with a stable dotted `code`."""

import logging
import re
import sys
from typing import Any

from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig
from django.db import DataError, IntegrityError
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, JsonResponse
from django.urls import is_valid_path
from rest_framework import exceptions, status
from rest_framework.response import Response

from console.http.problems import MEDIA_TYPE, problem, problem_response
from console.http.requests import current_id
from metaserver.errors import ChangeRefused, Conflict, NotAllowed, NotFound, Stale
from metaserver.stored.database import is_busy
from qmq.errors import CallTimeout, ConnectionLost, QmqError

logger = logging.getLogger("qmq.api")

_STATUS: tuple[tuple[type[QmqError], int], ...] = (
    (NotAllowed, status.HTTP_403_FORBIDDEN),
    (NotFound, status.HTTP_404_NOT_FOUND),
    (Stale, status.HTTP_412_PRECONDITION_FAILED),
    (Conflict, status.HTTP_409_CONFLICT),
    (ChangeRefused, status.HTTP_400_BAD_REQUEST),
    (ConnectionLost, status.HTTP_503_SERVICE_UNAVAILABLE),
    (CallTimeout, status.HTTP_503_SERVICE_UNAVAILABLE),
)
_ADDRESS = re.compile(
    r"""https?://[^\s'",;)]*[^\s'",;:.)]      # a URL
    | \('[^']*',\ \d+(?:,\ \d+)*\)          # a socket's address, as OSError shows it
    | (?<![\w.:])(?:\d{1,3}\.){3}\d{1,3}:\d{1,5}\b
    | \[[0-9A-Fa-f:.]+\]:\d{1,5}\b
    | (?<![\w.:-])[A-Za-z][\w.-]*:\d{2,5}(?![\w:])  # a host's name and a port
    """,
    re.VERBOSE,
)


class Problem(exceptions.APIException):
    """A problem with its status, code and sentence."""

    def __init__(self, status_code: int, code: str, detail: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(detail, code)
        self.status_code = status_code
        self.fields = fields or {}
        self.wait: float | None = None
        """Seconds after which another try makes sense, for Retry-After."""


def invalid(name: str, what: str, value: str | None = None) -> Problem:
    """The problem of a value of the request; `what` says what it must be, or why it can't be this one."""
    given = "" if value is None else f"{value[:40]!r} "
    return Problem(400, "request.invalid", f"{name}: {given}{what}", {name: what})


def _respond(
    status_code: int,
    code: str,
    detail: str,
    fields: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    answer = problem(status_code, code, detail, fields)
    return Response(answer, status=status_code, headers=headers, content_type=MEDIA_TYPE)


def without_addresses(text: str) -> str:
    """A text without the URLs and addresses that errors of connections name: they are internal."""
    return _ADDRESS.sub("(address in the log)", text)


def _node_problem(error: QmqError, status_code: int) -> Response:
    """An error that may come from a node or metaserver: what it says in full goes to the log."""
    text = str(error)
    shown = without_addresses(text)
    if shown != text:
        logger.warning("%s: %s", error.code, text)
    return _respond(status_code, error.code, shown, getattr(error, "fields", None))


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """REST framework's exception handler."""
    if isinstance(error, QmqError):
        for kind, status_code in _STATUS:
            if isinstance(error, kind):
                if status_code in (status.HTTP_409_CONFLICT, status.HTTP_503_SERVICE_UNAVAILABLE):
                    return _node_problem(error, status_code)
                return _respond(status_code, error.code, str(error), getattr(error, "fields", None))
        return _node_problem(error, 503 if error.retriable else 400)
    if isinstance(error, Http404):
        return _respond(404, "request.not_found", "There is no resource at this address.")
    if isinstance(error, DjangoPermissionDenied):
        return _respond(403, "access.denied", "You don't have permission to do this.")
    if isinstance(error, RequestDataTooBig):
        return _respond(413, "request.too_large", str(error))
    if isinstance(error, DataError | IntegrityError):
        # No request should get here: values that can't be stored are rejected earlier.
        logger.exception("the database refused a value")
        return _respond(
            409,
            "database.refused",
            f"The database rejected the request. The log has the reason under request ID {current_id.get()}.",
        )
    if isinstance(error, DatabaseError):
        failure, what, retry = _database_failure(error)
        return _respond(503, failure, what, headers=retry)
    if isinstance(error, exceptions.ValidationError):
        fields = _flat(error.detail)
        text = "; ".join(f"{key}: {value}" if key else value for key, value in fields.items())
        return _respond(400, "request.invalid", text, fields)
    if isinstance(error, exceptions.APIException):
        headers = {}
        if getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = str(error.auth_header)  # type: ignore[attr-defined]
        if getattr(error, "wait", None):
            headers["Retry-After"] = str(int(error.wait) + 1)  # type: ignore[attr-defined]
        own_code = error.get_codes()
        code = own_code if isinstance(own_code, str) and "." in own_code else f"request.{error.default_code}"
        return _respond(error.status_code, code, str(error.detail), getattr(error, "fields", None), headers)
    return None


BUSY_RETRY_SECONDS = 1


def _database_failure(error: DatabaseError) -> tuple[str, str, dict[str, str]]:
    """Code, text and headers of the answer to an error of the database, which is logged."""
    if is_busy(error):
        logger.warning("the database is busy: %s", error)
        text = "The database is busy with other changes. Try again in a second."
        return "database.busy", text, {"Retry-After": str(BUSY_RETRY_SECONDS)}
    logger.error("the database failed", exc_info=error)
    text = f"The database is unavailable. Try again. The log has the reason under request ID {current_id.get()}."
    return "database.away", text, {}


def _flat(detail: Any, path: str = "") -> dict[str, str]:
    """A serializer's nested errors by dotted field name."""
    if isinstance(detail, dict):
        found: dict[str, str] = {}
        for key, value in detail.items():
            name = "" if key == "non_field_errors" else str(key)
            found |= _flat(value, f"{path}.{name}".strip("."))
        return found
    if isinstance(detail, list):
        if any(isinstance(item, dict) for item in detail):
            found = {}
            for number, item in enumerate(detail):
                found |= _flat(item, f"{path}.{number}".strip("."))
            return found
        return {path: " ".join(str(item) for item in detail)}
    return {path: str(detail)}


def not_found(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    """Django's own 404, outside any view."""
    text = f"There is no resource at {request.path}."
    if not request.path_info.endswith("/") and is_valid_path(f"{request.path_info}/"):
        text += f" Use {request.path}/ with a slash at the end: changes are not redirected."
    return problem_response(404, "request.not_found", text)


def failed(request: HttpRequest) -> JsonResponse:
    """Django's own 500: an id, and nothing of what happened; 503 where a session, say, could not be read."""
    error = sys.exception()
    if isinstance(error, DatabaseError):
        return problem_response(503, *_database_failure(error))
    text = f"An unexpected error occurred. The log has the reason under request ID {current_id.get()}."
    return problem_response(500, "server.error", text)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    """Django's own 400: a host name that is not ours, a suspicious request."""
    return problem_response(400, "request.bad", "The request is malformed.")


def csrf_refused(request: HttpRequest, reason: str = "") -> JsonResponse:
    """A change from a browser without the token that only our pages have."""
    return problem_response(403, "access.csrf", csrf_text(reason))


def csrf_text(reason: str) -> str:
    """Why a change without proof that it comes from our pages is rejected, and what to do."""
    if "trusted origins" not in reason:
        return f"CSRF: {reason}"
    return (
        f"CSRF: {reason} A reverse proxy must pass on the Host header of the browser with its port (nginx: proxy_set_header Host"
        " $http_host). Or else add the origin to QMQ_TRUSTED_ORIGINS."
    )

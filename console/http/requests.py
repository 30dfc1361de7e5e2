"""Each request gets an ID from the console: in its answer, in its log lines and in its audit entries.

A caller's own `X-Request-Id` stands beside it there. It never replaces ours: entries could be made to look like another request's.
"""

import logging
import re
import uuid
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse

from console.http.middleware import Middleware

_LINE_END = re.compile("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_GIVEN = re.compile(r"[A-Za-z0-9._-]{8,64}")
current_id: ContextVar[str] = ContextVar("request_id", default="-")
client_id: ContextVar[str] = ContextVar("client_request_id", default="")
"""The caller's own `X-Request-Id`; "" when there is none, or not a plain one of up to 64 characters."""


def new_id() -> str:
    """Return an id for a request or a websocket."""
    return uuid.uuid4().hex


def plain_client_id(given: str) -> str:
    """Return a caller's `X-Request-Id` if it is plain and of 8 to 64 characters, "" otherwise."""
    return given if _GIVEN.fullmatch(given) else ""


class RequestIdMiddleware(Middleware):
    """Gives each request an id, and keeps the caller's beside it when it is plain."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = new_id()
        token = current_id.set(request_id)
        client_token = client_id.set(plain_client_id(request.headers.get("X-Request-Id", "")))
        try:
            response = self._get_response(request)
        finally:
            client_id.reset(client_token)
            current_id.reset(token)
        response.headers["X-Request-Id"] = request_id
        return response


class RequestIdFilter(logging.Filter):
    """Gives every log record the id, and the caller's behind it."""

    def filter(self, record: logging.LogRecord) -> bool:
        given = client_id.get()
        record.request_id = f"{current_id.get()} client={given}" if given else current_id.get()
        return True


class OneLineFormatter(logging.Formatter):
    """Escape line ends in values of clients, so that they can't imitate log lines; tracebacks keep theirs."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _LINE_END.sub(lambda found: repr(found.group())[1:-1], super().formatMessage(record))

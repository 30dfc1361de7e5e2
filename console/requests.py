"""Each request gets an id: in its answer, in every log line it causes, in the audit entries it leaves."""

import logging
import re
import uuid
from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse

_LINE_END = re.compile("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_GIVEN = re.compile(r"[A-Za-z0-9._-]{8,64}")
current_id: ContextVar[str] = ContextVar("request_id", default="-")


class RequestIdMiddleware:
    """Takes a caller's X-Request-Id when it is plain, makes one otherwise."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if _GIVEN.fullmatch(given) else uuid.uuid4().hex
        token = current_id.set(request_id)
        try:
            response = self._get_response(request)
        finally:
            current_id.reset(token)
        response.headers["X-Request-Id"] = request_id
        return response


class RequestIdFilter(logging.Filter):
    """Gives every log record the id."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = current_id.get()
        return True


class OneLineFormatter(logging.Formatter):
    """A line end in what somebody sent may not look like another log line: messages are one line, tracebacks stay as
    they are."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _LINE_END.sub(lambda found: repr(found.group())[1:-1], super().formatMessage(record))

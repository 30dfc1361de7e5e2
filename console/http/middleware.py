"""What the middlewares of the console share, and those of Django that do a little less here."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.middleware.gzip import GZipMiddleware


class Middleware:
    """A middleware whose `__call__` runs in a thread: database and cache calls in it may block."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response


class CompressionMiddleware(GZipMiddleware):
    """Django's middleware, but for downloads: it compresses each part of an asynchronous stream on its own.

    It makes the length of an answer random (BREACH), and the ETag weak, which `api.base` accepts in If-Match.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if response.streaming else super().process_response(request, response)


class SlashMiddleware(CommonMiddleware):
    """Redirects to the address with the slash, for GET and HEAD only: clients repeat a redirected POST as a GET, so a change would
    be answered 200 without having been made. Changes get 404, which names the right address (`api.problems.not_found`).
    """

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        return request.method in ("GET", "HEAD") and bool(super().should_redirect_with_slash(request))

"""What the middlewares of the console share."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class Middleware:
    """A middleware whose `__call__` runs in a thread: database and cache calls in it may block."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

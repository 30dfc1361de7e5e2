"""/static/: the files of the front end, as whitenoise finds them, compressed when they were built."""

from contextlib import closing

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from whitenoise.responders import StaticFile

from console.http.frontend import NotBuilt, frontend
from console.http.headers import API_POLICY
from console.http.middleware import Middleware

NO_DOCUMENTS = ("text/javascript", "text/css", "font/")
"""Types that a browser shows as text: policies for documents say nothing about them, and a page loads some 30 of these files."""


class StaticFilesMiddleware(Middleware):
    """Answers for everything under STATIC_URL; stands before sessions, so that a file costs no query, and before document headers.

    whitenoise's own middleware answers with an iterator of a file, which Django under ASGI reads whole with a warning. These files
    are small: they are read whole without one.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(settings.STATIC_URL):
            return self._get_response(request)
        try:
            file = frontend().current().files.get(request.path_info)
        except NotBuilt as error:
            raise Http404(str(error)) from error
        if file is None:
            raise Http404("file not found")
        return _answer(file, request)


def _answer(file: StaticFile, request: HttpRequest) -> HttpResponse:
    try:
        found = file.get_response(request.method, request.META)
    except FileNotFoundError:
        raise Http404("replaced by a newer build") from None
    content = b""
    if found.file is not None:
        with closing(found.file) as opened:
            content = opened.read()
    response = HttpResponse(content, status=int(found.status))
    del response.headers["Content-Type"]
    for name, value in found.headers:
        response.headers[name] = value
    response.headers["X-Content-Type-Options"] = "nosniff"
    if not response.headers.get("Content-Type", "").startswith(NO_DOCUMENTS):
        response.headers["Content-Security-Policy"] = API_POLICY
    return response

"""gzip for the answers of the API and for the console's page."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class CompressionMiddleware(GZipMiddleware):
    """Django's middleware, but for downloads: it compresses each part of an asynchronous stream on its own.

    It makes the length of an answer random (BREACH), and the ETag weak, which `api.base` accepts in If-Match.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.streaming:
            return response
        return super().process_response(request, response)

"""Headers that every answer carries, beside those of Django's own middleware."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""Answers of the API are data: a browser that shows one as a page loads and runs nothing."""
PAGE_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self';"
    " object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""The console's pages: nothing inline, nothing from elsewhere."""
PERMISSIONS = "camera=(), microphone=(), geolocation=(), payment=(), usb=()"
DATA_PATHS = ("/api/", "/_allauth/", "/metrics", "/healthz")


class HeadersMiddleware:
    """Content-Security-Policy, Permissions-Policy; no-store for what is data."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        is_data = request.path.startswith(DATA_PATHS)
        response.headers.setdefault("Content-Security-Policy", API_POLICY if is_data else PAGE_POLICY)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        if is_data:
            response.headers.setdefault("Cache-Control", "no-store")
        return response

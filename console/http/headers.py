"""Headers that every answer carries, beside those of Django's own middleware."""

from django.http import HttpRequest, HttpResponse

from console.http.middleware import Middleware

API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""Answers of the API and files are data: a browser that shows one as a page loads and runs nothing."""
PERMISSIONS = "camera=(), microphone=(), geolocation=(), payment=(), usb=()"
DATA_PATHS = ("/api/", "/_allauth/", "/metrics", "/healthz")


def page_policy(nonce: str = "") -> str:
    """The policy of the console's pages: nothing inline, nothing from elsewhere; but <style> elements with this nonce.

    `connect-src 'self'` lets websockets to the same host and port through as well (CSP 3: ws for a page of http, wss for both).
    """
    styles = f"'self' 'nonce-{nonce}'" if nonce else "'self'"
    return (
        f"default-src 'self'; script-src 'self'; style-src {styles}; img-src 'self' data:; font-src 'self'; connect-src 'self';"
        " object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
    )


class HeadersMiddleware(Middleware):
    """Content-Security-Policy, Permissions-Policy; no-store for what is data."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        is_data = request.path.startswith(DATA_PATHS)
        response.headers.setdefault("Content-Security-Policy", API_POLICY if is_data else page_policy())
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        if is_data:
            response.headers.setdefault("Cache-Control", "no-store")
        return response

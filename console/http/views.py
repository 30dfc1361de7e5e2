"""The page that is the console, and whether the process answers."""

import secrets

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from console.http.frontend import NONCE_PLACEHOLDER, NotBuilt, frontend
from console.http.headers import page_policy

NONCE_BYTES = 16


def healthz(_: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
@ensure_csrf_cookie
def page(_: HttpRequest) -> HttpResponse:
    """index.html, whatever the address: the browser's router knows what to show there. Each answer has a nonce of its own for
    the <style> elements that the components make."""
    try:
        html = frontend().current().page
    except NotBuilt as error:
        return HttpResponse(f"{error}\n", status=503, content_type="text/plain; charset=utf-8")
    nonce = secrets.token_urlsafe(NONCE_BYTES)
    headers = {"Content-Security-Policy": page_policy(nonce), "Cache-Control": "no-store"}
    return HttpResponse(html.replace(NONCE_PLACEHOLDER, nonce), headers=headers)

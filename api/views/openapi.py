"""/openapi.yaml: the description of the API; /docs/: the same as a page, in which operations can be tried."""

import functools
from hashlib import blake2b

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import etag, require_safe

from api.operations import FILE
from console.http.headers import page_policy


@functools.cache
def _document() -> tuple[bytes, str]:
    """Returns the file and its ETag."""
    content = FILE.read_bytes()
    return content, f'"{blake2b(content, digest_size=8).hexdigest()}"'


@require_safe
@etag(lambda request: _document()[1])
def openapi(request: HttpRequest) -> HttpResponse:
    """Returns the committed file, to anyone: generating it for each request would take 0.3 s of a processor."""
    content, _ = _document()
    return HttpResponse(content, content_type="application/yaml", headers={"Cache-Control": "no-cache"})


_STATIC = settings.STATIC_URL
_PAGE = f"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>API · PyQMQ</title>
    <link rel="icon" href="{_STATIC}favicon.svg">
    <link rel="stylesheet" href="{_STATIC}swagger/swagger-ui.css">
  </head>
  <body>
    <main id="swagger-ui"></main>
    <script src="{_STATIC}swagger/swagger-ui-bundle.js"></script>
    <script src="{_STATIC}api.js"></script>
  </body>
</html>
"""


@require_safe
@ensure_csrf_cookie
def page(request: HttpRequest) -> HttpResponse:
    """Returns Swagger UI with the file. Operations that it sends use the session of the browser, or a token."""
    return HttpResponse(_PAGE, headers={"Content-Security-Policy": page_policy(), "Cache-Control": "no-cache"})

"""/openapi.yaml: the description of the API."""

import functools
from hashlib import blake2b

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import etag, require_safe

from api.operations import FILE


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

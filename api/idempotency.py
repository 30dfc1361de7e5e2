"""`Idempotency-Key`: a POST that is sent again with the same key is done once and answered alike.

Answers are kept for a day. The same key with another body is refused; while the first request still runs, so is the second.
"""

import json
import logging
from datetime import timedelta
from hashlib import blake2b
from typing import Any

from django.db import Error as DatabaseError
from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from api.problems import MEDIA_TYPE, Problem
from console.accounts.roles import Principal
from console.models import IdempotencyKey

HEADER = "Idempotency-Key"
KEY_CHARS_MAX = 100
KEPT_HEADERS = ("ETag",)
KEEP = timedelta(hours=24)
RUNNING_MAX = timedelta(minutes=2)
"""A first request that has not answered for this long is taken for dead: its process ended."""

TRIES = 3
"""How often a key is claimed anew when its row goes at the same moment."""

logger = logging.getLogger("qmq.api")


class Replayed(Exception):
    """The request was answered before; this is the answer."""

    def __init__(self, response: Response) -> None:
        self.response = response


def claim(request: Request) -> IdempotencyKey | None:
    """Claim the key for this request; None when it carries none.

    Raises:
        Replayed: it was answered already.
        Problem: 400 for an illegal key, 409 while the first runs, 422 for another body under the same key.
    """
    given = request.headers.get(HEADER)
    if given is None or request.method != "POST":
        return None
    if not 1 <= len(given) <= KEY_CHARS_MAX or not given.isprintable():
        raise Problem(400, "idempotency.key_illegal", f"{HEADER}: 1 to {KEY_CHARS_MAX} printable characters are needed")
    principal = request.auth
    assert isinstance(principal, Principal)
    key = blake2b(f"{principal.name}\n{given}".encode(), digest_size=32).hexdigest()
    said = json.dumps(request.data, sort_keys=True, default=str)
    wanted = blake2b(f"{request.get_full_path()}\n{said}".encode(), digest_size=32).hexdigest()
    for _ in range(TRIES):
        row = _claimed(key, wanted)
        if row is not None:
            return row
        found = IdempotencyKey.objects.filter(key=key).first()
        if found is None:
            continue
        now = timezone.now()
        if found.created_at < now - KEEP or (found.status is None and found.created_at < now - RUNNING_MAX):
            # This row and no newer one: whoever else finds it old may have put his own in its place.
            IdempotencyKey.objects.filter(pk=found.pk).delete()
            continue
        if found.request_digest != wanted:
            raise Problem(422, "idempotency.key_reused", f"{HEADER} {given!r} was sent with another request before")
        if found.status is None:
            break
        raise Replayed(_again(found))
    raise Problem(409, "idempotency.running", "the first request with this key still runs; ask again soon")


def _claimed(key: str, wanted: str) -> IdempotencyKey | None:
    try:
        with transaction.atomic():
            return IdempotencyKey.objects.create(key=key, request_digest=wanted)
    except IntegrityError:
        return None


def _again(row: IdempotencyKey) -> Response:
    kept: Any = row.body
    status = int(row.status or 0)
    headers = {**kept["headers"], "Idempotent-Replayed": "true"}
    return Response(kept["data"], status=status, headers=headers, content_type=MEDIA_TYPE if status >= 400 else None)


def settle(row: IdempotencyKey, response: Response) -> None:
    """Keep the answer; a failure of ours is not kept, so that the caller may try again."""
    if response.status_code >= 500 or response.status_code == 429:
        release(row)
        return
    data = json.loads(json.dumps(response.data, cls=JSONEncoder))
    for name in getattr(response, "shown_once", ()):
        data[name] = None  # a password, a token: kept nowhere, so not for a second answer either
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    kept = {"data": data, "headers": headers}
    try:
        IdempotencyKey.objects.filter(pk=row.pk).update(status=response.status_code, body=kept)
    except DatabaseError:
        # What was asked is done: the answer goes out all the same.
        logger.exception("an answer can't be kept for its key")


def release(row: IdempotencyKey) -> None:
    """Free the key: the request came to nothing."""
    try:
        IdempotencyKey.objects.filter(pk=row.pk).delete()
    except DatabaseError:
        logger.exception("a key can't be freed; it is after %s", RUNNING_MAX)

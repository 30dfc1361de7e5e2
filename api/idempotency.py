"""`Idempotency-Key`: a POST that is sent again with the same key is done once and answered alike.

Answers are kept for a day. The same key with another body is refused; while the first request still runs, so is the second.
"""

import json
from datetime import timedelta
from hashlib import blake2b

from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from api.problems import Problem
from console.accounts.roles import Principal
from console.models import IdempotencyKey

HEADER = "Idempotency-Key"
KEY_CHARS_MAX = 100
KEEP = timedelta(hours=24)
RUNNING_MAX = timedelta(minutes=2)
"""A first request that has not answered for this long is taken for dead: its process ended."""


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
    now = timezone.now()
    try:
        with transaction.atomic():
            return IdempotencyKey.objects.create(key=key, request_digest=wanted)
    except IntegrityError:
        pass
    row = IdempotencyKey.objects.filter(key=key).first()
    if row is None or row.created_at < now - KEEP or (row.status is None and row.created_at < now - RUNNING_MAX):
        IdempotencyKey.objects.filter(key=key).delete()
        return IdempotencyKey.objects.create(key=key, request_digest=wanted)
    if row.request_digest != wanted:
        raise Problem(422, "idempotency.key_reused", f"{HEADER} {given!r} was sent with another request before")
    if row.status is None:
        raise Problem(409, "idempotency.running", "the first request with this key still runs; ask again soon")
    raise Replayed(Response(row.body, status=row.status, headers={"Idempotent-Replayed": "true"}))


def settle(row: IdempotencyKey, response: Response) -> None:
    """Keep the answer; a failure of ours is not kept, so that the caller may try again."""
    if response.status_code >= 500 or response.status_code == 429:
        row.delete()
        return
    body = json.loads(json.dumps(response.data, default=str))
    for name in getattr(response, "shown_once", ()):
        body[name] = None  # a password, a token: kept nowhere, so not for a second answer either
    row.status, row.body = response.status_code, body
    row.save(update_fields=["status", "body"])


def forget_old() -> int:
    """Delete what is older than a day; how many."""
    return IdempotencyKey.objects.filter(created_at__lt=timezone.now() - KEEP).delete()[0]

"""`Idempotency-Key`: a POST that is repeated with the same key takes effect once.

The first final outcome is stored for a day and returned to every repetition: a 2xx answer, or a 409 that says that the
thing exists. Every other answer frees the key, because the same request may succeed later: after a re-authentication, with
another right, when a node is reachable again. A key is claimed after authorization and re-authentication, and a stored answer
is returned after both are checked again.

The same key with another body is refused; while the first request runs, so is the second. A process that ends between a
change and the storing of its answer leaves the key claimed: after RUNNING_MAX a repetition runs the request again.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from hashlib import blake2b
from typing import Any

from django.db import Error as DatabaseError
from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from api.problems import Problem
from console.accounts.roles import Principal
from console.http.problems import MEDIA_TYPE
from console.models import ANSWERS_KEPT, IdempotencyKey

HEADER = "Idempotency-Key"
KEY_CHARS_MAX = 100
KEY_PATTERN = f"[!-~]{{1,{KEY_CHARS_MAX}}}"
KEPT_HEADERS = ("ETag",)
RUNNING_MAX = timedelta(minutes=2)
"""A first request without an answer for this long is considered dead: its process has ended."""
TRIES = 3
"""Maximum number of attempts to claim a key whose row is deleted concurrently."""

logger = logging.getLogger("qmq.api")


class Replayed(Exception):
    """The request has been answered before; contains the stored answer."""

    def __init__(self, response: Response) -> None:
        self.response = response


def has_key(request: Request) -> bool:
    """Returns whether this request carries a key."""
    return request.method == "POST" and HEADER in request.headers


def claim(request: Request, authorize: Callable[[Iterable[str]], None]) -> IdempotencyKey:
    """Claims the key of this request, which must have one.

    Args:
        authorize: raises unless the caller has the right on each of these subjects; called before an answer is replayed.

    Raises:
        Replayed: a final outcome is stored.
        Problem: 400 for an illegal key, 409 while the first runs, 422 for another body under the same key.
    """
    given = request.headers[HEADER]
    if not re.fullmatch(KEY_PATTERN, given):
        what = f"must be 1 to {KEY_CHARS_MAX} printable ASCII characters"
        raise Problem(400, "idempotency.key_illegal", f"{HEADER}: {what}")
    principal = request.auth
    assert isinstance(principal, Principal)
    key = blake2b(f"{principal.name}\n{given}".encode(), digest_size=32).hexdigest()
    body_text = json.dumps(request.data, sort_keys=True, default=str)
    wanted = blake2b(f"{request.get_full_path()}\n{body_text}".encode(), digest_size=32).hexdigest()
    for _ in range(TRIES):
        row = _claimed(key, wanted)
        if row is not None:
            return row
        found = IdempotencyKey.objects.filter(key=key).first()
        if found is None:
            continue
        now = timezone.now()
        if found.created_at < now - ANSWERS_KEPT or (found.status is None and found.created_at < now - RUNNING_MAX):
            # Only this row: another process that found it old may have replaced it.
            IdempotencyKey.objects.filter(pk=found.pk).delete()
            continue
        if found.request_digest != wanted:
            raise Problem(
                422,
                "idempotency.key_reused",
                f"{HEADER} {given!r} was already used for a different request. Use a new key.",
            )
        if found.status is None:
            break
        kept: Any = found.body
        authorize(kept.get("subjects", ()))
        raise Replayed(_again(found.status, kept))
    raise Problem(409, "idempotency.running", "The first request with this key is still running. Try again shortly.")


def _claimed(key: str, wanted: str) -> IdempotencyKey | None:
    try:
        with transaction.atomic():
            return IdempotencyKey.objects.create(key=key, request_digest=wanted)
    except IntegrityError:
        return None


def _again(status: int, kept: Any) -> Response:
    headers = {**kept["headers"], "Idempotent-Replayed": "true"}
    return Response(kept["data"], status=status, headers=headers, content_type=MEDIA_TYPE if status >= 400 else None)


def is_final(response: Response) -> bool:
    """Returns whether an answer stays true for every repetition: success, or the conflict that the thing exists."""
    if 200 <= response.status_code < 300:
        return True
    return response.status_code == 409 and str(response.data["code"]).endswith(".exists")


def store_answer(row: IdempotencyKey, response: Response, subjects: Iterable[str]) -> None:
    """Stores a final answer, or frees the key.

    Args:
        subjects: those whose owners must allow the caller to see the answer again.
    """
    if not is_final(response):
        release(row)
        return
    data = json.loads(json.dumps(response.data, cls=JSONEncoder))
    for name in getattr(response, "shown_once", ()):
        data[name] = None  # passwords and tokens are not stored
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    kept = {"data": data, "headers": headers, "subjects": sorted(subjects)}
    try:
        IdempotencyKey.objects.filter(pk=row.pk).update(status=response.status_code, body=kept)
    except DatabaseError:
        # The change is made: the caller gets the answer all the same.
        logger.exception("the answer to a request with an idempotency key can't be stored")


def release(row: IdempotencyKey) -> None:
    """Frees the key: a repetition runs the request again."""
    try:
        IdempotencyKey.objects.filter(pk=row.pk).delete()
    except DatabaseError:
        logger.exception("an idempotency key can't be freed before %s have passed", RUNNING_MAX)

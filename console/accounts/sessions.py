"""How long a session lives: 30 minutes without a request, 12 hours in all. And how it is ended from outside.

Kept by rows of UserSession on the server; a cookie can't outlive its row.
"""

import logging
from datetime import timedelta
from typing import Any

from django.contrib.auth import logout
from django.contrib.sessions.backends.base import SessionBase
from django.db import Error as DatabaseError
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from console.accounts.models import User, UserSession
from console.http.middleware import Middleware
from metaserver.services.changes import delete_some

logger = logging.getLogger("qmq.accounts")

IDLE_MAX = timedelta(minutes=30)
LIFE_MAX = timedelta(hours=12)
SEEN_SECONDS = 60
"""When a session was last used is written this often at most."""
REAUTHENTICATION_SECONDS = 300
"""Time after a password or code was entered in which sensitive actions do not require it again."""
KEY = "qmq_session_id"
RECORDS_KEY = "account_authentication_methods"
"""Where allauth notes in the session by what its user proved who they are, and when."""


def begin(user: User, request: HttpRequest) -> UserSession:
    """Note a session that was just signed in."""
    now = timezone.now()
    row = UserSession.objects.create(
        user=user,
        started_at=now,
        seen_at=now,
        address=str(request.META.get("REMOTE_ADDR", ""))[:100],
        user_agent=request.headers.get("User-Agent", "").replace("\x00", "")[:200],
    )
    request.session[KEY] = row.pk
    return row


def live_session(session: SessionBase, user_id: int | None, *, seen: bool) -> UserSession | None:
    """Return the row of a valid session; None when it was ended, is too old, or belongs to another user.

    Websockets call this with `seen` false, because their automatic requests must not keep a session alive.
    """
    row_id = session.get(KEY)
    if not isinstance(row_id, int) or user_id is None:
        return None
    row = UserSession.objects.filter(pk=row_id, user_id=user_id).first()
    if row is None:
        return None
    now = timezone.now()
    if now - row.seen_at >= IDLE_MAX or now - row.started_at >= LIFE_MAX:
        row.delete()
        return None
    if seen and (now - row.seen_at).total_seconds() >= SEEN_SECONDS:
        try:
            UserSession.objects.filter(pk=row.pk).update(seen_at=now)
        except DatabaseError as error:
            # One that takes no writes for a while: a look is no reason to refuse.
            logger.warning("the use of a session can't be noted: %s", error)
    return row


def end_all(user_id: int, *, but: int | None = None) -> int:
    """End a user's sessions, optionally except one, and return how many ended."""
    rows = UserSession.objects.filter(user_id=user_id)
    return (rows if but is None else rows.exclude(pk=but)).delete()[0]


def forget_expired(rows_max: int) -> int:
    """Delete at most this number of abandoned sessions and return how many were deleted."""
    now = timezone.now()
    expired = Q(seen_at__lte=now - IDLE_MAX) | Q(started_at__lte=now - LIFE_MAX)
    return delete_some(UserSession.objects.filter(expired), rows_max)


def proved_recently(request: HttpRequest) -> bool:
    """Whether the caller entered a password or a code, or signed in at the identity provider, a short time ago."""
    from allauth.account.authentication import get_authentication_records

    records: list[dict[str, Any]] = get_authentication_records(request, request.user)
    age = timezone.now().timestamp() - max((float(record["at"]) for record in records), default=0.0)
    return 0 <= age < REAUTHENTICATION_SECONDS


class SessionLifeMiddleware(Middleware):
    """Signs out whose session has ended, before anything is done in their name."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Looking at an anonymous visitor's user would read no session that is not there: no query, no cookie.
        user_id = request.user.pk if request.user.is_authenticated else None
        if user_id is not None and live_session(request.session, user_id, seen=True) is None:
            logout(request)
        return self._get_response(request)

"""Browsers and addresses that a user signed in from: strangers can't lock the user out of these (`console.accounts.lockout`).

A browser carries a signed cookie that is bound to the user's password, an address is a row of KnownAddress. A new password
makes both unknown. Neither one authenticates a user.
"""

import secrets
from datetime import timedelta

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from console.accounts.models import KnownAddress, User
from console.http.middleware import Middleware
from console.http.rate_limits import network_of

KNOWN_FOR = timedelta(days=90)
"""How long a browser or an address stays known after its last sign-in."""
ADDRESSES_MAX = 10
"""Known addresses of one user; the oldest is dropped."""
SALT = "qmq.accounts.known-device"
NONCE_BYTES = 16
MARK_CHARS = 16
_REQUEST_ATTRIBUTE = "_qmq_user_of_new_device"


def address_of(request: HttpRequest) -> str:
    """Returns what an address is remembered and counted under: an IPv4 address, or the /64 network of an IPv6 address."""
    return network_of(str(request.META.get("REMOTE_ADDR", "")))


def remember(request: HttpRequest, user: User) -> None:
    """Makes the browser and the address of a successful sign-in known. Without a password there is nothing to guess."""
    if not user.has_usable_password():
        return
    setattr(request, _REQUEST_ATTRIBUTE, user)
    address = address_of(request)
    if not address:
        return
    now = timezone.now()
    with transaction.atomic():
        KnownAddress.objects.update_or_create(user=user, address=address, defaults={"seen_at": now})
        recent = KnownAddress.objects.filter(user=user, seen_at__gt=now - KNOWN_FOR).order_by("-seen_at", "-pk")
        kept = list(recent.values_list("pk", flat=True)[:ADDRESSES_MAX])
        KnownAddress.objects.filter(user=user).exclude(pk__in=kept).delete()


def forget_addresses(user_id: int) -> None:
    """Makes every address of a user unknown."""
    KnownAddress.objects.filter(user_id=user_id).delete()


def is_known_address(request: HttpRequest, username: str) -> bool:
    """Returns whether this user signed in from the request's address. An unknown user takes as long as a known one."""
    oldest = timezone.now() - KNOWN_FOR
    found = KnownAddress.objects.filter(user__username=username, address=address_of(request), seen_at__gt=oldest)
    return found.exists()


def device_of(request: HttpRequest, user: User) -> str:
    """Returns the id of the browser when this user signed in with it, else ""."""
    cookie = request.COOKIES.get(settings.DEVICE_COOKIE_NAME, "")
    try:
        user_id, nonce, mark = signing.loads(cookie, salt=SALT, max_age=KNOWN_FOR)
    except (signing.BadSignature, ValueError):
        return ""
    marks = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    is_this = user_id == user.pk and any(constant_time_compare(mark, known[:MARK_CHARS]) for known in marks)
    return str(nonce) if is_this else ""


def device_cookie(user: User) -> str:
    """Returns a cookie that makes a browser known to one user."""
    mark = user.get_session_auth_hash()[:MARK_CHARS]
    return signing.dumps([user.pk, secrets.token_urlsafe(NONCE_BYTES), mark], salt=SALT)


class KnownDeviceMiddleware(Middleware):
    """Sets the cookie of a browser that a user signed in with in this request."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        user = getattr(request, _REQUEST_ATTRIBUTE, None)
        if user is not None:
            response.set_cookie(
                settings.DEVICE_COOKIE_NAME,
                device_cookie(user),
                max_age=KNOWN_FOR,
                secure=settings.IS_HTTPS,
                httponly=True,
                samesite="Lax",
            )
        return response

"""Limits on failed passwords and codes. Guessing is bounded for every account, and strangers can't lock its user out.

An attempt is counted by where it comes from:

- an open session (a re-authentication): of this session;
- a browser that the user signed in with before: of this browser;
- an address that the user signed in from before: of the account from this address;
- anywhere else: of the account, by all strangers together.

Attempts without a known browser are counted by address too, over all accounts. Counts are in the cache (Redis); a successful
attempt is taken back. The keys carry the user's `sign_in_generation`: raising it clears every count of the account.
"""

from dataclasses import dataclass
from enum import StrEnum

import redis
from allauth.core.internal import ratelimit
from django.core.cache import cache
from django.http import HttpRequest

from console.accounts import known, sessions
from console.accounts.models import User


class Kind(StrEnum):
    """What is guessed."""

    PASSWORD = "password"
    CODE = "code"
    """A one-time or recovery code; the password was right."""


class Origin(StrEnum):
    """Where an attempt comes from."""

    SESSION = "session"
    DEVICE = "device"
    ADDRESS = "address"
    STRANGER = "stranger"


RATES: dict[Origin, str] = {
    Origin.SESSION: "5/m/key,20/15m/key",
    Origin.DEVICE: "10/m/key,40/15m/key",
    Origin.ADDRESS: "10/m/key,40/15m/key",
    Origin.STRANGER: "5/m/key,20/15m/key",
}
"""Failed attempts in a minute and in a quarter of an hour."""
ADDRESS_RATE = "20/m/ip"
"""Failed attempts from one address for all accounts; does not apply to an open session or a known browser."""
LOCK_SECONDS = 15 * 60
"""The longest time of RATES."""
_APP = "qmq"


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that was counted."""

    usages: tuple[ratelimit.RateLimitUsage, ...]

    def succeeded(self) -> None:
        """Takes the attempt back: only failures count."""
        for usage in self.usages:
            usage.rollback()


def count(request: HttpRequest, kind: Kind, username: str, user: User | None) -> Attempt | None:
    """Counts an attempt before it is checked. Returns None when a limit is reached: refuse it unchecked.

    Args:
        username: the account's name, or what was typed when there is no such user.

    Raises:
        RedisError: the cache does not answer.
    """
    origin, source = _origin(request, username, user)
    usages = []
    if origin in (Origin.ADDRESS, Origin.STRANGER):
        by_address = _consume(request, "address", ADDRESS_RATE, None)
        if by_address is None:
            return None
        usages.append(by_address)
    generation = user.sign_in_generation if user is not None else 0
    by_account = _consume(request, str(kind), RATES[origin], f"{username}\n{generation}\n{origin}\n{source}")
    if by_account is None:
        if user is not None:
            cache.set(_lock_key(user), True, LOCK_SECONDS)
        return None
    return Attempt((*usages, by_account))


def is_locked(user: User) -> bool | None:
    """Returns whether attempts for this user were refused in the last LOCK_SECONDS; None when the cache does not answer."""
    try:
        return bool(cache.get(_lock_key(user)))
    except redis.RedisError:
        return None


def _origin(request: HttpRequest, username: str, user: User | None) -> tuple[Origin, str]:
    # The query for the address is made for unknown users too, so that both take the same time.
    is_known_address = known.is_known_address(request, username)
    if user is not None:
        if request.user.pk == user.pk:
            return Origin.SESSION, str(request.session.get(sessions.KEY))
        device = known.device_of(request, user)
        if device:
            return Origin.DEVICE, device
        if is_known_address:
            return Origin.ADDRESS, known.address_of(request)
    return Origin.STRANGER, ""


def _consume(request: HttpRequest, action: str, rates: str, key: str | None) -> ratelimit.RateLimitUsage | None:
    return ratelimit.consume(request, app=_APP, action=action, config={action: rates}, key=key)


def _lock_key(user: User) -> str:
    return f"sign-in-locked:{user.pk}:{user.sign_in_generation}"

"""One-time codes as an authenticator app shows them (RFC 6238: SHA-1, six digits, half a minute)."""

import base64
import hmac
import time
from hashlib import sha1

from tests.support.waiting import eventually

PERIOD_SECONDS = 30
SPARE_SECONDS = 8
"""How much of its half minute a code must have left when it is given out."""


def code(secret: str, after: str = "") -> str:
    """The code of now, but not `after`, which was used already; waits while the half minute is nearly over.

    Args:
        secret: base32, as pages show it.
    """

    def current() -> str:
        now = time.time()
        found = code_at(secret, now)
        return found if found != after and now % PERIOD_SECONDS < PERIOD_SECONDS - SPARE_SECONDS else ""

    return eventually(current, what="a fresh one-time code")


def code_at(secret: str, seconds: float) -> str:
    """The code of a time, in seconds since the epoch."""
    key = base64.b32decode(secret.replace(" ", "").upper())
    digest = hmac.digest(key, int(seconds // PERIOD_SECONDS).to_bytes(8, "big"), sha1)
    place = digest[-1] & 0x0F
    value = int.from_bytes(digest[place : place + 4], "big") & 0x7FFF_FFFF
    return f"{value % 1_000_000:06d}"

"""Rate limits, counted in Redis per caller. While Redis is unreachable, requests are admitted: limits don't authorize."""

import logging
import time
from typing import Any, ClassVar

import redis
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from api.authentication import address_of
from console.accounts.roles import Principal

logger = logging.getLogger("qmq.api")
REST_SECONDS = 5.0
"""Redis is not queried for this long after a failure, because a hanging server would delay every request."""


class PrincipalThrottle(SimpleRateThrottle):
    """Limit per minute of a user, a token, or (without sign-in) an address."""

    scope = "principal"
    rests_until: ClassVar[float] = 0.0
    """Monotonic time; shared by all scopes, because there is one Redis."""

    def get_cache_key(self, request: Request, view: Any) -> str:
        principal = request.auth
        ident = principal.name if isinstance(principal, Principal) else address_of(request)
        return f"throttle:{self.scope}:{ident.replace(' ', '_')}"

    def allow_request(self, request: Request, view: Any) -> bool:
        if time.monotonic() < PrincipalThrottle.rests_until:
            return True
        try:
            return bool(super().allow_request(request, view))
        except redis.RedisError as error:
            PrincipalThrottle.rests_until = time.monotonic() + REST_SECONDS
            logger.warning("rate limits are off for %g s, Redis does not answer: %s", REST_SECONDS, error)
            return True


class BrowseThrottle(PrincipalThrottle):
    """Requests that read messages from nodes."""

    scope = "browse"


class DownloadThrottle(PrincipalThrottle):
    """Starts of downloads."""

    scope = "download"

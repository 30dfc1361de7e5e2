"""Rate limits, counted in Redis by who asks. With Redis away nobody is refused: limits protect, they don't decide."""

import logging
from typing import Any

import redis
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from api.authentication import address_of
from console.accounts.roles import Principal

logger = logging.getLogger("qmq.api")


class PrincipalThrottle(SimpleRateThrottle):
    """So many requests a minute of one user, token, or (not signed in) address."""

    scope = "principal"

    def get_cache_key(self, request: Request, view: Any) -> str:
        principal = request.auth
        ident = principal.name if isinstance(principal, Principal) else address_of(request)
        return f"throttle:{self.scope}:{ident.replace(' ', '_')}"

    def allow_request(self, request: Request, view: Any) -> bool:
        try:
            return bool(super().allow_request(request, view))
        except redis.RedisError as error:
            logger.warning("rate limits are off, Redis does not answer: %s", error)
            return True


class BrowseThrottle(PrincipalThrottle):
    """Requests that read messages from nodes."""

    scope = "browse"

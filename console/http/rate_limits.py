"""Rate limits for what happens before a request is authenticated: counted in this process and, where Redis answers, in Redis."""

import asyncio
import logging
from ipaddress import IPv6Address, ip_address
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from qmq.clock import Clock

logger = logging.getLogger("qmq.api")

WINDOW_SECONDS = 60
"""Limits are per window; all processes share its boundaries, as far as their clocks agree."""
KEYS_MAX = 10_000
"""Maximum number of keys in one process and window; above it the one unused for longest is dropped."""
REDIS_SECONDS = 0.5
"""How long Redis may take to count one request."""
REDIS_CONNECTIONS_MAX = 8
REST_SECONDS = 5.0
"""How long Redis is not used after it failed; this process counts alone meanwhile."""
KEY_CHARS_MAX = 64
IPV6_PREFIX_BITS = 64


class RedisCounts:
    """Counts of all processes in Redis, over a few connections of the running event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def increase(self, key: str) -> int:
        """Count one more; the count so far. Raises redis.RedisError or OSError."""
        async with self._connected().pipeline(transaction=False) as pipeline:
            name = f"qmq:rate:{key}"
            count, _ = await pipeline.incr(name).expire(name, 2 * WINDOW_SECONDS).execute()
        return int(count)

    def _connected(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            pool = redis.asyncio.BlockingConnectionPool.from_url(
                self._url, max_connections=REDIS_CONNECTIONS_MAX, timeout=REDIS_SECONDS, socket_timeout=REDIS_SECONDS,
                socket_connect_timeout=REDIS_SECONDS, retry=Retry(NoBackoff(), 0),
            )  # fmt: skip
            self._client, self._loop = redis.asyncio.Redis.from_pool(pool), loop
        return self._client


class RateLimit:
    """At most `requests_max` requests per key and window.

    A key over its limit is refused from this process's own count: a flood costs no query and no request to Redis.

    Args:
        name: begins its keys in Redis.
        shared: the counts of all processes; None: this process counts alone.
    """

    def __init__(self, name: str, requests_max: int, clock: Clock, shared: RedisCounts | None = None) -> None:
        self._name = name
        self._max = requests_max
        self._clock = clock
        self._shared = shared
        self._window = 0
        self._counts: dict[str, int] = {}
        self._rests_until = float("-inf")

    async def admit(self, key: str) -> float | None:
        """Count a request: None when it is admitted, else the seconds until the next window."""
        now_ms = self._clock.wall_ms()
        window = now_ms // (1000 * WINDOW_SECONDS)
        seconds_left = WINDOW_SECONDS - now_ms / 1000 % WINDOW_SECONDS
        if window != self._window:
            self._window = window
            self._counts.clear()
        count = self._count(key, self._counts.get(key, 0) + 1)
        if count <= self._max:
            count = max(count, await self._increase(f"{self._name}:{window}:{key}"))
            if count > self._max and self._window == window:
                self._count(key, count)
        return None if count <= self._max else seconds_left

    def _count(self, key: str, count: int) -> int:
        self._counts.pop(key, None)
        self._counts[key] = count
        if len(self._counts) > KEYS_MAX:
            del self._counts[next(iter(self._counts))]
        return count

    async def _increase(self, key: str) -> int:
        if self._shared is None or self._clock.monotonic() < self._rests_until:
            return 0
        try:
            return await self._shared.increase(key)
        except (RedisError, OSError) as error:
            if self._clock.monotonic() >= self._rests_until:
                self._rests_until = self._clock.monotonic() + REST_SECONDS
                logger.warning("each process counts requests alone for %g s, Redis failed: %s", REST_SECONDS, error)
            return 0


def network_of(address: str) -> str:
    """The key of a client address: an IPv4 address itself, the /64 of an IPv6 address, whose host part its user may choose."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:KEY_CHARS_MAX]
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        host_bits = 128 - IPV6_PREFIX_BITS
        return f"{IPv6Address(int(found) >> host_bits << host_bits)}/{IPV6_PREFIX_BITS}"
    return str(found)

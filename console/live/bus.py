"""The collector's side of Redis and the readers': names, the one script that publishes, and the stored snapshot.

Deltas go out as the text that browsers get: encoded once in the whole system. A beat is one script: renew the lock, store the
snapshot, publish; so nobody acts whose lock has gone to another, and readers never see half a beat.
"""

import functools
import json
import threading
from collections.abc import Iterable
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

PREFIX = "qmq:live:"
BEAT_CHANNEL = f"{PREFIX}beat"
LOCK_KEY = f"{PREFIX}lock"
SNAPSHOT_KEY = f"{PREFIX}snapshot"
HEALTH_KEY = f"{PREFIX}health"
LOCK_MS = 5_000
"""How long a collector that fell silent keeps others out."""
SNAPSHOT_MS = 10_000
"""Older numbers are not shown to anybody: they are unknown then."""
HEALTH_MS = 86_400_000
FORMAT = 1
"""Of the stored snapshot; one of another format is as good as none."""
REDIS_SECONDS = 1.0
"""How long Redis may take to answer."""
SNAPSHOT_BYTES_MAX = 64 << 20
HEAD_BYTES = 160
"""The beginning of a stored snapshot, which holds its stream, version and time: equal heads, equal snapshots."""

_ACQUIRE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end
return 0
"""
_PUBLISH = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6])
for i = 7, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], ARGV[i + 1]) end
return 1
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def encode(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def connect(url: str, seconds: float = REDIS_SECONDS) -> "redis.asyncio.Redis":
    """A client for asyncio that gives up after `seconds` and never tries again by itself: its callers do."""
    return redis.asyncio.Redis.from_url(
        url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=AsyncRetry(NoBackoff(), 0)
    )


class Publisher:
    """What the one acting collector does in Redis. Every method raises redis.RedisError or OSError when Redis is away."""

    def __init__(self, url: str, holder: str) -> None:
        self._client = connect(url)
        self._holder = holder

    async def acquire(self) -> bool:
        """Take or keep the lock; False: another collector has it."""
        return bool(await self._client.eval(_ACQUIRE, 1, LOCK_KEY, self._holder, str(LOCK_MS)))

    async def listened(self) -> list[str]:
        """Feeds that a web process listens to."""
        channels = await self._client.pubsub_channels(f"{PREFIX}*")
        return [_text(channel)[len(PREFIX) :] for channel in channels]

    async def snapshot(self) -> dict[str, Any] | None:
        """The stored snapshot; None: there is none, or it can't be read."""
        return snapshot_of(await self._client.get(SNAPSHOT_KEY))

    async def publish(self, snapshot: str, health: str, messages: Iterable[tuple[str, str]]) -> bool:
        """Store and publish a beat; False: another collector has the lock, nothing was done."""
        words = [word for feed, text in messages for word in (PREFIX + feed, text)]
        done = await self._client.eval(
            _PUBLISH, 3, LOCK_KEY, SNAPSHOT_KEY, HEALTH_KEY,
            self._holder, str(LOCK_MS), snapshot, str(SNAPSHOT_MS), health, str(HEALTH_MS), *words,
        )  # fmt: skip
        return bool(done)

    async def release(self) -> None:
        """Let another collector act at once."""
        await self._client.eval(_RELEASE, 1, LOCK_KEY, self._holder)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def parsed(text: bytes | str | None) -> dict[str, Any] | None:
    """A stored JSON object; None for what is none."""
    if text is None or len(text) > SNAPSHOT_BYTES_MAX:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def snapshot_of(text: bytes | str | None) -> dict[str, Any] | None:
    """A stored snapshot: `format, stream, version, at, at_ms, state`; None for none, or one of another format."""
    found = parsed(text)
    return found if found is not None and found.get("format") == FORMAT else None


class StoredReader:
    """Reads the stored snapshot for views and metrics, and parses each version of it once. From any thread.

    What is returned is shared: it must not be changed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._head: bytes = b""
        self._snapshot: dict[str, Any] | None = None

    def read(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """(snapshot, the collector's health); None for what is not there.

        Raises:
            redis.RedisError: Redis can't be asked.
        """
        client = redis.Redis.from_url(
            self._url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS, retry=Retry(NoBackoff(), 0)
        )
        with client, self._lock:
            pipeline = client.pipeline()
            pipeline.getrange(SNAPSHOT_KEY, 0, HEAD_BYTES - 1)
            pipeline.get(HEALTH_KEY)
            head, health = pipeline.execute()
            if not head or head != self._head:
                text: Any = client.get(SNAPSHOT_KEY)
                self._head = text[:HEAD_BYTES] if text is not None else b""
                self._snapshot = snapshot_of(text)
            return self._snapshot, parsed(health)


@functools.cache
def _reader(url: str) -> StoredReader:
    return StoredReader(url)


def read_stored(url: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """As `StoredReader.read`, by this process's reader of a Redis."""
    return _reader(url).read()

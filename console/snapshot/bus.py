"""The collector's side of Redis and the readers': names, the one script that publishes, and the stored snapshot.

Deltas go out as the text that browsers get: encoded once in the whole system. The snapshot is stored in chunks
(console/snapshot/chunks.py). A beat is one script: renew the lock, append to the chunks, store the head, publish; so a collector
without the lock changes nothing, and readers never see half a beat. Rewritten chunks go to new keys before that.
"""

import contextlib
import functools
import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from console.snapshot.chunks import FORMAT, Head, Missing, SnapshotChunks, SnapshotWriter, Write, head_of, head_text
from console.snapshot.frames import SnapshotError
from console.snapshot.state import Delta, State

logger = logging.getLogger("qmq.live")

PREFIX = "qmq:live:"
CYCLE_CHANNEL = f"{PREFIX}beat"
LOCK_KEY = f"{PREFIX}lock"
SNAPSHOT_KEY = f"{PREFIX}snapshot"
HEALTH_KEY = f"{PREFIX}health"
LOCK_MS = 5_000
"""How long a collector that fell silent keeps others out."""
SNAPSHOT_MS = 10_000
"""Age above which numbers are unknown and not shown."""
CHUNK_MS = 60_000
"""How long chunks stay without a beat: longer than it takes to write all of them, which comes before the beat that names them."""
HEALTH_MS = 86_400_000
REDIS_SECONDS = 1.0
"""How long Redis may take to answer."""
READ_BYTES_MAX = 4 << 20
"""Of chunks in one answer of Redis, or one chunk."""

_ACQUIRE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end
return 0
"""
_LOST_LOCK, _PUBLISHED, _LOST_CHUNK = 0, 1, 2
_PUBLISH = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
local count = #KEYS - 3
for i = 1, count do
  if redis.call('STRLEN', KEYS[3 + i]) ~= tonumber(ARGV[7 + i]) then return 2 end
end
local at = 8 + count
local messages = at + 1 + 2 * tonumber(ARGV[at])
for i = at + 1, messages - 1, 2 do redis.call('APPEND', KEYS[3 + tonumber(ARGV[i])], ARGV[i + 1]) end
for i = 1, count do redis.call('PEXPIRE', KEYS[3 + i], ARGV[7]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6])
for i = messages, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], ARGV[i + 1]) end
return 1
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def connect(url: str, seconds: float = REDIS_SECONDS) -> "redis.asyncio.Redis":
    """Return an asyncio client that times out after `seconds` and does not retry; its callers do."""
    return redis.asyncio.Redis.from_url(
        url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=AsyncRetry(NoBackoff(), 0)
    )


def connect_blocking(url: str) -> "redis.Redis":
    """As `connect`, for threads."""
    return redis.Redis.from_url(
        url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS, retry=Retry(NoBackoff(), 0)
    )


class SnapshotLost(RedisError):
    """Redis no longer has all chunks of the stored snapshot: it was emptied, or evicted them."""


class Publisher:
    """Redis operations of the active collector. Every method raises redis.RedisError or OSError when Redis is unavailable."""

    def __init__(self, url: str, holder: str) -> None:
        self._client = connect(url)
        self._holder = holder
        self._writer = SnapshotWriter()

    async def acquire(self) -> bool:
        """Take or keep the lock; False: another collector has it."""
        return bool(await self._client.eval(_ACQUIRE, 1, LOCK_KEY, self._holder, str(LOCK_MS)))

    async def listened(self) -> list[str]:
        """Feeds that a web process listens to."""
        channels = await self._client.pubsub_channels(f"{PREFIX}*")
        return [text_of(channel)[len(PREFIX) :] for channel in channels]

    async def store(self, stream: str, version: int, state: State, change: Delta) -> Write:
        """Store the chunks that have to be rewritten: all of them for a new stream and after a failure.

        Args:
            change: what made `state` of the state of the call before.
        """
        with self._forgetting():
            write = self._writer.write(stream, version, state, change)
            for name, data, replaced in write.bases():
                await self._client.set(f"{SNAPSHOT_KEY}:{name}", data, px=CHUNK_MS)
                if replaced is not None:
                    await self._client.pexpire(f"{SNAPSHOT_KEY}:{replaced}", SNAPSHOT_MS)
        return write

    async def publish(
        self, write: Write, head: Mapping[str, Any], at_ms: int, health: str, messages: Iterable[tuple[str, str]]
    ) -> bool:
        """Store and publish a beat; False: another collector has the lock, nothing was done.

        Raises:
            SnapshotLost: nothing was done. The next `store` writes all chunks.
        """
        keys = [LOCK_KEY, SNAPSHOT_KEY, HEALTH_KEY, *(f"{SNAPSHOT_KEY}:{name}" for name in write.keys)]
        appended = [word for index, data in write.appended for word in (str(index + 1), data)]
        words = [word for feed, text in messages for word in (PREFIX + feed, text)]
        with self._forgetting():
            done = await self._client.eval(
                _PUBLISH, len(keys), *keys,
                self._holder, str(LOCK_MS), head_text(head, at_ms, write.places), str(SNAPSHOT_MS), health, str(HEALTH_MS),
                str(CHUNK_MS), *map(str, write.sizes_before), str(len(write.appended)), *appended, *words,
            )  # fmt: skip
            if done == _LOST_CHUNK:
                raise SnapshotLost("Redis lost a part of the stored snapshot")
        if done == _LOST_LOCK:
            self._writer.forget()
        return bool(done == _PUBLISHED)

    @contextlib.contextmanager
    def _forgetting(self) -> Iterator[None]:
        """After a failure it is not known what is stored: the next `store` writes everything."""
        try:
            yield
        except BaseException:
            self._writer.forget()
            raise

    async def release(self) -> None:
        """Let another collector act at once."""
        await self._client.eval(_RELEASE, 1, LOCK_KEY, self._holder)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def text_of(value: bytes | str) -> str:
    """What Redis answered as text."""
    return value.decode() if isinstance(value, bytes) else value


def _parsed(text: bytes | str | None) -> dict[str, Any] | None:
    """Return a stored JSON object; None if it is not valid."""
    try:
        found = json.loads(text) if text is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class StoredReader:
    """Reads the stored snapshot for websockets, views and metrics: of each version the bytes that are new, once in a process.
    From any thread.

    What is returned is shared: it must not be changed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._head: bytes | str | None = None
        self._chunks = SnapshotChunks()
        self._snapshot: dict[str, Any] | None = None

    def read(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """(snapshot, the collector's health); None for what is not there.

        Returns:
            The snapshot has format, stream, version, at, at_ms, state. Entries that did not change are the same objects as in
            the snapshot before.

        Raises:
            redis.RedisError: Redis can't be reached.
        """
        with connect_blocking(self._url) as client, self._lock:
            head, health = client.mget(SNAPSHOT_KEY, HEALTH_KEY)
            if head is None or head != self._head:
                self._snapshot = self._read(client, head_of(head))
                self._head = head
            return self._snapshot, _parsed(health)

    def _read(self, client: "redis.Redis", head: Head | None) -> dict[str, Any] | None:
        """The snapshot of a head; None when it is gone meanwhile, or is not what a collector wrote."""
        chunks, self._chunks = self._chunks, SnapshotChunks()
        if head is None:
            return None
        try:
            missing = chunks.missing(head)
            state = chunks.take(head, zip(missing, self._bytes(client, missing), strict=True))
        except SnapshotError as error:
            logger.warning("the stored snapshot can't be read: %s", error)
            return None
        self._chunks = chunks
        found = {"stream": head.stream, "version": head.version, "at": head.at, "at_ms": head.at_ms}
        return {"format": FORMAT, **found, "state": state}

    @staticmethod
    def _bytes(client: "redis.Redis", missing: list[Missing]) -> Iterable[bytes]:
        before = 0
        batches = []
        for part in missing:
            batches.append(before // READ_BYTES_MAX)
            before += part.end - part.begin
        for _, parts in groupby(zip(batches, missing, strict=True), key=lambda item: item[0]):
            pipeline = client.pipeline(transaction=False)
            for _, part in parts:
                pipeline.getrange(f"{SNAPSHOT_KEY}:{part.key}", part.begin, part.end - 1)
            yield from pipeline.execute()


@functools.cache
def _reader(url: str) -> StoredReader:
    return StoredReader(url)


def read_stored(url: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """As `StoredReader.read`, by this process's reader of a Redis."""
    return _reader(url).read()

"""Asks all nodes once a second and publishes what changed. However many run, one acts: the holder of a lock in Redis."""

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any

from redis.exceptions import RedisError

from console.cluster.measured import Measured
from console.cluster.stats import NodeAsker
from console.collector.event_log import EventLog
from console.collector.messages import messages_of
from console.collector.metadata import Metadata, MetadataReader
from console.collector.summing import Sums, summed
from console.collector.urgent import UrgentAlerts
from console.collector.watch import watch
from console.snapshot.bus import Publisher, SnapshotLost, StoredReader
from console.snapshot.history import HistoryWriter
from console.snapshot.state import Delta, Entry, State, delta, empty, encode, events_between, recent
from console.times import rfc3339
from qmq.clock import Clock

logger = logging.getLogger("qmq.live")

CYCLE_SECONDS = 1.0
FIRST_READ_SECONDS = 5.0
"""How long the first cycle waits for the database; without it all is unknown."""
PAUSE_CYCLES_MAX = 2
"""While Redis is unavailable, every second cycle retries, so numbers are live within 5 s of its return."""

Answer = Measured[dict[str, Any]]
Sleep = Callable[[float], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Health:
    """How the collector does; stored in Redis with each cycle."""

    holder: str
    beats: int = 0
    overruns: int = 0
    """Cycles skipped because the previous one took too long."""
    errors: int = 0
    last_error: str | None = None
    last_beat_at: str | None = None
    last_beat_ms: int = 0
    """The same as wall clock milliseconds."""
    duration_seconds: float | None = None
    published_bytes: int = 0
    """What the last cycle wrote to the stored snapshot, compressed, and its messages."""


class Collector:
    """One process's collector.

    Args:
        url: of Redis.
        asker: asks the nodes.
    """

    def __init__(self, url: str, clock: Clock, *, asker: NodeAsker | None = None, sleep: Sleep = asyncio.sleep) -> None:
        self._url = url
        self._clock = clock
        self._sleep = sleep
        self._asker = asker or NodeAsker(clock=clock)
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._publisher = Publisher(url, self._holder)
        self._history = HistoryWriter(url)
        self._event_log = EventLog()
        self.metadata = MetadataReader(clock)
        self._urgent_alerts = UrgentAlerts(self.metadata.read_soon)
        self.health = Health(self._holder)
        self._state = empty()
        self._sums = Sums()
        self._at_ms: int | None = None
        self._stream = ""
        self._version = 0
        self._is_acting = False
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Beat until `stop`; what fails is tried again."""
        reading = asyncio.create_task(self.metadata.run())
        watching = asyncio.create_task(self._watch())
        storing = asyncio.create_task(self._event_log.run())
        evaluating = asyncio.create_task(self._urgent_alerts.run())
        stopping = asyncio.create_task(stop.wait())
        was_read = asyncio.create_task(self.metadata.was_read.wait())
        try:
            await asyncio.wait([reading, stopping, was_read], timeout=FIRST_READ_SECONDS, return_when=FIRST_COMPLETED)
            next_at = self._clock.monotonic()
            while not stop.is_set():
                for task in (reading, watching, storing, evaluating):
                    if task.done():
                        task.result()  # it ends only by an unexpected error, which ends the process
                await self.run_cycle()
                now = self._clock.monotonic()
                pause = min(self._failures, PAUSE_CYCLES_MAX) or 1
                next_at = self._next_cycle(next_at, now, pause)
                sleeping = asyncio.create_task(self._sleep(next_at - now))
                await asyncio.wait([sleeping, stopping], return_when=FIRST_COMPLETED)
                sleeping.cancel()
        finally:
            beside: tuple[asyncio.Task[Any], ...] = (reading, watching, storing, evaluating, stopping, was_read)
            for beside_task in beside:
                beside_task.cancel()
            await asyncio.wait(beside)
            await self.close()

    async def close(self) -> None:
        """Release the lock, so that another collector acts at once, and close the connections."""
        with contextlib.suppress(RedisError, OSError):
            await self._publisher.release()
        await self._publisher.close()
        await self._history.close()

    def _next_cycle(self, last: float, now: float, pause: int) -> float:
        """The time of the next cycle on the schedule that began with the first; cycles that are past are left out."""
        following = last + pause * CYCLE_SECONDS
        if following >= now:
            return following
        missed = int((now - following) / CYCLE_SECONDS) + 1
        self.health.overruns += missed
        logger.warning("a cycle took %.2f s: %d left out", now - last, missed)
        return following + missed * CYCLE_SECONDS

    async def _watch(self) -> None:
        """While Redis is unavailable there is no active collector, and nothing is measured, so each collector watches the jobs."""
        await watch(
            lambda: self.metadata.now.jobs,
            lambda: None if self._failures else self._state,
            lambda: self._is_acting or self._failures > 0,
        )

    async def run_cycle(self) -> None:
        """Runs one cycle; errors of Redis are counted and logged, not raised."""
        began = self._clock.monotonic()
        try:
            if not await self._acquired():
                return
            state = await self._measured()
            if await self._published(state, began):
                self.health.beats += 1
                await self._noted(state)
        except (RedisError, OSError) as error:
            # Whether this cycle's messages were sent is not known: the next one skips a version, so that all readers reload.
            self._version += 1
            self._failures += 1
            self.health.errors += 1
            self.health.last_error = f"{type(error).__name__}: {error}"[:300]
            if self._failures == 1:
                logger.warning("Redis is away: %s", error)
            return
        if self._failures:
            logger.info("Redis is back after %d failed cycles", self._failures)
        self._failures = 0

    async def _acquired(self) -> bool:
        is_holder = await self._publisher.acquire()
        if is_holder and not self._is_acting:
            stored, _ = await asyncio.to_thread(StoredReader(self._url).read)
            if stored is not None:
                self._state = {**empty(), **stored["state"]}
                self._at_ms = stored["at_ms"]
            self._stream = uuid.uuid4().hex
            self._version = 0
            self._history.forget()
            logger.info("this collector acts")
        if self._is_acting and not is_holder:
            logger.info("another collector acts")
        self._is_acting = is_holder
        return is_holder

    async def _measured(self) -> State:
        metadata = self.metadata.now
        answers = await self._asker.stats(metadata.places)
        now_ms = self._clock.wall_ms()
        try:
            found = summed(self._state, self._at_ms, metadata.places, answers, metadata.routes, self._sums)
        except (KeyError, TypeError, ValueError, AttributeError):
            found = summed(self._state, self._at_ms, metadata.places, understood(metadata, answers), metadata.routes)
        state = empty() | found
        if metadata.reason is not None and not metadata.places:
            # Nothing is known of which nodes there are: what was known stays, as unknown.
            state = {**empty(), **_unknown(self._state, metadata.reason, self._at_ms)}
        for section in ("broker_groups", "metaservers", "jobs", "alerts"):
            state[section] = _all(self._state, metadata, section)
        state["audit"] = recent(self._state["audit"], metadata.audit)
        events = self._events(state, now_ms)
        self._event_log.add(events, state["nodes"])
        if metadata.evaluates_alerts:
            self._urgent_alerts.cycle(self._state, state, now_ms / 1000)
        state["events"] = recent(self._state["events"], events)
        self._at_ms = now_ms
        return state

    def _events(self, state: State, now_ms: int) -> list[Entry]:
        number = max((int(key) for key in self._state["events"]), default=now_ms * 1000)
        return [
            {"id": str(number + i), "at": rfc3339(now_ms), **event}
            for i, event in enumerate(events_between(self._state, state), 1)
        ]

    async def _published(self, state: State, began: float) -> bool:
        assert self._at_ms is not None
        version = self._version + 1
        head: Entry = {"stream": self._stream, "version": version, "at": rfc3339(self._at_ms)}
        change = delta(self._state, state)
        messages = messages_of(change, head, await self._publisher.listened())
        self._state = state
        try:
            self._is_acting = await self._stored(head, change, messages, began)
        except SnapshotLost:
            self._is_acting = await self._stored(head, change, messages, began)
        self._version = version
        return self._is_acting

    async def _stored(self, head: Entry, change: Delta, messages: list[tuple[str, str]], began: float) -> bool:
        """Store the state and publish; False: another collector has the lock."""
        assert self._at_ms is not None
        health = self.health
        write = await self._publisher.store(head["stream"], head["version"], self._state, change)
        health.last_beat_at, health.last_beat_ms = head["at"], self._at_ms
        health.published_bytes = write.bytes_count + sum(len(text) for _, text in messages)
        health.duration_seconds = round(self._clock.monotonic() - began, 4)
        return await self._publisher.publish(write, head, self._at_ms, encode(asdict(health)), messages)

    async def _noted(self, state: State) -> None:
        """Keep this cycle's numbers for charts. When that fails a point is missing, and nothing else."""
        assert self._at_ms is not None
        try:
            await self._history.note(state, self._at_ms)
        except (RedisError, OSError) as error:
            self.health.errors += 1
            self.health.last_error = f"history: {type(error).__name__}: {error}"[:300]

    @property
    def state(self) -> State:
        """What was measured last."""
        return self._state


def understood(metadata: Metadata, answers: dict[str, Answer]) -> dict[str, Answer]:
    """The answers without those whose numbers have another shape than ours: of a node of another version, say."""
    found = dict(answers)
    for place in metadata.places:
        answer = answers[place.node_id]
        try:
            summed(empty(), None, [place], {place.node_id: answer}, {})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"its numbers can't be understood: {type(error).__name__} {error}"
            found[place.node_id] = Measured(None, reason[:300], answer.at_ms)
    return found


def _all(before: State, metadata: Metadata, section: str) -> dict[str, Entry]:
    """A section of the metadata; what was there before while the database was never read."""
    found: dict[str, Entry] = getattr(metadata, section)
    return found if found or metadata.reason is None else before[section]


_KEPT = frozenset(
    {
        "subject", "group", "broker_groups", "broadcast", "node_id", "broker_group", "kind", "is_master", "address",
        "admin_address", "boot_id", "is_silent",
    }
)  # fmt: skip


def _unknown(before: State, reason: str, at_ms: int | None) -> State:
    """What was known, with every number unknown."""
    found: State = {}
    for section in ("subjects", "groups", "nodes"):
        found[section] = {
            key: {
                **{name: value if name in _KEPT else None for name, value in entry.items()},
                "reason": reason,
                "is_measured": False,
                "at": rfc3339(at_ms) if entry["is_measured"] and at_ms is not None else entry["at"],
            }
            for key, entry in before[section].items()
        }
    return found

"""class Nodes: a metaserver, a broker and a delay node on one event loop, and what tests ask of them.

All of it runs on the loop that `start` was called on. `qmq_testing.server` makes it usable from other threads.

Which clock moves: the broker's and the delay node's, wall and monotonic time together, because their wall clock alone would be
distrusted when it steps (`delay_node.trusted_clock`). The metaserver and the nodes' connections stay in real time: heartbeats and
bytes arrive in real time, so nothing that waits for them expires when hours pass in a moment.
"""

import asyncio
import contextlib
import errno
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from broker_node.storage.progress import Consumer
from broker_node.storage.sessions import Session
from broker_node.storage.subject import Group, Subject
from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from metaserver.choices import GroupState
from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from qmq.clock import SystemClock
from qmq.lag import Lag, lag_of
from qmq.protocol.delayed import DelayedState, ListDelayedRequest
from qmq.protocol.messages import decode_raws
from qmq.protocol.names import check_group, check_subject, dead_letter_subject, retry_subject
from qmq.protocol.values import moment
from qmq.supervisor import Supervisor
from qmq_node.log.disk import Disk, SystemDisk
from qmq_node.node.node import Node
from qmq_node.process.machine import Machine
from qmq_testing.clock import MovableClock
from qmq_testing.disk import UnsyncedDisk
from qmq_testing.messages import StoredMessage
from qmq_testing.repository import MemoryRepository
from qmq_testing.settings import ServerSettings

N = TypeVar("N", bound=Node)
BROKER_GROUP = "test"
DELAY_GROUP = "test-delay"
MESSAGES_MAX = 10_000
"""Most messages of one answer about a subject."""
WAIT_SECONDS = 10.0
"""Default time limit of the waiting methods."""
READY_SECONDS_MAX = 30.0
"""Longest wait for a node's registration, after which its start fails."""
COMMITS_SECONDS_MAX = 1.0
"""How long the clock waits for a moment in which no node writes, before it is moved."""
ADVANCE_SECONDS_MAX = 30.0
"""Longest wait for the delivery of what is due after the clock was moved."""
DUE_SOON_MS = 50
"""What is due within this time after the clock was moved is waited for as well: a due time that the application computed from
`datetime.now` differs from the nodes' clock by some milliseconds."""
LOOK_SECONDS = 0.001
"""Between two checks of a condition that no event reports."""
STOP_SECONDS = 1.0
"""How long a node waits for requests under way when it stops."""
RETENTION_HOURS = 24.0 * 366 * 100
"""Nothing expires: a log is deleted by segments, so a test could not tell when its messages would go."""
TIME_END_MS = 1 << 47
PENDING_STATES = (str(DelayedState.PENDING), str(DelayedState.DELIVERING))


class Nodes:
    """The nodes of one test.

    Args:
        folder: an empty folder for their data.
    """

    def __init__(self, settings: ServerSettings, folder: str) -> None:
        self.clock = MovableClock()
        self._settings = settings
        self._folder = folder
        self._disk: Disk = SystemDisk() if settings.syncs else UnsyncedDisk()
        self._broker: Broker | None = None
        self._broker_port = 0
        self._changed = asyncio.Event()
        self._changes = asyncio.Lock()
        """Held while a node starts or stops, or time moves."""

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all nodes; return when the metaserver has registered them.

        Raises:
            OSError: the folder can't be used, or no port is free.
            TimeoutError: a node did not register within READY_SECONDS_MAX.
        """
        self._meta = Metaserver(
            MetaOptions(data_dir=f"{self._folder}/meta", http_port=0, tcp_port=0, new_groups="allow"),
            MemoryRepository(),
            Machine(disk=self._disk),
        )
        self._delay: DelayNode | None = None
        try:
            await self._meta.start()
            await self._start_broker()
            self._delay = await self._start_delay_node()
            await self._registered(BROKER_GROUP)
            await self._registered(DELAY_GROUP)
        except BaseException:
            await self._close()
            raise

    async def close(self) -> None:
        """Stop all nodes.

        Raises:
            Exception: the failure that ended a node before.
        """
        nodes: list[Node | Metaserver] = [self._meta, *filter(None, (self._broker, self._delay))]
        async with self._changes:
            await self._close()
        for node in nodes:
            node.failure.check()

    async def _close(self) -> None:
        if self._delay is not None:
            await self._delay.close()
        if self._broker is not None:
            await self._broker.close()
            self._broker = None
        await self._meta.close()

    @property
    def url(self) -> str:
        host, port = self._meta.admin.address
        return f"{host}:{port}"

    @property
    def _machine(self) -> Machine:
        return Machine(clock=self.clock, disk=self._disk)

    @property
    def _meta_url(self) -> str:
        return f"http://{self.url}/meta/address"

    async def _start_broker(self) -> None:
        options = BrokerOptions(
            broker_group=BROKER_GROUP,
            data_dir=f"{self._folder}/broker",
            port=self._broker_port,
            admin_port=0,
            meta=self._meta_url,
            retention_hours=RETENTION_HOURS,
            retry_delay_seconds=self._settings.retry_delay_seconds,
            consumer_lease_seconds=self._settings.consumer_lease_seconds,
            stop_seconds=STOP_SECONDS,
        )
        try:
            broker = await _started(Broker(options, self._machine))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not options.port:
                raise
            # Another program took the port while the broker was stopped. Clients learn the new one from the metaserver.
            broker = await _started(Broker(replace(options, port=0), self._machine))
        broker.storage.on_synced.append(lambda _: self._changed.set())
        self._broker, self._broker_port = broker, broker.server.address[1]

    async def _start_delay_node(self) -> DelayNode:
        options = DelayOptions(
            broker_group=DELAY_GROUP,
            data_dir=f"{self._folder}/delay",
            port=0,
            admin_port=0,
            meta=self._meta_url,
            delay_max_days=self._settings.delay_max_days,
            keep_hours=RETENTION_HOURS,
            stop_seconds=STOP_SECONDS,
        )
        return await _started(DelayNode(options, self._machine))

    async def _registered(self, group: str) -> None:
        groups = self._meta.directory.groups
        async with asyncio.timeout(READY_SECONDS_MAX):
            await _until(lambda: group in groups and groups[group].state is GroupState.READ_WRITE)

    # --- outages ---------------------------------------------------------------------------------------------------

    async def stop_broker(self) -> None:
        """Stop the broker: connections end and new ones are refused. Clients retry what they send.

        Returns when the broker has stopped. Without effect when it is stopped. Meanwhile, methods that read messages or lags raise
        RuntimeError, and delayed messages that are due wait in the delay node.
        """
        async with self._changes:
            broker, self._broker = self._broker, None
            if broker is not None:
                await broker.close()
                broker.failure.check()

    async def start_broker(self) -> None:
        """Start the broker with the data that it had, and return when the metaserver has registered it.

        Its port is the same unless another program took that. Without effect when it runs.
        """
        async with self._changes:
            if self._broker is None:
                await self._start_broker()
                await self._registered(BROKER_GROUP)
        self._changed.set()

    # --- messages --------------------------------------------------------------------------------------------------

    def _running_broker(self) -> Broker:
        if self._broker is None:
            raise RuntimeError("the broker is stopped; call start_broker() first")
        return self._broker

    def _subject(self, name: str) -> Subject | None:
        check_subject(name)
        return self._running_broker().store.subjects.get(name)

    async def count(self, subject: str) -> int:
        """Return the number of messages stored on a subject. Delayed messages count once they are delivered."""
        found = self._subject(subject)
        return 0 if found is None else found.visible_end - found.begin

    async def messages(self, subject: str) -> list[StoredMessage]:
        """Return the messages stored on a subject, in the order in which they were stored.

        Delayed messages are among them once they are delivered (`delayed` returns the others). Retries are stored elsewhere, so a
        message is returned once, processed or not.

        Raises:
            ValueError: there are more than 10,000; use `count`.
        """
        if (count := await self.count(subject)) > MESSAGES_MAX:
            raise ValueError(f"subject {subject!r} has {count} messages; messages() returns at most {MESSAGES_MAX}")
        found, log = self._subject(subject), self._running_broker().store.message_log
        if found is None:
            return []
        raws = log.read_raws(found.consume_log.read(found.begin, found.visible_end), cached_only=False)
        return [StoredMessage(decode_raws(raw)[0]) for raw in raws if raw is not None]

    async def dead_letters(self, subject: str, group: str) -> list[StoredMessage]:
        """Return the messages of a subject that have exhausted their attempts in a consumer group.

        Raises:
            ValueError: there are more than 10,000.
        """
        return await self.messages(dead_letter_subject(subject, group))

    async def delayed(self, subject: str) -> list[StoredMessage]:
        """Return the messages of a subject that are not due yet, by due time (`StoredMessage.due_at`).

        Raises:
            ValueError: there are more than 10,000.
        """
        check_subject(subject)
        found = await self._pending(subject, TIME_END_MS, MESSAGES_MAX + 1)
        if len(found) > MESSAGES_MAX:
            raise ValueError(f"subject {subject!r} has more delayed messages than the limit of {MESSAGES_MAX}")
        return found

    async def _pending(self, subject: str, until_ms: int, limit: int) -> list[StoredMessage]:
        """Up to `limit` messages in the delay node that are due before a time and neither delivered, cancelled nor held.

        Args:
            subject: "" for all subjects.
        """
        assert self._delay is not None
        cursor, found = "", list[StoredMessage]()
        while True:
            room = limit - len(found)
            query = ListDelayedRequest(subject, 0, until_ms, PENDING_STATES, limit=room, cursor=cursor)
            page, cursor = await self._delay.serving.queries.page(query)
            items = [entry.item() for entry in page]
            found += [StoredMessage(item.message, moment(item.due_ms)) for item in items]
            if not cursor or len(found) >= limit:
                return found

    async def wait_for(self, subject: str, count: int = 1, timeout: float = WAIT_SECONDS) -> list[StoredMessage]:
        """Return a subject's messages as soon as at least `count` are stored.

        Args:
            timeout: seconds.

        Raises:
            TimeoutError: there are fewer; the message contains what is stored.
        """
        check_subject(subject)

        def has_enough() -> bool:
            found = self._broker.store.subjects.get(subject) if self._broker is not None else None
            return found is not None and found.visible_end - found.begin >= count

        if not await self._wait(has_enough, timeout):
            stored = await self.messages(subject) if self._broker is not None else []
            texts = ", ".join(str(message.properties) for message in stored[:5])
            raise TimeoutError(
                f"{len(stored)} of {count} messages are stored on subject {subject!r} after {timeout:g} s"
                + (f": {texts}" if texts else "; subjects with messages: " + (self._subjects_text() or "none"))
            )
        return await self.messages(subject)

    def _subjects_text(self) -> str:
        if self._broker is None:
            return "the broker is stopped"
        subjects = self._broker.store.subjects.values()
        return ", ".join(sorted(subject.name for subject in subjects if subject.visible_end > subject.begin)[:20])

    # --- groups ----------------------------------------------------------------------------------------------------

    async def lag(self, subject: str, group: str) -> int:
        """Return how many messages of a subject a consumer group has not processed: not pulled, in flight, and to be retried.

        A group that has never pulled has all stored messages to process. Delayed messages count once they are delivered.
        """
        check_group(group)
        return sum(lag.total for lag in self._lags(subject, group))

    async def is_drained(self, subject: str, group: str) -> bool:
        """Return whether a consumer group has processed all messages of a subject, retries included."""
        return await self.lag(subject, group) == 0

    def _lags(self, subject: str, group: str) -> tuple[Lag, Lag]:
        """What a group has not processed of a subject, and of its retries."""
        return _lag(self._subject(subject), group), _lag(self._subject(retry_subject(subject, group)), group)

    async def wait_for_group(self, subject: str, group: str, timeout: float = WAIT_SECONDS) -> None:
        """Return as soon as a consumer group receives what is sent to a subject from now on.

        A new group starts at the end of its subject, unless its consumer has another `start`: it does not receive messages that
        were sent before its first pull. Wait for the group after starting the application and before sending.

        Args:
            timeout: seconds.

        Raises:
            TimeoutError: the group has not pulled the subject.
        """
        check_subject(subject)
        check_group(group)

        def is_known() -> bool:
            found = self._broker.store.subjects.get(subject) if self._broker is not None else None
            return found is not None and group in found.groups

        if not await self._wait(is_known, timeout):
            raise TimeoutError(f"group {group!r} has not pulled subject {subject!r} after {timeout:g} s")

    async def wait_drained(self, subject: str, group: str, timeout: float = WAIT_SECONDS) -> None:
        """Return as soon as a consumer group has processed all messages of a subject, retries included.

        Args:
            timeout: seconds.

        Raises:
            TimeoutError: some are not processed; the message contains their number.
        """
        check_subject(subject)
        check_group(group)

        def is_drained() -> bool:
            return self._broker is not None and not any(lag.total for lag in self._lags(subject, group))

        if not await self._wait(is_drained, timeout):
            if self._broker is None:
                raise TimeoutError(f"the broker is stopped, and group {group!r} had messages of {subject!r} to process")
            lag, retries = self._lags(subject, group)
            has_pulled = (found := self._subject(subject)) is not None and group in found.groups
            raise TimeoutError(
                f"group {group!r} has not processed {lag.total + retries.total} messages of subject {subject!r} after"
                f" {timeout:g} s: {lag.backlog} not pulled, {lag.in_flight} in flight, {retries.total} to be retried"
                + ("" if has_pulled else "; the group has never pulled")
            )

    async def _wait(self, is_true: Callable[[], bool], timeout: float) -> bool:
        """Wait for a condition that only a commit of the broker, or its start, can make true."""
        try:
            async with asyncio.timeout(timeout):
                while not is_true():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    # --- time ------------------------------------------------------------------------------------------------------

    async def advance(self, by: timedelta) -> None:
        """Move the clock forward, and return when all messages that are due then are on the broker.

        Consumers whose connection is open keep their leases, as if they had sent heartbeats meanwhile. Pulls that wait are
        answered, and their senders pull again. While the broker is stopped, returns without waiting for what is due.

        Raises:
            ValueError: `by` is negative.
            TimeoutError: a due message could not be delivered within 30 s; the message contains the cause.
        """
        async with self._changes:
            await self._let_commits_end()
            live = _live_consumers(self._broker) if self._broker is not None else []
            self.clock.move(by // timedelta(milliseconds=1))
            now = self.clock.monotonic()
            for consumer, sessions in live:
                consumer.seen_at = now
                for session in sessions:
                    session.seen_at = now
            if self._broker is not None:
                await _run_jobs(self._broker.supervisor, "consumer_leases", "long_poll_deadlines")
            await self._deliver_due()

    async def _let_commits_end(self) -> None:
        """Wait for a moment without a commit, or COMMITS_SECONDS_MAX: a commit during the jump would be logged as a slow one."""
        nodes = [node for node in (self._broker, self._delay) if node is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMMITS_SECONDS_MAX):
                while busy := [node.committer for node in nodes if not node.committer.is_idle]:
                    await busy[0].drain()

    async def _deliver_due(self) -> None:
        """Wait until the delay node has delivered what is due; without a broker it stays there."""
        assert self._delay is not None
        until_ms = self.clock.wall_ms() + DUE_SOON_MS
        # The first job finds the hours that the second one loads.
        await _run_jobs(self._delay.supervisor, "clock")
        await _run_jobs(self._delay.supervisor, "hour_loading")
        self._delay.serving.dispatcher.wake()
        if self._broker is None:
            return
        left = await self._pending("", until_ms + 1, 1)
        try:
            async with asyncio.timeout(ADVANCE_SECONDS_MAX):
                while left:
                    await asyncio.sleep(LOOK_SECONDS)
                    left = await self._pending("", until_ms + 1, 1)
        except TimeoutError:
            raise TimeoutError(
                f"message {left[0].message_id} of subject {left[0].subject!r} is due and not delivered after"
                f" {ADVANCE_SECONDS_MAX:g} s; subjects that can't be delivered: {self._delay.serving.dispatcher.lanes.problems(20)}"
            ) from None


async def _started(node: N) -> N:
    """Start a node; release what it holds if that fails."""
    try:
        await node.start()
    except BaseException:
        await node.close()
        raise
    # Deadlines of connections are for bytes that arrive in real time.
    node.server.clock = SystemClock()
    return node


async def _run_jobs(supervisor: Supervisor, *names: str) -> None:
    """Run periodic jobs once, without waiting for their periods, and return when they have ended."""
    before = {job.name: job.runs for job in supervisor.status() if job.name in names}
    for name in before:
        supervisor.run_soon(name)

    def have_ended() -> bool:
        jobs = [job for job in supervisor.status() if job.name in before]
        return all(job.runs > before[job.name] and not job.running for job in jobs)

    await _until(have_ended)


async def _until(is_true: Callable[[], bool]) -> None:
    """Wait for a condition of a node that reports no event."""
    while not is_true():  # noqa: ASYNC110 - nodes in production have no use for such events
        await asyncio.sleep(LOOK_SECONDS)


def _lag(subject: Subject | None, group: str) -> Lag:
    if subject is None:
        return Lag(0, 0)
    known: Group | None = subject.groups.get(group)
    if known is None:
        return Lag(subject.visible_end - subject.begin, 0)
    progress = known.progress
    return lag_of(subject.visible_end, progress.next_sequence, subject.begin, progress.in_flight)


def _live_consumers(broker: Broker) -> list[tuple[Consumer, list[Session]]]:
    """Consumers with an open connection that were not silent for their lease, and their sessions."""
    now, lease = broker.clock.monotonic(), broker.options.consumer_lease_seconds
    return [
        (consumer, sessions)
        for subject in broker.store.subjects.values()
        for group in subject.groups.values()
        for consumer in group.progress.consumers.values()
        if (sessions := consumer.sessions.alive(now, lease))
    ]

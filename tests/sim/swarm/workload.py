"""What the outside world does in one run: producers, consumers and an operator, each with choices drawn from the seed."""

import abc
import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Protocol

from metaserver.choices import OperatorState, Phase
from metaserver.domain import Route, SubjectRule
from qmq import Consumer, Delivery, Limits, Producer, Timeouts
from qmq.client.delayed import DelayedReceipt
from qmq.client.message import MessageIds
from qmq.errors import ClientClosed, QmqError, QueueFull, SendFailed
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import AckRequest, PullRequest, PullResponse
from qmq.protocol.delayed import Outcome
from qmq.protocol.extensions import EnsureGroupRequest, LeaveGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.messages import Message, decode_raws
from qmq.protocol.names import retry_subject
from tests.sim.swarm.history import Broken, Got, History, Sent
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import Process, SimulatedClock

TIMEOUTS = Timeouts(connect=1.0, send=2.0, ack=2.0, delivery=30.0, route=3.0)
LIMITS = Limits(prefetch_messages=50, pull_messages=20)
RAW_SECONDS = 2.0
"""How long a raw consumer waits for an answer."""
ATTEMPTS_MAX = 3
DELAY_SECONDS = (0.5, 15.0)
"""Shortest and longest delay of a message."""
SENDS_AT_ONCE = 50
"""Sends of a producer that wait for an answer."""


def true_ms(cluster: Cluster) -> int:
    """The true wall clock."""
    return cluster.loop.true_wall_ms


class Place(Protocol):
    """A broker group as a client on the bare protocol sees it."""

    name: str

    @property
    def port(self) -> int:
        """Where the next connection goes."""


class Actor(abc.ABC):
    """A client program on a host of its own. It can be killed, paused and started again."""

    def __init__(self, cluster: Cluster, history: History, name: str) -> None:
        self.cluster = cluster
        self.history = history
        self.name = name
        self.rng: Random = cluster.loop.rng(f"actor {name}")
        self.clock = SimulatedClock(cluster.loop)
        self.process: Process | None = None
        self.task: asyncio.Task[None] | None = None
        self.starts = 0
        self.stopping = asyncio.Event()

    def start(self) -> None:
        """Start the program, unless it runs."""
        if self.process is None and not self.stopping.is_set():
            self.starts += 1
            self.process = Process(self.cluster.loop, self.name)
            self.task = self.process.start(self._guarded())

    async def _guarded(self) -> None:
        try:
            await self.run()
        except Exception as error:  # noqa: BLE001 - a client that fails is a finding
            self.history.broken.append(Broken("client", f"{self.name} failed: {error!r}"))

    @abc.abstractmethod
    async def run(self) -> None:
        """Work until `stopping`."""

    def kill(self) -> None:
        """End it as by kill -9."""
        if self.process is not None:
            self.process.kill()
            self.cluster.network.process_killed(self.process)
            self.process = self.task = None

    async def stop(self) -> None:
        """End it gracefully."""
        self.stopping.set()
        if self.task is not None:
            await self.task
        if self.process is not None:
            self.process.kill()
            self.process = self.task = None

    async def nap(self, seconds: float) -> None:
        """Wait, at most until it stops."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            pass


class Sender(Actor):
    """A producer that sends messages of all kinds.

    Args:
        pause: mean seconds between two sends.
        delayed: share of messages with a due time.
        batches: share of sends that are a burst to several subjects.
        changes: share of acknowledged delayed messages that are cancelled or rescheduled.
    """

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        name: str,
        subjects: list[str],
        *,
        pause: float = 0.2,
        delayed: float = 0.0,
        batches: float = 0.0,
        changes: float = 0.3,
        poison: float = 0.0,
    ) -> None:
        super().__init__(cluster, history, name)
        self._subjects = subjects
        self._pause = pause
        self._delayed, self._batches, self._changes, self._poison = delayed, batches, changes, poison
        self._count = 0
        self._at_once = 0

    async def run(self) -> None:
        self._at_once = 0
        make_id = MessageIds(self.clock, lambda: f"{self.name}.{self.starts}")
        async with Producer(
            self.cluster.meta_url, app=self.name, timeouts=TIMEOUTS, clock=self.clock, make_id=make_id
        ) as producer:
            while not self.stopping.is_set():
                count = self.rng.randint(2, 20) if self.rng.random() < self._batches else 1
                for _ in range(count):
                    if self._at_once < SENDS_AT_ONCE:
                        self._begin(producer)
                await self.nap(self.rng.expovariate(1 / self._pause))
            await producer.flush()

    def _begin(self, producer: Producer) -> None:
        self._count += 1
        message_id = f"{self.name}.{self.starts}.{self._count}"
        size = self.rng.choice((10, 10, 100, 1000, 1000, 9000))
        properties = {"data": self.content_of(message_id, size)}
        if self.rng.random() < self._poison:
            properties["poison"] = "1"
        tags = tuple(self.rng.sample(("a", "b", "c"), self.rng.choice((0, 1, 2))))
        sent = Sent(message_id, self.rng.choice(self._subjects), properties, tags, true_ms(self.cluster))
        if self.rng.random() < self._delayed:
            sent.due_ms = sent.at_ms + round(self.rng.uniform(*DELAY_SECONDS) * 1000)
        self.history.sent[message_id] = sent
        self._at_once += 1
        assert self.process is not None
        self.process.start(self._send(producer, sent))

    @staticmethod
    def content_of(message_id: str, size: int) -> str:
        """A body that no other message has."""
        return (message_id + "/") * (size // (len(message_id) + 1) + 1)

    async def _send(self, producer: Producer, sent: Sent) -> None:
        try:
            if sent.due_ms is None:
                receipt = await producer.send(
                    sent.subject, dict(sent.properties), tags=sent.tags, message_id=sent.message_id
                )
            else:
                receipt = await producer.send(
                    sent.subject,
                    dict(sent.properties),
                    tags=sent.tags,
                    message_id=sent.message_id,
                    due=_moment(sent.due_ms),
                )
            sent.attempts, sent.broker_group, sent.is_acked = receipt.attempts, receipt.broker_group, True
            self.history.acknowledge(sent)
            if isinstance(receipt, DelayedReceipt) and self.rng.random() < self._changes:
                await self._change(receipt, sent)
        except SendFailed as error:
            sent.is_refused = "it is not stored" in str(error)
        except (QueueFull, ClientClosed):
            pass
        finally:
            self._at_once -= 1

    async def _change(self, receipt: DelayedReceipt, sent: Sent) -> None:
        await self.nap(self.rng.random() * 5)
        if self.rng.random() < 0.5:
            sent.may_be_cancelled = True
            change = await self._try(receipt.cancel)
            if change is not None and sent.attempts == 1:
                sent.may_be_cancelled = False
                if change.outcome in (Outcome.DONE, Outcome.UNCHANGED):
                    sent.cancelled_ms = true_ms(self.cluster)
            return
        assert sent.due_ms is not None
        due_ms = true_ms(self.cluster) + round(self.rng.uniform(*DELAY_SECONDS) * 1000)
        sent.due_ms = min(sent.due_ms, due_ms)
        change = await self._try(lambda: receipt.reschedule(due=_moment(due_ms)))
        # The client repeats a request whose answer is lost: "too late" and "unchanged" may speak of what the first one has done.
        if change is not None and sent.attempts == 1 and change.outcome is Outcome.DONE:
            sent.due_ms = due_ms

    @staticmethod
    async def _try(change: Callable[[], Awaitable[Any]]) -> Any:
        """The answer, or None when it is unknown whether the change was made."""
        try:
            return await change()
        except QmqError:
            return None


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


class Member(Actor):
    """A real consumer. It acks most messages, gives some back, and keeps some for a while."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        name: str,
        subject: str,
        group: str,
        *,
        gives_back: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(cluster, history, name)
        self.subject, self.group = subject, group
        self._gives_back = gives_back
        self._options = options

    async def run(self) -> None:
        # As a container that is replaced: it has its old id, or another one, and others get what it held when its lease ends.
        is_same = "broadcast" in self._options or self.rng.random() < 0.5
        consumer_id = self.name if is_same else f"{self.name}-{self.starts}"
        async with Consumer(
            self.cluster.meta_url,
            self.subject,
            "" if self._options.get("broadcast") else self.group,
            consumer_id=consumer_id,
            start="earliest",
            attempts_max=ATTEMPTS_MAX,
            timeouts=TIMEOUTS,
            limits=LIMITS,
            clock=self.clock,
            **self._options,
        ) as consumer:
            while not self.stopping.is_set():
                for delivery in await consumer.pull(20, timeout=1.0):
                    self._note(consumer, delivery)
                    if self.rng.random() < 0.2:
                        await self.nap(self.rng.random() * 0.2)
                    await self._settle(delivery)

    def _note(self, consumer: Consumer, delivery: Delivery) -> None:
        is_retry = delivery.attempt > 1
        source = retry_subject(self.subject, consumer.group) if is_retry else self.subject
        self.history.deliver(
            Got(
                delivery.message_id,
                delivery.subject,
                source,
                consumer.group,
                f"{self.name}.{self.starts}",
                delivery.broker_group,
                delivery.pull_sequence,
                true_ms(self.cluster),
                delivery.properties,
                delivery.tags,
            )
        )

    async def _settle(self, delivery: Delivery) -> None:
        key = (self.group, delivery.message_id)
        if "poison" in delivery.properties or self.rng.random() < self._gives_back:
            while True:
                try:
                    await delivery.retry(cause="Test")
                    break
                except SendFailed:
                    if self.stopping.is_set():
                        return
                    await self.nap(0.5)
            if delivery.attempt >= ATTEMPTS_MAX:
                self.history.dead.add(key)
        else:
            await delivery.ack()
            self.history.acked_by_client[key] = true_ms(self.cluster)


class RawMember(Actor):
    """A consumer on the bare protocol, which knows exactly which acks each broker confirmed. One connection to each broker."""

    nap_share = 0.1
    """How often it naps after a pull."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        name: str,
        subject: str,
        group: str,
        *,
        lease: float,
        is_exact: bool = True,
    ) -> None:
        super().__init__(cluster, history, name)
        self.subject, self.group = subject, group
        self._lease = lease
        self._is_exact = is_exact
        """Whether a message that was acked never comes again: nothing resets the group's position."""
        self._lives: dict[tuple[str, str], int] = defaultdict(int)
        """(broker group, subject) -> how often the consumer left, or may have lost its lease."""
        self._asked_at: dict[tuple[str, str], float] = {}
        """(broker group, subject) -> when the last request that was answered was sent."""

    async def _call(self, caller: Caller, key: tuple[str, str], code: int, body: bytes, seconds: float) -> Frame:
        """An answer. A consumer that may have lost its lease begins another life."""
        now = self.cluster.loop.now
        frame = await caller.call(code, body, timeout_s=seconds)
        # Half of the lease: the broker may have taken the request before late, and takes this one late.
        if now - self._asked_at.get(key, now) > self._lease / 2 or self.cluster.loop.now - now > self._lease / 2:
            self._lives[key] += 1
        self._asked_at[key] = now
        return frame

    async def run(self) -> None:
        assert self.process is not None
        parts = [
            self.process.start(self._follow(place, source))
            for place in self.places()
            for source in (self.subject, retry_subject(self.subject, self.group))
        ]
        await asyncio.gather(*parts)

    def places(self) -> Iterable[Place]:
        """The broker groups that it pulls from."""
        return self.cluster.brokers.values()

    async def _follow(self, place: Place, source: str) -> None:
        rng = self.cluster.loop.rng(f"{self.name} {self.starts} {place.name} {source}")
        while not self.stopping.is_set():
            caller = Caller("127.0.0.1", place.port, connect_seconds=1.0)
            try:
                await caller.connect()
                await self._consume(caller, place, source, rng)
                if self.stopping.is_set():
                    self._lives[place.name, source] += 1
                    leave = LeaveGroupRequest(source, self.group, self.name).encode()
                    await caller.call(Command.LEAVE_GROUP, leave, timeout_s=RAW_SECONDS)
            except QmqError:
                await self.nap(rng.random())
            finally:
                await caller.close()

    async def _consume(self, caller: Caller, place: Place, source: str, rng: Random) -> None:
        begin = EnsureGroupRequest(source, self.group, "earliest", 0, True, False).encode()
        if (await caller.call(Command.ENSURE_GROUP, begin, timeout_s=RAW_SECONDS)).code != ResponseCode.SUCCESS:
            await self.nap(0.5)
            return
        last, key = -1, (place.name, source)
        while not self.stopping.is_set():
            request = PullRequest(source, self.group, self.name, rng.randint(1, 20), -1, last, 1000, False)
            frame = await self._call(caller, key, Command.PULL_MESSAGE, request.encode(), 1.0 + RAW_SECONDS)
            if frame.code != ResponseCode.SUCCESS:
                continue
            answer = PullResponse.decode(frame.body)
            messages = decode_raws(answer.raws)
            life = self._lives[key]
            for number, message in enumerate(messages, answer.pull_begin):
                self._note(message, source, place.name, number, life)
            last = answer.pull_begin + len(messages) - 1
            if rng.random() < self.nap_share:
                await self.nap(rng.random() * 0.5)
            if rng.random() < 0.05:
                return  # connect again without an ack: the same messages come again
            self.history.acks_tried.update((self.group, message.message_id) for message in messages)
            ack = AckRequest(source, self.group, self.name, answer.pull_begin, last, False)
            if (
                await self._call(caller, key, Command.ACK_REQUEST, ack.encode(), RAW_SECONDS)
            ).code != ResponseCode.SUCCESS:
                return
            for message in messages:
                item = (self.group, message.message_id)
                if self._is_exact and self._lives[key] == life:
                    self.history.settled_in_time.add(item)

    def _note(self, message: Message, source: str, broker_group: str, number: int, life: int) -> None:
        got = Got(
            message.message_id,
            self.subject,
            source,
            self.group,
            self.name,
            broker_group,
            number,
            true_ms(self.cluster),
            message.properties,
            message.tags,
        )
        self.history.deliver(got)
        self.history.number(got, life)


class Operator(Actor):
    """Changes rules, routes and positions, as people do in the console."""

    def __init__(self, cluster: Cluster, history: History, subjects: list[str], resets: list[tuple[str, str]]) -> None:
        super().__init__(cluster, history, "operator")
        self._subjects = subjects
        self._resets = resets

    async def run(self) -> None:
        actions = [self._pause_group, self._limit, self._read_only, self._rebalance]
        if self._resets:
            actions.append(self._reset)
        while not self.stopping.is_set():
            await self.nap(self.rng.uniform(1, 6))
            if not self.stopping.is_set():
                await self.rng.choice(actions)()

    async def _pause_group(self) -> None:
        subject = self.rng.choice(self._subjects)
        group = f"{self.rng.choice(('real', 'raw'))}-{subject}"
        self.cluster.database.set_paused(subject, group, is_paused=True)
        await self.nap(self.rng.uniform(0.5, 4))
        self.cluster.database.set_paused(subject, group, is_paused=False)

    async def _limit(self) -> None:
        subject = self.rng.choice(self._subjects)
        self.cluster.database.set_rule(subject, SubjectRule(messages_per_second=self.rng.choice((1, 5, 50))))
        await self.nap(self.rng.uniform(0.5, 4))
        self.cluster.database.set_rule(subject, None)

    async def _read_only(self) -> None:
        name = self.rng.choice(list(self.cluster.nodes))
        if name in self.cluster.database.stored.groups:
            self.cluster.database.set_operator_state(name, OperatorState.READ_ONLY)
            await self.nap(self.rng.uniform(0.5, 4))
            self.cluster.database.set_operator_state(name, OperatorState.NORMAL)

    async def _rebalance(self) -> None:
        """Let another broker group serve a subject, and one of those that did stop taking messages of it."""
        subject = self.rng.choice(self._subjects)
        route = self.cluster.database.stored.routes.get(subject)
        if route is None:
            return
        others = [name for name in self.cluster.brokers if name not in route.broker_groups]
        groups = (*route.broker_groups, *others[:1])
        stays = self.rng.choice(groups)
        leaving = [name for name in groups if name != stays and self.rng.random() < 0.5]
        first = {**dict.fromkeys(others[:1], Phase.JOINING), **dict.fromkeys(leaving, Phase.LEAVING)}
        self.cluster.database.set_route(Route(subject, groups, route.version + 1, route.created_at_ms, first))
        await self.nap(self.rng.uniform(1, 4))
        then = dict.fromkeys(leaving, Phase.DRAINING)
        self.cluster.database.set_route(Route(subject, groups, route.version + 2, route.created_at_ms, then))

    async def _reset(self) -> None:
        subject, group = self.rng.choice(self._resets)
        host = self.rng.choice(list(self.cluster.brokers.values()))
        start = self.rng.choice(("earliest", "sequence"))
        request = EnsureGroupRequest(subject, group, start, self.rng.randint(0, 200), False, False).encode()
        caller = Caller("127.0.0.1", host.port, connect_seconds=1.0)
        try:
            await caller.connect()
            await caller.call(Command.ENSURE_GROUP, request, timeout_s=RAW_SECONDS)
        except QmqError:
            pass  # the broker is away
        finally:
            await caller.close()

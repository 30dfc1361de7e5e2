"""What fault scenarios share: a cluster with producers and consumers on hosts of their own, and the record of what each saw.

Times are virtual seconds of the loop. A scenario asserts exact times: bounds are sums of the product's own constants and settings,
with `NETWORK_SECONDS` for the packets in between.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from metaserver.memory.live_groups import EXPIRY_SECONDS
from metaserver.server import EXPIRE_SECONDS, Metaserver
from qmq import Consumer, Producer, Timeouts
from qmq.client.message import MessageIds
from qmq.errors import QmqError
from qmq.net.discovery import meta_urls
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF
from qmq.protocol.codes import BrokerGroupState, ClientType
from tests.sim.world.cluster import Cluster, Host
from tests.sim.world.loop import Process, SimulatedClock, SimulatedLoop, running_loop
from tests.support.promises import PromiseBroken

TIMEOUTS = Timeouts()
"""Clients of scenarios have the product's defaults."""
NETWORK_SECONDS = 0.05
"""Upper bound of what packets, short syncs and queries of one request take while nothing is slowed down."""
OFFLINE_SECONDS = EXPIRY_SECONDS + EXPIRE_SECONDS
"""A group is offline for clients at the latest so long after its node's last heartbeat, plus NETWORK_SECONDS."""
SETTLE_SECONDS = 90.0
"""After all faults: every client has tried again by then."""
QUIET_SECONDS = 20.0
"""Longer than a pull with its time limit: a duplicate that is still under way arrives in this time."""
LOOK_SECONDS = 0.05


@dataclass(slots=True)
class Send:
    """One call of `Producer.send`."""

    value: str
    subject: str
    producer: str
    began: float
    due: float | None = None
    """Of a delayed message."""
    ended: float | None = None
    error: QmqError | None = None
    attempts: int = 0
    broker_group: str = ""

    @property
    def seconds(self) -> float:
        """How long it took."""
        assert self.ended is not None
        return self.ended - self.began

    @property
    def is_acked(self) -> bool:
        """Whether it returned a receipt."""
        return self.ended is not None and self.error is None


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery."""

    value: str
    subject: str
    group: str
    consumer: str
    broker_group: str
    at: float
    attempt: int


@dataclass(slots=True, repr=False, eq=False)
class Client:
    """A producer or consumer on a host of its own, which has its name."""

    name: str
    process: Process
    task: "asyncio.Task[None]"
    clock: SimulatedClock
    stop: asyncio.Event


@dataclass(slots=True)
class Routes:
    """What a client that only asks for routes was sent: (time, states by broker group) at each change."""

    seen: list[tuple[float, dict[str, BrokerGroupState]]] = field(default_factory=list)

    def first(self, is_so: Callable[[dict[str, BrokerGroupState]], bool], since: float) -> float:
        """When the first route after `since` was such."""
        for at, states in self.seen:
            if at >= since and is_so(states):
                return at
        raise AssertionError(f"no such route since {since}: {self.seen}")

    def since(self, at: float) -> list[tuple[float, dict[str, BrokerGroupState]]]:
        """What was sent after a time."""
        return [item for item in self.seen if item[0] > at]


@dataclass(frozen=True, slots=True)
class Change:
    """A metaserver gave a broker group another state."""

    at: float
    meta: str
    """The metaserver's host."""
    group: str
    state: str


@dataclass(repr=False, eq=False)
class Scenario:
    """A running cluster, its clients, and what happened."""

    cluster: Cluster
    loop: SimulatedLoop
    sends: list[Send] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    """Each state that a metaserver gave a group."""
    clients: dict[str, Client] = field(default_factory=dict)
    watcher: MetaSession | None = None
    """The session of `watch_routes`."""
    groups: set[tuple[str, str]] = field(default_factory=set)
    """(subject, consumer group) of all consumers."""

    # --- the world -------------------------------------------------------------------------------------------------

    @property
    def meta(self) -> Metaserver:
        """The process of the first metaserver that runs now."""
        return self.metaserver("meta")

    def metaserver(self, name: str) -> Metaserver:
        """The process of a metaserver that runs now."""
        server = self.cluster.metas[name].server
        assert isinstance(server, Metaserver)
        return server

    def host(self, name: str) -> Host:
        """A server's host."""
        return self.cluster.hosts[name]

    def cut(self, *pairs: tuple[str, str], one_way: bool = False) -> None:
        """Cut the network between hosts; `one_way`: only packets from the first to the second are lost."""
        for source, target in pairs:
            self.cluster.network.cut(source, target, one_way=one_way)

    def heal(self) -> None:
        """End all cuts and slowness of the network."""
        self.cluster.network.heal()

    def heartbeat_at(self, group: str) -> float:
        """When the metaserver received the newest heartbeat of a group's master."""
        return self.meta.directory.groups[group].heartbeat_at

    def state(self, group: str) -> str:
        """A group's state at the metaserver."""
        return str(self.meta.directory.groups[group].state)

    async def until(self, condition: Callable[[], object], seconds: float, what: str) -> float:
        """Wait for a condition, looked at every LOOK_SECONDS; returns the seconds until it was seen."""
        began = self.loop.now
        while not condition():
            self._check_clients()
            if self.loop.now - began > seconds:
                raise AssertionError(f"not within {seconds:g} virtual seconds: {what}")
            await asyncio.sleep(LOOK_SECONDS)
        return self.loop.now - began

    async def _watch(self) -> None:
        known: dict[tuple[str, str], str] = {}
        while True:
            for meta, host in self.cluster.metas.items():
                if not isinstance(host.server, Metaserver):
                    continue
                for name, live in host.server.directory.groups.items():
                    if known.get((meta, name)) != (state := str(live.state)):
                        known[meta, name] = state
                        self.changes.append(Change(self.loop.now, meta, name, state))
            await asyncio.sleep(LOOK_SECONDS)

    def changes_since(self, at: float, meta: str = "meta") -> list[tuple[str, str]]:
        """(broker group, new state) at a metaserver since a time."""
        return [(one.group, one.state) for one in self.changes if one.at > at and one.meta == meta]

    # --- clients ---------------------------------------------------------------------------------------------------

    def add_producer(
        self,
        name: str,
        subject: str = "orders",
        *,
        every: float = 0.2,
        delay: float | None = None,
        timeouts: Timeouts = TIMEOUTS,
        at_once: int = 1,
        text: str = "",
    ) -> Client:
        """A producer that sends for as long as the scenario lasts.

        Args:
            every: seconds from one send's end to the next one's begin.
            delay: send delayed messages, so many seconds ahead.
            at_once: so many senders beside each other.
            text: is in each message.
        """

        async def work(client: Client) -> None:
            ids = MessageIds(client.clock, lambda: name)
            async with Producer(
                self.cluster.meta_url, app=name, timeouts=timeouts, clock=client.clock, make_id=ids
            ) as producer:
                senders = [
                    asyncio.ensure_future(self._send(client, producer, f"{name}-{number}", subject, every, delay, text))
                    for number in range(at_once)
                ]
                await asyncio.gather(*senders)

        return self._add(name, work)

    async def _send(
        self, client: Client, producer: Producer, name: str, subject: str, every: float, delay: float | None, text: str
    ) -> None:
        number = 0
        while not client.stop.is_set():
            send = Send(f"{name}-{number}", subject, client.name, self.loop.now)
            number += 1
            self.sends.append(send)
            body = {"value": send.value, "text": text}
            try:
                if delay is None:
                    receipt: Any = await producer.send(subject, body)
                else:
                    send.due = self.loop.now + delay
                    receipt = await producer.send(subject, body, delay=timedelta(seconds=delay))
                send.attempts, send.broker_group = receipt.attempts, receipt.broker_group
            except QmqError as error:
                send.error = error
            send.ended = self.loop.now
            await asyncio.sleep(every)

    def add_consumer(self, name: str, subject: str = "orders", group: str = "billing", **options: Any) -> Client:
        """A consumer that acks whatever it receives."""
        self.groups.add((subject, group))

        async def work(client: Client) -> None:
            consumer = Consumer(
                self.cluster.meta_url, subject, group, consumer_id=name, start="earliest", timeouts=TIMEOUTS,
                clock=client.clock, **options,
            )  # fmt: skip
            async with consumer:
                while not client.stop.is_set():
                    for delivery in await consumer.pull(20, timeout=1.0):
                        value = str(delivery.properties["value"])
                        self.received.append(
                            Received(
                                value, subject, group, name, delivery.broker_group, self.loop.now, delivery.attempt
                            )
                        )
                        await delivery.ack()

        return self._add(name, work)

    def _add(self, name: str, work: Callable[[Client], Any]) -> Client:
        clock = SimulatedClock(self.loop)
        process = Process(self.loop, name)
        stop = asyncio.Event()

        async def run() -> None:
            await work(client)

        client = Client(name, process, process.start(run()), clock, stop)
        self.clients[name] = client
        return client

    def watch_routes(self, subject: str = "orders") -> Routes:
        """Register a client, on host `watcher`, that records each route it is sent."""
        routes = Routes()
        session = self.watcher = MetaSession(
            meta_urls(self.cluster.meta_url),
            app="watcher",
            client_id="watcher",
            timeouts=TIMEOUTS,
            backoff=DEFAULT_BACKOFF,
        )

        def changed(*_: object) -> None:
            states = {
                route.name: BrokerGroupState(route.state) for route in session.routes(subject, ClientType.PRODUCER)
            }
            routes.seen.append((self.loop.now, states))

        session.on_change = changed

        async def run() -> None:
            session.start()
            session.register(subject, ClientType.PRODUCER)
            await stop.wait()
            await session.close()

        process, stop = Process(self.loop, "watcher"), asyncio.Event()
        task = process.start(run())
        self.clients["watcher"] = Client("watcher", process, task, SimulatedClock(self.loop), stop)
        return routes

    async def end(self, name: str) -> None:
        """Stop a client gracefully."""
        client = self.clients.pop(name)
        client.stop.set()
        await client.task

    def _check_clients(self) -> None:
        """Raise what ended a client."""
        for client in self.clients.values():
            if client.task.done():
                client.task.result()

    # --- judgement -------------------------------------------------------------------------------------------------

    def sends_of(self, since: float, until: float, subject: str = "") -> list[Send]:
        """Sends that began in a time."""
        return [send for send in self.sends if since <= send.began < until and (not subject or send.subject == subject)]

    def failed(self) -> list[Send]:
        """Sends that ended with an error."""
        return [send for send in self.sends if send.error is not None]

    def missing(self) -> dict[tuple[str, str], set[str]]:
        """Acknowledged and not received, by subject and consumer group."""
        found = {}
        for subject, group in self.groups:
            acked = {send.value for send in self.sends if send.subject == subject and send.is_acked}
            got = {item.value for item in self.received if (item.subject, item.group) == (subject, group)}
            if acked - got:
                found[subject, group] = acked - got
        return found

    def repeated(self) -> set[str]:
        """Values that a consumer group received more than once."""
        counts = Counter((item.group, item.value) for item in self.received)
        return {value for (_, value), count in counts.items() if count > 1}

    async def settle(
        self, *, may_repeat: set[str] | None = None, may_fail: bool = False, quiet_seconds: float = QUIET_SECONDS
    ) -> float:
        """End all faults and sends; check that everything acknowledged arrives, once. Returns how long the last one took.

        Args:
            may_repeat: further values that the protocol allows twice. A send of several attempts is always allowed: an earlier
                one may be stored although its answer was lost.
            quiet_seconds: how long duplicates are waited for.

        Raises:
            PromiseBroken: a message was lost, made up or doubled, or a process failed.
        """
        self.heal()
        senders = [client for client in self.clients.values() if client.name in {send.producer for send in self.sends}]
        for client in senders:
            client.stop.set()
        await asyncio.gather(*(client.task for client in senders))
        began = self.loop.now
        while self.missing():
            self._check_clients()
            if self.loop.now - began > SETTLE_SECONDS:
                raise PromiseBroken(f"acknowledged and never received: {self.missing()}")
            await asyncio.sleep(LOOK_SECONDS)
        took = self.loop.now - began
        await asyncio.sleep(quiet_seconds)
        self._check(may_repeat or set(), may_fail)
        return took

    def _check(self, may_repeat: set[str], may_fail: bool) -> None:
        sent = {send.value for send in self.sends}
        if phantoms := {item.value for item in self.received} - sent:
            raise PromiseBroken(f"received and never sent: {phantoms}")
        twice = {send.value for send in self.sends if send.attempts > 1 or send.error is not None}
        if doubled := self.repeated() - twice - may_repeat:
            raise PromiseBroken(f"received more than once: {sorted(doubled)}")
        due = {send.value: send.due for send in self.sends}
        if early := [item for item in self.received if item.at < (due.get(item.value) or 0.0) - 0.001]:
            raise PromiseBroken(f"delivered early: {early[:3]}")
        if not may_fail and self.failed():
            raise PromiseBroken(f"sends failed: {[(send.value, str(send.error)) for send in self.failed()[:3]]}")
        if self.loop.errors:
            raise PromiseBroken(f"exceptions that reached the loop: {self.loop.errors[:3]}")
        exits = {name: host.exits for name, host in self.cluster.hosts.items() if any(host.exits)}
        if exits:
            raise PromiseBroken(f"servers that ended by themselves: {exits}")


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Scenario]:
    """A cluster that serves, with nothing wrong yet; `options` are those of Cluster."""
    loop = running_loop()
    cluster = Cluster(loop, **options)
    logger = logging.getLogger()
    before, level = logger.handlers[:], logger.level
    logger.addHandler(cluster.log)
    logger.setLevel(logging.INFO)
    scenario = Scenario(cluster, loop)
    try:
        await cluster.start()
        watching = asyncio.ensure_future(scenario._watch())
        yield scenario
        watching.cancel()
        for name in list(scenario.clients):
            await scenario.end(name)
        await cluster.stop()
    except BaseException:
        print("\n".join(cluster.log.lines))
        # Processes that are paused, cut off or failed would not end by themselves.
        for client in scenario.clients.values():
            client.process.kill()
        for host in cluster.hosts.values():
            host.kill()
        raise
    finally:
        logger.handlers[:] = before
        logger.setLevel(level)

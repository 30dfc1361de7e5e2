"""What must hold after a run, one promise a function. Each returns the broken promises that it found."""

import asyncio
import contextvars
import functools
import gc
import logging
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from broker_node.broker import Broker
from broker_node.delivery.long_poll import ParkedPull
from broker_node.recovery.open_store import open_store as open_broker_store
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits
from delay_node.delay_node import DelayNode
from delay_node.hour_reader import read_hour
from delay_node.recovery import open_store as open_delay_store
from delay_node.store import DelayStore
from qmq.errors import ProtocolError
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import PullRequest, PullResponse
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.messages import Message, decode_raw, decode_raws
from qmq.protocol.names import dead_letter_subject
from qmq_node.log.handles import HandleCache
from qmq_node.server.connection import Connection
from qmq_node.slices import run_to_end
from tests.sim.swarm.history import Broken, History, Sent
from tests.sim.world.cluster import Cluster, Host
from tests.sim.world.database import Database
from tests.sim.world.loop import Process, SimulatedLoop
from tests.sim.world.network import End, Network
from tests.support.disks.disk_work import read_and_repair

EARLY_STEP_MS = 5_000
"""A step of a delay node's clock up to this is accepted: messages are early by as much."""
WITHHELD = -1
"""In the place of a checksum."""
AUDIT_MESSAGES = 100
AUDIT_SECONDS = 20.0
RESOURCE_LOOKS, RESOURCE_SECONDS = 5, 1.3


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A consumer group of a run, and what it is to get."""

    subject: str
    group: str
    tags: tuple[str, ...] = ()
    """It gets only messages with one of these; empty: all."""
    is_exact: bool = False
    is_at_most_once: bool = False
    gives_up: bool = False
    """Its handlers fail with poisonous messages, which become dead letters."""

    def wants(self, sent: Sent) -> bool:
        """Whether the group must get a message."""
        return sent.subject == self.subject and (not self.tags or not set(self.tags).isdisjoint(sent.tags))


@dataclass
class Audit:
    """What a new consumer group read of all subjects on all brokers, from the beginning."""

    logs: dict[tuple[str, str], list[Message]] = field(default_factory=dict)
    """(broker group, subject) -> messages in the order of their sequences."""

    torn: list[str] = field(default_factory=list)
    """Answers that could not be decoded."""

    def found(self) -> Iterator[tuple[str, str, Message]]:
        """(broker group, subject, message) of all messages."""
        for (broker_group, subject), messages in self.logs.items():
            for message in messages:
                yield broker_group, subject, message

    def copies(self) -> Counter[tuple[str, str]]:
        """How often each (subject, message id) is stored."""
        return Counter((subject, message.message_id) for _, subject, message in self.found())


async def audit(cluster: Cluster, group: str) -> Audit:
    """Read everything again, as a consumer that never was here before does."""
    found = Audit()
    for name, host in cluster.serving().items():
        assert isinstance(host.server, Broker)
        caller = Caller("127.0.0.1", host.port)
        await caller.connect()
        for subject in list(host.server.store.subjects):
            begin = EnsureGroupRequest(subject, group, "earliest", 0, True, False).encode()
            answer = await caller.call(Command.ENSURE_GROUP, begin, timeout_s=AUDIT_SECONDS)
            assert answer.code == ResponseCode.SUCCESS, answer.code
            messages = found.logs[name, subject] = []
            try:
                async for message in _pull_all(caller, subject, group):
                    messages.append(message)
            except ProtocolError as error:
                found.torn.append(f"{name} {subject} after {len(messages)} messages: {error}")
        await caller.close()
    return found


async def _pull_all(caller: Caller, subject: str, group: str) -> Any:
    last, patience = -1, 20
    while True:
        request = PullRequest(subject, group, "auditor", AUDIT_MESSAGES, -1, last, -1, False).encode()
        frame = await caller.call(Command.PULL_MESSAGE, request, timeout_s=AUDIT_SECONDS)
        if frame.code != ResponseCode.SUCCESS:
            # Retried messages stay invisible for the retry delay.
            patience -= 1
            if not patience or not subject.startswith("%RETRY%"):
                return
            await asyncio.sleep(0.5)
            continue
        answer = PullResponse.decode(frame.body)
        for number, message in enumerate(decode_raws(answer.raws), answer.pull_begin):
            assert number == last + 1, f"the auditor got pull sequence {number} of {subject} after {last}"
            last = number
            yield message


# --- messages ---------------------------------------------------------------------------------------------------------


def messages(history: History, audit: Audit, plans: Sequence[GroupPlan]) -> Iterator[Broken]:
    """Everything that must hold of messages."""
    yield from lost(history, audit)
    yield from undelivered(history, audit, plans)
    yield from unwanted(history, plans)
    yield from phantom(history, audit)
    yield from content(history, audit)
    yield from stored_twice(history, audit)
    yield from duplicate(history, audit)
    yield from once(history, audit, plans)
    yield from early(history)


def lost(history: History, audit: Audit) -> Iterator[Broken]:
    """Nothing acknowledged is lost: each message with a receipt is in the log of a broker."""
    copies = audit.copies()
    for sent in history.sent.values():
        is_gone = sent.cancelled_ms is not None or sent.may_be_cancelled
        # Of a delayed message it is not known which broker has it.
        if history.damaged and (sent.due_ms is not None or sent.broker_group in history.damaged):
            continue
        if sent.is_acked and not is_gone and not copies[sent.subject, sent.message_id]:
            yield Broken("lost", f"acknowledged and in no log: {sent}")


def undelivered(history: History, audit: Audit, plans: Iterable[GroupPlan]) -> Iterator[Broken]:
    """Each group got every message that is stored for it, and what it gave up is a dead letter."""
    got: dict[str, set[str]] = defaultdict(set)
    for one in history.got:
        got[one.group].add(one.message_id)
    copies = audit.copies()
    for plan in plans:
        if plan.is_at_most_once:
            continue
        dead = dead_letter_subject(plan.subject, plan.group)
        for sent in history.sent.values():
            if not plan.wants(sent) or not copies[sent.subject, sent.message_id]:
                continue
            if sent.message_id not in got[plan.group]:
                yield Broken("undelivered", f"group {plan.group} never got {sent}")
            if plan.gives_up and sent.is_poison and not history.damaged and not copies[dead, sent.message_id]:
                yield Broken("undelivered", f"group {plan.group} gave up {sent.message_id}, which is no dead letter")


def unwanted(history: History, plans: Iterable[GroupPlan]) -> Iterator[Broken]:
    """No group gets a message without one of the tags that it asks for."""
    by_group = {plan.group: plan for plan in plans if plan.tags}
    for one in history.got:
        plan, sent = by_group.get(one.group), history.sent.get(one.message_id)
        if plan is not None and sent is not None and not plan.wants(sent):
            yield Broken("unwanted", f"group {one.group} asks for {plan.tags}, and got {one}")


def phantom(history: History, audit: Audit) -> Iterator[Broken]:
    """Nothing appears that was never sent, was refused, or was cancelled in time."""
    for broker_group, subject, message in audit.found():
        sent = history.sent.get(message.message_id)
        if sent is None or (not subject.startswith("%") and sent.subject != subject):
            yield Broken("phantom", f"{broker_group} has {message.message_id} of {subject}, which was never sent")
        elif sent.is_refused:
            yield Broken("phantom", f"{broker_group} has {message.message_id} of {subject}, which was refused")
    for one in history.got:
        if one.message_id not in history.sent:
            yield Broken("phantom", f"never sent: {one}")


def content(history: History, audit: Audit) -> Iterator[Broken]:
    """A message arrives as it was sent."""
    for torn in audit.torn:
        yield Broken("content", torn)
    for broker_group, subject, message in audit.found():
        sent = history.sent.get(message.message_id)
        if sent is not None and not _is_same(sent, message.properties, message.tags):
            yield Broken("content", f"{broker_group} {subject}: {message.message_id} is not as it was sent")
    for one in history.got:
        sent = history.sent.get(one.message_id)
        if sent is not None and not _is_same(sent, one.properties, one.tags):
            yield Broken("content", f"not as it was sent: {one}")


def _is_same(sent: Sent, properties: Mapping[str, str], tags: tuple[str, ...]) -> bool:
    return tags == sent.tags and all(properties.get(key) == value for key, value in sent.properties.items())


def stored_twice(history: History, audit: Audit) -> Iterator[Broken]:
    """A message that was sent once and acknowledged is stored once."""
    copies = audit.copies()
    for sent in history.sent.values():
        count = copies[sent.subject, sent.message_id]
        if sent.is_acked and sent.attempts == 1 and sent.due_ms is None and count > 1:
            yield Broken("stored_twice", f"{count} times: {sent}")


def duplicate(history: History, audit: Audit) -> Iterator[Broken]:
    """A message that is stored once does not come again to a group after an ack was confirmed to it."""
    copies = audit.copies()
    for one in history.again:
        # An assignment or ack that was lost with a damaged commit is made again. Of a message that was sent more than once
        # a damaged log may hide another copy, whose ack was confirmed.
        sent = history.sent.get(one.message_id)
        has_one_copy = copies[one.subject, one.message_id] == 1 and not (
            history.damaged and sent is not None and (sent.attempts > 1 or sent.due_ms is not None)
        )
        if has_one_copy and one.broker_group not in history.damaged:
            yield Broken("duplicate", f"acked by the group, and came again: {one}")


def once(history: History, audit: Audit, plans: Iterable[GroupPlan]) -> Iterator[Broken]:
    """No group that asked for at most once gets a stored message twice."""
    copies = audit.copies()
    for plan in plans:
        if plan.is_at_most_once and not history.damaged:
            counts = Counter(one.message_id for one in history.got if one.group == plan.group)
            for message_id, count in counts.items():
                if count > max(1, copies[plan.subject, message_id]):
                    yield Broken("once", f"group {plan.group} got {message_id} {count} times")


def early(history: History) -> Iterator[Broken]:
    """No delayed message arrives before its time, and none after a confirmed cancel."""
    allowed_ms = max(min(history.forward_ms, EARLY_STEP_MS), history.unchecked_ms)
    for one in history.got:
        sent = history.sent.get(one.message_id)
        if sent is None or sent.due_ms is None:
            continue
        if one.at_ms < sent.due_ms - allowed_ms:
            yield Broken("early", f"{sent.due_ms - one.at_ms} ms before its time: {one}")
        if sent.cancelled_ms is not None:
            yield Broken("cancelled", f"delivered at {one.at_ms} though cancelled at {sent.cancelled_ms}: {one}")


# --- logs --------------------------------------------------------------------------------------------------------------


class LogWatch:
    """Looks at the brokers' logs again and again: what is visible at a sequence stays there."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], list[int]] = defaultdict(list)
        """(broker group, subject) -> checksums of its messages by sequence. No run is long enough for retention."""
        self._starts: dict[str, int] = {}

    def look(self, cluster: Cluster, history: History, *, everything: bool = False) -> Iterator[Broken]:
        """Compare what is visible now with what was visible before: after a restart of its node, or if asked, all of it."""
        for name, host in cluster.brokers.items():
            if not isinstance(host.server, Broker):
                continue
            is_new = everything or self._starts.get(name) != host.starts
            self._starts[name] = host.starts
            store = host.server.store
            there = {subject for broker_group, subject in self._seen if broker_group == name}
            for missing in there - store.subjects.keys():
                if self._seen[name, missing]:
                    yield Broken("order", f"{name}: subject {missing} is gone")
            for subject in store.subjects.values():
                seen = self._seen[name, subject.name]
                end = subject.visible_end
                if end < len(seen):
                    yield Broken("order", f"{name} {subject.name} ended at {len(seen)}, and ends at {end} now")
                begin = 0 if is_new else min(len(seen), end)
                for sequence, raw in enumerate(read_and_repair(store, subject, begin, end), begin):
                    checksum = crc32(raw) if raw is not None else WITHHELD
                    if sequence >= len(seen):
                        seen.append(checksum)
                    elif checksum == WITHHELD and name in history.damaged:
                        pass
                    elif seen[sequence] not in (checksum, WITHHELD):
                        found = decode_raw(raw)[0].message_id if raw is not None else "unreadable"
                        yield Broken(
                            "order", f"{name} {subject.name} {sequence} is {found} now, and was another message"
                        )
                        seen[sequence] = checksum


def derived(host: Host) -> Iterator[Broken]:
    """What a node derives from its log is what a fresh start derives: with its checkpoint, and without any derived file."""
    server = host.server
    if isinstance(server, Broker):
        live, root = broker_state(server.store), server.options.data_dir
        options = server.options
        for keep in (True, False):
            disk = host.disk.after_kill()
            if not keep:
                for path in list(disk.names):
                    if not path.startswith(f"{root}/log/"):
                        disk.remove(path)
            clock = host.clock
            store, _ = open_broker_store(
                disk,
                root,
                clock,
                limits=StoreLimits(),
                segment_bytes=options.segment_bytes,
                handles=HandleCache(disk, clock=clock),
            )
            yield from _differences(host.name, "with" if keep else "without", live, broker_state(store))
    elif isinstance(server, DelayNode):
        disk = host.disk.after_kill()
        clock = host.clock
        delay_store, _ = open_delay_store(
            disk,
            server.options.data_dir,
            segment_bytes=server.options.segment_bytes,
            handles=HandleCache(disk, clock=clock),
        )
        yield from _differences(host.name, "with", delay_state(server.store), delay_state(delay_store))


def _differences(name: str, how: str, live: dict[str, Any], fresh: dict[str, Any]) -> Iterator[Broken]:
    for key in {**live, **fresh}:
        if live.get(key) != fresh.get(key):
            what = f"{name}: after a start {how} derived files {key} is {fresh.get(key)}, and was {live.get(key)}"
            yield Broken("derived", what[:2000])


def broker_state(store: MessageStore) -> dict[str, Any]:
    """Everything that a broker derives from its log."""
    found: dict[str, Any] = {}
    for subject in store.subjects.values():
        if subject.is_empty:
            continue  # a pull made it; nothing of it is stored
        index = subject.consume_log
        found[subject.name] = (subject.begin, subject.next_sequence, hash(index.read(subject.begin, index.end)))
        for name, group in subject.groups.items():
            progress = group.progress
            consumers = {
                consumer.consumer_id: (
                    consumer.log.acked,
                    consumer.log.pulled,
                    [(r.pull_begin, r.begin, r.count) for r in consumer.log.runs()],
                )
                for consumer in progress.consumers.values()
                if consumer.log.pulled
            }
            found[f"{subject.name}, group {name}"] = (
                progress.next_sequence,
                progress.broadcast,
                consumers,
                progress.orphans,
            )
    return found


def delay_state(store: DelayStore) -> dict[str, Any]:
    """Everything that a delay node derives from its log."""
    found: dict[str, Any] = {"pending": store.pending, "refused": store.refused}
    for hour in store.hours.values():
        states = run_to_end(read_hour(hour, hour.schedule.count, hour.dispatch.count, for_wheel=False)).states
        found[f"hour {hour.number}"] = (hour.schedule.count, bytes(bytearray(states)))
    return found


# --- processes ---------------------------------------------------------------------------------------------------------

TRANSIENT = (asyncio.Future, asyncio.TimerHandle, Frame, Connection, ParkedPull)
"""Kinds of objects of which an idle server has as many as after its start."""
_PASSED_OVER = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    contextvars.Context,
    logging.Logger,
    Cluster,
    Database,
    Host,
    Network,
    Process,
    SimulatedLoop,
)


async def resources(cluster: Cluster, which: Callable[..., int]) -> dict[str, dict[str, int]]:
    """Tasks, connections and waiting requests of each server: the lowest or highest count (`which` is min or max) of some looks."""
    looks = []
    for _ in range(RESOURCE_LOOKS):
        looks.append({name: _counts(cluster, host) for name, host in cluster.hosts.items()})
        await asyncio.sleep(RESOURCE_SECONDS)
    found = {}
    for name in cluster.hosts:
        kinds = {kind for look in looks for kind in look[name]}
        found[name] = {kind: which(look[name][kind] for look in looks) for kind in sorted(kinds)}
    return found


def _counts(cluster: Cluster, host: Host) -> Counter[str]:
    counts: Counter[str] = Counter()
    if host.process is not None and host.server is not None:
        counts["tasks"] = host.process.tasks
        counts["connections"] = sum(end.host == host.name for end in cluster.network.connections())
        counts.update(_reachable(host.server))
    return counts


def _reachable(root: object) -> Counter[str]:
    counts: Counter[str] = Counter()
    seen = {id(root)}
    waiting = [root]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if _is_transient(kind) and not _is_over(one):
            counts[kind.__name__] += 1
        # The other end of a connection belongs to another process.
        for other in () if kind is End else gc.get_referents(one):
            if id(other) not in seen and not _is_passed_over(type(other)) and gc.is_tracked(other):
                seen.add(id(other))
                waiting.append(other)
    return counts


# Each look meets hundreds of thousands of objects of few kinds.
@functools.cache
def _is_transient(kind: type) -> bool:
    return issubclass(kind, TRANSIENT)


@functools.cache
def _is_passed_over(kind: type) -> bool:
    return issubclass(kind, _PASSED_OVER)


def _is_over(one: object) -> bool:
    if isinstance(one, asyncio.Future):
        return one.done()
    return isinstance(one, asyncio.TimerHandle) and not one._scheduled  # type: ignore[attr-defined]


def failures(cluster: Cluster) -> Iterator[Broken]:
    """No server ends by itself, except by an error of its disk that a fault injected; nothing raises into the event loop."""
    for name, host in cluster.hosts.items():
        for error in host.exits:
            if not host.may_exit(error):
                yield Broken("failure", f"{name} ended by itself: {error!r}")
    for context in cluster.loop.errors:
        yield Broken("failure", f"unhandled: {context.get('message')}: {context.get('exception')!r}")

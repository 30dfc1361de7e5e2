"""A made-up day of producers, brokers and consumers, from a seed: what happened, and what nodes would have written of it.

Three things apart: the **actors** (what producers and consumers do when), the **record** (plain lists of what became of each
message; `tests/support/analytics/naive.py` computes the truth from it) and the **events**, which `rows_of` writes down as the
input tables of the analytics jobs (`spark_analytics/schemas.py`). A broker here is a few lines that keep to the rules of
delivery (docs/reference/wire.md): positions, pull sequences, prefix acks, what is left behind goes to the retry subject.

The day has: two broker groups; subjects with a daily rhythm and bursts; groups with consumers of different speed, one with
tags, a broadcast, one that begins in the afternoon, one that retention overtakes; consumers that crash, leave, come back with
their old numbers or with new ones, jump over numbers, ack past a part of what they hold; two processes that share a consumer id,
so that acks and settlements come out of order and leave gaps; retries with causes, dead letters, a group that reads these; a
position set back and one set forward; delayed messages; nodes' disks. With `Mishaps` one broker group begins again with an empty
log, and one is not sampled for a while.

Consume sequences of the record go on behind an empty log; `rows_of` shifts them as the data source does.
"""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import accumulate, count
from math import cos, pi
from random import Random
from typing import Any

from qmq.protocol.names import SubjectName, dead_letter_subject, retry_subject, split_subject

SEQUENCES_PER_LOG = 1 << 48
"""By how much consume sequences of a broker group's next log are shifted (docs/analytics.md)."""

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
FIRST_MS = 1_768_435_200_000
"""2026-01-15T00:00:00Z."""
BROKER_GROUPS = ("broker-1", "broker-2")
PULL_MESSAGES = 40
SCAN_MESSAGES = 120
ATTEMPTS_MAX = 3
SILENCE_MS = 60_000
"""A consumer that is silent for so long has what it holds settled."""
CAUSES = ("TimeoutError", "PaymentDeclined", "KeyError")
LEFT = "consumer_left"


# --- the record --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Message:
    """A stored message."""

    broker_group: str
    subject: str
    sequence: int
    stored_ms: int
    size: int
    message_id: str
    tags: frozenset[str]
    attempt: int = 1
    cause: str = ""


@dataclass(slots=True, eq=False)
class Delivery:
    """One handing of a message to a consumer. `how`: ack, settle, offline, dropped, forget, or None while it is held."""

    message: Message
    group: str
    consumer: str
    handed_ms: int
    ended_ms: int | None = None
    how: str | None = None


@dataclass(slots=True)
class Standing:
    """From a moment on a group stands at a position of a subject; -1: it was forgotten."""

    broker_group: str
    subject: str
    group: str
    at_ms: int
    position: int


@dataclass(slots=True)
class Begin:
    """From a moment on a subject keeps messages from a sequence on only."""

    broker_group: str
    subject: str
    at_ms: int
    begin: int


@dataclass(slots=True)
class NewLog:
    """From a moment on the messages of a subject, from a sequence on, are those of another log."""

    broker_group: str
    subject: str
    at_ms: int
    begin: int


@dataclass(slots=True)
class DiskSample:
    """A node's disk at a moment, in bytes."""

    broker_group: str
    node_id: str
    at_ms: int
    used_bytes: int
    total_bytes: int


@dataclass(slots=True)
class Scheduled:
    """A delayed message."""

    broker_group: str
    subject: str
    due_ms: int
    number: int
    size: int
    state: str


@dataclass(slots=True)
class Record:
    """What happened, in the order it happened."""

    messages: list[Message] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    begins: list[Begin] = field(default_factory=list)
    logs: list[NewLog] = field(default_factory=list)
    disks: list[DiskSample] = field(default_factory=list)
    scheduled: list[Scheduled] = field(default_factory=list)


# --- the events: what a broker writes to its groups' histories ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a group's history; pull sequences [begin, end)."""

    at_ms: int
    broker_group: str
    subject: str
    group: str
    kind: str
    consumer: str
    begin: int
    end: int
    next_sequence: int
    is_broadcast: bool


# --- brokers -----------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Consumer:
    name: str
    acked: int = 0
    pulled: int = 0
    held: deque[tuple[int, Delivery]] = field(default_factory=deque)


@dataclass(slots=True)
class _Group:
    name: str
    position: int
    is_broadcast: bool = False
    consumers: dict[str, _Consumer] = field(default_factory=dict)


@dataclass(slots=True)
class _Subject:
    broker_group: str
    name: str
    messages: list[Message] = field(default_factory=list)
    begin: int = 0
    groups: dict[str, _Group] = field(default_factory=dict)
    is_gone: bool = False
    """Its broker group has an empty log, and nothing was stored in it since."""


class Brokers:
    """What all brokers keep, and what they do when asked; each call is at `now`."""

    def __init__(self, first_ms: int = FIRST_MS) -> None:
        self.record = Record()
        self.events: list[Event] = []
        self.now = first_ms
        self.down: set[str] = set()
        """Broker groups that no client reaches."""
        self.forgotten: set[tuple[str, str, str]] = set()
        self._subjects: dict[tuple[str, str], _Subject] = {}
        self._ending: dict[tuple[str, str, str], _Group] = {}
        """Groups of an emptied broker group whose end is in no history yet."""

    def subject(self, broker_group: str, name: str) -> _Subject:
        return self._subjects.setdefault((broker_group, name), _Subject(broker_group, name))

    def has(self, broker_group: str, name: str) -> bool:
        found = self._subjects.get((broker_group, name))
        return found is not None and not found.is_gone and broker_group not in self.down

    def is_lost(self, delivery: Delivery) -> bool:
        """Whether the log that a delivery came from is gone."""
        message = delivery.message
        logs = [log for log in self.record.logs if log.broker_group == message.broker_group]
        return any(message.sequence < log.begin for log in logs if log.subject == message.subject)

    def empty(self, broker_group: str) -> None:
        """The broker group goes down and loses its log. Its groups are as they were for those who read histories, until each begins
        again, or until `notice`."""
        self.down.add(broker_group)
        for subject in self._subjects.values():
            if subject.broker_group == broker_group:
                subject.begin, subject.is_gone = len(subject.messages), True
                self.record.logs.append(NewLog(broker_group, subject.name, self.now, subject.begin))
                for group in subject.groups.values():
                    self._ending[broker_group, subject.name, group.name] = group
                subject.groups = {}

    def notice(self, broker_group: str) -> None:
        """Histories are read of a broker group that was emptied: groups that have not begun again end now."""
        for place in [place for place in self._ending if place[0] == broker_group]:
            self._close(*place)

    def _close(self, broker_group: str, name: str, group: str) -> None:
        found = self._ending.pop((broker_group, name, group), None)
        if found is not None:
            self._end_group(self.subject(broker_group, name), found)

    def store(
        self,
        broker_group: str,
        name: str,
        size: int,
        message_id: str,
        tags: Iterable[str],
        attempt: int = 1,
        cause: str = "",
    ) -> None:
        subject = self.subject(broker_group, name)
        sequence = len(subject.messages)
        if subject.is_gone:
            subject.is_gone = False
            self.record.begins.append(Begin(broker_group, name, self.now, subject.begin))
        message = Message(broker_group, name, sequence, self.now, size, message_id, frozenset(tags), attempt, cause)
        subject.messages.append(message)
        self.record.messages.append(message)

    def start(self, broker_group: str, name: str, group: str, position: int, is_broadcast: bool = False) -> None:
        """Begin a group, or set it, at a position; what is held stays held."""
        subject = self.subject(broker_group, name)
        self._close(broker_group, name, group)
        found = subject.groups.setdefault(group, _Group(group, position, is_broadcast))
        self._move(subject, found, position)
        self._write(subject, found, "start", "", 0, 0)

    def pull(
        self, broker_group: str, name: str, group: str, consumer: str, tags: frozenset[str] = frozenset(), skip: int = 0
    ) -> list[Delivery]:
        """Hand out the next messages that have one of the tags (all, without tags); `skip`: pull sequences left out before."""
        subject = self.subject(broker_group, name)
        found = subject.groups[group]
        position = max(found.position, subject.begin)
        start, picked, limit = found.position, [], position + SCAN_MESSAGES
        while position < min(len(subject.messages), limit) and len(picked) < PULL_MESSAGES:
            message = subject.messages[position]
            if not tags or tags & message.tags:
                picked.append(message)
            elif found.is_broadcast and picked:
                break
            position += 1
        if position == start:
            return []
        taker = found.consumers.setdefault(consumer, _Consumer(consumer))
        if found.is_broadcast and picked:
            if picked[0].sequence < taker.pulled:
                # Set back: its numbers begin again, and nobody can ack what it held under the old ones.
                for _, delivery in taker.held:
                    delivery.ended_ms, delivery.how = self.now, "dropped"
                taker.held.clear()
            taker.pulled = picked[0].sequence
        elif picked:
            taker.pulled += skip
        if not taker.held and picked:
            taker.acked = taker.pulled
        handed = []
        for number, message in enumerate(picked):
            delivery = Delivery(message, group, consumer, self.now)
            handed.append(delivery)
            taker.held.append((taker.pulled + number, delivery))
        self.record.deliveries += handed
        for run in _runs(picked):
            self._move(subject, found, run[-1].sequence + 1)
            self._write(subject, found, "pull", consumer, taker.pulled, taker.pulled + len(run))
            taker.pulled += len(run)
        if found.position != position:
            self._move(subject, found, position)
            self._write(subject, found, "pull", consumer, taker.pulled, taker.pulled)
        return handed

    def ack(
        self, broker_group: str, name: str, group: str, consumer: str, last: Delivery, first: Delivery | None = None
    ) -> None:
        """A consumer says that it is done with all it holds up to `last`; what lies before `first` it never handled."""
        subject = self.subject(broker_group, name)
        found = subject.groups[group]
        taker = found.consumers[consumer]
        ends = {id(delivery): number for number, delivery in taker.held}
        if first is not None and ends[id(first)] > taker.acked:
            self._settle(subject, found, taker, ends[id(first)])
        end = ends[id(last)] + 1
        self._end(taker, end, "ack")
        self._write(subject, found, "ack", consumer, taker.acked, end)
        taker.acked = end

    def end_part(
        self, broker_group: str, name: str, group: str, consumer: str, part: list[Delivery], how: str, is_wide: bool
    ) -> None:
        """Ack or settle neighbours among what a consumer holds; `is_wide`: the range spans what is done already below them."""
        subject = self.subject(broker_group, name)
        found = subject.groups[group]
        taker = found.consumers[consumer]
        numbers = {id(delivery): number for number, delivery in taker.held}
        begin, end = numbers[id(part[0])], numbers[id(part[-1])] + 1
        taker.held = deque(item for item in taker.held if not begin <= item[0] < end)
        for delivery in part:
            delivery.ended_ms, delivery.how = self.now, how
            if how == "settle":
                self._retry(subject, found, delivery)
        if is_wide:
            begin = max((number + 1 for number, _ in taker.held if number < begin), default=0)
        self._write(subject, found, how, consumer, begin, end)
        taker.acked = taker.held[0][0] if taker.held else taker.pulled

    def silent(self, broker_group: str, name: str, group: str, consumer: str, is_leaving: bool) -> None:
        """A consumer is gone: what it holds goes to the retry subject; with `is_leaving` it is forgotten as well."""
        subject = self.subject(broker_group, name)
        found = subject.groups.get(group)
        taker = found.consumers.get(consumer) if found is not None else None
        if found is None or taker is None:
            return
        if taker.held and not found.is_broadcast:
            self._settle(subject, found, taker, taker.pulled)
        if is_leaving:
            for _, delivery in taker.held:
                delivery.ended_ms, delivery.how = self.now, "offline"
            del found.consumers[consumer]
            self._write(subject, found, "offline", consumer, 0, 0)

    def forget(self, broker_group: str, name: str, group: str) -> None:
        """Remove a group with all that its consumers hold."""
        subject = self.subject(broker_group, name)
        self._end_group(subject, subject.groups.pop(group))
        self.forgotten.add((broker_group, name, group))

    def _end_group(self, subject: _Subject, group: _Group) -> None:
        for taker in group.consumers.values():
            for _, delivery in taker.held:
                delivery.ended_ms, delivery.how = self.now, "forget"
        self._move(subject, group, -1)
        self._write(subject, group, "forget", "", 0, 0)

    def retain(self, broker_group: str, name: str, begin: int) -> None:
        """Retention removes what lies below a sequence."""
        self.subject(broker_group, name).begin = begin
        self.record.begins.append(Begin(broker_group, name, self.now, begin))

    def end(self, broker_group: str, name: str) -> int:
        return len(self.subject(broker_group, name).messages)

    def _settle(self, subject: _Subject, group: _Group, taker: _Consumer, end: int) -> None:
        begin = taker.acked
        for delivery in self._end(taker, end, "settle"):
            self._retry(subject, group, delivery)
        self._write(subject, group, "settle", taker.name, begin, end)
        taker.acked = end

    def _retry(self, subject: _Subject, group: _Group, delivery: Delivery) -> None:
        old = delivery.message
        target = retry_subject(subject.name, group.name)
        self.store(subject.broker_group, target, old.size, old.message_id, old.tags, old.attempt, LEFT)

    def _end(self, taker: _Consumer, end: int, how: str) -> list[Delivery]:
        done = []
        while taker.held and taker.held[0][0] < end:
            delivery = taker.held.popleft()[1]
            delivery.ended_ms, delivery.how = self.now, how
            done.append(delivery)
        return done

    def _move(self, subject: _Subject, group: _Group, position: int) -> None:
        group.position = position
        self.record.standings.append(Standing(subject.broker_group, subject.name, group.name, self.now, position))

    def _write(self, subject: _Subject, group: _Group, kind: str, consumer: str, begin: int, end: int) -> None:
        place = (self.now, subject.broker_group, subject.name, group.name)
        self.events.append(Event(*place, kind, consumer, begin, end, group.position, group.is_broadcast))


def _runs(messages: list[Message]) -> list[list[Message]]:
    runs: list[list[Message]] = []
    for message in messages:
        if runs and runs[-1][-1].sequence + 1 == message.sequence:
            runs[-1].append(message)
        else:
            runs.append([message])
    return runs


# --- actors ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traffic:
    """What producers send to a subject: about so many messages a day."""

    subject: str
    messages: int
    broker_groups: tuple[str, ...] = BROKER_GROUPS
    bursts: int = 3


@dataclass(frozen=True, slots=True)
class Reader:
    """A consumer of a group: how long a message takes it, how often it fails, what it takes."""

    subject: str
    group: str
    name: str
    handling_ms: int
    failing: float = 0.0
    tags: frozenset[str] = frozenset()
    is_broadcast: bool = False
    from_ms: int = 0
    until_ms: int = DAY_MS
    """It goes then without a word, and never comes back."""
    crashes: int = 0
    is_odd: bool = False
    """It jumps over pull sequences, and now and then acks past what it never handled."""


TRAFFIC = (
    Traffic("orders", 52_000),
    Traffic("payments", 26_000),
    Traffic("stock", 20_000, ("broker-1",), bursts=6),
    Traffic("audit", 400, ("broker-2",), bursts=0),
)
READERS = (
    Reader("orders", "billing", "billing-1", 900, 0.05, crashes=2),
    Reader("orders", "billing", "billing-2", 1500, 0.08, is_odd=True),
    Reader("orders", "billing", "billing-3", 5000, 0.1, crashes=1),
    Reader("orders", "search", "search-1", 300, tags=frozenset({"new", "changed"})),
    Reader("orders", "search", "search-2", 700, 0.01, tags=frozenset({"new", "changed"}), until_ms=19 * HOUR_MS),
    Reader("orders", "cache-1", "cache-1", 50, is_broadcast=True),
    Reader("payments", "ledger", "ledger-1", 800, 0.1, crashes=3),
    Reader("payments", "ledger", "ledger-2", 1200, 0.1, is_odd=True),
    Reader("payments", "fraud", "fraud-1", 2000, from_ms=12 * HOUR_MS + 34 * 60_000 + 56_789),
    Reader("payments", "archive", "archive-1", 60, from_ms=21 * HOUR_MS + 1234),
    Reader("stock", "shelf", "shelf-1", 14_000, 0.005),
    Reader("stock", "shelf", "shelf-2", 16_000, crashes=2),
    Reader(dead_letter_subject("orders", "billing"), "repair", "repair-1", 30_000, from_ms=17 * HOUR_MS),
)
SHARED = ("broker-1", "stock", "pair", "pair-1")
"""Broker group, subject, group and the consumer id that two processes share."""
TAGS = ("new", "changed", "paid", "sent")


@dataclass(frozen=True, slots=True)
class Span:
    """A time of the day [from, to), in ms since its beginning, that is about a broker group."""

    broker_group: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Mishaps:
    """What else befalls a day; times are in ms since its beginning."""

    emptied: Span | None = None
    """The broker group is down, and begins again with an empty log."""
    noticed_ms: int = DAY_MS
    """When histories of that one are read first behind it."""
    unreachable: tuple[Span, ...] = ()
    """Those who sample nodes do not reach the broker group; its clients do."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day that is over."""

    first_ms: int
    record: Record
    events: list[Event]
    mishaps: Mishaps = Mishaps()


def simulate(seed: int = 1, scale: float = 1.0, *, first_ms: int = FIRST_MS, mishaps: Mishaps = Mishaps()) -> Day:
    """A whole day; `scale` changes how many messages there are. The same arguments give the same day."""
    return _Simulation(seed, scale, first_ms, mishaps).run()


class _Simulation:
    def __init__(self, seed: int, scale: float, first_ms: int, mishaps: Mishaps) -> None:
        self.random = Random(seed)
        self.random_of_shared = Random(seed)
        """Of its own, so that the rest of the day does not depend on it."""
        self.scale = scale
        self.first_ms = first_ms
        self.mishaps = mishaps
        self.brokers = Brokers(first_ms)
        self._order = count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._ids = count(1)
        self._is_down: dict[Reader, bool] = dict.fromkeys(READERS, False)

    def run(self) -> Day:
        for traffic in TRAFFIC:
            for broker_group in traffic.broker_groups:
                self._plan_sends(traffic, broker_group)
        for reader in READERS:
            self._plan_reader(reader)
        self._plan_shared()
        self._plan_operators()
        while self._due:
            at_ms, _, act = heappop(self._due)
            if at_ms >= self.first_ms + DAY_MS:
                break
            self.brokers.now = at_ms
            act()
        self._disks()
        self._delayed()
        return Day(self.first_ms, self.brokers.record, self.brokers.events, self.mishaps)

    def _at(self, ms: float, act: Callable[[], None]) -> None:
        """Do something so many milliseconds after the day's beginning."""
        heappush(self._due, (self.first_ms + int(ms), next(self._order), act))

    def _after(self, ms: float, act: Callable[[], None]) -> None:
        heappush(self._due, (self.brokers.now + max(1, int(ms)), next(self._order), act))

    # producers

    def _plan_sends(self, traffic: Traffic, broker_group: str) -> None:
        wanted = traffic.messages * self.scale / len(traffic.broker_groups)
        ms, sent = 0.0, 0
        while True:
            # Twice the mean at three in the afternoon, a tenth of it at three at night.
            rhythm = 1.05 - 0.95 * cos((ms / HOUR_MS - 3) / 24 * 2 * pi)
            batch = self.random.choice((1, 2, 3, 5, 8, 13))
            ms += self.random.expovariate(rhythm * wanted / 5.3 / DAY_MS)
            if ms >= DAY_MS:
                break
            self._at(ms, lambda n=batch: self._send(traffic.subject, broker_group, n))
            sent += batch
        for _ in range(traffic.bursts):
            at = self.random.uniform(8, 20) * HOUR_MS
            for number in range(int(20 * self.scale) + 1):
                self._at(at + number * 170, lambda: self._send(traffic.subject, broker_group, 25))

    def _send(self, subject: str, broker_group: str, n: int) -> None:
        for _ in range(n if broker_group not in self.brokers.down else 0):
            tags = self.random.sample(TAGS, self.random.randint(0, 2))
            self.brokers.store(broker_group, subject, self.random.randint(200, 900), f"m{next(self._ids)}", tags)

    # consumers

    def _plan_reader(self, reader: Reader) -> None:
        self._at(reader.from_ms + self.random.randint(1, 3000), lambda: self._begin(reader))
        if reader.until_ms < DAY_MS:
            self._at(reader.until_ms, lambda: self._crash(reader, True, DAY_MS))
        for _ in range(reader.crashes):
            crash = self.random.uniform(1, 22) * HOUR_MS
            is_leaving, away = self.random.random() < 0.5, self.random.uniform(0.02, 1.5) * HOUR_MS
            self._at(
                max(crash, reader.from_ms + 60_000), lambda gone=is_leaving, ms=away: self._crash(reader, gone, ms)
            )

    def _places(self, reader: Reader) -> list[tuple[str, str]]:
        places = [
            (broker_group, reader.subject)
            for broker_group in BROKER_GROUPS
            if self.brokers.has(broker_group, reader.subject)
        ]
        if not reader.is_broadcast:
            retry = retry_subject(reader.subject, reader.group)
            places += [(broker_group, retry) for broker_group in BROKER_GROUPS if self.brokers.has(broker_group, retry)]
        return places

    def _begin(self, reader: Reader) -> None:
        for broker_group in BROKER_GROUPS:
            self._after(self.random.randint(1, 500), lambda to=broker_group: self._poll(reader, to, reader.subject))
            if not reader.is_broadcast:
                retry = retry_subject(reader.subject, reader.group)
                self._after(
                    self.random.randint(1, 900), lambda to=broker_group, name=retry: self._poll(reader, to, name)
                )

    def _poll(self, reader: Reader, broker_group: str, name: str) -> None:
        """Pull, handle and ack, again and again, one broker group and subject at a time."""

        def again(ms: float) -> None:
            self._after(ms, lambda: self._poll(reader, broker_group, name))

        if self._is_down[reader] or not self.brokers.has(broker_group, name):
            again(self.random.uniform(20_000, 60_000))
            return
        subject = self.brokers.subject(broker_group, name)
        if reader.group not in subject.groups:
            is_late = reader.from_ms and reader.group == "fraud"
            is_late |= (broker_group, name, reader.group) in self.brokers.forgotten
            self.brokers.start(
                broker_group,
                name,
                reader.group,
                len(subject.messages) if is_late else subject.begin,
                reader.is_broadcast,
            )
        skip = self.random.randint(1, 9) if reader.is_odd and self.random.random() < 0.05 else 0
        handed = self.brokers.pull(broker_group, name, reader.group, reader.name, reader.tags, skip)
        if not handed:
            again(self.random.uniform(2_000, 40_000))
            return
        took = 0.0
        parts = max(1, min(len(handed), self.random.choice((1, 1, 2, 4))))
        each = -(-len(handed) // parts)
        is_last = False
        for begin in range(0, len(handed), each):
            part = handed[begin : begin + each]
            took += sum(self.random.expovariate(1 / reader.handling_ms) for _ in part) / 2
            is_last = begin + each >= len(handed)
            self._after(took, lambda done=part, last=is_last: self._done(reader, broker_group, name, done, last))

    def _done(self, reader: Reader, broker_group: str, name: str, part: list[Delivery], is_last: bool) -> None:
        if is_last:
            self._after(self.random.uniform(1, 300), lambda: self._poll(reader, broker_group, name))
        if self._is_down[reader] or part[-1].how is not None or self.brokers.is_lost(part[-1]):
            return
        is_jumping = reader.is_odd and len(part) > 3 and self.random.random() < 0.03
        first = part[2] if is_jumping else None
        for delivery in part[2:] if is_jumping else part:
            if self.random.random() < reader.failing:
                self._fail(reader, delivery)
        self.brokers.ack(broker_group, name, reader.group, reader.name, part[-1], first)

    def _fail(self, reader: Reader, delivery: Delivery) -> None:
        old = delivery.message
        attempt, cause = old.attempt + 1, self.random.choice(CAUSES)
        make = retry_subject if attempt <= ATTEMPTS_MAX else dead_letter_subject
        target = self.random.choice(BROKER_GROUPS)
        if target in self.brokers.down:
            [target] = {*BROKER_GROUPS} - self.brokers.down
        self.brokers.store(
            target, make(old.subject, reader.group), old.size + 40, old.message_id, old.tags, attempt, cause
        )

    def _crash(self, reader: Reader, is_leaving: bool, away_ms: float) -> None:
        if self._is_down[reader]:
            return
        self._is_down[reader] = True

        def settle() -> None:
            for broker_group, name in self._places(reader):  # of an emptied broker group nothing is left to settle
                self.brokers.silent(broker_group, name, reader.group, reader.name, is_leaving)

        def back() -> None:
            self._is_down[reader] = False

        self._after(SILENCE_MS, settle)
        self._after(SILENCE_MS + away_ms, back)

    def _plan_shared(self) -> None:
        _, subject, group, _ = SHARED
        for name in (subject, retry_subject(subject, group)):
            for _ in range(2):
                self._at(self.random_of_shared.randint(1, 3_000), lambda name=name: self._share(name))

    def _share(self, name: str) -> None:
        """One of the two processes pulls, and acks in parts; or it dies, and the broker settles the rest in parts."""
        random = self.random_of_shared
        broker_group, _, group, consumer = SHARED
        handed: list[Delivery] = []
        if self.brokers.has(broker_group, name):
            subject = self.brokers.subject(broker_group, name)
            if group not in subject.groups:
                self.brokers.start(broker_group, name, group, subject.begin)
            handed = self.brokers.pull(broker_group, name, group, consumer)
        took, is_dead = random.uniform(2_000, 40_000), False
        while handed:
            n = random.randint(1, 20)
            part, handed = handed[:n], handed[n:]
            how = "settle" if is_dead else "ack"
            is_wide = random.random() < 0.2

            def end(part: list[Delivery] = part, how: str = how, is_wide: bool = is_wide) -> None:
                if not self.brokers.is_lost(part[0]):
                    self.brokers.end_part(broker_group, name, group, consumer, part, how, is_wide)

            self._after(took, end)
            took += random.uniform(1, 30_000)
            is_dead = is_dead or random.random() < 0.05
        self._after(took, lambda: self._share(name))

    # operators and machines

    def _plan_operators(self) -> None:
        def set_back() -> None:
            group = self.brokers.subject("broker-1", "orders").groups["billing"]
            self.brokers.start("broker-1", "orders", "billing", max(0, group.position - int(400 * self.scale) - 5))

        def set_forward() -> None:
            self.brokers.start("broker-2", "payments", "ledger", self.brokers.end("broker-2", "payments"))

        def set_back_broadcast() -> None:
            group = self.brokers.subject("broker-2", "orders").groups["cache-1"]
            if not any(taker.held for taker in group.consumers.values()):
                self._after(250, set_back_broadcast)  # while it holds some: that is the case that matters
                return
            self.brokers.start("broker-2", "orders", "cache-1", group.position // 2, True)
            # It had asked for more already, so it is handed the old ones again before it acks what it holds.
            last = self.brokers.pull("broker-2", "orders", "cache-1", "cache-1")[-1]

            def ack() -> None:
                if last.how is None:
                    self.brokers.ack("broker-2", "orders", "cache-1", "cache-1", last)

            self._after(3_000, ack)

        def forget_busy() -> None:
            group = self.brokers.subject("broker-1", "orders").groups["search"]
            if not any(taker.held for taker in group.consumers.values()):
                self._after(250, forget_busy)
                return
            self.brokers.forget("broker-1", "orders", "search")  # its consumers make it anew when they next pull

        def forget_idle() -> None:
            self.brokers.forget("broker-2", "payments", "archive")

        def ensure() -> None:
            self.brokers.start("broker-2", "payments", "archive", 0)

        def retain() -> None:
            self.brokers.retain("broker-2", "payments", self.brokers.end("broker-2", "payments") // 3)

        if emptied := self.mishaps.emptied:
            name = emptied.broker_group
            self._at(emptied.from_ms, lambda: self.brokers.empty(name))
            self._at(emptied.to_ms, lambda: self.brokers.down.remove(name))
            self._at(self.mishaps.noticed_ms - 1, lambda: self.brokers.notice(name))
        self._at(15.25 * HOUR_MS + 321, set_back)
        self._at(18.1 * HOUR_MS + 55, set_forward)
        self._at(9.9 * HOUR_MS + 55, set_back_broadcast)
        self._at(1.5 * HOUR_MS + 777, ensure)
        self._at(16.2 * HOUR_MS + 42, ensure)  # made again; it never pulls, and retention overtakes it
        self._at(2.7 * HOUR_MS + 111, forget_idle)
        self._at(13.6 * HOUR_MS + 444, forget_busy)
        self._at(20.3 * HOUR_MS + 999, retain)

    def _disks(self) -> None:
        for number, broker_group in enumerate(BROKER_GROUPS):
            for role, growth, noise in (("a", 40_000, 3e9 * number + 3e7), ("b", -20_000, 1e7)):
                used, total = (30 + 5 * number) << 30, 100 << 30
                for ms in range(self.random.randint(0, 60_000), DAY_MS, 300_000):
                    if role == "b" and number == 1 and ms > 30 * 60_000:
                        break  # down since half past midnight
                    if not _is_sampled(self.mishaps, broker_group, ms):
                        continue
                    here = used + growth * ms // 1000 + int(self.random.gauss(0, noise))
                    self.brokers.record.disks.append(
                        DiskSample(broker_group, f"{broker_group}-{role}", self.first_ms + ms, here, total)
                    )

    def _delayed(self) -> None:
        for number in range(int(3_000 * self.scale)):
            due = self.first_ms + DAY_MS + int(self.random.uniform(-0.2, 40) * HOUR_MS)
            state = self.random.choice(("pending", "pending", "pending", "delivered", "cancelled"))
            subject = self.random.choice(("orders", "payments"))
            item = Scheduled("delay-1", subject, due, number, self.random.randint(200, 900), state)
            self.brokers.record.scheduled.append(item)


# --- rows --------------------------------------------------------------------------------------------------------------------

Columns = dict[str, list[Any]]
"""A table by its columns; times are milliseconds since the epoch."""
RANGE_EVERY_MS = 600_000


def consumer_key(consumer_id: str) -> int:
    """As progress entries carry it, read as a signed number."""
    return int.from_bytes(blake2b(consumer_id.encode(), digest_size=8).digest(), "big", signed=True)


def rows_of(day: Day) -> dict[str, Columns]:
    """The input tables of the analytics jobs as nodes would have written them, and `ranges` (`transforms/frames.py`)."""
    known = {event.consumer for event in day.events} - gone_consumers(day)
    numbers: Counter[tuple[str, str, str]] = Counter()
    positions = []
    for event in day.events:
        group = (event.broker_group, event.subject, event.group)
        positions.append(numbers[group])
        numbers[group] += 1
    messages, events, record = day.record.messages, day.events, day.record
    in_log = _in_log(day)
    failed = [(message, split_subject(message.subject)) for message in messages]
    return {
        "index": {
            "broker_group": [m.broker_group for m in messages],
            "subject": [m.subject for m in messages],
            "sequence": [in_log(m, m.stored_ms, m.sequence) for m in messages],
            "stored_at": [m.stored_ms for m in messages],
            "size": [m.size for m in messages],
            "log_offset": [100 * number for number in range(len(messages))],
            "tag_bits": [0] * len(messages),
            "is_withheld": [False] * len(messages),
        },
        "progress": {
            "broker_group": [e.broker_group for e in events],
            "subject": [e.subject for e in events],
            "group": [e.group for e in events],
            "position": positions,
            "at": [e.at_ms for e in events],
            "kind": [e.kind for e in events],
            "consumer_key": [consumer_key(e.consumer) for e in events],
            "consumer_id": [e.consumer if e.consumer in known else None for e in events],
            # Pull sequences of a broadcast are the consume sequences.
            "begin": [in_log(e, e.at_ms, e.begin) if e.is_broadcast else e.begin for e in events],
            "end": [in_log(e, e.at_ms, e.end) if e.is_broadcast else e.end for e in events],
            "next_sequence": [in_log(e, e.at_ms, e.next_sequence) for e in events],
            "is_broadcast": [e.is_broadcast for e in events],
        },
        "retries": _failures([item for item in failed if item[1].kind == "retry"], in_log),
        "dead_letters": _failures([item for item in failed if item[1].kind == "dead"], in_log),
        "delayed": {
            "broker_group": [s.broker_group for s in record.scheduled],
            "subject": [s.subject for s in record.scheduled],
            "due_at": [s.due_ms for s in record.scheduled],
            "number": [s.number for s in record.scheduled],
            "size": [s.size for s in record.scheduled],
            "state": [s.state for s in record.scheduled],
        },
        "nodes": {
            "broker_group": [d.broker_group for d in record.disks],
            "node_id": [d.node_id for d in record.disks],
            "kind": ["broker"] * len(record.disks),
            "role": ["master"] * len(record.disks),
            "address": ["127.0.0.1:1"] * len(record.disks),
            "admin_address": ["127.0.0.1:2"] * len(record.disks),
            "state": ["alive"] * len(record.disks),
            "log_end_bytes": [0] * len(record.disks),
            "disk_used_bytes": [d.used_bytes for d in record.disks],
            "disk_total_bytes": [d.total_bytes for d in record.disks],
            "seen_at": [d.at_ms for d in record.disks],
            "measured_at": [d.at_ms for d in record.disks],
        },
        "ranges": _ranges(day),
    }


def gone_consumers(day: Day) -> set[str]:
    """Consumers that are forgotten on a broker at the day's end: of them only the key is left everywhere."""
    left: set[tuple[str, str, str, str]] = set()
    known: set[tuple[str, str, str, str]] = set()
    for event in day.events:
        taker = (event.broker_group, event.subject, event.group, event.consumer)
        if event.kind == "offline":
            left.add(taker)
        elif event.kind == "pull":
            left.discard(taker)
            known.add(taker)
        elif event.kind == "forget":
            left |= {one for one in known if one[:3] == taker[:3]}
    return {taker[3] for taker in left}


InLog = Callable[["Message | Event | Sample", int, int], int]
"""The consume sequence, as the data source has it, of a place of the record at a moment."""


def _in_log(day: Day) -> InLog:
    logs: dict[tuple[str, str], list[NewLog]] = {}
    for log in day.record.logs:
        logs.setdefault((log.broker_group, log.subject), []).append(log)

    def in_log(of: "Message | Event | Sample", at_ms: int, sequence: int) -> int:
        # The row that a group has ended, and what stands for no place.
        if sequence < 0 or (isinstance(of, Event) and of.kind == "forget"):
            return sequence
        begun = [log for log in logs.get((of.broker_group, of.subject), ()) if log.at_ms <= at_ms]
        return sequence - begun[-1].begin + len(begun) * SEQUENCES_PER_LOG if begun else sequence

    return in_log


def _failures(failed: list[tuple[Message, SubjectName]], in_log: InLog) -> Columns:
    return {
        "broker_group": [m.broker_group for m, _ in failed],
        "subject": [name.subject for _, name in failed],
        "group": [name.group for _, name in failed],
        "sequence": [in_log(m, m.stored_ms, m.sequence) for m, _ in failed],
        "stored_at": [m.stored_ms for m, _ in failed],
        "message_id": [m.message_id for m, _ in failed],
        # As the data source: a dead letter's is its last one, and it is marked with the one that was not made.
        "attempt": [m.attempt - (1 if name.kind == "dead" else 0) for m, name in failed],
        "cause": [m.cause for m, _ in failed],
        "size": [m.size for m, _ in failed],
    }


@dataclass(frozen=True, slots=True)
class Sample:
    """What a subject keeps at a moment: sequences [begin, end) of the record, and their bytes."""

    broker_group: str
    subject: str
    at_ms: int
    begin: int
    end: int
    stored_bytes: int


def samples_of(day: Day) -> list[Sample]:
    """What each subject keeps, sampled every RANGE_EVERY_MS and at the moment retention changes it, where the broker group can be
    reached; of each subject in the order of time."""
    found = []
    by_place: dict[tuple[str, str], list[Message]] = {}
    for message in day.record.messages:
        by_place.setdefault((message.broker_group, message.subject), []).append(message)
    for place, messages in by_place.items():
        changes = [b for b in day.record.begins if (b.broker_group, b.subject) == place]
        logs = [log for log in day.record.logs if (log.broker_group, log.subject) == place]
        upto = list(accumulate((m.size for m in messages), initial=0))
        stored = [m.stored_ms for m in messages]
        moments = {
            *range(day.first_ms + RANGE_EVERY_MS, day.first_ms + DAY_MS, RANGE_EVERY_MS),
            *(c.at_ms for c in changes),
        }
        for at_ms in sorted(moments):
            begin = max((change.begin for change in changes if change.at_ms <= at_ms), default=0)
            end = bisect_right(stored, at_ms)
            # In an empty log the subject is not there before its first message.
            is_there = end > max((log.begin for log in logs if log.at_ms <= at_ms), default=0)
            if is_there and _is_sampled(day.mishaps, place[0], at_ms - day.first_ms):
                found.append(Sample(*place, at_ms, begin, end, upto[end] - upto[begin]))
    return found


def _is_sampled(mishaps: Mishaps, broker_group: str, ms: int) -> bool:
    spans = [*mishaps.unreachable, *([mishaps.emptied] if mishaps.emptied else [])]
    return not any(span.broker_group == broker_group and span.from_ms <= ms < span.to_ms for span in spans)


def _ranges(day: Day) -> Columns:
    samples, in_log = samples_of(day), _in_log(day)
    return {
        "broker_group": [s.broker_group for s in samples],
        "subject": [s.subject for s in samples],
        "at_ms": [s.at_ms for s in samples],
        "begin": [in_log(s, s.at_ms, s.begin) for s in samples],
        "end": [in_log(s, s.at_ms, s.end) for s in samples],
        "stored_bytes": [s.stored_bytes for s in samples],
    }

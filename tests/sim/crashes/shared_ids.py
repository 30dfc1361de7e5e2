"""Consumers that share an ID."""

import os
from dataclasses import dataclass, field

from broker_node.delivery.retry_writer import Budget
from broker_node.delivery.settlement import BeingSettled, Settlement
from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.messages import decode_raw
from qmq.protocol.names import retry_subject
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.store_driver import GROUP, StoreDriver

FULL = os.environ.get("QMQ_FAULTS") == "full"


LEASE = 180.0


SUBJECT = "orders"


class Line:
    """A connection."""

    peer = "10.0.0.1:1"

    def __init__(self) -> None:
        self.is_closed = False

    def has_unread(self, mark: int) -> bool:
        """All answers were read."""
        return False


@dataclass
class Process:
    """A client process as the official one is: it names what it received last, and acks from its oldest unacked one on."""

    line: Line = field(default_factory=Line)
    last: int = -1
    unacked: dict[int, str] = field(default_factory=dict)
    parked: list[int] = field(default_factory=list)
    """What its waiting pulls named; those it has given up wait as well."""
    held: dict[int, str] = field(default_factory=dict)
    """What the broker delivered on its session and was not acked, whether it arrived or not."""
    seen_at: float = 0.0


class Shared(StoreDriver):
    """Three processes with the consumer id c1."""

    def __init__(self, seed: int) -> None:
        super().__init__(MemoryDisk(), seed, segment_bytes=1 << 20)
        self.processes = [Process() for _ in range(3)]
        self.handled: set[str] = set()

    def pull_by(self, process: Process, *, is_arrival: bool = True) -> None:
        """A pull that arrives, or one that waits; its answer is lost now and then."""
        if not is_arrival and not process.parked:
            return
        last = process.last if is_arrival else process.parked.pop(0)
        request = PullRequest(SUBJECT, GROUP, "c1", self.rng.randint(1, 6), -1, last, 0, False)
        answer = self.delivery.pull(request, process.line, is_arrival=is_arrival)
        ids = [decode_raw(raw)[0].message_id for raw in answer.raws]
        now = self.clock.monotonic()
        for other in self.processes:
            if other is not process and not other.line.is_closed and now - other.seen_at < LEASE:
                assert not set(ids) & set(other.held.values()), "a live process holds it"
        if is_arrival:
            process.seen_at = now
        if not ids and not answer.has_more:
            process.parked.append(last)
        found = dict(enumerate(ids, answer.pull_begin))
        for other in self.processes:
            other.held = {n: name for n, name in other.held.items() if n not in found}
        process.held |= found
        if ids and self.rng.random() < 0.8:
            process.unacked |= found
            process.last = max(found)

    def ack_by(self, process: Process) -> None:
        """Handle the oldest messages and ack them, as one range over whatever others got in between."""
        if not process.unacked:
            return
        count = self.rng.randint(1, len(process.unacked))
        done = sorted(process.unacked)[:count]
        self.handled.update(process.unacked.pop(n) for n in done)
        process.held = {n: name for n, name in process.held.items() if n not in done}
        request = AckRequest(SUBJECT, GROUP, "c1", done[0], done[-1], False)
        try:
            self.delivery.acks.ack(request, process.line)
        except BeingSettled as wait:
            self.finish(wait.settlement)
            self.delivery.acks.ack(request, process.line)
        process.seen_at = self.clock.monotonic()

    def finish(self, settlement: Settlement | None) -> None:
        """Run a settlement to its end."""
        if settlement is not None:
            while not settlement.step(Budget()):
                self.commit()
            self.delivery.settlements.ended(settlement)

    def cut(self, process: Process) -> None:
        """The connection breaks, seen by the broker or not; the process comes back by itself or is restarted."""
        process.line.is_closed = self.rng.random() < 0.5
        process.line, process.parked = Line(), []
        if self.rng.random() < 0.5:
            process.last, process.unacked = -1, {}
        # What it holds by its old connection is judged by the loss of messages alone.
        process.held = {}

    def sweep(self) -> None:
        """As the node does every second."""
        subject = self.store.subjects.get(SUBJECT)
        group = subject.groups.get(GROUP) if subject is not None else None
        consumer = group.progress.consumers.get("c1") if group is not None else None
        if subject is not None and group is not None and consumer is not None:
            now = self.clock.monotonic()
            if now - consumer.seen_at >= LEASE:
                self.finish(self.delivery.settlements.settle(subject, group, consumer))
            elif self.delivery.settlements.abandoned(group, consumer, now):
                self.finish(self.delivery.settlements.settle_abandoned(subject, group, consumer))

    def retried(self) -> set[str]:
        """Ids in the retry subject."""
        subject = self.store.subjects.get(retry_subject(SUBJECT, GROUP))
        if subject is None:
            return set()
        return set(self._read_all(self.store, subject.name, subject.begin, subject.visible_end, False).values())

    def step(self) -> None:
        choice, process = self.rng.random(), self.rng.choice(self.processes)
        if choice < 0.25:
            self.send(SUBJECT, self.rng.randint(1, 4))
            self.commit()
        elif choice < 0.5:
            self.pull_by(process, is_arrival=self.rng.random() < 0.7)
        elif choice < 0.8:
            self.ack_by(process)
        elif choice < 0.85:
            self.cut(process)
        elif choice < 0.95:
            self.clock.advance(self.rng.choice((1.0, 30.0, 200.0)))
        else:
            self.sweep()

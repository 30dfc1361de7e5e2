"""Which consumers' unacked messages go to the retry subject, and when: what begins, defers and ends settlements.

Messages that another live session of the same consumer holds (`broker_node/storage/sessions.py`) are not settled.
"""

import logging
from collections import deque
from itertools import islice

from broker_node.delivery.delivery_counters import DeliveryCounters
from broker_node.delivery.retry_writer import retry_target
from broker_node.delivery.settlement import BeingSettled, Deferred, Holder, Settlement
from broker_node.storage.actions import Offline
from broker_node.storage.progress import Consumer
from broker_node.storage.sessions import Peer
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from broker_node.storage.subject_table import LimitReached
from qmq.errors import NoSpace, QmqError

logger = logging.getLogger("qmq.broker.delivery")


class Settlements:
    """The settlements of a store's consumers; `SettlementRunner` runs them."""

    def __init__(self, store: MessageStore, lease_seconds: float, counters: DeliveryCounters) -> None:
        self._store = store
        self._lease_seconds = lease_seconds
        self._counters = counters
        self.running: dict[tuple[str, str, str], Settlement] = {}
        """Settlements under way, by subject, group and consumer id."""
        self.deferred: dict[tuple[str, str, str], Deferred] = {}
        """Settlements that wait for space, likewise. Memory only: after a restart their consumers are silent."""
        self._is_out_of_space = False
        """A settlement found no space since `retry_deferred` was last called."""

    def wait_for(self, subject: str, group: str, consumer_id: str) -> None:
        """Raises BeingSettled: what the consumer held is on its way to the retry subject; ask again when that has ended."""
        if self.running and (settlement := self.running.get((subject, group, consumer_id))) is not None:
            raise BeingSettled(settlement)

    def skip(self, subject: Subject, group: Group, consumer: Consumer, ranges: list[tuple[int, int]]) -> None:
        """Settle what an ack jumped over, or defer it while there is no space.

        Raises BeingSettled (repeat the ack when that has ended), or LimitReached when the retry subject does not fit.
        """
        if self.defers:
            self._defer((subject.name, group.progress.group, consumer.consumer_id), ranges, Holder.LIVE)
        else:
            raise BeingSettled(self._begin(subject, group, consumer, ranges, Holder.LIVE))

    def settle(self, subject: Subject, group: Group, consumer: Consumer) -> Settlement | None:
        """Begin to settle all that a silent consumer holds; None when there is nothing to begin, or no space.

        Its numbering stays, so that an ack it still sends finds its own messages done, and confirms no others. Raises LimitReached
        when the retry subject does not fit.
        """
        key = (subject.name, group.progress.group, consumer.consumer_id)
        if group.progress.broadcast or not consumer.log.in_flight or key in self.running:
            return None
        everything = [(consumer.log.acked, consumer.log.pulled)]
        if self.defers:
            self._defer(key, everything, Holder.SILENT)
            return None
        return self._begin(subject, group, consumer, everything)

    def abandoned(self, group: Group, consumer: Consumer, now: float) -> bool:
        """Whether the oldest messages of a live consumer are held by a session that was silent for the lease."""
        first = consumer.log.first()
        return (
            first is not None
            and first.holder is not None
            and now - first.holder.seen_at >= self._lease_seconds
            and not group.progress.broadcast
        )

    def settle_abandoned(self, subject: Subject, group: Group, consumer: Consumer) -> Settlement | None:
        """Begin to settle the oldest messages of a live consumer that a dead session holds, see `abandoned`; None: under way, or no
        space. Raises LimitReached when the retry subject does not fit.
        """
        first = consumer.log.first()
        if first is None or (subject.name, group.progress.group, consumer.consumer_id) in self.running or self.defers:
            return None
        return self._begin(subject, group, consumer, [(first.pull_begin, first.pull_end)])

    def leave(self, subject: Subject, group: Group, consumer: Consumer, peer: Peer | None = None) -> int:
        """Drop the state of a consumer that left, or was silent for very long; the log offset that the answer waits for.

        A consumer that has another live session stays: only what the session on `peer` holds is settled. While there is no space to
        settle, a consumer that holds messages stays as well, and `retry_deferred` returns it once there is.

        Raises:
            BeingSettled: what it holds has to be settled first.
            LimitReached: the retry subject does not fit.
        """
        self.wait_for(subject.name, group.progress.group, consumer.consumer_id)
        now = self._store.clock.monotonic()
        session = consumer.sessions.on(peer)
        others = consumer.sessions.others(session, now, self._lease_seconds) if session is not None else []
        if session is not None and others:
            held = [(run.pull_begin, run.pull_end) for run in consumer.log.runs() if run.holder is session]
            # Without space, the sweep finds what the ended session holds.
            if held and not group.progress.broadcast and not self.defers:
                raise BeingSettled(self._begin(subject, group, consumer, held))
            consumer.sessions.end(session)
            return consumer.touched_at
        settlement = self.settle(subject, group, consumer)
        if settlement is not None:
            raise BeingSettled(settlement)
        if consumer.log.in_flight and not group.progress.broadcast:
            key = subject.name, group.progress.group, consumer.consumer_id
            self._defer(key, [(consumer.log.acked, consumer.log.pulled)], Holder.LEFT)
            return consumer.touched_at
        progress, now_ms = group.progress, self._store.clock.wall_ms()
        offline = Offline(subject.name, progress.group, consumer.consumer_id, now_ms, progress.broadcast)
        return self._store.act(subject, group, offline)

    def ended(self, settlement: Settlement) -> None:
        """A settlement has ended."""
        self.running.pop(settlement.key, None)
        self._counters.settled += settlement.settled

    def no_space(self, settlement: Settlement, problem: str) -> None:
        """A settlement ends because there is no space for its messages; the rest of it is deferred."""
        self._is_out_of_space = True
        self._defer(settlement.key, list(settlement.ranges), settlement.holder, problem)

    @property
    def defers(self) -> bool:
        """Whether settlements are deferred now."""
        return self._is_out_of_space or bool(self._store.lacks_space_for_copy(0))

    def _defer(
        self, key: tuple[str, str, str], ranges: list[tuple[int, int]], holder: Holder, problem: str = ""
    ) -> None:
        if not self.deferred:
            problem = problem or self._store.lacks_space_for_copy(0)
            logger.warning("unacked messages of consumers that left wait for space to be retried: %s", problem)
        known = self.deferred.get(key)
        if known is None or known.holder is Holder.LIVE or holder is Holder.LEFT:
            self.deferred[key] = Deferred(tuple(ranges), holder)

    def returned(self, key: tuple[str, str, str]) -> None:
        """A consumer pulls: what it held when it left, or became silent, is delivered to it again."""
        deferred = self.deferred.get(key)
        if deferred is not None and deferred.holder is not Holder.LIVE:
            del self.deferred[key]

    def retry_deferred(self, count: int) -> list[Settlement]:
        """Begin up to `count` deferred settlements, unless there is still no space. Called once a second."""
        self._is_out_of_space = False
        if not self.deferred or self.defers:
            return []
        keys = list(islice(self.deferred, count))
        found = [self._begin_deferred(key, self.deferred.pop(key)) for key in keys]
        return [settlement for settlement in found if settlement is not None]

    def _begin_deferred(self, key: tuple[str, str, str], deferred: Deferred) -> Settlement | None:
        """Begin a deferred settlement; None when nothing is left to settle, or it is deferred again."""
        subject = self._store.subjects.get(key[0])
        group = subject.groups.get(key[1]) if subject is not None else None
        consumer = group.progress.consumers.get(key[2]) if group is not None else None
        if subject is None or group is None or consumer is None or key in self.running:
            return None
        ranges = [pair for pair in deferred.ranges if any(consumer.log.between(*pair))]
        if not ranges:
            if deferred.holder is Holder.LEFT:
                self._leave_settled(None, subject, group, consumer)
            return None
        try:
            settlement = self._begin(subject, group, consumer, ranges, deferred.holder)
        except LimitReached as error:
            self._defer(key, ranges, deferred.holder, str(error))
            return None
        if deferred.holder is Holder.LEFT:
            settlement.then(lambda error: self._leave_settled(error, subject, group, consumer))
        return settlement

    def _leave_settled(self, error: QmqError | None, subject: Subject, group: Group, consumer: Consumer) -> None:
        """Remove a consumer that left while there was no space, after its settlement."""
        if error is not None or group.progress.consumers.get(consumer.consumer_id) is not consumer:
            return
        try:
            self.leave(subject, group, consumer)
        except NoSpace as problem:
            self._defer((subject.name, group.progress.group, consumer.consumer_id), [], Holder.LEFT, str(problem))

    def _begin(
        self,
        subject: Subject,
        group: Group,
        consumer: Consumer,
        ranges: list[tuple[int, int]],
        holder: Holder = Holder.SILENT,
    ) -> Settlement:
        retry_target(self._store, subject, group)
        settlement = Settlement(self._store, subject, group, consumer, deque(ranges), holder)
        self.running[settlement.key] = settlement
        return settlement

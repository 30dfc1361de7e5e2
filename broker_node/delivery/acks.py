"""What an ack does. The rules are QMQ's (docs/reference/wire.md, section 6).

Messages that another live session of the same consumer holds (`broker_node/storage/sessions.py`) are neither acked nor
settled by an ack.
"""

from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from broker_node.delivery.delivery_counters import DeliveryCounters
from broker_node.delivery.duplicate_ids import DuplicateIds
from broker_node.delivery.pending_settlements import Settlements
from broker_node.storage.actions import Ack
from broker_node.storage.progress import Consumer
from broker_node.storage.sessions import Peer, Session
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from qmq.protocol.commands import AckRequest


class _Verdict(Enum):
    """What an ack does to a part of its range, or of what it jumps over."""

    ACKED = 0
    SETTLED = 1
    LEFT = 2


@dataclass(eq=False, repr=False)
class Acks:
    """Acks over a store."""

    _store: MessageStore
    _settlements: Settlements
    _duplicates: DuplicateIds
    _counters: DeliveryCounters
    _lease_seconds: float

    def ack(self, request: AckRequest, peer: Peer | None = None) -> int:
        """Confirm a closed range of pull sequences; the log offset the answer has to wait for (-1: nothing).

        docs/reference/wire.md, section 6: a repeated ack succeeds; pull sequences that an ack jumps over were never handled, so
        their messages go to the group's retry subject before the ack counts for them. An ack counts for what was delivered
        on its session: inside its range, messages of a dead session were never handled either, and those of another live
        session are left to it.

        Raises:
            BeingSettled: messages are on their way to the retry subject; ask again when that has ended.
            LimitReached: the retry subject does not fit.
            NoSpace: there is no space for the ack.
        """
        store = self._store
        subject = store.subjects.get(request.subject)
        group = subject.groups.get(request.group) if subject is not None else None
        if subject is None or group is None:
            self._counters.lost_acks += 0 if request.is_heartbeat else 1
            return -1
        now = store.clock.monotonic()
        consumer = group.progress.consumers.get(request.consumer_id)
        session = self._touch(subject, group, request.consumer_id, request.pull_last, peer, now)
        # A consumer's ack is a sign of life for the retry subject, too.
        retry = store.retry_subjects.get((subject.real, request.group))
        if retry is not None and retry is not subject and (retried := retry.groups.get(request.group)) is not None:
            self._touch(retry, retried, request.consumer_id, -1, peer, now)
        if consumer is None or request.is_heartbeat:
            self._counters.lost_acks += 0 if request.is_heartbeat else 1
            return -1
        self._settlements.wait_for(request.subject, request.group, request.consumer_id)
        log = consumer.log
        end = min(request.pull_last + 1, log.pulled)
        if end <= log.acked:
            self._counters.duplicate_acks += 1
            return consumer.touched_at
        broadcast = group.progress.broadcast
        begin = min(max(request.pull_begin, log.acked), end)
        first = log.first()
        if first is not None and begin == log.acked and end <= first.pull_end and first.holder in (session, None):
            # The usual ack: in order, of what its own session holds.
            self.act(subject, group, consumer, begin, end)
            return consumer.touched_at
        others = consumer.sessions.others(session, now, self._lease_seconds)
        if broadcast:
            begin = log.acked
        # Only the process that received a message names it as the last of an ack.
        own = (session, log.holder_of(end - 1), None)

        def verdict(at: int, holder: Session | None) -> _Verdict:
            if holder in others:
                return _Verdict.LEFT
            return _Verdict.ACKED if broadcast or (at >= begin and holder in own) else _Verdict.SETTLED

        parts = [*log.holders(log.acked, begin), *log.holders(begin, end)]
        judged = [(low, high, verdict(low, holder)) for low, high, holder in parts]
        ranges: dict[_Verdict, list[tuple[int, int]]] = {what: [] for what in _Verdict}
        for what, neighbours in groupby(judged, key=lambda part: part[2]):
            together = list(neighbours)
            ranges[what].append((together[0][0], together[-1][1]))
        unsettled = [pair for pair in ranges[_Verdict.SETTLED] if any(log.between(*pair))]
        if unsettled:
            # The ack is taken again afterwards, and then finds nothing to settle.
            self._settlements.skip(subject, group, consumer, unsettled)
        acked = ranges[_Verdict.ACKED]
        if not broadcast:
            # What was settled before is left out: if its settlement gets lost to damage, replaying this ack must not end it.
            acked = [part for pair in acked for part in log.held(*pair)]
        for low, high in acked:
            self.act(subject, group, consumer, low, high)
        return consumer.touched_at

    def act(self, subject: Subject, group: Group, consumer: Consumer, begin: int, end: int) -> None:
        """End pull sequences [begin, end) of a consumer."""
        progress, before = group.progress, consumer.log.in_flight
        at_ms = self._store.clock.wall_ms()
        action = Ack(subject.name, progress.group, consumer.consumer_id, at_ms, progress.broadcast, begin, end)
        self._store.act(subject, group, action, consumer.names)
        done = before - consumer.log.in_flight
        group.acked_total += done
        self._counters.acked += done

    def _touch(
        self, subject: Subject, group: Group, consumer_id: str, last: int, peer: Peer | None, now: float
    ) -> Session | None:
        """Note an ack up to `last` as a sign of life of a consumer, and return its session on this subject."""
        consumer = group.progress.consumers.get(consumer_id)
        if consumer is None:
            return None
        consumer.seen_at = now
        if not consumer.reported[0]:
            subject.check_at = 0.0
        if peer is None:
            return None
        sessions = consumer.sessions
        session = sessions.ack_arrived(peer, last, consumer.log.holder_of, now, self._lease_seconds)
        if sessions.is_duplicate:
            self._duplicates.note(subject.name, group.progress.group, consumer, now)
        return session

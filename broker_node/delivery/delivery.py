"""What a pull gets: what this consumer holds unacked first, then new messages.

The rules are QMQ's (docs/reference/wire.md, section 5); the promises are ours: only synced messages are handed out, and
the assignment (which messages the pull sequences stand for) is in the log before the answer leaves.

A pull redelivers when it arrives, never when it is woken: a pull that waits gets new messages only. Messages that another
live session of the same consumer holds (`broker_node/storage/sessions.py`) are not redelivered to this one.
"""

from dataclasses import dataclass, field
from itertools import islice

from broker_node.delivery.acks import Acks
from broker_node.delivery.delivery_counters import DeliveryCounters
from broker_node.delivery.duplicate_ids import DuplicateIds
from broker_node.delivery.pending_settlements import Settlements
from broker_node.reads.filters import tag_match
from broker_node.reads.message_reader import SCAN_STEP, Wanted, read_messages
from broker_node.reads.read_ahead import ReadAhead
from broker_node.storage.actions import Pull, SequenceRun, StartReason, runs_of
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.message_log import Raw
from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.progress import Consumer
from broker_node.storage.sessions import Peer, Session
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from broker_node.storage.subject_table import LimitReached
from qmq.protocol.commands import PullRequest
from qmq.protocol.names import split_subject

PULL_MESSAGES_MAX = 10_000
"""Most messages of one answer, as in QMQ; larger requests are lowered to it."""
PULL_BYTES_MAX = 8 << 20
"""Most bytes of one answer; at least one message is always answered."""
FILTER_SCAN_MAX = 20_000
"""Most index entries that one pull checks against its filter; the position is kept, and the next pull continues there."""


@dataclass(slots=True)
class Delivered:
    """What a pull answers: messages from pull sequence `pull_begin` on, once everything below `wait_for` is synced."""

    pull_begin: int = -1
    raws: list[Raw] = field(default_factory=list)
    wait_for: int = -1
    """Log offset of the last record the answer rests on; -1: none."""
    retry_at_ms: int | None = None
    """Nothing was due yet, but a message becomes visible at this wall time (retry subjects)."""
    is_full: bool = False
    """Nothing new: the consumer has as many messages in flight as it may have."""
    has_more: bool = False
    """Nothing for this pull now, and it should not wait: its sender gets something by pulling again."""
    session: Session | None = None
    """The session that the messages are delivered on."""


class Delivery:
    """Pulls and acks over a store."""

    def __init__(self, store: MessageStore, *, retry_delay_ms: int, lease_seconds: float = 180.0) -> None:
        self._store = store
        self._retry_delay_ms = retry_delay_ms
        self._lease_seconds = lease_seconds
        self.counters = DeliveryCounters()
        self.read_ahead = ReadAhead(store)
        self.duplicates = DuplicateIds(lease_seconds)
        self.settlements = Settlements(store, lease_seconds, self.counters)
        self.acks = Acks(store, self.settlements, self.duplicates, self.counters, lease_seconds)

    def pull(
        self,
        request: PullRequest,
        peer: Peer | None = None,
        *,
        bytes_max: int = PULL_BYTES_MAX,
        is_arrival: bool = True,
        plan: DiskWork | None = None,
    ) -> Delivered:
        """Take messages for a consumer.

        Args:
            peer: the connection that the pull came on; None: what is delivered is held by no session.
            bytes_max: of the messages together; at least one is taken, whatever its size.
            is_arrival: False for a pull that waited and is tried again.
            plan: what an earlier try raised, finished. It counts if the messages that it read are still those to deliver.

        Raises:
            DiskWork: the messages have to be read from the disk; no message was assigned.
            BeingSettled: what the consumer held is on its way to the retry subject; ask again when that has ended.
            LimitReached: one more subject, group or consumer does not fit.
        """
        store = self._store
        self.settlements.wait_for(request.subject, request.group, request.consumer_id)
        subject = self._subject(request.subject)
        if subject is None:
            return Delivered()
        adjust_begin(store, subject)
        group = self._group(subject, request)
        consumer = self._consumer(subject, group, request.consumer_id)
        session = self._session(subject, group, consumer, request, peer, is_arrival)
        if self.settlements.deferred and is_arrival:
            self.settlements.returned((request.subject, request.group, request.consumer_id))
        if is_arrival and session is not None and session.has_unread_answer:
            # Its sender asked again without having read: the messages would be held in memory twice.
            return Delivered(wait_for=consumer.touched_at, has_more=True)
        have = max(request.pull_last + 1, consumer.log.acked)
        limit = min(request.limit, PULL_MESSAGES_MAX)
        if is_arrival and consumer.log.pulled > have:
            again = self._redeliver(subject, group, consumer, session, request, have, limit, bytes_max, plan)
            if again is not None:
                again.session = session
                return again
        if not is_arrival and session is not None and consumer.log.held_end(session) > request.pull_last + 1:
            # Another pull of this connection was answered while this one waited. If its sender had given that one up, new
            # messages would leave a gap that its acks span: it has to pull again, naming what it received.
            return Delivered(wait_for=consumer.touched_at, has_more=True)
        consumer.holder = session
        answer = self._deliver_new(subject, group, consumer, request, limit, bytes_max, plan)
        answer.session = session
        return answer

    def touch(self, request: PullRequest, peer: Peer | None = None) -> None:
        """Keep a consumer alive whose pull gets nothing, and set a new group's position as any first pull does.

        Raises LimitReached when one more subject, group or consumer does not fit.
        """
        subject = self._subject(request.subject)
        if subject is not None:
            group = self._group(subject, request)
            consumer = self._consumer(subject, group, request.consumer_id)
            self._session(subject, group, consumer, request, peer, is_arrival=True)

    def _subject(self, name: str) -> Subject | None:
        """The subject of a pull; None for a retry subject that nothing was stored in yet.

        A first pull makes a real subject: the group's position, its end, has to be durable before the first message. A
        group reads a retry subject from its beginning, so there is nothing to remember before the first retry makes it.
        """
        subject = self._store.subjects.get(name)
        if subject is None and split_subject(name).kind != "retry":
            subject = self._store.subject(name)
        return subject

    def _session(
        self,
        subject: Subject,
        group: Group,
        consumer: Consumer,
        request: PullRequest,
        peer: Peer | None,
        is_arrival: bool,
    ) -> Session | None:
        if peer is None:
            return None
        session = None if is_arrival else consumer.sessions.on(peer)
        if session is None:
            now = self._store.clock.monotonic()
            before = len(consumer.sessions)
            session = consumer.sessions.pull_arrived(peer, request.pull_last, now, self._lease_seconds)
            if before and len(consumer.sessions) > before:
                consumer.sessions.prune({run.holder for run in consumer.log.runs()})
                subject.check_at = 0.0
            if consumer.sessions.is_duplicate:
                self.duplicates.note(subject.name, group.progress.group, consumer, now)
        return session

    def _group(self, subject: Subject, request: PullRequest) -> Group:
        group = subject.groups.get(request.group)
        if group is None:
            # QMQ's rule: a group that never pulled begins with what is stored from now on. A retry subject is the
            # group's own, so whatever is in it is meant for it.
            begin = subject.begin if subject.is_retry else subject.visible_end
            group = self._store.start_group(
                subject, request.group, request.consumer_id, begin, request.broadcast, StartReason.FIRST_PULL
            )
        return group

    def _consumer(self, subject: Subject, group: Group, consumer_id: str) -> Consumer:
        progress = group.progress
        most = self._store.limits.consumers_per_group_max
        if consumer_id not in progress.consumers and len(progress.consumers) >= most:
            raise LimitReached(f"group {progress.group} has {most} consumers, the limit (consumers_per_group_max)")
        consumer = progress.consumer(consumer_id, self._store.clock.monotonic())
        if not consumer.reported[0]:
            subject.check_at = 0.0
        return consumer

    def _redeliver(
        self,
        subject: Subject,
        group: Group,
        consumer: Consumer,
        session: Session | None,
        request: PullRequest,
        have: int,
        limit: int,
        bytes_max: int,
        plan: DiskWork | None,
    ) -> Delivered | None:
        """Messages pulled and never acked, under their old pull sequences; None when there are none for this pull.

        One answer is one contiguous run of pull sequences, so it begins at the first message that still exists and ends
        before the next that does not. Those passed over stay unacked until the consumer's ack spans them. Messages that
        do not match the pull's filter count as acked.
        """
        others = consumer.sessions.others(session, self._store.clock.monotonic(), self._lease_seconds)
        match = tag_match(request.filters)
        # Messages that don't match are read as well.
        count = limit if match is None else min(FILTER_SCAN_MAX, max(limit, SCAN_STEP))
        held = (run for run in consumer.log.between(have, consumer.log.pulled) if run.holder not in others)
        runs = list(islice((run for run in held if run.end > subject.begin), count))
        if not runs:
            return None
        ranges = tuple((max(run.begin, subject.begin), run.end) for run in runs)
        raws = read_messages(self._store, subject, Wanted(ranges, count, bytes_max), plan).raws
        found, unmatched = Delivered(), list[int]()
        pull_sequences = (
            run.pull_begin + at - run.begin
            for run, (begin, end) in zip(runs, ranges, strict=True)
            for at in range(begin, end)
        )
        for pull_sequence, raw in zip(pull_sequences, raws, strict=False):
            is_match = raw is not None and (match is None or match.matches(raw))
            if found.raws and (not is_match or found.pull_begin + len(found.raws) != pull_sequence):
                break
            if raw is not None and is_match:
                if not found.raws:
                    found.pull_begin = pull_sequence
                found.raws.append(raw)
                if len(found.raws) >= limit:
                    break
            elif raw is not None:
                unmatched.append(pull_sequence)
        for run in runs_of(unmatched):
            self.acks.act(subject, group, consumer, run.begin, run.end)
        if found.raws:
            found.wait_for = consumer.touched_at
            end = found.pull_begin + len(found.raws)
            if session is not None:
                session.delivered_end = end
                if any(run.holder not in (session, None) for run in consumer.log.between(found.pull_begin, end)):
                    session.taken_end = end
            consumer.log.hold(found.pull_begin, end, session)
            group.redelivered_total += len(found.raws)
            self.counters.redelivered += len(found.raws)
            return found
        is_whole = len(raws) == sum(end - begin for begin, end in ranges) and len(runs) < count
        return None if is_whole else Delivered(wait_for=consumer.touched_at, has_more=True)

    def _deliver_new(
        self,
        subject: Subject,
        group: Group,
        consumer: Consumer,
        request: PullRequest,
        limit: int,
        bytes_max: int,
        plan: DiskWork | None,
    ) -> Delivered:
        progress = group.progress
        limit = min(limit, self._room(consumer))
        if limit <= 0:
            return Delivered(wait_for=progress.applied_at, is_full=True)
        start = progress.next_sequence
        position = max(start, subject.begin)
        match = tag_match(request.filters)
        answer = Delivered()
        runs: tuple[SequenceRun, ...] = ()
        end = min(subject.visible_end, position + (limit if match is None else FILTER_SCAN_MAX))
        if position < end:
            delay_ms = self._retry_delay_ms if subject.is_retry else 0
            now_ms = self._store.clock.wall_ms() if delay_ms > 0 else 0
            wanted = Wanted(((position, end),), limit, bytes_max, match, delay_ms, now_ms)
            found = self.read_ahead.take(group, wanted) or read_messages(self._store, subject, wanted, plan)
            if len(found.raws) == limit:
                self.read_ahead.note(subject, group, wanted)
            runs, answer.raws, position = _chosen(position, found.raws, progress.broadcast)
            answer.retry_at_ms = found.due_at_ms
        if position != start:
            passed = max(0, min(position, subject.begin) - start)
            group.skipped_total += passed
            self.counters.fell_behind += passed
            # Numbers this consumer may still ack are never given out again, not even after its state was dropped.
            answer.pull_begin = max(consumer.log.pulled, request.pull_last + 1)
            if progress.broadcast and runs:
                answer.pull_begin = runs[0].begin
            action = Pull(
                subject.name, progress.group, consumer.consumer_id, self._store.clock.wall_ms(), progress.broadcast,
                answer.pull_begin, start, position, runs,
            )  # fmt: skip
            self._store.act(subject, group, action, consumer.names)
            count = len(answer.raws)
            if count and consumer.holder is not None:
                consumer.holder.delivered_end = answer.pull_begin + count
            group.pulled_total += count
            self.counters.pulled += count
            answer.has_more = not count and position < subject.visible_end and answer.retry_at_ms is None
        answer.wait_for = progress.applied_at
        return answer

    def _room(self, consumer: Consumer) -> int:
        """How many new messages a consumer may take."""
        most, log = self._store.limits.consumer_in_flight_max, consumer.log
        if log.pulled - log.acked + PULL_MESSAGES_MAX <= most:
            return PULL_MESSAGES_MAX
        return most - log.in_flight


def _chosen(begin: int, raws: list[Raw | None], is_contiguous: bool) -> tuple[tuple[SequenceRun, ...], list[Raw], int]:
    """The messages among `raws`, which begin at a sequence: (their sequences, they, the sequence behind all that was checked).

    With `is_contiguous`, only the first run: a broadcast's pull sequence is the consume sequence, and one answer is one run.
    """
    if raws and all(raws):
        return (SequenceRun(begin, len(raws)),), raws, begin + len(raws)  # type: ignore[return-value]
    picked = [(sequence, raw) for sequence, raw in enumerate(raws, begin) if raw is not None]
    runs, end = runs_of([sequence for sequence, _ in picked]), begin + len(raws)
    if is_contiguous and runs:
        runs, end = runs[:1], runs[0].end
        del picked[runs[0].count :]
    return runs, [raw for _, raw in picked], end

"""What a pull gets: what this consumer holds unacked first, then new messages. And what an ack does.

The rules are QMQ's (docs/reference/wire.md, sections 5 and 6); the promises are ours: only synced messages are handed out, and
the assignment (which messages the pull sequences stand for) is in the log before the answer leaves.

A pull redelivers when it arrives, never when it is woken: a pull that waits gets new messages only. Messages that another
live session of the same consumer holds (`broker_node/sessions.py`) are neither redelivered nor settled nor acked by this one.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby, islice

from broker_node.actions import Ack, Offline, Pull, StartReason, runs_of
from broker_node.duplicate_ids import DuplicateIds
from broker_node.filters import TagMatch, tag_match
from broker_node.message_log import MessageLog
from broker_node.progress import Consumer
from broker_node.reader import read_messages
from broker_node.retry import retry_target
from broker_node.sessions import Peer, Session
from broker_node.settlement import BeingSettled, Deferred, Holder, Settlement
from broker_node.store import LimitReached, MessageStore
from broker_node.subject import Group, Subject
from qmq.daemon.counters import counted
from qmq.errors import NoSpace, QmqError
from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.names import retry_subject, split_subject

logger = logging.getLogger("qmq.broker.delivery")

PULL_MESSAGES_MAX = 10_000
"""Most messages of one answer, as in QMQ; larger requests are lowered to it."""
PULL_BYTES_MAX = 8 << 20
"""Most bytes of one answer; at least one message is always answered."""
FILTER_SCAN_MAX = 20_000
"""Most index entries one pull looks at for its filter; the position is kept and the next pull goes on."""
_SCAN_STEP = 1024
FUTURE_STAMP_MS = 1_000
"""A store time this far ahead of now says that the wall clock was stepped back: no delay is computed from it."""


@dataclass(slots=True)
class Delivered:
    """What a pull answers: messages from pull sequence `pull_begin` on, once everything below `wait_for` is synced."""

    pull_begin: int = -1
    raws: list[memoryview] = field(default_factory=list)
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


@dataclass(slots=True)
class DeliveryCounters:
    """Counts since start, for metrics."""

    pulled: int = counted("pulled_messages", "Messages delivered for the first time (pulledMessagesCount)")
    redelivered: int = counted("redelivered_messages", "Messages redelivered")
    acked: int = counted("acked_messages", "Acknowledged messages (consumerAckCount)")
    settled: int = counted("settled_messages", "Messages retried because their consumer left")
    """Messages moved to their retry subject because their consumer left, fell silent or jumped over them."""
    duplicate_acks: int = counted(
        "duplicate_acks", "Acks of messages that were already acknowledged (consumerDuplicateAckCount)"
    )
    lost_acks: int = counted("lost_acks", "Acks of unknown messages (consumerLostAckCount)")
    fell_behind: int = counted("behind_retention_messages", "Messages deleted before a group pulled them")


class _Verdict(Enum):
    """What an ack does to a part of its range, or of what it jumps over."""

    ACKED = 0
    SETTLED = 1
    LEFT = 2


class Delivery:
    """Pulls and acks over a store."""

    def __init__(self, store: MessageStore, *, retry_delay_ms: int, lease_seconds: float = 180.0) -> None:
        self._store = store
        self._retry_delay_ms = retry_delay_ms
        self._lease_seconds = lease_seconds
        self.duplicates = DuplicateIds(lease_seconds)
        self.settlements: dict[tuple[str, str, str], Settlement] = {}
        """Settlements under way, by subject, group and consumer id."""
        self.deferred: dict[tuple[str, str, str], Deferred] = {}
        """Settlements that wait for space, likewise. Memory only: after a restart their consumers are silent."""
        self._is_out_of_space = False
        """A settlement found no space since `retry_deferred` was last called."""
        self.counters = DeliveryCounters()

    @property
    def message_log(self) -> MessageLog:
        return self._store.message_log

    # --- pull ------------------------------------------------------------------------------------------------------

    def pull(
        self,
        request: PullRequest,
        peer: Peer | None = None,
        *,
        bytes_max: int = PULL_BYTES_MAX,
        is_arrival: bool = True,
        cached_only: bool = True,
    ) -> Delivered:
        """Take messages for a consumer.

        Args:
            peer: the connection that the pull came on; None: what is delivered is held by no session.
            bytes_max: of the messages together; at least one is taken, whatever its size.
            is_arrival: False for a pull that waited and is tried again.

        Raises:
            ColdRead: the messages must be read from disk first; nothing was changed.
            BeingSettled: what the consumer held is on its way to the retry subject; ask again when that has ended.
            LimitReached: one more subject, group or consumer does not fit.
        """
        store = self._store
        self._wait_for_settlement(request.subject, request.group, request.consumer_id)
        subject = self._subject(request.subject)
        if subject is None:
            return Delivered()
        store.adjust_begin(subject)
        group = self._group(subject, request)
        consumer = self._consumer(group, request.consumer_id)
        session = self._session(subject, group, consumer, request, peer, is_arrival)
        if self.deferred and is_arrival:
            self._returned((request.subject, request.group, request.consumer_id))
        if is_arrival and session is not None and session.has_unread_answer:
            # Its sender asked again without having read: the messages would be held in memory twice.
            return Delivered(wait_for=consumer.touched_at, has_more=True)
        have = max(request.pull_last + 1, consumer.log.acked)
        limit = min(request.limit, PULL_MESSAGES_MAX)
        if is_arrival and consumer.log.pulled > have:
            again = self._redeliver(subject, group, consumer, session, request, have, limit, bytes_max, cached_only)
            if again is not None:
                again.session = session
                return again
        if not is_arrival and session is not None and consumer.log.held_end(session) > request.pull_last + 1:
            # Another pull of this connection was answered while this one waited. If its sender had given that one up, new
            # messages would leave a gap that its acks span: it has to pull again, naming what it received.
            return Delivered(wait_for=consumer.touched_at, has_more=True)
        consumer.holder = session
        answer = self._deliver_new(subject, group, consumer, request, limit, bytes_max, cached_only)
        answer.session = session
        return answer

    def touch(self, request: PullRequest, peer: Peer | None = None) -> None:
        """Keep a consumer alive whose pull gets nothing, and set a new group's position as any first pull does.

        Raises:
            LimitReached: one more subject, group or consumer does not fit.
        """
        subject = self._subject(request.subject)
        if subject is not None:
            group = self._group(subject, request)
            self._session(subject, group, self._consumer(group, request.consumer_id), request, peer, is_arrival=True)

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

    def _consumer(self, group: Group, consumer_id: str) -> Consumer:
        progress = group.progress
        most = self._store.limits.consumers_per_group_max
        if consumer_id not in progress.consumers and len(progress.consumers) >= most:
            raise LimitReached(f"group {progress.group} has {most} consumers, the limit (consumers_per_group_max)")
        return progress.consumer(consumer_id, self._store.clock.monotonic())

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
        cached_only: bool,
    ) -> Delivered | None:
        """Messages pulled and never acked, under their old pull sequences; None when there are none for this pull.

        One answer is one contiguous run of pull sequences, so it begins at the first message that still exists and ends
        before the next that does not. Those passed over stay unacked until the consumer's ack spans them. Messages that
        do not match the pull's filter count as acked.
        """
        others = consumer.sessions.others(session, self._store.clock.monotonic(), self._lease_seconds)
        match = tag_match(request.filters)
        found = Delivered()
        unmatched: list[int] = []
        room, is_whole = bytes_max, True
        for pull_sequence, raw in self._held(subject, consumer, have, others, limit, bytes_max, cached_only):
            is_match = raw is not None and (match is None or match.matches(raw))
            if found.raws and (not is_match or found.pull_begin + len(found.raws) != pull_sequence):
                break
            if raw is None:
                continue
            room -= len(raw)
            if is_match:
                if not found.raws:
                    found.pull_begin = pull_sequence
                found.raws.append(raw)
            else:
                unmatched.append(pull_sequence)
            if room <= 0 or len(found.raws) >= limit or len(unmatched) >= FILTER_SCAN_MAX:
                is_whole = False
                break
        for run in runs_of(unmatched):
            self._act_ack(subject, group, consumer, run.begin, run.end)
        if found.raws:
            found.wait_for = consumer.touched_at
            end = found.pull_begin + len(found.raws)
            if session is not None:
                session.delivered_end = end
                if any(run.holder not in (session, None) for run in consumer.log.between(found.pull_begin, end)):
                    session.taken_end = end
            consumer.log.hold(found.pull_begin, end, session)
            return self._count_redelivered(group, found)
        return None if is_whole else Delivered(wait_for=consumer.touched_at, has_more=True)

    def _held(
        self,
        subject: Subject,
        consumer: Consumer,
        have: int,
        others: list[Session],
        limit: int,
        bytes_max: int,
        cached_only: bool,
    ) -> Iterator[tuple[int, memoryview | None]]:
        """Unacked messages from pull sequence `have` on that no other session holds; None for one that is gone."""
        for run in list(consumer.log.between(have, consumer.log.pulled)):
            if run.holder in others:
                continue
            at, end = max(run.begin, subject.begin), run.begin + run.count
            while at < end:
                batch = read_messages(self._store, subject, at, min(end, at + limit), cached_only, bytes_max)
                for sequence, raw in enumerate(batch, at):
                    yield run.pull_begin + sequence - run.begin, raw
                at += max(1, len(batch))

    def _count_redelivered(self, group: Group, found: Delivered) -> Delivered:
        group.redelivered_total += len(found.raws)
        self.counters.redelivered += len(found.raws)
        return found

    def _deliver_new(
        self,
        subject: Subject,
        group: Group,
        consumer: Consumer,
        request: PullRequest,
        limit: int,
        bytes_max: int,
        cached_only: bool,
    ) -> Delivered:
        progress = group.progress
        limit = min(limit, self._room(consumer))
        if limit <= 0:
            return Delivered(wait_for=progress.applied_at, is_full=True)
        start = progress.next_sequence
        position = max(start, subject.begin)
        if position > start:
            group.skipped_total += position - start
            self.counters.fell_behind += position - start
        match = tag_match(request.filters)
        answer = Delivered()
        picked, raws, position = self._pick(
            subject, progress.broadcast, position, limit, bytes_max, match, answer, cached_only
        )
        if position != start:
            # Numbers this consumer may still ack are never given out again, not even after its state was dropped.
            pull_begin = max(consumer.log.pulled, request.pull_last + 1)
            if progress.broadcast and picked:
                pull_begin = picked[0]
            action = Pull(
                subject.name,
                progress.group,
                consumer.consumer_id,
                self._store.clock.wall_ms(),
                progress.broadcast,
                pull_begin,
                start,
                position,
                runs_of(picked),
            )
            self._store.act(subject, group, action)
            answer.pull_begin, answer.raws = pull_begin, raws
            if raws and consumer.holder is not None:
                consumer.holder.delivered_end = pull_begin + len(raws)
            group.pulled_total += len(raws)
            self.counters.pulled += len(raws)
            answer.has_more = not raws and position < subject.visible_end and answer.retry_at_ms is None
        answer.wait_for = progress.applied_at
        return answer

    def _room(self, consumer: Consumer) -> int:
        """How many new messages a consumer may take."""
        most, log = self._store.limits.consumer_in_flight_max, consumer.log
        if log.pulled - log.acked + PULL_MESSAGES_MAX <= most:
            return PULL_MESSAGES_MAX
        return most - log.in_flight

    def _pick(
        self,
        subject: Subject,
        broadcast: bool,
        position: int,
        limit: int,
        bytes_max: int,
        match: TagMatch | None,
        answer: Delivered,
        cached_only: bool,
    ) -> tuple[list[int], list[memoryview], int]:
        """New messages from `position` on: (their sequences, their bytes, where the group goes on)."""
        end = self._due_end(subject, position, FILTER_SCAN_MAX if match and not subject.is_retry else limit, answer)
        picked: list[int] = []
        raws: list[memoryview] = []
        room = bytes_max
        while position < end and len(picked) < limit and room > 0:
            step = min(end, position + (_SCAN_STEP if match is not None else limit - len(picked)))
            batch = read_messages(self._store, subject, position, step, cached_only, room, match)
            whole = [raw for raw in batch if raw is not None] if match is None else []
            if whole and len(whole) == len(batch):
                # The usual batch: no filter, and every message of it is delivered.
                picked += range(position, position + len(whole))
                raws += whole
                room -= sum(map(len, whole))
                position += len(whole)
                continue
            for sequence, raw in enumerate(batch, position):
                if raw is None or (match is not None and not match.matches(raw)):
                    if broadcast and picked:
                        # A broadcast's pull sequence is the consume sequence; one answer is one contiguous run.
                        return picked, raws, sequence
                    continue
                if len(picked) >= limit:
                    return picked, raws, sequence
                picked.append(sequence)
                raws.append(raw)
                room -= len(raw)
            position += len(batch)
            if not batch:
                break
        return picked, raws, position

    def _due_end(self, subject: Subject, position: int, most: int, answer: Delivered) -> int:
        """The first sequence not to be looked at: the synced end, or on a retry subject the first that is too young."""
        end = min(subject.visible_end, position + most)
        if not subject.is_retry or self._retry_delay_ms <= 0:
            return end
        now_ms = self._store.clock.wall_ms()
        for sequence, entry in enumerate(subject.consume_log.entries(position, end), position):
            wait_ms = entry.stored_at_ms + self._retry_delay_ms - now_ms
            if not entry.is_withheld and 0 < wait_ms <= self._retry_delay_ms + FUTURE_STAMP_MS:
                answer.retry_at_ms = now_ms + wait_ms
                return sequence
        return end

    # --- ack -------------------------------------------------------------------------------------------------------

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
            self.counters.lost_acks += 0 if request.is_heartbeat else 1
            return -1
        now = store.clock.monotonic()
        consumer = group.progress.consumers.get(request.consumer_id)
        session = self._touch(request, peer, now)
        if consumer is None or request.is_heartbeat:
            self.counters.lost_acks += 0 if request.is_heartbeat else 1
            return -1
        self._wait_for_settlement(request.subject, request.group, request.consumer_id)
        log = consumer.log
        end = min(request.pull_last + 1, log.pulled)
        if end <= log.acked:
            self.counters.duplicate_acks += 1
            return consumer.touched_at
        broadcast = group.progress.broadcast
        begin = min(max(request.pull_begin, log.acked), end)
        first = log.first()
        if first is not None and begin == log.acked and end <= first.pull_end and first.holder in (session, None):
            # The usual ack: in order, of what its own session holds.
            self._act_ack(subject, group, consumer, begin, end)
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
        if unsettled and self._defers:
            self._defer((request.subject, request.group, request.consumer_id), unsettled, Holder.LIVE)
        elif unsettled:
            # The ack is taken again after it, and then finds nothing to settle.
            raise BeingSettled(self._settlement(subject, group, consumer, unsettled, Holder.LIVE))
        acked = ranges[_Verdict.ACKED]
        if not broadcast:
            # What was settled before is left out: if its settlement gets lost to damage, replaying this ack must not end it.
            acked = [part for pair in acked for part in log.held(*pair)]
        for low, high in acked:
            self._act_ack(subject, group, consumer, low, high)
        return consumer.touched_at

    def _act_ack(self, subject: Subject, group: Group, consumer: Consumer, begin: int, end: int) -> None:
        progress, before = group.progress, consumer.log.in_flight
        at_ms = self._store.clock.wall_ms()
        action = Ack(subject.name, progress.group, consumer.consumer_id, at_ms, progress.broadcast, begin, end)
        self._store.act(subject, group, action)
        done = before - consumer.log.in_flight
        group.acked_total += done
        self.counters.acked += done

    def _touch(self, request: AckRequest, peer: Peer | None, now: float) -> Session | None:
        """Note a consumer's ack as a sign of life, for the real and the retry subject alike; its session on this subject."""
        own: Session | None = None
        for name in (request.subject, retry_subject(request.subject, request.group)):
            subject = self._store.subjects.get(name)
            group = subject.groups.get(request.group) if subject is not None else None
            consumer = group.progress.consumers.get(request.consumer_id) if group is not None else None
            if consumer is None:
                continue
            consumer.seen_at = now
            if peer is not None:
                sessions, is_own = consumer.sessions, name == request.subject
                last = request.pull_last if is_own else -1
                session = sessions.ack_arrived(peer, last, consumer.log.holder_of, now, self._lease_seconds)
                if sessions.is_duplicate:
                    self.duplicates.note(name, request.group, consumer, now)
                if is_own:
                    own = session
        return own

    # --- settling --------------------------------------------------------------------------------------------------

    def settle(self, subject: Subject, group: Group, consumer: Consumer) -> Settlement | None:
        """Begin to settle all that a silent consumer holds; None when there is nothing to begin, or no space.

        Its numbering stays, so that an ack it still sends finds its own messages done, and confirms no others.

        Raises:
            LimitReached: the retry subject does not fit.
        """
        key = (subject.name, group.progress.group, consumer.consumer_id)
        if group.progress.broadcast or not consumer.log.in_flight or key in self.settlements:
            return None
        everything = [(consumer.log.acked, consumer.log.pulled)]
        if self._defers:
            self._defer(key, everything, Holder.SILENT)
            return None
        return self._settlement(subject, group, consumer, everything)

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
        space.

        Raises:
            LimitReached: the retry subject does not fit.
        """
        first = consumer.log.first()
        if (
            first is None
            or (subject.name, group.progress.group, consumer.consumer_id) in self.settlements
            or self._defers
        ):
            return None
        return self._settlement(subject, group, consumer, [(first.pull_begin, first.pull_end)])

    def leave(self, subject: Subject, group: Group, consumer: Consumer, peer: Peer | None = None) -> int:
        """Drop the state of a consumer that left, or was silent for very long; the log offset that the answer waits for.

        A consumer that has another live session stays: only what the session on `peer` holds is settled. While there is no space to
        settle, a consumer that holds messages stays as well, and `retry_deferred` returns it once there is.

        Raises:
            BeingSettled: what it holds has to be settled first.
            LimitReached: the retry subject does not fit.
        """
        self._wait_for_settlement(subject.name, group.progress.group, consumer.consumer_id)
        now = self._store.clock.monotonic()
        session = consumer.sessions.on(peer)
        others = consumer.sessions.others(session, now, self._lease_seconds) if session is not None else []
        if session is not None and others:
            held = [(run.pull_begin, run.pull_end) for run in consumer.log.runs() if run.holder is session]
            # Without space, the sweep finds what the ended session holds.
            if held and not group.progress.broadcast and not self._defers:
                raise BeingSettled(self._settlement(subject, group, consumer, held))
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

    def settled(self, settlement: Settlement) -> None:
        """A settlement has ended."""
        self.settlements.pop(settlement.key, None)
        self.counters.settled += settlement.settled

    def no_space(self, settlement: Settlement, problem: str) -> None:
        """A settlement ends because there is no space for its messages; the rest of it is deferred."""
        self._is_out_of_space = True
        self._defer(settlement.key, list(settlement.ranges), settlement.holder, problem)

    @property
    def _defers(self) -> bool:
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

    def _returned(self, key: tuple[str, str, str]) -> None:
        """A consumer pulls: what it held when it left, or became silent, is delivered to it again."""
        deferred = self.deferred.get(key)
        if deferred is not None and deferred.holder is not Holder.LIVE:
            del self.deferred[key]

    def retry_deferred(self, count: int) -> list[Settlement]:
        """Begin up to `count` deferred settlements, unless there is still no space. Called once a second."""
        self._is_out_of_space = False
        if not self.deferred or self._defers:
            return []
        keys = list(islice(self.deferred, count))
        found = [self._begin_deferred(key, self.deferred.pop(key)) for key in keys]
        return [settlement for settlement in found if settlement is not None]

    def _begin_deferred(self, key: tuple[str, str, str], deferred: Deferred) -> Settlement | None:
        """Begin a deferred settlement; None when nothing is left to settle, or it is deferred again."""
        subject = self._store.subjects.get(key[0])
        group = subject.groups.get(key[1]) if subject is not None else None
        consumer = group.progress.consumers.get(key[2]) if group is not None else None
        if subject is None or group is None or consumer is None or key in self.settlements:
            return None
        ranges = [pair for pair in deferred.ranges if any(consumer.log.between(*pair))]
        if not ranges:
            if deferred.holder is Holder.LEFT:
                self._leave_settled(None, subject, group, consumer)
            return None
        try:
            settlement = self._settlement(subject, group, consumer, ranges, deferred.holder)
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

    def _settlement(
        self,
        subject: Subject,
        group: Group,
        consumer: Consumer,
        ranges: list[tuple[int, int]],
        holder: Holder = Holder.SILENT,
    ) -> Settlement:
        retry_target(self._store, subject, group)
        settlement = Settlement(self._store, subject, group, consumer, ranges, holder)
        self.settlements[settlement.key] = settlement
        return settlement

    def _wait_for_settlement(self, subject: str, group: str, consumer_id: str) -> None:
        if self.settlements:
            settlement = self.settlements.get((subject, group, consumer_id))
            if settlement is not None:
                raise BeingSettled(settlement)

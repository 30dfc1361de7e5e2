"""What a pull gets: what this consumer holds unacked first, then new messages. And what an ack does.

The rules are QMQ's (`reference` 5.4, 5.5, 6.3); the promises are ours: only synced messages are handed out, and the
assignment (which messages the pull sequences stand for) is in the log before the answer leaves.
"""

from dataclasses import dataclass, field

from broker_node.actions import Ack, Offline, Pull, StartReason, runs_of
from broker_node.filters import TagMatch, tag_match
from broker_node.message_log import MessageLog
from broker_node.progress import Consumer
from broker_node.reader import read_messages
from broker_node.retry import retry_target
from broker_node.settlement import BeingSettled, Settlement
from broker_node.store import LimitReached, MessageStore
from broker_node.subject import Group, Subject
from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.names import retry_subject

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
    """Nothing of what was looked at matched, and there is more to look at: ask again rather than wait."""


@dataclass(slots=True)
class DeliveryCounters:
    """Counts since start, for metrics."""

    pulled: int = 0
    redelivered: int = 0
    acked: int = 0
    settled: int = 0
    """Messages moved to their retry subject because their consumer left, fell silent or jumped over them."""
    duplicate_acks: int = 0
    lost_acks: int = 0
    fell_behind: int = 0


class Delivery:
    """Pulls and acks over a store."""

    def __init__(self, store: MessageStore, *, retry_delay_ms: int) -> None:
        self._store = store
        self._retry_delay_ms = retry_delay_ms
        self.settlements: dict[tuple[str, str, str], Settlement] = {}
        """Settlements under way, by subject, group and consumer id."""
        self.counters = DeliveryCounters()

    @property
    def message_log(self) -> MessageLog:
        return self._store.message_log

    # --- pull ------------------------------------------------------------------------------------------------------

    def pull(self, request: PullRequest, *, cached_only: bool = True) -> Delivered:
        """Take messages for a consumer.

        Raises:
            ColdRead: the messages must be read from disk first; nothing was changed.
            BeingSettled: what the consumer held is on its way to the retry subject; ask again when that has ended.
            LimitReached: one more subject, group or consumer does not fit.
        """
        store = self._store
        self._wait_for_settlement(request.subject, request.group, request.consumer_id)
        subject = store.subject(request.subject)
        store.adjust_begin(subject)
        group = self._group(subject, request)
        consumer = self._consumer(group, request.consumer_id)
        have = max(request.pull_last + 1, consumer.log.acked)
        limit = min(request.limit, PULL_MESSAGES_MAX)
        if consumer.log.pulled > have:
            again = self._redeliver(subject, group, consumer, have, limit, cached_only)
            if again is not None:
                return again
        return self._deliver_new(subject, group, consumer, request, limit, cached_only)

    def attend(self, request: PullRequest) -> None:
        """A consumer pulls and is to get nothing: it counts as alive, and a new group's place is set as by any first pull.

        Raises:
            LimitReached: one more subject, group or consumer does not fit.
        """
        subject = self._store.subject(request.subject)
        self._consumer(self._group(subject, request), request.consumer_id)

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
        self, subject: Subject, group: Group, consumer: Consumer, have: int, limit: int, cached_only: bool
    ) -> Delivered | None:
        """Messages pulled and never acked, under their old pull sequences; None when none of them can be had.

        One answer is one contiguous run of pull sequences, so it begins at the first message that still exists and ends
        before the next that does not. Those passed over stay unacked until the consumer's ack spans them.
        """
        found = Delivered(wait_for=consumer.touched_at)
        room = PULL_BYTES_MAX
        for run in consumer.log.between(have, consumer.log.pulled):
            at, end = max(run.begin, subject.begin), run.begin + run.count
            while at < end and len(found.raws) < limit and room > 0:
                batch = read_messages(
                    self._store, subject, at, min(end, at + limit - len(found.raws)), cached_only, room
                )
                for sequence, raw in enumerate(batch, at):
                    pull_sequence = run.pull_begin + sequence - run.begin
                    if found.raws and (raw is None or found.pull_begin + len(found.raws) != pull_sequence):
                        return self._count_redelivered(group, found)
                    if raw is not None:
                        if not found.raws:
                            found.pull_begin = pull_sequence
                        found.raws.append(raw)
                        room -= len(raw)
                at += max(1, len(batch))
        return self._count_redelivered(group, found) if found.raws else None

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
        picked, raws, position = self._pick(subject, progress.broadcast, position, limit, match, answer, cached_only)
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
        match: TagMatch | None,
        answer: Delivered,
        cached_only: bool,
    ) -> tuple[list[int], list[memoryview], int]:
        """New messages from `position` on: (their sequences, their bytes, where the group goes on)."""
        end = self._due_end(subject, position, FILTER_SCAN_MAX if match and not subject.is_retry else limit, answer)
        picked: list[int] = []
        raws: list[memoryview] = []
        room = PULL_BYTES_MAX
        while position < end and len(picked) < limit and room > 0:
            step = min(end, position + (_SCAN_STEP if match is not None else limit - len(picked)))
            batch = read_messages(self._store, subject, position, step, cached_only, room, match)
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

    def ack(self, request: AckRequest) -> int:
        """Confirm a closed range of pull sequences; the log offset the answer has to wait for (-1: nothing).

        `reference` 6.3: a repeated ack succeeds; pull sequences that an ack jumps over were never handled, so their
        messages go to the group's retry subject before the ack counts for them.

        Raises:
            BeingSettled: the consumer's messages are on their way to the retry subject; ask again when that has ended.
            LimitReached: the retry subject does not fit.
        """
        store = self._store
        subject = store.subjects.get(request.subject)
        group = subject.groups.get(request.group) if subject is not None else None
        if subject is None or group is None:
            self.counters.lost_acks += 0 if request.is_heartbeat else 1
            return -1
        self._touch(request, store.clock.monotonic())
        consumer = group.progress.consumers.get(request.consumer_id)
        if consumer is None or request.is_heartbeat:
            self.counters.lost_acks += 0 if request.is_heartbeat else 1
            return -1
        self._wait_for_settlement(request.subject, request.group, request.consumer_id)
        end = min(request.pull_last + 1, consumer.log.pulled)
        if end <= consumer.log.acked:
            self.counters.duplicate_acks += 1
            return consumer.touched_at
        broadcast = group.progress.broadcast
        begin = min(max(request.pull_begin, consumer.log.acked), end)
        if begin > consumer.log.acked and not broadcast:
            raise BeingSettled(self._settlement(subject, group, consumer, begin))
        before = consumer.log.in_flight
        action = Ack(
            subject.name,
            request.group,
            request.consumer_id,
            store.clock.wall_ms(),
            broadcast,
            consumer.log.acked,
            end,
        )
        offset = store.act(subject, group, action)
        done = before - consumer.log.in_flight
        group.acked_total += done
        self.counters.acked += done
        return offset

    def _touch(self, request: AckRequest, now: float) -> None:
        """A sign of life counts for the real and the retry subject alike (`reference` 6.3)."""
        for name in (request.subject, retry_subject(request.subject, request.group)):
            subject = self._store.subjects.get(name)
            group = subject.groups.get(request.group) if subject is not None else None
            consumer = group.progress.consumers.get(request.consumer_id) if group is not None else None
            if consumer is not None:
                consumer.seen_at = now

    # --- settling --------------------------------------------------------------------------------------------------

    def settle(self, subject: Subject, group: Group, consumer: Consumer) -> Settlement | None:
        """Begin to settle all that a silent consumer holds; None when there is nothing to begin.

        Its numbering stays, so that an ack it still sends finds its own messages done, never another consumer's.

        Raises:
            LimitReached: the retry subject does not fit.
        """
        key = (subject.name, group.progress.group, consumer.consumer_id)
        if group.progress.broadcast or not consumer.log.in_flight or key in self.settlements:
            return None
        return self._settlement(subject, group, consumer, consumer.log.pulled)

    def leave(self, subject: Subject, group: Group, consumer: Consumer) -> int:
        """Drop the state of a consumer that left, or was silent for very long; the log offset that the answer waits for.

        Raises:
            BeingSettled: what it holds has to be settled first.
            LimitReached: the retry subject does not fit.
        """
        self._wait_for_settlement(subject.name, group.progress.group, consumer.consumer_id)
        settlement = self.settle(subject, group, consumer)
        if settlement is not None:
            raise BeingSettled(settlement)
        progress, now_ms = group.progress, self._store.clock.wall_ms()
        offline = Offline(subject.name, progress.group, consumer.consumer_id, now_ms, progress.broadcast)
        return self._store.act(subject, group, offline)

    def settled(self, settlement: Settlement) -> None:
        """A settlement has ended."""
        self.settlements.pop(settlement.key, None)
        self.counters.settled += settlement.settled

    def _settlement(self, subject: Subject, group: Group, consumer: Consumer, end: int) -> Settlement:
        retry_target(self._store, subject, group)
        settlement = Settlement(self._store, subject, group, consumer, end)
        self.settlements[settlement.key] = settlement
        return settlement

    def _wait_for_settlement(self, subject: str, group: str, consumer_id: str) -> None:
        if self.settlements:
            settlement = self.settlements.get((subject, group, consumer_id))
            if settlement is not None:
                raise BeingSettled(settlement)

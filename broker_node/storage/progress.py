"""How far a group is: the state that actions change. Pure: the live path and recovery run the same `apply`.

Every action carries absolute numbers and the log offset it stands at; an action at or below `applied_at` was applied
before (a checkpoint may be newer than the place the log is read from) and changes nothing.
"""

from collections.abc import Iterable

from broker_node.storage.actions import Ack, Action, Offline, Pull, SequenceRun, Start, encode_names
from broker_node.storage.pull_log import PullLog, PullRun
from broker_node.storage.sessions import Session, Sessions


class Consumer:
    """One consumer of a group: its pull log, and when it was last seen."""

    __slots__ = (
        "consumer_id", "holder", "log", "names", "progressed_at", "reported", "seen_at", "sessions", "touched_at",
    )  # fmt: skip

    def __init__(self, subject: str, group: str, consumer_id: str, seen_at: float = 0.0) -> None:
        self.consumer_id = consumer_id
        self.names = encode_names(subject, group, consumer_id)
        """What its actions begin with."""
        self.log = PullLog()
        self.seen_at = seen_at
        """Monotonic seconds of the last pull, ack or heartbeat; memory only: a restart counts as just seen."""
        self.progressed_at = seen_at
        """Monotonic seconds since when it has held messages without an ack; memory only: a restart counts as one."""
        self.touched_at = -1
        """Log offset of the last action about this consumer: answers that rest on it wait for its sync."""
        self.sessions = Sessions()
        self.holder: Session | None = None
        """The session that messages assigned now are delivered on."""
        self.reported = (False, False)
        """`presence` when readers of changes were last informed."""

    def presence(self, now: float, lease_seconds: float) -> tuple[bool, bool]:
        """Whether it was seen within the lease, and whether several connections use its id."""
        return now - self.seen_at < lease_seconds, self.sessions.are_duplicates(now, lease_seconds)

    def check_at(self, lease_seconds: float, forget_seconds: float) -> float:
        """Return the earliest monotonic time, in seconds, at which its lease may expire, or it may be removed. Callers that use a
        consumer reported as offline, or add a second session, reset `Subject.check_at`."""
        if len(self.sessions) > 1:
            return 0.0
        if not self.reported[0] and not self.log.in_flight:
            return self.seen_at + max(lease_seconds, forget_seconds)
        held = (run.holder.seen_at for run in self.log.runs() if run.holder is not None)
        return min([self.seen_at, *held]) + lease_seconds


class GroupProgress:
    """Positions of one group on one subject."""

    __slots__ = ("applied_at", "broadcast", "consumers", "group", "next_sequence", "orphans", "subject")

    def __init__(self, subject: str, group: str, next_sequence: int, broadcast: bool = False) -> None:
        self.subject = subject
        self.group = group
        self.next_sequence = next_sequence
        """The consume sequence the next new message is taken from."""
        self.broadcast = broadcast
        self.applied_at = -1
        self.consumers: dict[str, Consumer] = {}
        self.orphans: list[SequenceRun] = []
        """Sequences whose assignment, or what ended it, was lost with a damaged commit: no consumer surely holds them, so they are
        retried."""

    def consumer(self, consumer_id: str, seen_at: float) -> Consumer:
        """The consumer, made when new, marked as seen."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            consumer = self.consumers[consumer_id] = Consumer(self.subject, self.group, consumer_id, seen_at)
        consumer.seen_at = seen_at
        return consumer

    def apply(self, action: Action, at: int, seen_at: float) -> bool:
        """Change the state by one action that stands at log offset `at`; False when it was applied before."""
        if at <= self.applied_at:
            return False
        self.applied_at = at
        match action:
            case Pull():
                self._apply_pull(action, at, seen_at)
            case Ack():
                consumer = self.consumers.get(action.consumer_id)
                if consumer is not None:
                    consumer.log.ack(action.begin, action.end)
                    consumer.touched_at = at
                    consumer.seen_at = consumer.progressed_at = seen_at
            case Offline():
                consumer = self.consumers.pop(action.consumer_id, None)
                if consumer is not None:
                    self._retry_held(action, consumer.log.runs())
            case Start():
                self.next_sequence = action.next_sequence
        return True

    def _apply_pull(self, pull: Pull, at: int, seen_at: float) -> None:
        consumer = self.consumer(pull.consumer_id, seen_at)
        if not consumer.log.in_flight:
            consumer.progressed_at = seen_at
        if pull.runs:
            if pull.pull_begin < consumer.log.pulled:
                # A broadcast was set back, and pulls what it held there again. Any other consumer left, and the action that says so
                # is lost to damage.
                self._retry_held(pull, consumer.log.begin_again(pull.pull_begin))
            consumer.log.assign(pull.pull_begin, pull.runs, consumer.holder)
        consumer.touched_at = at
        if pull.from_sequence > self.next_sequence:
            self.orphans.append(SequenceRun(self.next_sequence, pull.from_sequence - self.next_sequence))
        self.next_sequence = pull.next_sequence

    def _retry_held(self, action: Action, held: Iterable[PullRun]) -> None:
        """A consumer left while it held messages: their settlement is lost to damage. A broadcast's are not settled."""
        if not action.broadcast:
            self.orphans += [SequenceRun(run.begin, run.count) for run in held]

    @property
    def in_flight(self) -> int:
        """Messages pulled and not acked, over all consumers."""
        return sum(consumer.log.in_flight for consumer in self.consumers.values())

    def lowest_not_done(self) -> int:
        """The lowest consume sequence this group is not done with: in flight, or not pulled yet."""
        held = [oldest for c in self.consumers.values() if (oldest := c.log.oldest_sequence()) is not None]
        return min([self.next_sequence, *held])

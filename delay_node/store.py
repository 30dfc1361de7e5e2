"""class DelayStore: the message log of a delay node, and what follows from its records.

The event loop calls everything here. A decision about a message (it is claimed, delivered, cancelled, rescheduled) is taken in
memory at once, so that exactly one wins; files and counters follow when its record is synced.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from delay_node.commit_hold import CommitHold
from delay_node.errors import LimitReached
from delay_node.hour import Hour, Hours
from delay_node.hour_reader import Bodies, IoThreads
from delay_node.open_hours import OpenHours
from delay_node.placement import Placement, Placer
from delay_node.records import (
    GONE,
    HOUR_MS,
    NUMBER_MAX,
    Action,
    Ended,
    Moved,
    RecordKind,
    Scheduled,
    State,
    encode_action,
    encode_ended,
    encode_moved_head,
    encode_scheduled_head,
    hour_of,
    number_of,
    numbers_by_hour,
    ref_of,
)
from delay_node.schedule_log import DISPATCH_BYTES, Entry
from delay_node.wheel import Wheel
from qmq.errors import LogError
from qmq.protocol.scan import CRC_BYTES, Run
from qmq_node.log.disk import Disk
from qmq_node.log.handles import HandleCache
from qmq_node.log.log import SegmentedLog
from qmq_node.log.recovery import Damage
from qmq_node.process.counters import counted

logger = logging.getLogger("qmq.delay")

SUBJECTS_MAX = 200_000
"""Subjects of one node; a further one is rejected."""
ACTION_REFS_MAX = 10_000
"""Messages of one action's record."""


@dataclass(slots=True)
class Subjects:
    """Subject names by number, from 0 in the order in which they came. None is ever removed."""

    names: list[str] = field(default_factory=list)
    placed: int = field(init=False)
    """How many of them have messages in schedules; those of the others are not synced yet."""
    _numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.placed = len(self.names)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def next_number(self, name: str) -> int:
        """Return the number that a subject has, or that `number` would give it. Raises LimitReached for more than SUBJECTS_MAX."""
        number = self._numbers.get(name, len(self.names))
        if number >= SUBJECTS_MAX:
            raise LimitReached(f"this delay node holds {SUBJECTS_MAX} subjects, its limit")
        return number

    def number(self, name: str) -> int:
        """Return the number of a subject; a new one gets the next, so a record of it has to be in the log. Raises LimitReached."""
        number = self.next_number(name)
        if number == len(self.names):
            self._numbers[name] = number
            self.names.append(name)
        return number

    def find(self, name: str) -> int | None:
        """Return the number of a subject, None for one without messages."""
        return self._numbers.get(name)

    def name(self, number: int) -> str:
        """Return the name behind a number of an index entry, "" for a number that was never given."""
        return self.names[number] if 0 <= number < len(self.names) else ""


@dataclass(slots=True)
class StoreCounters:
    scheduled: int = counted("scheduled_messages", "Messages scheduled")
    claimed: int = counted("claimed_messages", "Messages claimed for delivery")
    delivered: int = counted("delivered_messages", "Messages that a broker stored (scheduleDispatch)")
    cancelled: int = counted("cancelled_messages", "Cancelled messages")
    moved: int = counted("moved_messages", "Rescheduled messages")
    refused: int = counted("put_aside_messages", "Messages held because all brokers rejected them")
    lost: int = 0
    """Messages whose index entries are damaged."""

    def decided(self, kind: RecordKind, count: int) -> None:
        """Count messages of a decision. Its counter has the name of its kind."""
        name = kind.name.lower()
        setattr(self, name, getattr(self, name) + count)


class Decision(NamedTuple):
    """What became of messages of an hour."""

    hour: Hour
    numbers: list[int]
    kind: RecordKind
    at_ms: int
    held: int = 0
    """How many of them were held before."""
    to_hour: int = 0
    """Of a moved message: the number of the hour in which it is due now."""


class DelayStore:
    """Hours over one log. Made by `delay_node.recovery.open_store`."""

    log: SegmentedLog

    def __init__(self, disk: Disk, root: str, handles: HandleCache) -> None:
        self.disk = disk
        self.root = root
        self.io = IoThreads()
        self.hours = Hours(root, handles)
        self.subjects = Subjects()
        self.wheel = Wheel()
        self.placer = Placer(self.hours, self.wheel)
        self.open_hours = OpenHours(self.hours, self.io, self._lost)
        self.bodies = Bodies(self.hours, self.io)
        self._effects: deque[tuple[int, Callable[[], None]]] = deque()
        """Changes of files and counters by the log offset of their record, so that a replay leads to the same numbers."""
        self.counters = StoreCounters()
        self.pending = 0
        """Messages waiting for delivery, over all hours."""
        self.refused = 0
        """Held messages: those that brokers refuse."""
        self.commit_hold = CommitHold()
        self.has_new_damage = False
        """Damage of the log was found that no checkpoint holds: one is due."""

    def found_damage(self, damage: Damage) -> None:
        """Damage of the log was found: sends are refused, and the next checkpoint keeps it."""
        if self.log.stored.add_damage([damage]):
            logger.error(
                "the log is damaged between offsets %d and %d (%s): sends are refused",
                damage.begin, damage.end, damage.why,
            )  # fmt: skip
            self.has_new_damage = True

    def recount(self) -> None:
        """Take the totals from the hours' counters; at the end of recovery."""
        self.pending = sum(hour.pending for hour in self.hours.values())
        self.refused = sum(hour.refused for hour in self.hours.values())
        self.counters.lost = sum(hour.lost for hour in self.hours.values())

    def _lost(self, count: int) -> None:
        self.counters.lost += count
        self.pending -= count

    async def load(self, hour: Hour) -> None:
        """Load an hour's pending messages into the wheel. Raises LogError; the hour is as it was."""
        seconds = await self.open_hours.load(hour)
        for second, keys in seconds:
            self.wheel.add_second(second, keys)
        if seconds:
            self.placer.on_near(seconds[0][0] * 1000)

    # --- damage ----------------------------------------------------------------------------------------------------

    def skip(self, entry: Entry) -> None:
        """Do not deliver a due message that fails its checks, until it is repaired."""
        hour, number = self.hours.get(hour_of(entry.ref)), number_of(entry.ref)
        if hour is None or hour.states is None:
            return
        if entry.due_ms >= 0:
            self.bodies.skip(entry.ref)
        elif hour.states[number] in (State.PENDING, State.CLAIMED):
            hour.states[number] = State.LOST
            hour.lost += 1
            self.hours.dirty[hour] = None
            self._lost(1)

    def retry_repaired(self, hour: Hour, dues_ms: Mapping[int, int]) -> None:
        """Deliver messages whose bodies were repaired, if they were skipped.

        Args:
            dues_ms: their due times by number.
        """
        self._to_wheel(hour, {number: dues_ms[number] for number in self.bodies.repaired(hour.number, dues_ms)})

    async def reread(self, hour: Hour) -> None:
        """Take in what was repaired of an hour's index and dispatch log. Raises LogError; the hour is as it was."""
        self._to_wheel(hour, await self.open_hours.reread(hour))

    def _to_wheel(self, hour: Hour, dues_ms: Mapping[int, int]) -> None:
        if hour.is_near and dues_ms:
            for number, due_ms in dues_ms.items():
                self.wheel.add(due_ms, number)
            self.placer.on_near(min(dues_ms.values()))

    # --- records ---------------------------------------------------------------------------------------------------

    def synced(self, synced_end: int) -> None:
        """Apply the records below `synced_end` to files and counters."""
        effects = self._effects
        while effects and effects[0][0] < synced_end:
            effects.popleft()[1]()

    def schedule(self, run: Run, data: memoryview, dues: NDArray[np.int64], received_at_ms: int) -> int:
        """Log a run's messages, scheduled once synced; the record's offset. Raises LimitReached, LogError."""
        placement, numbers = self.placer.prepare(run, data, dues, self.subjects.next_number(run.subject))
        head = encode_scheduled_head(run.subject, received_at_ms, dues.tolist(), numbers)
        try:
            offset = self.log.gather.append(RecordKind.SCHEDULED, head, data[run.begin : run.end])
        except LogError:
            placement.cancel()
            raise
        # Only now: members number subjects in the order of the log.
        subject = self.subjects.number(run.subject)
        self._effects.append((offset, partial(self._place, placement, offset, subject)))
        return offset

    def replay_scheduled(self, offset: int, record: Scheduled, run: Run) -> int:
        """Apply a SCHEDULED record in recovery; return how many of its messages were not in the schedule yet."""
        dues, subject = np.array(record.dues_ms, dtype=np.int64), self.subjects.number(record.subject)
        placement, _ = self.placer.prepare(run, record.entries, dues, subject, record.numbers)
        self._place(placement, offset, subject)
        return len(placement.dues_ms)

    def _place(self, placement: Placement, offset: int, subject: int) -> None:
        self.placer.place(placement, offset)
        self.subjects.placed = max(self.subjects.placed, subject + 1)
        count = len(placement.dues_ms)
        self.counters.scheduled += count
        self.pending += count

    def state(self, ref: int) -> State:
        """Return the state of a message of an open hour."""
        states = self.hours[hour_of(ref)].states
        assert states is not None
        return State(states[number_of(ref)])

    def act(self, kind: RecordKind, refs: Sequence[int], at_ms: int) -> int:
        """Claim, complete, cancel or hold messages of open hours; the record's offset. Answers wait until it is synced."""
        offset = -1
        for begin in range(0, len(refs), ACTION_REFS_MAX):
            part = refs[begin : begin + ACTION_REFS_MAX]
            by_hour = numbers_by_hour(part)
            held = {number: self._held(number, numbers) for number, numbers in by_hour.items()}
            marked = {ref_of(number, n) for number, numbers in held.items() for n in numbers}
            offset = self.log.gather.append(kind, encode_action(at_ms, part, marked))
            for number, numbers in by_hour.items():
                hour = self.hours[number]
                assert hour.states is not None
                for n in numbers:
                    hour.states[n] = kind
                hour.undecided += 1
                decision = Decision(hour, numbers, kind, at_ms, len(held[number]))
                self._effects.append((offset, partial(self._decided, decision)))
        return offset

    def _held(self, hour: int, numbers: Iterable[int]) -> list[int]:
        """Return those of an open hour's messages that are held."""
        states = self.hours[hour].states
        assert states is not None
        return [number for number in numbers if states[number] == State.REFUSED]

    def release(self, refs: Iterable[int]) -> None:
        """Make claimed messages that were certainly not delivered pending again. After a crash they count as claimed."""
        for ref in refs:
            states = self.hours[hour_of(ref)].states
            assert states is not None
            if states[number_of(ref)] == State.CLAIMED:
                states[number_of(ref)] = State.PENDING

    def move(self, ref: int, due_ms: int, entry: bytes, subject: int, at_ms: int) -> int:
        """Give a pending or held message another due time, as `entry`; the new ref. Raises LimitReached."""
        hour = self.hours.make(due_ms // HOUR_MS)
        if hour.schedule.next_number >= NUMBER_MAX:
            raise LimitReached(f"the hour of due time holds {NUMBER_MAX} messages, its limit")
        number = hour.schedule.next_number
        data = memoryview(entry)
        placement = self._moved(data, due_ms, subject)
        old = self.hours[hour_of(ref)]
        assert old.states is not None
        was_held = old.states[number_of(ref)] == State.REFUSED
        head = encode_moved_head(at_ms, ref, due_ms, number, was_held=was_held)
        try:
            offset = self.log.gather.append(RecordKind.MOVED, head, data)
        except LogError:
            placement.cancel()
            raise
        old.states[number_of(ref)] = State.MOVED
        old.moved[number_of(ref)] = hour.number
        old.undecided += 1
        decision = Decision(old, [number_of(ref)], RecordKind.MOVED, at_ms, int(was_held), hour.number)
        self._effects += (
            (offset, partial(self._decided, decision)),
            (offset, partial(self._place, placement, offset, subject)),
        )
        return ref_of(hour.number, number)

    def _moved(self, data: memoryview, due_ms: int, subject: int, given: Sequence[int] | None = None) -> Placement:
        run = Run("", 0, len(data), [CRC_BYTES])
        return self.placer.prepare(run, data, np.array([due_ms], dtype=np.int64), subject, given)[0]

    def replay_moved(self, offset: int, record: Moved, subject_name: str) -> None:
        hour, to_hour = self.hours.make(hour_of(record.ref)), record.due_ms // HOUR_MS
        numbers, held = [number_of(record.ref)], int(record.was_held)
        self._note(Decision(hour, numbers, RecordKind.MOVED, record.at_ms, held, to_hour))
        subject = self.subjects.number(subject_name)
        self._place(self._moved(record.entry, record.due_ms, subject, [record.number]), offset, subject)

    def replay_action(self, record: Action) -> None:
        held = numbers_by_hour(record.held)
        for number, numbers in numbers_by_hour(record.refs).items():
            hour = self.hours.make(number)
            self._note(Decision(hour, numbers, record.kind, record.at_ms, len(held.get(number, ()))))

    def end_hours(self, hours: Sequence[Hour], at_ms: int) -> int:
        """Forget complete hours that nothing uses, and have the next checkpoints remove their files; the record's offset.

        A message that comes for one of them later begins it again, at number 0. Raises LogError; they are as before.
        """
        offset = self.log.gather.append(RecordKind.ENDED, encode_ended(at_ms, [hour.number for hour in hours]))
        for hour in hours:
            self._forget(hour)
            self._effects.append((offset, partial(self.hours.ended.append, hour)))
        return offset

    def replay_ended(self, record: Ended) -> None:
        for number in record.hours:
            hour = self.hours.get(number)
            if hour is not None:
                self._forget(hour)
                self.pending -= hour.pending
                self.refused -= hour.refused
                self.hours.ended.append(hour)

    def _forget(self, hour: Hour) -> None:
        self.hours.forget(hour)
        self.counters.lost -= hour.lost
        self.bodies.forget(hour.number)

    def _decided(self, decision: Decision) -> None:
        """The record of a decision of an open hour is synced."""
        decision.hour.undecided -= 1
        self._note(decision)

    def _note(self, decision: Decision) -> None:
        """Update files and counters after a synced decision."""
        hour, numbers, kind, at_ms, held, to_hour = decision
        pending, refused = hour.pending, hour.refused
        hour.dispatch.append(numbers, kind, at_ms, to_hour)
        self.hours.unwritten_bytes += DISPATCH_BYTES * len(numbers)
        self.hours.dirty[hour] = None
        count = len(numbers)
        if State(kind) in GONE:
            hour.gone += count
        hour.refused += (count if kind is RecordKind.REFUSED else 0) - held
        self.pending += hour.pending - pending
        self.refused += hour.refused - refused
        self.counters.decided(kind, count)

"""What a delay node keeps: the message log, and per hour of due time the schedule and dispatch logs derived from it.

One thread (the event loop) calls everything here except where a docstring says otherwise. A decision about a message (it is
claimed, delivered, cancelled, moved) is taken in memory at once, so that exactly one wins; the files and counters follow
when its record is synced, in the order of the log, so that a replay leads to the same numbers.
"""

import asyncio
import logging
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from delay_node.hour import TAIL_IDS_MAX, Hour, IdIndex, Opened, read_hour, read_ids
from delay_node.records import (
    GONE,
    HOUR_MS,
    NUMBER_MAX,
    Action,
    Moved,
    RecordKind,
    Scheduled,
    State,
    encode_action,
    encode_moved_head,
    encode_scheduled_head,
    hour_of,
    number_of,
    ref_of,
)
from delay_node.schedule_log import INDEX, INDEX_BYTES, Entry, id_digests, lost_index, make_index
from delay_node.wheel import Wheel
from qmq.errors import LogError, QmqError
from qmq.log.disk import Disk
from qmq.log.index import HandleCache
from qmq.log.log import SegmentedLog
from qmq.log.record import Position
from qmq.log.recovery import Damage
from qmq.protocol.scan import CRC_BYTES, Run

logger = logging.getLogger("qmq.delay.store")

SUBJECTS_MAX = 200_000
"""Subjects that a node tells apart; a further one is refused."""
OPEN_FAR_ENTRIES_MAX = 4_000_000
"""Messages of far hours whose states and ids are in memory. Hours that no query uses are closed, the longest unused first; when
those in use are too many, queries wait their turn. A larger hour is opened alone."""
READ_BYTES_MAX = 8 << 20
"""Bodies of one read; what is left over is read by the next."""
DAMAGED_MAX = 100_000
"""Damaged messages remembered, so that each is counted once. Beyond it no more are counted."""
UNBOUNDED = 1 << 62
ACTION_REFS_MAX = 10_000
"""Messages of one action's record."""


class LimitReached(QmqError):
    """A named limit of the node; the message says which and its value."""

    code = "delay.limit_reached"


@dataclass(slots=True)
class StoreCounters:
    """Counts since start, for metrics."""

    scheduled: int = 0
    scheduled_bytes: int = 0
    claimed: int = 0
    delivered: int = 0
    cancelled: int = 0
    moved: int = 0
    refused: int = 0
    lost: int = 0
    unreadable: int = 0
    damaged_dispatch_entries: int = 0


@dataclass(slots=True)
class Placement:
    """A record's messages sorted by hour, ready to go there once synced. Hour i gets messages [firsts[i], ends[i])."""

    hours: list[Hour]
    firsts: list[int]
    ends: list[int]
    numbers: list[int]
    """First number in each hour."""
    index: bytes
    slices: list[memoryview]
    """The entries, one slice a message; of a single hour, neighbours as one."""
    dues_ms: list[int]
    ids: NDArray[np.uint32]
    data_bytes: int


Effect = Callable[[], None]


@dataclass(slots=True)
class DelayStore:
    """Hours over one log. Made by `delay_node.recovery.open_store`."""

    disk: Disk
    root: str
    handles: HandleCache
    log: SegmentedLog = field(init=False)
    hours: dict[int, Hour] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    """Refs of messages whose stored bytes failed their checks since start, in hours that are still there."""
    subject_names: list[str] = field(default_factory=list)
    subject_numbers: dict[str, int] = field(default_factory=dict)
    wheel: Wheel = field(default_factory=Wheel)
    counters: StoreCounters = field(default_factory=StoreCounters)
    dirty: dict[Hour, None] = field(default_factory=dict)
    """Hours with something that no checkpoint holds."""
    finished: set[int] = field(default_factory=set)
    """Hours whose files may go; the job `hour_closing` finds them, the next checkpoint leaves them out and removes them."""
    known_damage: list[Damage] = field(default_factory=list)
    known_tails: dict[int, Position] = field(default_factory=dict)
    unwritten_bytes: int = 0
    """Bytes of schedule and dispatch logs in memory only; about."""
    on_near: Callable[[int], None] | None = None
    """Told the due time of a message that was added to the wheel."""
    near_before_ms: int = 0
    """Hours that begin before this belong into the wheel."""
    order: list[int] = field(default_factory=list)
    """Numbers of the hours, ascending: what is near or past is found without looking at years of hours."""
    pending: int = 0
    """Messages waiting for delivery, over all hours."""
    refused: int = 0
    """Messages put aside because the brokers refuse them."""
    _effects: deque[tuple[int, Effect]] = field(default_factory=deque)
    _open_far: "OrderedDict[int, Hour]" = field(default_factory=OrderedDict)
    _hold_queue: "deque[tuple[Hour, asyncio.Future[None]]]" = field(default_factory=deque)
    """Those who wait in `held`, in the order of arrival."""
    readers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(max_workers=2, thread_name_prefix="delay-read")
    )
    scanners: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(max_workers=1, thread_name_prefix="delay-scan")
    )
    """Questions read whole hours here, apart from `loaders`: delivery waits for those."""
    loaders: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(max_workers=1, thread_name_prefix="delay-load")
    )

    # --- writing ---------------------------------------------------------------------------------------------------

    def hour(self, number: int) -> Hour:
        """The hour, made when new. One that is about to be dropped stays."""
        hour = self.hours.get(number)
        if hour is None:
            hour = self.hours[number] = Hour(self.handles, self.root, number)
            insort(self.order, number)
        self.finished.discard(number)
        return hour

    def forget(self, hour: Hour) -> None:
        """An hour is finished, and its files are about to go."""
        del self.hours[hour.number]
        self.order.remove(hour.number)
        self.finished.discard(hour.number)
        self.dirty.pop(hour, None)
        self.damaged = {ref for ref in self.damaged if hour_of(ref) != hour.number}
        hour.close()

    def recount(self) -> None:
        """Take the totals from the hours' counters; at the end of recovery."""
        self.order = sorted(self.hours)
        self.pending = sum(hour.pending for hour in self.hours.values())
        self.refused = sum(hour.refused for hour in self.hours.values())

    def hours_before(self, moment_ms: int) -> list[Hour]:
        """Hours that begin before a time, oldest first."""
        return [self.hours[number] for number in self.order[: bisect_left(self.order, -(-moment_ms // HOUR_MS))]]

    def subject(self, name: str) -> int:
        """The number of a subject on this node, given when new.

        Raises:
            LimitReached: the node tells SUBJECTS_MAX subjects apart already.
        """
        number = self.subject_numbers.get(name)
        if number is None:
            if len(self.subject_names) >= SUBJECTS_MAX:
                raise LimitReached(f"this delay node holds {SUBJECTS_MAX} subjects, its limit")
            number = self.subject_numbers[name] = len(self.subject_names)
            self.subject_names.append(name)
        return number

    def schedule(self, run: Run, data: memoryview, dues: NDArray[np.int64], received_at_ms: int) -> int:
        """Add a run's messages to the log; they are scheduled when synced. Their record's offset.

        Raises:
            LimitReached: too many subjects, or too many messages in one hour.
            LogError: the log has failed.
        """
        begins = np.array(run.raw_begins, dtype=np.int64)
        sizes = np.array(run.raw_sizes(), dtype=np.int64) + CRC_BYTES
        placement, numbers = self._sort(data, begins, sizes, dues, self.subject(run.subject), None)
        head = encode_scheduled_head(run.subject, received_at_ms, dues.tolist(), numbers)
        try:
            offset = self.log.append(RecordKind.SCHEDULED, head, data[run.begin : run.end])
        except LogError:
            _give_back(placement)
            raise
        self._effects.append((offset, lambda: self._place(placement)))
        return offset

    def replay_scheduled(self, record: Scheduled, begins: list[int], sizes: list[int]) -> int:
        """A SCHEDULED record met in recovery; how many of its messages were not in the schedule yet."""
        dues = np.array(record.dues_ms, dtype=np.int64)
        raw_begins, raw_sizes = np.array(begins, dtype=np.int64), np.array(sizes, dtype=np.int64) + CRC_BYTES
        subject = self.subject(record.subject)
        placement, _ = self._sort(record.entries, raw_begins, raw_sizes, dues, subject, record.numbers)
        self._place(placement)
        return len(placement.dues_ms)

    def _sort(
        self,
        data: memoryview,
        begins: NDArray[np.int64],
        sizes: NDArray[np.int64],
        dues: NDArray[np.int64],
        subject: int,
        given: Sequence[int] | None,
    ) -> tuple[Placement, list[int]]:
        """Sort a record's messages by hour. Numbers are those `given` (replay), or the next of each hour.

        Cost: some twenty numpy calls a record, one CRC a message, and a handful of steps for each hour in it.
        """
        ids = id_digests(data, begins)
        hours = dues // HOUR_MS
        order = np.argsort(hours, kind="stable") if (hours != hours[0]).any() else np.arange(len(hours))
        numbers = np.empty(len(hours), dtype=np.int64)
        if given is not None:
            order, numbers = self._unknown(order, hours, np.array(given, dtype=np.int64))
            if not len(order):
                return Placement([], [], [], [], b"", [], [], ids[:0], 0), []
        begins, sizes, dues, ids, hours = begins[order], sizes[order], dues[order], ids[order], hours[order]
        firsts = np.concatenate(([0], np.flatnonzero(np.diff(hours)) + 1))
        counts = np.diff(firsts, append=len(hours))
        known = self.hours
        targets = [known.get(number) or self.hour(number) for number in hours[firsts].tolist()]
        if self.finished:
            self.finished.difference_update(hour.number for hour in targets)
        schedules = [hour.schedule for hour in targets]
        if given is None:
            next_numbers = np.array([schedule.next_number for schedule in schedules])
            if (next_numbers + counts > NUMBER_MAX).any():
                raise LimitReached(f"the hour of due time holds {NUMBER_MAX} messages, its limit")
            numbers[order] = np.arange(len(hours)) + np.repeat(next_numbers - firsts, counts)
        else:
            next_numbers = numbers[order][firsts]
            for hour, number in zip(targets, next_numbers.tolist(), strict=True):
                self._fill(hour, number)
        ends = np.cumsum(sizes)
        bases = np.array([schedule.next_place for schedule in schedules]) - (ends - sizes)[firsts]
        index = make_index(ends - sizes + np.repeat(bases, counts), dues, sizes, ids, subject).tobytes()
        cut = _neighbours if len(targets) == 1 else _each
        stops = firsts + counts
        next_places = bases + ends[stops - 1]
        for schedule, number, place in zip(
            schedules, (next_numbers + counts).tolist(), next_places.tolist(), strict=True
        ):
            schedule.next_number = number
            schedule.next_place = place
        placement = Placement(
            targets, firsts.tolist(), stops.tolist(), next_numbers.tolist(), index,
            cut(data, begins - CRC_BYTES, sizes), dues.tolist(), ids, int(ends[-1]),
        )  # fmt: skip
        return placement, numbers.tolist()

    def _unknown(
        self, order: NDArray[np.int64], hours: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """In replay: without the messages that their hours hold already, as after a salvage."""
        known = {n: self.hour(n).schedule.next_number for n in set(hours.tolist())}
        have = np.array([known[n] for n in hours.tolist()])
        return order[numbers[order] >= have[order]], numbers

    def _fill(self, hour: Hour, number: int) -> None:
        """In replay: numbers that damage of the log took stand empty, so that the others keep theirs."""
        missing = number - hour.schedule.next_number
        if missing <= 0:
            return
        logger.error("hour %d: %d messages from number %d on are lost to damage of the log", hour.number, missing,
                     hour.schedule.next_number)  # fmt: skip
        hour.schedule.append(lost_index(missing), b"", hour.schedule.count)
        hour.schedule.next_number = number
        self.dirty[hour] = None

    def _place(self, placement: Placement) -> None:
        """A synced record's messages go to their hours, near ones to the wheel."""
        index, slices, near_before = placement.index, placement.slices, self.near_before_ms // HOUR_MS
        is_one = len(placement.hours) == 1
        groups = zip(placement.hours, placement.firsts, placement.ends, placement.numbers, strict=True)
        for hour, first, end, number in groups:
            data = (
                slices[first] if end == first + 1 and not is_one else b"".join(slices if is_one else slices[first:end])
            )
            hour.schedule.append(index[first * INDEX_BYTES : end * INDEX_BYTES], data, number)
            if hour.number <= near_before or hour.states is not None or hour.ids is not None:
                self._place_near(hour, placement.dues_ms[first:end], placement.ids[first:end], number)
        self.dirty.update(dict.fromkeys(placement.hours))
        self.counters.scheduled += len(placement.dues_ms)
        self.pending += len(placement.dues_ms)
        self.counters.scheduled_bytes += placement.data_bytes
        self.unwritten_bytes += placement.data_bytes + len(index)

    def _place_near(self, hour: Hour, dues_ms: list[int], ids: NDArray[np.uint32], number: int) -> None:
        """Messages that were just placed in an hour of which more is in memory than counters."""
        if hour.begin_ms < self.near_before_ms and not hour.is_near:
            self._come_near(hour, len(dues_ms))
        if hour.states is not None:
            hour.states += bytes(len(dues_ms))
        if hour.ids is not None:
            hour.ids.tail.extend(ids.tolist())
        if hour.is_near:
            add = self.wheel.add
            for due_ms in dues_ms:
                add(due_ms, number)
                number += 1
            if self.on_near is not None:
                self.on_near(min(dues_ms))

    def _come_near(self, hour: Hour, just_added: int) -> None:
        """A message fell into a near hour that is not in the wheel. A new hour simply begins there; an older one is loaded."""
        if hour.schedule.count == just_added:
            hour.is_near = True
            if hour.states is None:
                hour.states = bytearray()

    # --- decisions -------------------------------------------------------------------------------------------------

    def state(self, ref: int) -> State:
        """What became of a message of an open hour."""
        states = self.hours[hour_of(ref)].states
        assert states is not None
        return State(states[number_of(ref)])

    def act(self, kind: RecordKind, refs: Sequence[int], at_ms: int) -> int:
        """Note that messages of open hours were claimed, delivered, cancelled or refused; the record's offset.

        From here on nothing else can happen to delivered and cancelled ones. Answers wait until the record is synced.
        """
        offset = -1
        for begin in range(0, len(refs), ACTION_REFS_MAX):
            part = refs[begin : begin + ACTION_REFS_MAX]
            offset = self.log.append(kind, encode_action(at_ms, part))
            by_hour: dict[int, list[int]] = {}
            for ref in part:
                by_hour.setdefault(hour_of(ref), []).append(number_of(ref))
            for number, numbers in by_hour.items():
                states = self.hours[number].states
                assert states is not None
                was_refused = 0
                for n in numbers:
                    was_refused += states[n] == State.REFUSED
                    states[n] = kind
                self._later(offset, self.hours[number], numbers, kind, at_ms, was_refused)
        return offset

    def _later(
        self, offset: int, hour: Hour, numbers: list[int], kind: RecordKind, at_ms: int, was_refused: int
    ) -> None:
        def effect() -> None:
            hour.undecided -= 1
            self._note(hour, numbers, kind, at_ms, was_refused)

        hour.undecided += 1
        self._effects.append((offset, effect))

    def release(self, refs: Iterable[int]) -> None:
        """Claimed messages that were definitely not delivered are pending again.

        Not in the log: after a crash they count as claimed, that is as perhaps delivered, which is the safe side.
        """
        for ref in refs:
            states = self.hours[hour_of(ref)].states
            assert states is not None
            if states[number_of(ref)] == State.CLAIMED:
                states[number_of(ref)] = State.PENDING

    def move(self, ref: int, due_ms: int, entry: bytes, subject: int, at_ms: int) -> tuple[int, int]:
        """A pending or refused message goes to another due time as `entry`; (its new ref, the record's offset).

        Raises:
            LimitReached: the hour is full.
        """
        hour = self.hour(due_ms // HOUR_MS)
        if hour.schedule.next_number >= NUMBER_MAX:
            raise LimitReached(f"the hour of due time holds {NUMBER_MAX} messages, its limit")
        number = hour.schedule.next_number
        data = memoryview(entry)
        placement = self._moved(data, due_ms, subject, None)
        try:
            offset = self.log.append(RecordKind.MOVED, encode_moved_head(at_ms, ref, due_ms, number), data)
        except LogError:
            _give_back(placement)
            raise
        old = self.hours[hour_of(ref)]
        assert old.states is not None
        was_refused = int(old.states[number_of(ref)] == State.REFUSED)
        old.states[number_of(ref)] = State.MOVED
        old.moved[number_of(ref)] = hour.number
        old.undecided += 1

        def effect() -> None:
            old.undecided -= 1
            self._note(old, [number_of(ref)], RecordKind.MOVED, at_ms, was_refused, hour.number)
            self._place(placement)

        self._effects.append((offset, effect))
        return ref_of(hour.number, number), offset

    def _moved(self, data: memoryview, due_ms: int, subject: int, given: Sequence[int] | None) -> Placement:
        begins, sizes = np.array([CRC_BYTES]), np.array([len(data)])
        return self._sort(data, begins, sizes, np.array([due_ms], dtype=np.int64), subject, given)[0]

    def replay_moved(self, record: Moved, subject_name: str) -> None:
        """A MOVED record met in recovery."""
        self._note(self.hour(hour_of(record.ref)), [number_of(record.ref)], RecordKind.MOVED, record.at_ms, 0,
                   record.due_ms // HOUR_MS)  # fmt: skip
        self._place(self._moved(record.entry, record.due_ms, self.subject(subject_name), [record.number]))

    def replay_action(self, record: Action) -> None:
        """An action met in recovery."""
        by_hour: dict[int, list[int]] = {}
        for ref in record.refs:
            by_hour.setdefault(hour_of(ref), []).append(number_of(ref))
        for number, numbers in by_hour.items():
            self._note(self.hour(number), numbers, record.kind, record.at_ms, 0)

    def _note(
        self, hour: Hour, numbers: list[int], kind: RecordKind, at_ms: int, was_refused: int, to_hour: int = 0
    ) -> None:
        """The files and counters follow a synced decision."""
        hour.dispatch.append(numbers, kind, at_ms, to_hour)
        self.unwritten_bytes += 24 * len(numbers)
        self.dirty[hour] = None
        counters, count = self.counters, len(numbers)
        if State(kind) in GONE:
            hour.gone += count
            self.pending -= count - was_refused
        hour.refused -= was_refused
        self.refused -= was_refused
        match kind:
            case RecordKind.CLAIMED:
                counters.claimed += count
            case RecordKind.DELIVERED:
                counters.delivered += count
            case RecordKind.CANCELLED:
                counters.cancelled += count
            case RecordKind.MOVED:
                counters.moved += count
            case RecordKind.REFUSED:
                counters.refused += count
                hour.refused += count
                self.refused += count
                self.pending -= count

    @property
    def undecided_offset(self) -> int:
        """Log offset of the last record whose effects have not followed yet, because it is not synced; -1: none."""
        return self._effects[-1][0] if self._effects else -1

    def completed(self, synced_end: int) -> None:
        """Everything below `synced_end` is on disk: let its effects follow."""
        effects = self._effects
        while effects and effects[0][0] < synced_end:
            effects.popleft()[1]()

    # --- hours in memory -------------------------------------------------------------------------------------------

    def to_load(self, before_ms: int) -> list[Hour]:
        """Hours with waiting messages that begin before a time and are not in the wheel, oldest first."""
        return [hour for hour in self.hours_before(before_ms) if not hour.is_near and hour.pending > 0]

    async def load(self, hour: Hour) -> None:
        """Bring an hour's waiting messages into the wheel.

        Raises:
            LogError: the disk could not give them; the hour is as it was.
        """
        while hour.opening is not None:
            await asyncio.shield(hour.opening)
        if hour.is_near:
            return
        hour.is_near = True
        self._open_far.pop(hour.number, None)
        try:
            opened = await self._open(hour, for_wheel=True)
        except BaseException:
            hour.is_near = False
            raise
        for second, keys in opened.seconds:
            self.wheel.add_second(second, keys)
        if self.on_near is not None and opened.seconds:
            self.on_near(opened.seconds[0][0] * 1000)

    @asynccontextmanager
    async def held(self, number: int) -> AsyncIterator[Hour | None]:
        """Have the states of an hour's messages in memory until the end of the `with` block; None: there is no such hour.

        A task holds one hour at a time, so each one that waits for memory (OPEN_FAR_ENTRIES_MAX) gets it.

        Raises:
            LogError: the disk could not give them.
        """
        hour = self.hours.get(number)
        if hour is None:
            yield None
            return
        if self._hold_queue or not self._may_hold(hour):
            slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._hold_queue.append((hour, slot))
            try:
                await slot
            except asyncio.CancelledError:
                if not slot.cancelled():
                    self._let_go(hour)
                raise
        else:
            self._hold(hour)
        try:
            if self.hours.get(number) is not hour:
                # Its files were removed while this waited.
                yield None
                return
            while not hour.is_open:
                if hour.opening is not None:
                    await asyncio.shield(hour.opening)
                    continue
                await self._open(hour, for_wheel=False)
            yield hour
        finally:
            self._let_go(hour)

    def _may_hold(self, hour: Hour) -> bool:
        """Whether there is memory for one more held hour. One that is larger than the limit is held alone."""
        if hour.is_near or hour.holders:
            return True
        in_use = [other.schedule.count for other in self._open_far.values() if other.holders]
        return not in_use or sum(in_use) + hour.schedule.count <= OPEN_FAR_ENTRIES_MAX

    def _hold(self, hour: Hour) -> None:
        hour.holders += 1
        if not hour.is_near:
            self._open_far[hour.number] = hour
            self._open_far.move_to_end(hour.number)
            self._close_unused()

    def _let_go(self, hour: Hour) -> None:
        """One holder less: admit those who wait for the memory, in order."""
        hour.holders -= 1
        while self._hold_queue:
            waiting, slot = self._hold_queue[0]
            if not slot.done():
                if not self._may_hold(waiting):
                    break
                self._hold(waiting)
                slot.set_result(None)
            self._hold_queue.popleft()
        self._close_unused()

    async def _open(self, hour: Hour, *, for_wheel: bool) -> Opened:
        loop = asyncio.get_running_loop()
        hour.opening = loop.create_future()
        known = hour.states
        count, dispatch_count = hour.schedule.count, hour.dispatch.count
        if known is None:
            hour.states = bytearray(count)
        try:
            work = loop.run_in_executor(
                self.loaders if for_wheel else self.scanners,
                lambda: read_hour(hour, count, dispatch_count, for_wheel=for_wheel),
            )
            opened = await work
        except BaseException:
            if known is None:
                hour.states = None
            raise
        finally:
            opening, hour.opening = hour.opening, None
            opening.set_result(None)
        assert hour.states is not None
        if known is None:
            hour.states[:count] = opened.states
            hour.moved = opened.moved | hour.moved
        if opened.lost > hour.lost:
            self.counters.lost += opened.lost - hour.lost
            self.pending -= opened.lost - hour.lost
            hour.lost = opened.lost
            logger.error("hour %d: %d schedule entries fail their check; their messages can't be found", hour.number,
                         opened.lost)  # fmt: skip
        if opened.damaged:
            self.counters.damaged_dispatch_entries += opened.damaged
            logger.error("hour %d: %d dispatch entries fail their check; what they tell of may be delivered again",
                         hour.number, opened.damaged)  # fmt: skip
        return opened

    def _close_unused(self) -> None:
        """Close hours that nothing needs, the longest unused first, until the rest keeps to OPEN_FAR_ENTRIES_MAX."""
        total = sum(hour.schedule.count for hour in self._open_far.values())
        if total <= OPEN_FAR_ENTRIES_MAX:
            return
        *older, _ = self._open_far.values()
        for hour in older:
            if hour.is_closable:
                del self._open_far[hour.number]
                hour.close()
                total -= hour.schedule.count
                if total <= OPEN_FAR_ENTRIES_MAX:
                    return

    async def ids(self, hour: Hour) -> IdIndex:
        """The id index of an hour that is held, made when it is not there. Raises LogError."""
        while hour.ids is None or len(hour.ids.tail) > TAIL_IDS_MAX:
            if hour.ids_making is not None:
                await asyncio.shield(hour.ids_making)
                continue
            loop = asyncio.get_running_loop()
            hour.ids_making = loop.create_future()
            try:
                count = hour.schedule.count
                made = await loop.run_in_executor(self.scanners, read_ids, hour, count)
                # What came meanwhile is only in the index file, or in memory on its way there.
                late = hour.schedule.read_index(count, hour.schedule.count)["id"]
                made.tail.extend(late.tolist())
                hour.ids = made
            finally:
                making, hour.ids_making = hour.ids_making, None
                making.set_result(None)
        return hour.ids

    async def read(self, refs: Sequence[int], bytes_max: int = READ_BYTES_MAX) -> list[Entry]:
        """As `read_now`, in a thread; damage is recorded."""
        loop = asyncio.get_running_loop()
        entries = await loop.run_in_executor(self.readers, self.read_now, refs, bytes_max)
        # A damaged index entry (no due time) is counted as lost when its hour is opened.
        self.found_damage(e.ref for e in entries if e.data is None and not e.is_unread and e.due_ms >= 0)
        return entries

    def found_damage(self, refs: Iterable[int]) -> None:
        """Record messages whose stored bytes fail their checks; each is counted and logged once."""
        new: dict[int, list[int]] = {}
        for ref in refs:
            if ref not in self.damaged and len(self.damaged) < DAMAGED_MAX and hour_of(ref) in self.hours:
                self.damaged.add(ref)
                new.setdefault(hour_of(ref), []).append(number_of(ref))
        for hour, numbers in new.items():
            self.counters.unreadable += len(numbers)
            logger.error("hour %d: %d messages between numbers %d and %d fail their checks and can't be delivered", hour,
                         len(numbers), min(numbers), max(numbers))  # fmt: skip

    def read_now(self, refs: Sequence[int], bytes_max: int = READ_BYTES_MAX) -> list[Entry]:
        """Messages by ref; from any thread. Unreadable ones come back without data.

        Bodies are read up to `bytes_max` in all, at least one unless it is 0; the rest comes back marked `is_unread`.

        Raises:
            LogError: the disk could not give them.
        """
        found: list[Entry] = []
        left, has_read = bytes_max, False
        for ref in refs:
            hour = self.hours.get(hour_of(ref))
            if hour is None:
                found.append(Entry(ref, -1, -1, None))
                continue
            room = left if has_read or not bytes_max else UNBOUNDED
            entry = hour.schedule.read_entry(hour.number, number_of(ref), room)
            if entry.data is not None:
                left, has_read = max(0, left - len(entry.data)), True
            elif entry.is_unread:
                left = 0  # nothing behind it either: messages stay in their order
            found.append(entry)
        return found

    def subject_name(self, number: int) -> str:
        """The name behind a number in an index entry."""
        return self.subject_names[number] if 0 <= number < len(self.subject_names) else ""

    def close(self) -> None:
        """End the reading threads."""
        self.readers.shutdown(wait=True, cancel_futures=True)
        self.scanners.shutdown(wait=True, cancel_futures=True)
        self.loaders.shutdown(wait=True, cancel_futures=True)


def _give_back(placement: Placement) -> None:
    """A record that the log refused: its numbers and places are free again."""
    sizes = np.frombuffer(placement.index, dtype=INDEX)["size"]
    for i, hour in enumerate(placement.hours):
        hour.schedule.next_number = placement.numbers[i]
        hour.schedule.next_place -= int(sizes[placement.firsts[i] : placement.ends[i]].sum())


def _each(data: memoryview, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[memoryview]:
    """The entries' bytes, one slice a message."""
    ends = (begins + sizes).tolist()
    return [data[begin:end] for begin, end in zip(begins.tolist(), ends, strict=True)]


def _neighbours(data: memoryview, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[memoryview]:
    """The entries' bytes, neighbours as one slice."""
    ends = begins + sizes
    breaks = np.flatnonzero(begins[1:] != ends[:-1]) + 1
    firsts = [0, *breaks.tolist()]
    lasts = [*(breaks - 1).tolist(), len(begins) - 1]
    first_places, last_places = begins[firsts].tolist(), ends[lasts].tolist()
    return [data[begin:end] for begin, end in zip(first_places, last_places, strict=True)]

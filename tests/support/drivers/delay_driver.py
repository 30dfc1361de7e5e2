"""A delay store driven step by step without an event loop, with an oracle that knows what was promised.

`check` opens the store again from what a crash left and holds it to C1 (nothing acked lost), C2 (nothing there that was never
sent), C3 (content), C8 (cancelled and delivered ones stay so, a moved one lives once, at its new time).
"""

import functools
import random
from dataclasses import dataclass, field

import numpy as np

from delay_node.checkpoint import DelayCheckpoints
from delay_node.hour import Hour
from delay_node.hour_reader import read_hour
from delay_node.records import HOUR_MS, RecordKind, State, ref_of
from delay_node.recovery import open_store
from delay_node.schedule_log import message_id_of
from delay_node.store import DelayStore
from delay_node.wheel import Wheel
from qmq.protocol.messages import FLAG_DELAY, KEY_CREATED, KEY_SCHEDULE, Message, decode_raw, encode_entry, redate_entry
from qmq.protocol.scan import CRC_BYTES, BatchScanner
from qmq_node.log.handles import HandleCache
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.logs import drop_before
from tests.support.drivers.store_driver import content_of
from tests.support.promises import Check, judging

ROOT = "data"
BEGIN_MS = 472_222 * HOUR_MS
HOURS = 5
SUBJECTS = ("orders", "mail", "bills")


# The states after the crashes of a scenario have most messages in common.
@functools.lru_cache(maxsize=4096)
def whole_message(data: bytes) -> Message:
    """A stored message, whose content must be the one that the driver sent under its id."""
    message = decode_raw(data, CRC_BYTES)[0]
    assert set(message.properties["data"].split("/")) == {message.message_id, ""}, "torn content"
    assert message_id_of(data) == message.message_id
    return message


@dataclass
class Copy:
    """One scheduled message as the driver knows it: what was decided, and what of that was promised."""

    message_id: str
    due_ms: int
    ref: int = -1
    is_promised: bool = False
    decided: State = State.PENDING
    promised: State = State.PENDING
    decisions: list[State] = field(default_factory=list)
    """Since the last promise, in order: each may be the last that reached the disk."""


class DelayDriver:
    """Random sends, claims, deliveries, cancels, moves and checkpoints; what a commit completed is promised."""

    def __init__(self, disk: MemoryDisk, seed: int, *, segment_bytes: int = 32 * 1024) -> None:
        self.disk = disk
        self.rng = random.Random(seed)
        self.segment_bytes = segment_bytes
        self.copies: list[Copy] = []
        self.by_ref: dict[int, Copy] = {}
        self.ended: dict[int, list[Copy]] = {}
        """Those of hours that ended, by ref: they are there as long as the record of the end is not."""
        self._number = 0
        self.store = self._open(disk)
        self.checkpoints = DelayCheckpoints(self.store)

    def _open(self, disk: MemoryDisk) -> DelayStore:
        return open_store(disk, ROOT, segment_bytes=self.segment_bytes, handles=HandleCache(disk))[0]

    def run(self, steps: int) -> None:
        """Do random steps; a SimulatedCrash or OSError comes through."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """One random thing."""
        choice = self.rng.random()
        if choice < 0.4:
            self.send(self.rng.choice(SUBJECTS), self.rng.randint(1, 6))
        elif choice < 0.55:
            self.decide(RecordKind.CLAIMED, State.PENDING)
        elif choice < 0.65:
            self.decide(RecordKind.DELIVERED, State.CLAIMED)
        elif choice < 0.73:
            self.decide(RecordKind.CANCELLED, State.PENDING)
        elif choice < 0.76:
            self.decide(RecordKind.REFUSED, State.CLAIMED)
        elif choice < 0.82:
            self.move()
        elif choice < 0.84:
            self.end_hour()
        elif choice < 0.96:
            self.commit()
        else:
            self.commit()
            self.checkpoint()

    def due(self) -> int:
        return BEGIN_MS + self.rng.randrange(HOURS * HOUR_MS)

    def send(self, subject: str, count: int) -> None:
        """Append a batch; promised at the next commit."""
        made = []
        entries = []
        for _ in range(count):
            copy = Copy(f"m{self._number}", self.due())
            self._number += 1
            made.append(copy)
            properties = {
                KEY_CREATED: "1700000000000",
                KEY_SCHEDULE: str(copy.due_ms),
                "data": content_of(copy.message_id, self.rng.randint(0, 400)),
            }
            message = Message(subject, copy.message_id, properties, (), FLAG_DELAY, 1_700_000_000_000, copy.due_ms)
            entries.append(encode_entry(message))
        body = memoryview(b"".join(entries))
        (run,), _ = BatchScanner().scan(bytes(body))
        self.copies += made
        for copy in made:
            hour = self.store.hours.make(copy.due_ms // HOUR_MS)
            taken = sum(1 for c in made if c.ref >= 0 and c.due_ms // HOUR_MS == hour.number)
            copy.ref = ref_of(hour.number, hour.schedule.next_number + taken)
            self.by_ref[copy.ref] = copy
        self.store.schedule(run, body, np.array([copy.due_ms for copy in made]), 1_700_000_000_000)

    def _open_hour(self, hour: Hour) -> None:
        if hour.states is None:
            hour.states = run_to_end(read_hour(hour, hour.schedule.count, hour.dispatch.count, for_wheel=False)).states

    def _some(self, state: State) -> list[Copy]:
        """A few promised messages in a state."""
        there = [c for c in self.copies if c.is_promised and c.decided is state]
        return self.rng.sample(there, min(len(there), self.rng.randint(1, 4)))

    def decide(self, kind: RecordKind, state: State) -> None:
        """Claim, deliver, cancel or refuse a few."""
        chosen = self._some(state)
        if chosen:
            self._decide(kind, chosen)

    def _decide(self, kind: RecordKind, chosen: list[Copy]) -> None:
        for copy in chosen:
            self._open_hour(self.store.hours[copy.ref >> 32])
            assert self.store.state(copy.ref) is copy.decided
            copy.decided = State(kind)
            copy.decisions.append(copy.decided)
        self.store.act(kind, [copy.ref for copy in chosen], 1_700_000_000_000)

    def move(self) -> None:
        """Give one another due time."""
        for copy in self._some(State.PENDING)[:1]:
            self._open_hour(self.store.hours[copy.ref >> 32])
            (entry,) = self.store.bodies.read_now([copy.ref])
            assert entry.data is not None
            due_ms = self.due()
            copy.decided = State.MOVED
            copy.decisions.append(copy.decided)
            fresh = Copy(copy.message_id, due_ms)
            fresh.ref = self.store.move(
                copy.ref, due_ms, redate_entry(entry.data, due_ms), entry.subject, 1_700_000_000_000
            )
            self.copies.append(fresh)
            self.by_ref[fresh.ref] = fresh

    def end_hour(self) -> None:
        """Deliver all messages of an hour, and end it. It may be used again."""
        self.commit()
        if not self.store.hours:
            return
        hour = self.store.hours[self.rng.choice(self.store.hours.order)]
        mine = [copy for copy in self.copies if copy.ref >> 32 == hour.number]
        for kind in (RecordKind.CLAIMED, RecordKind.DELIVERED):
            left = [copy for copy in mine if copy.decided in (State.PENDING, State.REFUSED, State.CLAIMED)]
            if left:
                self._decide(kind, left)
        self.commit()
        if not hour.is_complete:
            return
        self.store.end_hours([hour], 1_700_000_000_000)
        for copy in mine:
            self.copies.remove(copy)
            del self.by_ref[copy.ref]
            self.ended.setdefault(copy.ref, []).append(copy)

    def commit(self) -> None:
        """Write what is pending; then it is promised, and the totals are those of the hours."""
        log = self.store.log
        while (commit := log.gather.take()) is not None:
            log.writer.write(commit)
            log.complete(commit)
            self.store.synced(log.high_watermark)
        assert self.store.pending == sum(hour.pending for hour in self.store.hours.values())
        assert self.store.refused == sum(hour.refused for hour in self.store.hours.values())
        for copy in self.copies:
            copy.is_promised = True
            copy.promised = copy.decided
            copy.decisions.clear()
        if self.rng.random() < 0.3 and (seal := log.gather.seal_idle()) is not None:
            log.writer.write(seal, sync=False)
            log.complete(seal)

    def checkpoint(self) -> None:
        """Make a checkpoint, and let the log's old segments go."""
        steps = self.checkpoints.draft()
        next(steps)
        if self.rng.random() < 0.5:
            # The event loop serves between the state and the slices that set its files aside.
            self.send(self.rng.choice(SUBJECTS), self.rng.randint(1, 6))
            self.decide(RecordKind.CLAIMED, State.PENDING)
            self.commit()
        draft = run_to_end(steps)
        self.checkpoints.save(draft)
        self.checkpoints.saved(draft)
        drop_before(self.store.log, getattr(self, "_floor", 0))
        self._floor = draft.position.offset

    def restart(self) -> None:
        """Continue as the next process after kill -9: what was written is there, and no more durable than it was.

        What was not promised may be there or not; from here on it is as the new process found it.
        """
        self.disk.crash_at = None
        self.store = self._open(self.disk)
        self.checkpoints = DelayCheckpoints(self.store)
        self._floor = 0
        found: dict[int, State] = {}
        for hour in self.store.hours.values():
            opened = run_to_end(read_hour(hour, hour.schedule.count, hour.dispatch.count, for_wheel=False))
            found |= {ref_of(hour.number, number): State(state) for number, state in enumerate(opened.states)}
        self.copies = [copy for copy in self.copies if copy.is_promised or self._is_there(copy, found)]
        self.by_ref = {copy.ref: copy for copy in self.copies}
        for copy in self.copies:
            with judging(Check.KEPT):
                assert copy.ref in found, f"{copy.message_id}: acknowledged and lost by a kill"
            copy.decided = found[copy.ref]
            self._check_state(copy, copy.decided)
            copy.decisions = [copy.decided]

    def _is_there(self, copy: Copy, found: dict[int, State]) -> bool:
        if copy.ref not in found:
            return False
        (entry,) = self.store.bodies.read_now([copy.ref])
        return entry.data is not None and message_id_of(entry.data) == copy.message_id

    # --- judging ---------------------------------------------------------------------------------------------------

    def check(self, disk: MemoryDisk) -> DelayStore:
        """Open what a crash left, and hold it to everything promised."""
        store = self._open(disk)
        with judging(Check.KEPT):
            assert not store.log.stored.damaged, store.log.stored.damaged
        found: dict[int, tuple[str, int, State]] = {}
        wheel = Wheel()
        for hour in store.hours.values():
            self._read(store, hour, found, wheel)
        self._check_files(store, found, wheel)
        with judging(Check.KNOWN):
            for ref, (message_id, due_ms, _) in found.items():
                copies = [*self.ended.get(ref, ()), *([self.by_ref[ref]] if ref in self.by_ref else ())]
                assert copies, f"{ref} was never scheduled"
                assert (message_id, due_ms) in [(copy.message_id, copy.due_ms) for copy in copies]
        for copy in self.copies:
            if copy.is_promised:
                with judging(Check.KEPT):
                    assert copy.ref in found, f"{copy.message_id}: acknowledged and lost"
                self._check_state(copy, found[copy.ref][2])
        self._check_moves(found)
        return store

    @staticmethod
    def _read(store: DelayStore, hour: Hour, found: dict[int, tuple[str, int, State]], wheel: Wheel) -> None:
        """Read an hour's messages into `found`, those that wait into `wheel`."""
        opened = run_to_end(read_hour(hour, hour.schedule.count, hour.dispatch.count, for_wheel=True))
        with judging(Check.KEPT):
            assert opened.damaged == 0, f"{opened.damaged} entries are damaged"
            assert opened.lost == 0, f"{opened.lost} messages are lost"
        for second, keys in opened.seconds:
            wheel.add_second(second, keys)
        refs = [ref_of(hour.number, number) for number in range(hour.schedule.count)]
        for entry in store.bodies.read_now(refs):
            with judging(Check.KEPT):
                assert entry.data is not None, "unreadable"
            with judging(Check.CONTENT):
                message = whole_message(bytes(entry.data))
                assert message.time_ms == entry.due_ms
                assert message.properties[KEY_SCHEDULE] == str(entry.due_ms)
                assert store.subjects.name(entry.subject) == message.subject
            state = State(opened.states[entry.ref & 0xFFFFFFFF])
            found[entry.ref] = (message.message_id, entry.due_ms, state)
        gone = sum(state in (State.DELIVERED, State.CANCELLED, State.MOVED) for state in opened.states)
        with judging(Check.FILES):
            assert hour.gone == gone, "the counters say what the files say"
            assert hour.refused == opened.states.count(State.REFUSED)

    @staticmethod
    @judging(Check.FILES)
    def _check_files(store: DelayStore, found: dict[int, tuple[str, int, State]], wheel: Wheel) -> None:
        """The totals and the wheel are those of the messages."""
        states = [state for _, _, state in found.values()]
        assert store.pending == sum(state in (State.PENDING, State.CLAIMED) for state in states)
        assert store.refused == states.count(State.REFUSED)
        assert store.hours.order == sorted(store.hours)
        due = {ref for _, ref in wheel.pop(1 << 60, 1 << 40)}
        assert due == {ref for ref, (_, _, state) in found.items() if state in (State.PENDING, State.CLAIMED)}

    @staticmethod
    @judging(Check.STATES)
    def _check_state(copy: Copy, state: State) -> None:
        if copy.promised in (State.DELIVERED, State.CANCELLED, State.MOVED):
            assert state is copy.promised, f"{copy.message_id}: promised {copy.promised.name}, found {state.name}"
        elif state is not copy.promised:
            # What was decided and not promised yet may have reached the disk up to some decision.
            names = [decision.name for decision in copy.decisions]
            assert state in copy.decisions, (
                f"{copy.message_id}: {copy.promised.name} or one of {names}, not {state.name}"
            )

    @judging(Check.STATES)
    def _check_moves(self, found: dict[int, tuple[str, int, State]]) -> None:
        """Of a message that was moved exactly one copy is alive, or none when it went out or was cancelled."""
        living: dict[str, int] = {}
        ended = {copy.message_id for copies in self.ended.values() for copy in copies}
        for message_id, _, state in found.values():
            if message_id not in ended:
                living[message_id] = living.get(message_id, 0) + (state is not State.MOVED)
        assert all(count == 1 for count in living.values()), "a moved message lives twice, or not at all"

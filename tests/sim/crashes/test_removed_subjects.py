"""A kill or a power cut at any disk operation while subjects are emptied, removed and used again; and damaged removals.

Afterwards no acknowledged message that the log still holds is lost, none is there twice, and no sequence of a name ever
stands for two messages. No crash makes a start that has a checkpoint build all derived files again.
"""

import contextlib
import os
import random
from collections.abc import Iterator

import pytest

from broker_node.delivery.delivery import Delivery
from broker_node.recovery.checkpoint import BrokerCheckpoints, encode_state
from broker_node.recovery.checkpoint_reading import restore_state
from broker_node.recovery.open_store import open_store
from broker_node.retention.subject_removal import SubjectRemoval
from broker_node.storage.actions import StartReason
from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits, StorePaths
from qmq.protocol.commands import PullRequest
from qmq.protocol.messages import decode_raw
from qmq.protocol.scan import BatchScanner
from qmq_node.log.handles import HandleCache
from qmq_node.slices import run_to_end
from tests.sim.world.loop import SimulatedLoop
from tests.support.disks.disk_work import read_and_repair, repeat
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.indexes import flush
from tests.support.drivers.store_driver import ROOT, drafted, entry_of, id_of
from tests.support.manual_clock import ManualClock

FULL = os.environ.get("QMQ_FAULTS") == "full"
NAMES = ("a", "b", "c", "%RETRY%a%g")
SEGMENT_BYTES = 8 * 1024
STEPS = 400
Sent = tuple[str, int, str, int]
"""Subject, sequence, message id, log offset."""


def opened(disk: MemoryDisk, clock: ManualClock) -> tuple[MessageStore, bool, str]:
    store, report = open_store(
        disk, ROOT, clock, limits=StoreLimits(), segment_bytes=SEGMENT_BYTES, handles=HandleCache(disk)
    )
    return store, report.rebuilt, report.why_rebuilt


def found_in(store: MessageStore) -> dict[str, dict[int, str]]:
    """Every message that a store serves."""
    found: dict[str, dict[int, str]] = {}
    for name, subject in store.subjects.items():
        repeat(lambda _, subject=subject: adjust_begin(store, subject))
        raws = read_and_repair(store, subject, subject.begin, subject.visible_end)
        found[name] = {n: id_of(bytes(raw)) for n, raw in enumerate(raws, subject.begin) if raw is not None}
    return found


class Scenario:
    """Random steps on a store; `promised` is what was acknowledged."""

    loop: SimulatedLoop
    """Starts no threads: a test starts thousands of jobs."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk, self.clock = MemoryDisk(), ManualClock()
        self.promised: list[Sent] = []
        self.used: set[tuple[str, int]] = set()
        self.tried: dict[tuple[str, int], set[str]] = {}
        self.retained_from = 0
        self.removals = self.returns = self.number = self.steps = 0
        self.use(self.disk)

    def use(self, disk: MemoryDisk) -> None:
        """Continue on a disk as the next process does."""
        self.disk = disk
        self.store, self.is_rebuilt, self.why = opened(disk, self.clock)
        self.checkpoints = BrokerCheckpoints(self.store, slice_indexes=1, tail_bytes_max=200)
        self.removal = SubjectRemoval(self.store)
        self.pending: list[Sent] = []
        self.floors = (0, 0)

    def run(self, crash_at: int | None = None, steps: int = STEPS) -> "Scenario":
        self.disk.crash_at = crash_at
        with contextlib.suppress(SimulatedCrash):
            for _ in range(steps):
                self.step()
        return self

    def step(self) -> None:
        if self.rng.random() < 0.13:
            self.commit()
            self.checkpoint()
        else:
            self.serve()

    def serve(self) -> None:
        self.steps += 1
        choice, name = self.rng.random(), NAMES[self.steps // 15 % len(NAMES)]
        if choice < 0.4:
            self.send(name, self.rng.randint(1, 4))
        elif choice < 0.48:
            self.toggle_group(self.rng.choice(NAMES))
        elif choice < 0.75:
            self.commit()
        elif choice < 0.86:
            self.retain()
        else:
            self.remove()

    def send(self, name: str, count: int) -> None:
        ids = [f"m{self.number + n}" for n in range(count)]
        self.number += count
        body = memoryview(b"".join(entry_of(message_id, name, 1200) for message_id in ids))
        (run,), _ = BatchScanner().scan(bytes(body))
        is_new = name not in self.store.subjects
        subject = self.store.subject(name)
        self.returns += is_new and subject.next_sequence > 0
        first = subject.next_sequence
        for sequence, message_id in enumerate(ids, first):
            self.tried.setdefault((name, sequence), set()).add(message_id)
        offset = self.store.append_run(subject, run, body, self.clock.wall_ms())
        self.pending += [(name, sequence, message_id, offset) for sequence, message_id in enumerate(ids, first)]

    def toggle_group(self, name: str) -> None:
        """Make a group, or remove it; on a subject that may be new."""
        subject = self.store.subject(name)
        if "g" in subject.groups:
            self.store.forget_group(subject, subject.groups["g"])
        elif self.rng.random() < 0.4:
            self.store.start_group(subject, "g", "", subject.visible_end, False, StartReason.FIRST_PULL)

    def commit(self) -> None:
        log = self.store.log
        while (commit := log.gather.take()) is not None:
            log.writer.write(commit)
            log.complete(commit)
            self.store.completed(log.high_watermark)
        again = [item for item in self.pending if item[:2] in self.used]
        assert not again, f"sequences were used twice: {again}"
        self.promised += self.pending
        self.used.update(item[:2] for item in self.pending)
        self.pending = []

    def checkpoint(self) -> None:
        draft = drafted(self.checkpoints, self.serve, self.rng)
        self.commit()
        self.checkpoints.save(draft)
        self.checkpoints.saved(draft)
        self.floors = (self.floors[1], draft.position.offset)

    def retain(self) -> None:
        log = self.store.log
        log.hide_before(self.floors[0])
        self.retained_from = max(self.retained_from, log.begin)
        log.stored.delete_hidden(8)

    def remove(self) -> None:
        before = self.store.counters.removed_subjects
        self.loop.run_until_complete(self.removal.tick())
        self.removals += self.store.counters.removed_subjects - before

    # --- judging ---------------------------------------------------------------------------------------------------

    def check(self, store: MessageStore) -> None:
        found = found_in(store)
        for name, sequence, message_id, offset in self.promised:
            if offset >= self.retained_from:
                assert found.get(name, {}).get(sequence) == message_id, f"{name} {sequence}: {message_id} is lost"
            subject = store.subjects.get(name)
            following = store.sequence_floor if subject is None else subject.next_sequence
            assert following > sequence, f"{name}: sequence {sequence} would be used again"
        everything = [message_id for messages in found.values() for message_id in messages.values()]
        assert len(everything) == len(set(everything)), "a message is there twice"
        for name, messages in found.items():
            for sequence, message_id in messages.items():
                assert message_id in self.tried[name, sequence], (
                    f"{name} {sequence}: {message_id} does not belong there"
                )

    def check_disk(self, disk: MemoryDisk) -> None:
        """Open what is left twice, then all made again from the log; then continue with it."""
        had_checkpoint = any("/checkpoint/broker.0" in path for path in disk.names)
        for _ in range(2):
            store, is_rebuilt, why = opened(disk, self.clock)
            assert not store.log.stored.damaged, store.log.stored.damaged
            assert not (is_rebuilt and had_checkpoint), why
            assert not store.counters.withheld_messages
            self.check(store)
        without = disk.after_kill()
        for path in [path for path in without.names if "/checkpoint/" in path]:
            del without.names[path]
        found = found_in(opened(without, self.clock)[0])
        for name, sequence, message_id, offset in self.promised:
            if offset >= self.retained_from:
                assert found.get(name, {}).get(sequence) == message_id, f"{name} {sequence}: {message_id} is lost"
        self.use(disk)
        self.run(steps=40)
        self.commit()
        self.check(self.store)


@pytest.fixture(autouse=True)
def _loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    loop = SimulatedLoop(1)
    monkeypatch.setattr(Scenario, "loop", loop, raising=False)
    yield
    loop.close()


def crashes(seed: int, most: int) -> range:
    whole = Scenario(seed).run()
    assert whole.removals > 5, whole.removals
    assert whole.returns > 5, whole.returns
    return range(1, whole.disk.steps, 1 if FULL else max(1, whole.disk.steps // most))


@pytest.mark.parametrize("seed", range(12 if FULL else 4))
def test_a_kill_at_any_disk_operation_loses_and_doubles_nothing(seed: int) -> None:
    for crash_at in crashes(seed, 80):
        scenario = Scenario(seed).run(crash_at)
        scenario.check_disk(scenario.disk.after_kill())


@pytest.mark.parametrize("seed", range(12 if FULL else 4))
def test_a_power_cut_at_any_disk_operation_loses_and_doubles_nothing(seed: int) -> None:
    for crash_at in crashes(seed, 80):
        scenario = Scenario(seed).run(crash_at)
        scenario.check_disk(scenario.disk.after_power_cut())


@pytest.mark.parametrize("seed", range(4 if FULL else 1))
def test_every_state_after_a_power_cut_loses_and_doubles_nothing(seed: int) -> None:
    for crash_at in crashes(seed, 12):
        scenario = Scenario(seed).run(crash_at)
        states = list(scenario.disk.crash_states(5, seed))
        for state in states:
            other = Scenario(seed).run(crash_at)
            other.check_disk(state)


# --- removals in damaged commits --------------------------------------------------------------------------------------


def whole_life(scenario: Scenario, *, returns_by: str, lead: int, sealed: bool = False) -> tuple[int, int]:
    """A checkpoint counts on messages of "a"; they leave, "a" is removed, and returns; where the removal's commit lies.

    `lead`: where the sequences of another removed subject ended, so that "a" returns far above its own.
    """
    scenario.send("a", 3)
    scenario.commit()
    scenario.checkpoint()
    subject = scenario.store.subjects["a"]
    subject.consume_log.hide_before(3)
    scenario.store.sequence_floor = lead
    begin = scenario.store.log.written_end
    scenario.remove()
    scenario.commit()
    end = scenario.store.log.written_end
    assert "a" not in scenario.store.subjects
    if sealed:
        seal = scenario.store.log.gather.seal_idle()
        assert seal is not None
        scenario.store.log.writer.write(seal, sync=False)
        scenario.store.log.complete(seal)
    if returns_by == "start":
        subject = scenario.store.subject("a")
        scenario.store.start_group(subject, "g", "", subject.visible_end, False, StartReason.FIRST_PULL)
        scenario.commit()
    scenario.send("a", 2)
    scenario.commit()
    scenario.send("b", 9)
    scenario.commit()
    return begin, end


@pytest.mark.parametrize("lead", [0, 40, 2_000_000_000])
@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("returns_by", ["send", "start"])
def test_a_damaged_removal_loses_and_doubles_nothing(returns_by: str, sealed: bool, lead: int) -> None:
    scenario = Scenario(0)
    begin, end = whole_life(scenario, returns_by=returns_by, lead=lead, sealed=sealed)
    first = max(lead, 3)
    disk = scenario.disk.after_kill()
    (path,) = [p for p in disk.names if "/log/" in p and int(p.rsplit("/")[-1]) <= begin][-1:]
    base = int(path.rsplit("/")[-1])
    disk.names[path].content[(begin + end) // 2 - base] ^= 1
    for _ in range(2):
        store, is_rebuilt, why = opened(disk, scenario.clock)
        assert len(store.log.stored.damaged) == 1
        assert not is_rebuilt, why
        subject = store.subjects["a"]
        served = {n: m for n, m in found_in(store)["a"].items() if n >= first}
        assert served == {first: "m3", first + 1: "m4"}
        assert subject.next_sequence == first + 2
        # A group that began when the subject returned gets what was sent since, each once.
        delivery = Delivery(store, retry_delay_ms=0)
        group = "g" if returns_by == "start" else "new"
        if returns_by == "send":
            store.start_group(subject, group, "", first, False, StartReason.ENSURED)
        answer = delivery.pull(PullRequest("a", group, "c", 10, -1, -1, 0, False))
        assert [decode_raw(raw)[0].message_id for raw in answer.raws] == ["m3", "m4"]


def test_nothing_is_removed_from_a_damaged_log() -> None:
    scenario = Scenario(0)
    begin, end = whole_life(scenario, returns_by="send", lead=0)
    disk = scenario.disk.after_kill()
    (path,) = [p for p in disk.names if "/log/" in p and int(p.rsplit("/")[-1]) <= begin][-1:]
    disk.names[path].content[(begin + end) // 2 - int(path.rsplit("/")[-1])] ^= 1
    scenario.use(disk)
    scenario.store.subject("empty")
    scenario.remove()
    assert "empty" in scenario.store.subjects


def test_the_end_of_a_subject_is_known_from_its_groups_when_its_last_messages_are_damaged() -> None:
    """Else its next messages get sequences that the group has passed, and are not delivered."""
    scenario = Scenario(0)
    subject = scenario.store.subject("a")
    scenario.send("a", 1)
    scenario.commit()
    scenario.checkpoint()
    begin = scenario.store.log.written_end
    scenario.send("a", 2)
    scenario.commit()
    end = scenario.store.log.written_end
    scenario.store.start_group(subject, "g", "", subject.visible_end, False, StartReason.FIRST_PULL)
    scenario.commit()
    scenario.send("b", 9)
    scenario.commit()
    disk = scenario.disk.after_kill()
    disk.names[f"{ROOT}/log/{0:020d}"].content[(begin + end) // 2] ^= 1
    store, _, _ = opened(disk, scenario.clock)
    assert store.subjects["a"].next_sequence == 3
    assert store.counters.withheld_messages == 2


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_keeps_the_floor() -> None:
    scenario = Scenario(0)
    whole_life(scenario, returns_by="send", lead=70)
    scenario.checkpoint()
    parts, indexes, _ = run_to_end(encode_state(scenario.store, scenario.store.tails.draft(), tail_bytes_max=0))
    for index in indexes:
        flush(index)
    state = b"".join(parts)
    store = empty_store(scenario)
    restore_state(store, state)
    assert store.sequence_floor == 70
    assert (store.subjects["a"].origin, store.subjects["a"].begin, store.subjects["b"].origin) == (70, 70, 70)


def empty_store(scenario: Scenario) -> MessageStore:
    disk = scenario.disk.after_kill()
    return MessageStore(disk, StorePaths(ROOT), scenario.clock, StoreLimits(), HandleCache(disk))


def test_a_rebuild_does_not_use_sequences_again() -> None:
    """The log holds neither the messages nor the removal any more, only the checkpoint knows where sequences ended."""
    scenario = Scenario(0)
    whole_life(scenario, returns_by="send", lead=0)
    while scenario.store.log.begin == 0 or "a" in scenario.store.subjects:
        scenario.send("b", 4)
        scenario.commit()
        scenario.checkpoint()
        scenario.retain()
        scenario.remove()
    scenario.checkpoint()
    scenario.checkpoint()
    floor = scenario.store.sequence_floor
    assert floor >= 5
    for _ in range(20):
        scenario.send("b", 4)
        scenario.commit()
        scenario.checkpoint()
        scenario.retain()
    disk = scenario.disk.after_kill()
    for path in [path for path in disk.names if "/consume/" in path]:
        del disk.names[path]
    store, is_rebuilt, _ = opened(disk, scenario.clock)
    assert is_rebuilt
    assert store.sequence_floor >= floor
    scenario.check(store)

"""A damaged commit of pulls, acks and settlements: nothing unacked is lost, and only what that commit was about comes again.

Short by default; `make faults` (QMQ_FAULTS=full) runs it whole. A failing case prints its seed.
"""

import pytest

from broker_node.delivery.settlement import BeingSettled, Settlement
from broker_node.recovery.open_store import open_store
from broker_node.storage.actions import Ack, Action, MessagesHead, Pull, RecordKind, decode_action, decode_messages_head
from broker_node.storage.progress import GroupProgress
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits
from qmq.protocol.names import retry_subject
from qmq_node.log.handles import HandleCache
from qmq_node.log.record import iter_records
from qmq_node.log.recovery import Commit
from tests.sim.crashes.shared_ids import FULL, SUBJECT, Line, Shared
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.logs import open_log
from tests.support.drivers.store_driver import GROUP, ROOT

RETRY = retry_subject(SUBJECT, GROUP)
STEPS = 150
NOT_TORN_BYTES = 2_500
"""Damage of the last commit can't be told from a write that a power cut tore, unless a later one proves that it was synced."""


class Leaving(Shared):
    """Processes that share an id, and now and then leave all at once."""

    def leave(self) -> None:
        subject = self.store.subjects.get(SUBJECT)
        group = subject.groups.get(GROUP) if subject is not None else None
        consumer = group.progress.consumers.get("c1") if group is not None else None
        if subject is None or group is None or consumer is None:
            return
        for process in self.processes:
            process.line.is_closed = True
            process.line, process.parked = Line(), []
            process.last, process.unacked, process.held = -1, {}, {}
        try:
            self.delivery.settlements.leave(subject, group, consumer)
        except BeingSettled as wait:
            self.finish(wait.settlement)
            self.delivery.settlements.leave(subject, group, consumer)

    def finish(self, settlement: Settlement | None) -> None:
        """As on a node: the ack that waits for it comes in a later commit."""
        super().finish(settlement)
        self.commit()

    def step(self) -> None:
        if self.rng.random() < 0.04:
            self.leave()
        else:
            super().step()


class Truth:
    """What each commit of a whole log was about, and what was not acked at its end."""

    def __init__(self, driver: Shared) -> None:
        self.progress = GroupProgress(SUBJECT, GROUP, 0)
        self.commits: list[tuple[int, int, set[int], range]] = []
        """Offset and length of the body, the consume sequences that its actions assigned or ended, and what it stored in the retry
        subject."""
        self.acked: set[int] = set()
        self._sequences: set[int] = set()
        self._copies = range(0)
        open_log(
            driver.disk.after_kill(), f"{ROOT}/log", segment_bytes=driver.segment_bytes, start=None, visit=self._commit
        )

    def _commit(self, commit: Commit) -> None:
        self._sequences, self._copies = set(), range(0)
        for offset, kind, payload in iter_records(commit.body, commit.body_offset):
            if kind == RecordKind.MESSAGES:
                self._messages(decode_messages_head(payload)[0])
            else:
                self._action(offset, kind, payload)
        self.commits.append((commit.body_offset, len(commit.body), self._sequences, self._copies))

    def _messages(self, head: MessagesHead) -> None:
        if head.subject == RETRY:
            self._copies = _sequences(self._copies.start or head.first_sequence, head.count + len(self._copies))

    def _action(self, offset: int, kind: int, payload: memoryview) -> None:
        action: Action = decode_action(kind, payload)
        if action.subject != SUBJECT:
            return
        consumer = self.progress.consumers.get(action.consumer_id)
        ended: set[int] = set()
        if isinstance(action, Ack) and consumer is not None:
            ended = {
                n for run in consumer.log.between(action.begin, action.end) for n in _sequences(run.begin, run.count)
            }
        if isinstance(action, Pull):
            self._sequences |= set(range(action.from_sequence, action.next_sequence))
        self._sequences |= ended
        if type(action) is Ack:
            self.acked |= ended
        self.progress.apply(action, offset, 0.0)


def _sequences(begin: int, count: int) -> range:
    return range(begin, begin + count)


def come_again(progress: GroupProgress, end: int) -> set[int]:
    """Sequences that the group will be handed: held, of a lost assignment, or not pulled yet."""
    held = {n for c in progress.consumers.values() for run in c.log.runs() for n in _sequences(run.begin, run.count)}
    orphans = {n for run in progress.orphans for n in _sequences(run.begin, run.count)}
    return held | orphans | set(range(progress.next_sequence, end))


def reopened(driver: Shared, disk: MemoryDisk) -> MessageStore:
    store, _ = open_store(
        disk,
        ROOT,
        driver.clock,
        limits=StoreLimits(),
        segment_bytes=driver.segment_bytes,
        handles=HandleCache(disk),
    )
    return store


@pytest.mark.parametrize("seed", range(60 if FULL else 6))
def test_only_what_a_damaged_commit_was_about_comes_again(seed: int) -> None:
    driver = Leaving(seed)
    driver.pull_by(driver.processes[0])  # the group exists before the first message
    for _ in range(STEPS):
        driver.step()
        driver.commit()
    truth = Truth(driver)
    end, synced = driver.store.subjects[SUBJECT].visible_end, driver.store.log.synced_end
    ids = driver._read_all(driver.store, SUBJECT, 0, end, False)
    copies = driver._read_all(driver.store, RETRY, 0, driver.store.subjects[RETRY].visible_end, False)
    unacked = come_again(truth.progress, end)
    damaged = 0
    for offset, length, about, damaged_copies in truth.commits:
        if offset + length > synced - NOT_TORN_BYTES:
            break
        disk = driver.disk.after_kill()
        (path,) = (path for path in disk.names if path.startswith(f"{ROOT}/log/"))
        disk.names[path].content[offset + length // 2] ^= 1
        store = reopened(driver, disk)
        damaged += len(store.log.stored.damaged)
        subject = store.subjects[SUBJECT]
        again = come_again(subject.groups[GROUP].progress, end)
        where = f"seed {seed}, commit at {offset}"
        assert again <= unacked | about, f"{where}: {sorted(again - unacked - about)} come again"
        retried = {message_id for n, message_id in copies.items() if n not in damaged_copies}
        # A copy that is damaged with the settlement was not settled; one that is damaged alone is a damaged message.
        gone = {ids[n] for n in range(end) if n not in about} & {copies[n] for n in damaged_copies}
        safe = again | truth.acked
        lost = {n for n in range(end) if n not in safe and ids[n] not in retried | gone}
        assert not lost, f"{where}: {sorted(lost)} are lost"
    assert damaged > 50

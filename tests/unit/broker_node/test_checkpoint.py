"""What a broker's checkpoint holds: entries that are not in the files of their indexes, slices, and the formats before."""

from weakref import ref

import pytest

from broker_node.recovery import checkpoint as module
from broker_node.recovery.checkpoint import BrokerCheckpoints, encode_state
from broker_node.recovery.open_store import open_store
from broker_node.storage.consume_log import ENTRY_BYTES
from broker_node.storage.sessions import Session
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits
from qmq_node.log.handles import HandleCache
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.indexes import flush
from tests.support.drivers.store_driver import GROUP, ROOT, StoreDriver

SMALL_COUNT = 4096 // ENTRY_BYTES - 1
"""Messages whose consume log is just small."""


class Node:
    """A store with checkpoints as a node makes them."""

    def __init__(self) -> None:
        self.driver = StoreDriver(MemoryDisk(), 1, segment_bytes=1 << 20)
        self.checkpoints = BrokerCheckpoints(self.driver.store)

    def send(self, subject: str, count: int) -> None:
        self.driver.send(subject, count)
        self.driver.commit()

    def checkpoint(self) -> None:
        draft = run_to_end(self.checkpoints.draft())
        self.checkpoints.save(draft)
        self.checkpoints.saved(draft)

    def index_files(self, disk: MemoryDisk | None = None) -> list[str]:
        return [path for path in (disk or self.driver.disk).names if "/consume/" in path or "/progress/" in path]

    def reopened(self) -> tuple[MessageStore, bool]:
        disk = self.driver.disk.after_kill()
        store, report = open_store(
            disk, ROOT, self.driver.clock, limits=StoreLimits(), segment_bytes=1 << 20, handles=HandleCache(disk)
        )
        return store, report.rebuilt


def ends(store: MessageStore) -> dict[str, list[tuple[int, int, bytes]]]:
    """Begin, end and entries of all indexes."""
    return {
        name: [(index.begin, index.end, index.read(index.begin, index.end)) for index in subject.indexes]
        for name, subject in store.subjects.items()
    }


def test_an_index_gets_a_file_when_it_is_no_longer_small() -> None:
    node = Node()
    node.send("orders", SMALL_COUNT)
    node.driver.pull("orders", "c1", 5)
    node.driver.commit()
    node.checkpoint()
    assert node.index_files() == []
    store, is_rebuilt = node.reopened()
    assert (ends(store), is_rebuilt) == (ends(node.driver.store), False)
    node.send("orders", 1)
    node.checkpoint()
    assert len(node.index_files()) == 1
    assert node.driver.store.subjects["orders"].consume_log.memory_bytes == 0
    store, is_rebuilt = node.reopened()
    assert (ends(store), is_rebuilt) == (ends(node.driver.store), False)


def test_an_index_with_a_file_is_written_again_when_it_is_worth_it() -> None:
    node = Node()
    node.send("orders", 300)
    node.checkpoint()
    (path,) = node.index_files()
    index, file = node.driver.store.subjects["orders"].consume_log, node.driver.disk.names[path]
    for end in (301, 300 + SMALL_COUNT):
        node.send("orders", end - index.end)
        node.checkpoint()
        assert len(file.content) == 300 * ENTRY_BYTES
        store, is_rebuilt = node.reopened()
        assert (ends(store), is_rebuilt) == (ends(node.driver.store), False)
        assert store.subjects["orders"].consume_log.flushed_end == 300
    node.send("orders", 1)
    node.checkpoint()
    assert (len(file.content), index.end) == (index.end * ENTRY_BYTES, 301 + SMALL_COUNT)
    store, is_rebuilt = node.reopened()
    assert (ends(store), is_rebuilt) == (ends(node.driver.store), False)


def test_an_index_whose_files_are_gone_is_made_again() -> None:
    node = Node()
    node.checkpoints = BrokerCheckpoints(node.driver.store, tail_bytes_max=200)
    node.send("orders", 1)
    # Makes the group, at the end.
    node.driver.pull("orders", "c0", 1)
    node.send("orders", 100)
    subject = node.driver.store.subjects["orders"]
    for number in range(5):
        node.driver.pull("orders", f"c{number}", 3)
        node.driver.commit()
    node.checkpoint()
    assert subject.groups[GROUP].history.firsts
    node.driver.pull("orders", "c9", 1)
    node.send("orders", 1)
    node.checkpoint()
    paths = node.index_files()
    assert len(paths) == 2
    expected = ends(node.driver.store)
    for path in paths:
        file = node.driver.disk.names.pop(path)
        store, is_rebuilt = node.reopened()
        assert (ends(store), is_rebuilt) == (expected, True)
        node.driver.disk.names[path] = file


def test_a_hidden_begin_of_a_small_index_is_kept() -> None:
    node = Node()
    node.send("orders", 9)
    subject = node.driver.store.subjects["orders"]
    subject.consume_log.hide_before(4)
    subject.changed()
    node.checkpoint()
    store, is_rebuilt = node.reopened()
    assert (store.subjects["orders"].begin, store.subjects["orders"].visible_end, is_rebuilt) == (4, 9, False)


def test_small_indexes_beyond_the_limit_get_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAILS_BYTES_MAX", 10 * ENTRY_BYTES)
    node = Node()
    for number in range(5):
        node.send(f"subject{number}", 4)
    node.checkpoint()
    assert len(node.index_files()) == 3
    store, is_rebuilt = node.reopened()
    assert (ends(store), is_rebuilt) == (ends(node.driver.store), False)


def test_a_file_of_a_process_that_died_before_its_checkpoint_is_replaced() -> None:
    node = Node()
    node.send("orders", 5)
    node.checkpoint()
    node.send("orders", 200)
    # Written, and not in a checkpoint.
    flush(node.driver.store.subjects["orders"].consume_log)
    assert len(node.index_files()) == 1
    node.driver.restart()
    node.checkpoints = BrokerCheckpoints(node.driver.store)
    index = node.driver.store.subjects["orders"].consume_log
    assert (index.end, index.memory_bytes, list(index.firsts)) == (205, 205 * ENTRY_BYTES, [])
    node.checkpoint()
    (path,) = node.index_files()
    assert len(node.driver.disk.names[path].content) == 205 * ENTRY_BYTES


def test_the_holders_of_messages_do_not_change_a_checkpoint() -> None:
    node = Node()
    node.send("orders", 1)
    node.driver.pull("orders", "c1", 1)
    node.send("orders", 4)
    node.driver.pull("orders", "c1", 4)
    subject = node.driver.store.subjects["orders"]
    subject.changed()
    before, log = subject.checkpoint_line(), subject.groups[GROUP].progress.consumers["c1"].log
    log.hold(1, 3, Session(ref(node), 0.0))
    assert len(log) == 3
    subject.changed()
    assert subject.checkpoint_line() == before


def test_a_slice_takes_a_limited_number_of_indexes() -> None:
    node = Node()
    for number in range(10):
        node.send(f"subject{number}", 1)
    assert sum(1 for _ in encode_state(node.driver.store, node.driver.store.tails.draft(), slice_indexes=3)) == 3


def test_one_index_that_can_not_be_written_holds_up_no_other_and_is_written_later() -> None:
    node = Node()
    node.send("orders", 300)
    node.send("mail", 300)
    first = node.driver.store.subjects["orders"].consume_log.folder

    def fail(operation: str, path: str) -> OSError | None:
        return OSError(5, "Input/output error") if operation == "write" and path.startswith(first) else None

    node.driver.disk.fail = fail
    with pytest.raises(OSError, match="Input/output error"):
        node.checkpoint()
    node.driver.disk.fail = None
    run_to_end(node.checkpoints.draft())
    assert node.driver.store.subjects["mail"].consume_log.memory_bytes == 0
    assert node.driver.store.counters.flush_errors == 1
    node.checkpoint()
    store, is_rebuilt = node.reopened()
    assert (ends(store), is_rebuilt) == (ends(node.driver.store), False)


def test_what_was_written_is_freed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAILS_BYTES_MAX", 0)
    monkeypatch.setattr(module, "FREED_MAX", 2)
    node = Node()
    for number in range(5):
        node.send(f"subject{number}", 1)
    indexes = [subject.consume_log for subject in node.driver.store.subjects.values()]
    node.checkpoint()
    assert sum(index.memory_bytes > 0 for index in indexes) == 3
    steps = node.checkpoints.draft()
    next(steps)
    assert sum(index.memory_bytes > 0 for index in indexes) == 1
    next(steps)
    assert sum(index.memory_bytes > 0 for index in indexes) == 0
    run_to_end(steps)
    assert [index.end for index in indexes] == [1] * 5


def test_a_group_that_is_made_again_between_slices_keeps_its_new_history() -> None:
    node = Node()
    store = node.driver.store
    node.checkpoints = BrokerCheckpoints(store, slice_indexes=1, tail_bytes_max=1)
    node.send("first", 1)
    node.send("orders", 9)
    node.driver.pull("orders", "c1", 5)
    node.driver.commit()
    node.checkpoint()
    subject = store.subjects["orders"]
    store.forget_group(subject, subject.groups[GROUP])
    node.driver.commit()
    node.checkpoint()
    steps = node.checkpoints.draft()
    next(steps)
    assert (store.forgotten, GROUP in subject.groups) == ({}, False)
    node.driver.pull("orders", "c1", 5)
    node.driver.commit()
    draft = run_to_end(steps)
    node.checkpoints.save(draft)
    node.checkpoints.saved(draft)
    history = subject.groups[GROUP].history
    assert (history.memory_bytes, any(history.read(0, history.end))) == (0, True)
    assert ends(node.reopened()[0]) == ends(store)

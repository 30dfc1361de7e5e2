"""One file for the ends of many indexes: written once, begun again when of little use, and never believed when it is wrong."""

import contextlib
from dataclasses import asdict, replace

import pytest

from qmq_node.log import tails_file
from qmq_node.log.handles import HandleCache
from qmq_node.log.index import DenseIndex
from qmq_node.log.tails_file import TailsDraft, TailsFile, TailsPosition, TailsWrong
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.indexes import flush

ENTRY = 4
HEAD = 20


def entries(begin: int, end: int) -> bytes:
    return b"".join(number.to_bytes(ENTRY, "big") for number in range(begin, end))


class Node:
    """Some indexes, and checkpoints of them."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.handles = HandleCache(self.disk)
        self.tails = TailsFile(self.disk, "folder")
        self.indexes: dict[str, DenseIndex] = {}
        self.saved: list[tuple[TailsPosition, dict[str, int]]] = []
        """The two newest checkpoints."""

    def index(self, name: str, begin: int | None = None) -> DenseIndex:
        if name not in self.indexes:
            self.indexes[name] = DenseIndex(self.handles, name, ENTRY, segment_entries=10, begin=begin)
        return self.indexes[name]

    def add(self, name: str, count: int) -> None:
        index = self.index(name)
        index.append(entries(index.end, index.end + count))

    def draft(self) -> tuple[TailsDraft, dict[str, int]]:
        draft = self.tails.draft()
        numbers = {name: draft.add(index) for name, index in self.indexes.items()}
        draft.end_slice()
        return draft, numbers

    def checkpoint(self) -> tuple[TailsPosition, dict[str, int]]:
        draft, numbers = self.draft()
        self.tails.write(draft)
        saved = TailsPosition.decode(asdict(draft.position)), numbers
        self.saved = [*self.saved, saved][-2:]
        self.tails.delete_others(draft)
        self.tails.saved(draft)
        return saved

    def files(self) -> dict[str, int]:
        names = self.disk.names
        return {path.rpartition(".")[2][-1]: len(names[path].content) for path in sorted(names) if "tails" in path}


def restarted(
    node: Node, saved: tuple[TailsPosition, dict[str, int]], disk: MemoryDisk | None = None, with_files: bool = False
) -> Node:
    """Opened from a checkpoint, on what a kill leaves unless another disk is given."""
    position, numbers = saved
    again = Node(disk or node.disk.after_kill())
    by_number = {number: again.index(name, None if with_files else 0) for name, number in numbers.items() if number}
    again.tails.load(position, by_number)
    return again


def test_a_checkpoint_writes_only_what_is_new() -> None:
    node = Node()
    node.add("a", 3)
    node.add("b", 1)
    node.checkpoint()
    assert node.files() == {"1": 2 * HEAD + 4 * ENTRY}
    node.checkpoint()
    assert node.files() == {"1": 2 * HEAD + 4 * ENTRY}
    node.add("b", 2)
    saved = node.checkpoint()
    assert node.files() == {"1": 3 * HEAD + 6 * ENTRY}
    again = restarted(node, saved)
    assert [(index.begin, index.read(0, 9)) for index in again.indexes.values()] == [(0, entries(0, 3))] * 2
    again.add("a", 1)
    again.checkpoint()
    assert again.files() == {"1": 4 * HEAD + 7 * ENTRY}


def test_a_position_before_counts_on_less() -> None:
    node = Node()
    node.add("a", 3)
    before = node.checkpoint()
    node.add("a", 5)
    node.checkpoint()
    again = restarted(node, before)
    assert again.index("a").end == 3
    again.add("a", 1)
    saved = again.checkpoint()
    assert restarted(again, saved).index("a").read(0, 9) == entries(0, 4)


def test_entries_in_memory_continue_those_in_files_and_replace_what_is_there_beyond() -> None:
    node = Node()
    node.add("a", 12)
    flush(node.index("a"))
    node.add("a", 3)
    saved = node.checkpoint()
    # Written to the index's files after the checkpoint, and nothing says that it was synced.
    node.add("a", 10)
    flush(node.index("a"))
    for path in [path for path in node.disk.names if path.startswith("a/")]:
        node.disk.names[path].content[8:] = b"x" * len(node.disk.names[path].content[8:])
    index = restarted(node, saved, with_files=True).index("a")
    assert (index.end, index.flushed_end, list(index.firsts)) == (15, 12, [0, 10])
    assert index.read(12, 99) == entries(12, 15)


def test_an_index_that_was_written_to_its_files_gets_another_number() -> None:
    node = Node()
    node.add("a", 3)
    _, numbers = node.checkpoint()
    flush(node.index("a"))
    node.add("a", 2)
    position, later = node.checkpoint()
    assert (numbers, later) == ({"a": 1}, {"a": 2})
    again = restarted(node, (position, later), with_files=True)
    assert (again.index("a").flushed_end, again.index("a").read(0, 9)) == (3, entries(0, 5))
    flush(node.index("a"))
    assert node.checkpoint()[1] == {"a": 0}


def test_an_entry_that_was_made_again_is_written_again_with_all_behind_it() -> None:
    node = Node()
    node.add("a", 5)
    node.checkpoint()
    node.index("a").repair(2, b"made")
    saved = node.checkpoint()
    assert node.files() == {"1": 2 * HEAD + 8 * ENTRY}
    assert restarted(node, saved).index("a").read(0, 9) == entries(0, 2) + b"made" + entries(3, 5)


def test_a_file_of_little_use_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails_file, "USELESS_BYTES_MIN", 200)
    node = Node()
    node.add("a", 1)
    for _ in range(4):
        node.add("b", 10)
        node.checkpoint()
        flush(node.index("b"))
    first = HEAD + ENTRY + 4 * (HEAD + 10 * ENTRY)
    saved = node.checkpoint()
    assert node.files() == {"1": first}
    # The checkpoint before counts on the first file.
    moved = node.checkpoint()
    assert node.files() == {"1": first, "2": HEAD + ENTRY}
    for found in (saved, moved):
        assert restarted(node, found).index("a").read(0, 9) == entries(0, 1)
    node.checkpoint()
    assert node.files() == {"2": HEAD + ENTRY}


def test_after_a_failed_checkpoint_all_entries_are_written_to_the_next_file() -> None:
    node = Node()
    node.add("a", 3)
    saved = node.checkpoint()
    node.add("a", 2)
    node.add("b", 2)
    node.disk.fail = lambda operation, path: OSError(5, "no") if operation == "sync" else None
    for _ in range(4):
        draft, _ = node.draft()
        with pytest.raises(OSError, match="no"):
            node.tails.write(draft)
        # What may be counted on is kept, and nothing of the attempts.
        assert list(node.files()) == ["1"]
        assert restarted(node, saved).index("a").read(0, 9) == entries(0, 3)
    node.disk.fail = None
    again = restarted(node, node.checkpoint())
    assert [again.index(name).read(0, 9) for name in "ab"] == [entries(0, 5), entries(0, 2)]
    node.checkpoint()
    assert len(node.files()) == 1


def test_a_power_cut_at_any_operation_leaves_what_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails_file, "USELESS_BYTES_MIN", 50)
    operations = 0
    while operations := operations + 1:
        node = Node()
        node.disk.crash_at = operations
        with contextlib.suppress(SimulatedCrash):
            for _ in range(4):
                node.add("a", 2)
                node.add("b", 9)
                node.checkpoint()
                flush(node.index("b"))
            break
        for disk in node.disk.crash_states(3, operations):
            for found in node.saved:
                index = restarted(node, found, disk.after_kill()).index("a")
                assert index.end > 0
                assert index.read(0, 99) == entries(0, index.end)
    assert operations > 20


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda content: content.__setitem__(HEAD, content[HEAD] ^ 1), "CRC"),
        (lambda content: content.__delitem__(slice(30, None)), "ends at 30"),
        (lambda content: content.__setitem__(slice(8, 16), bytes(7) + b"\3"), "bytes at 3"),
    ],
)
def test_a_file_that_is_not_what_was_written_is_refused(damage: object, why: str) -> None:
    node = Node()
    node.add("a", 3)
    node.add("b", 3)
    saved = node.checkpoint()
    damage(node.disk.names["folder/tails.000000000001"].content)  # type: ignore[operator]
    with pytest.raises(TailsWrong, match=why):
        restarted(node, saved)


def test_a_file_that_is_missing_or_unreadable_is_refused() -> None:
    node = Node()
    node.add("a", 3)
    position, numbers = node.checkpoint()
    with pytest.raises(TailsWrong, match="000000000007"):
        restarted(node, (replace(position, file=7), numbers))
    with pytest.raises(TailsWrong, match="no index 1, the next one is 1"):
        restarted(node, (replace(position, next=1), numbers))
    node.disk.break_pages("folder/tails.000000000001", 0, 1)
    with pytest.raises(TailsWrong, match="Input/output error"):
        restarted(node, (position, numbers))


def test_entries_of_one_index_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails_file, "READ_BYTES", 16)
    node = Node()
    for _ in range(3):
        node.add("a", 2)
        saved = node.checkpoint()
    assert restarted(node, saved).index("a").end == 6
    node.add("a", 20)
    with pytest.raises(TailsWrong, match="more than 16 bytes"):
        restarted(node, node.checkpoint())
